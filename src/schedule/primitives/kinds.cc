// SPDX-License-Identifier: Apache-2.0
// Loop kinds: vectorize, unroll, parallel.
#include <fmt/format.h>

#include "schedule/primitives/primitives.h"

namespace tenon::schedule::step {

using namespace tir;

namespace {

const Place& serial_loop(const Program& program, std::string_view loop, std::string_view step) {
  const Place& place = program.loop(loop);
  const For& l = *as<For>(place.stmt);
  if (l.loop_kind != ForKind::Serial)
    fail_step("schedule-loop-kind", {.message = fmt::format("loop `{}` is {}", loop, name(l.loop_kind)),
                                     .expected = fmt::format("a serial loop for `{}`", step),
                                     .found = std::string(name(l.loop_kind))});
  return place;
}

PrimFunc with_kind(const PrimFunc& func, const Stmt& loop, ForKind kind) {
  const For& l = *as<For>(loop);
  return with_body(func, replace(func.body, loop, for_loop(l.var, l.min, l.extent, kind, l.body)));
}

/// Refuses a loop over workers in which a buffer's memory is not where its scope says: one for all iterations is global, one
/// for each iteration is not.
void require_scopes(const Program& program, const Stmt& loop, std::string_view step) {
  std::set<std::string> inside;
  auto fail = [&](const Buffer& buffer, std::string_view where, std::string_view wanted) {
    fail_step("schedule-scope",
              {.message = fmt::format("`{}`, declared {} the loop, is {}", buffer->name, where, name(buffer->scope)),
               .expected = fmt::format("scope {} for `{}`", wanted, step),
               .found = std::string(name(buffer->scope)),
               .hint = fmt::format("`set_scope {} {}` first", buffer->name, wanted)});
  };
  visit(loop, [&](const Stmt& s) {
    const Allocate* a = as<Allocate>(s);
    if (!a) return;
    inside.insert(a->buffer->name);
    if (a->buffer->scope == Scope::Global) fail(a->buffer, "inside", "local");
  });
  for (const BlockPlace* place : program.blocks_in(loop))
    for (const auto* list : {&place->block->reads, &place->block->writes})
      for (const Region& r : *list)
        if (!inside.contains(r.buffer->name) && r.buffer->scope != Scope::Global) fail(r.buffer, "outside", "global");
}

}  // namespace

PrimFunc vectorize(const PrimFunc& func, std::string_view loop) {
  Program program(func);
  const Place& place = serial_loop(program, loop, "vectorize");
  require_independent(program, place, "vectorize");
  return with_kind(func, place.stmt, ForKind::Vectorized);
}

PrimFunc unroll(const PrimFunc& func, std::string_view loop) {
  Program program(func);
  return with_kind(func, serial_loop(program, loop, "unroll").stmt, ForKind::Unrolled);
}

PrimFunc parallel(const PrimFunc& func, std::string_view loop) {
  Program program(func);
  const Place& place = serial_loop(program, loop, "parallel");
  require_independent(program, place, "parallel");
  require_scopes(program, place.stmt, "parallel");
  return with_kind(func, place.stmt, ForKind::Parallel);
}

}  // namespace tenon::schedule::step
