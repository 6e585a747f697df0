// SPDX-License-Identifier: Apache-2.0
// The nests that schedules are made of: one function for each shape of computation. Each returns loops over the axes of
// the root's output after the first `prefix`, or null when the root is not of its shape.
#pragma once

#include "schedule/body.h"
#include "schedule/decisions.h"
#include "schedule/schedule.h"

namespace tenon::schedule {

struct NestRequest {
  Emission& emission;
  const Root& root;
  size_t prefix = 0;  // leading output axes that loops around this nest run over
  const Target& target;
  bool parallel = true;  // whether a loop of this nest may be parallel
  const std::vector<bool>& constant_params;
  std::vector<PackedParam>& packed;  // appended to
  std::string& explain;
  Nest& nest;          // what is decided, written by the nest; or, where `given`, what to do
  bool given = false;  // a nest of another shape than the root's is null, sizes out of range throw (`schedule-nest-size`)
};

Stmt elementwise_nest(const NestRequest& request);  // no reduction: vectors along memory
/// Sum of products with reuse on both sides: a register tile. What emits it, or null; the two are apart because what stands in a
/// contraction's window is not emitted by itself. What the request refers to outlives the result.
std::function<Stmt()> plan_contraction(const NestRequest& request);
Stmt spatial_reduction_nest(const NestRequest& request);  // lanes are output elements: pooling, depthwise, column sums
Stmt row_reduction_nest(const NestRequest& request);      // lanes are partial results along a contiguous reduce axis
Stmt scalar_reduction_nest(const NestRequest& request);   // any reduction, one element at a time

// Shared by the nests.

/// Elements of one vector for a nest whose widest element is that of these statements.
int64_t lanes_for(const Target& target, const std::vector<Stmt>& stmts);

/// One loop to be built around a body.
struct Loop {
  Expr var;
  Expr extent;
  tir::ForKind kind = tir::ForKind::Serial;
};
Loop loop_over(const Iter& iter);
/// The statements as one: a scope of their own, or a lone statement as it is.
Stmt in_scope(std::vector<Stmt> stmts);
/// The body inside the loops, outermost first.
Stmt in_loops(const std::vector<Loop>& loops, Stmt body);
/// The first loop with at least four iterations, if the whole work (in elementary operations) is worth waking the workers for.
std::optional<size_t> worker_loop(const std::vector<Loop>& loops, int64_t work);
/// Makes one of the loops parallel, if any. Refuses one that is not there (`schedule-nest-size`).
void parallelise(std::vector<Loop>& loops, std::optional<size_t> which, std::string_view stage);
/// The nest's own loops: the one that it decides on, or is given, runs on workers.
void parallelise(std::vector<Loop>& loops, int64_t work, const NestRequest& request);

/// The nest's shape and sizes: as given, or as decided now.
template <class Shape, class Decide>
const Shape& shape_of(const NestRequest& request, Decide&& decide) {
  if (!request.given) request.nest.shape = decide();
  return std::get<Shape>(request.nest.shape);
}
/// Refuses a given size that is not from 1 to `most`.
void require_size(std::string_view stage, std::string_view what, int64_t size, int64_t most);

/// Tiles of `size` over [0, extent), the last one moved back to end at `extent` (it recomputes what it shares with its
/// neighbour; every nest's stores are idempotent). `begin` is the first element of the tile of `loop`.
struct Tiling {
  Loop loop;
  Expr begin;    // variable bound by `declare`, or an expression of the loop's variable
  Stmt declare;  // null if none
  int64_t count = 1;
};
Tiling tile(const Iter& iter, int64_t size, Emission& emission);

/// a * b + c as one fma where both exist in the target's arithmetic, wherever the sum is of a float product.
Expr contract(const Expr& e, const Target& target);
Stmt contract(const Stmt& s, const Target& target);

/// A root's reduction with the output's spatial variables, its pieces ready to be placed.
struct ReductionBody {
  std::vector<Iter> spatial;  // of the output
  std::vector<Expr> init;     // per carried value
  std::vector<Stmt> update_stmts;
  std::vector<Expr> update;  // next values, over the `carried` variables
  std::vector<Expr> carried;
  std::vector<Stmt> epilogue;  // stores the output from the `carried` variables
};
ReductionBody reduction_body(const NestRequest& request);

}  // namespace tenon::schedule
