// SPDX-License-Identifier: Apache-2.0
// Element-wise, injective and data-movement nests: vectors along the output's memory.
#include "schedule/nests.h"

#include <fmt/format.h>

namespace tenon::schedule {

using namespace tir;

Stmt elementwise_nest(const NestRequest& request) {
  if (request.root.reduction) return {};
  Emission& emission = request.emission;
  const Stage& stage = *request.root.epilogue;
  Body body(emission);
  std::vector<Expr> at;
  for (const Iter& i : stage.spatial) at.push_back(i.var());
  for (size_t k = 0; k < stage.outputs.size(); ++k) body.store(stage.outputs[k], at, body.value(stage.values[k]));
  std::vector<Iter> axes(stage.spatial.begin() + static_cast<std::ptrdiff_t>(request.prefix), stage.spatial.end());
  int64_t points = 1;
  for (const Iter& i : axes) points *= i.extent;
  if (points == 0) return scoped({});

  Merged merged = merge_iters(axes, body.stmts(), emission);
  std::vector<Stmt> stmts;
  for (const Stmt& s : body.stmts()) stmts.push_back(contract(substitute(s, merged.replace), request.target));
  int64_t work = points * static_cast<int64_t>(stmts.size());
  std::vector<Loop> loops;
  if (merged.iters.empty()) {
    require_size(request.nest.stage, "lanes", shape_of<ElementwiseNest>(request, [] { return ElementwiseNest{}; }).lanes, 1);
    parallelise(loops, work, request);
    return in_scope(std::move(stmts));
  }
  for (size_t i = 0; i + 1 < merged.iters.size(); ++i) loops.push_back(loop_over(merged.iters[i]));

  Iter inner = merged.iters.back();
  int64_t lanes = shape_of<ElementwiseNest>(request, [&] {
                    return ElementwiseNest{std::min(lanes_for(request.target, stmts), inner.extent)};
                  }).lanes;
  require_size(request.nest.stage, "lanes", lanes, inner.extent);
  Tiling tiles = tile(inner, lanes, emission);
  Expr lane = var(emission.names.fresh("lane"));
  emission.ranges[as<Var>(lane)->name] = {0, lanes - 1};
  for (Stmt& s : stmts) s = substitute(s, {{inner.name, tiles.begin + lane}});
  Stmt vector = for_loop(lane, Expr(0), Expr(lanes), ForKind::Vectorized, in_scope(std::move(stmts)));
  if (tiles.declare) vector = scoped({tiles.declare, vector});
  loops.push_back(tiles.loop);
  parallelise(loops, work, request);
  request.explain += fmt::format("{}: element-wise, {} points, {} lanes\n", stage.name, points, lanes);
  return in_loops(loops, vector);
}

}  // namespace tenon::schedule
