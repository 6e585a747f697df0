// SPDX-License-Identifier: Apache-2.0
// The schedule that is valid for any function: its loops as they stand, the outermost independent ones on all workers.
#include <algorithm>

#include "schedule/schedule.h"

namespace tenon::schedule {

using namespace tir;

namespace {

/// The variables that a nest's one block binds to spatial iterations.
void spatial_vars(const Stmt& s, std::vector<std::string>& names, int& blocks) {
  visit(s, [&](const Stmt& child) {
    const Block* b = as<Block>(child);
    if (!b) return;
    ++blocks;
    for (const IterVar& iter : b->iters)
      if (const Var* v = as<Var>(iter.binding); v && iter.kind == IterKind::Spatial) names.push_back(v->name);
  });
}

Stmt parallel_outermost(const Stmt& s) {
  const For* loop = as<For>(s);
  if (!loop || loop->loop_kind != ForKind::Serial) return s;
  std::vector<std::string> names;
  int blocks = 0;
  spatial_vars(s, names, blocks);
  bool independent = blocks == 1 && std::find(names.begin(), names.end(), as<Var>(loop->var)->name) != names.end();
  return independent ? for_loop(loop->var, loop->min, loop->extent, ForKind::Parallel, loop->body) : s;
}

}  // namespace

Scheduled naive(const Request& request) {
  Scheduled out{request.func, {}, "loops as they stand\n", KeptLoops{}};
  if (const Seq* list = as<Seq>(request.func.body)) {
    std::vector<Stmt> stmts;
    for (const Stmt& s : list->stmts) stmts.push_back(parallel_outermost(s));
    out.func.body = scoped(std::move(stmts));
  } else {
    out.func.body = parallel_outermost(request.func.body);
  }
  out.func.attrs["scheduled"] = true;
  return out;
}

}  // namespace tenon::schedule
