// SPDX-License-Identifier: Apache-2.0
// Loop nests for operators whose meaning is an order of writes.
#include "op/loop_nest.h"

namespace tenon::op {

using tir::Expr;

tir::Stmt loop_nest(te::Graph& graph, std::span<const Expr> extents, function_ref<tir::Stmt(const std::vector<Expr>&)> body) {
  std::vector<Expr> vars;
  for (size_t axis = 0; axis < extents.size(); ++axis) vars.push_back(tir::var(graph.fresh("s" + std::to_string(axis))));
  tir::Stmt nest = body(vars);
  for (size_t axis = extents.size(); axis-- > 0;) nest = tir::for_loop(vars[axis], 0, extents[axis], tir::ForKind::Serial, nest);
  return nest;
}

tir::Stmt copy_loop(te::Graph& graph, const te::Tensor& from, const tir::Buffer& to) {
  return loop_nest(graph, from.shape(), [&](const std::vector<Expr>& i) { return tir::store(to, i, from(i)); });
}

Expr safe_index(const Expr& index, const Expr& extent) {
  Expr wide = tir::cast(DType::I64, index);
  Expr from_start = tir::select(tir::lt(wide, Expr(0)), wide + extent, wide);
  return tir::max(Expr(0), tir::min(from_start, extent - Expr(1)));
}

}  // namespace tenon::op
