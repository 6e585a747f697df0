// SPDX-License-Identifier: Apache-2.0
// Operators that walk an axis in order: top_k, cumsum.
#include <fmt/format.h>

#include "op/all_ops.h"
#include "op/loop_nest.h"
#include "op/onnx_axes.h"
#include "op/onnx_build.h"
#include "op/ops.h"
#include "op/shape_rules.h"

namespace tenon::op {
namespace {

using graph::AttrKind;
using graph::Fusion;
using te::Tensor;
using tir::Buffer;
using tir::Stmt;

// C1  `axis` is an axis of x with a known extent
// C2  0 <= k <= that extent
std::vector<TensorType> infer_top_k(const CallSite& call) {
  TensorType values = call.in(0);
  int64_t axis = call.integer("axis"), k = call.integer("k");
  if (axis < 0 || axis >= values.rank() || !tir::as_int(values.dim(axis)))
    call.error(0, "top_k-C1", fmt::format("a tensor with a known extent on axis {}", axis));
  if (k < 0 || k > tir::int_value(values.dim(axis))) call.error(0, "top_k-C2", fmt::format("{} elements on axis {}", k, axis));
  values.shape[static_cast<size_t>(axis)] = k;
  TensorType indices(DType::I64, values.shape);
  return {std::move(values), std::move(indices)};
}

/// Whether `a` stands strictly before `b`. NaN counts as larger than every number.
Expr stands_before(bool largest, const Expr& a, const Expr& b) {
  const Expr &high = largest ? a : b, &low = largest ? b : a;
  Expr before = tir::lt(low, high);
  if (!is_float(a->dtype)) return before;
  auto is_nan = [](const Expr& e) { return tir::call(tir::Intrinsic::IsNan, {e}); };
  return tir::logical_or(before, tir::logical_and(is_nan(high), tir::logical_not(is_nan(low))));
}

/// One row: each candidate in turn is inserted into the sorted list of the best so far, whose tail moves up by one. Equal
/// elements keep their order, since a candidate never passes an equal one.
struct TopKRow {
  const Tensor& x;
  const std::vector<Buffer>& out;
  size_t axis;
  int64_t k;
  bool largest;
  std::vector<Expr> at;  // the row; the entry of `axis` is replaced

  std::vector<Expr> point(const Expr& position) const {
    std::vector<Expr> indices = at;
    indices[axis] = position;
    return indices;
  }
  Expr kept(const Expr& position) const { return tir::load(out[0], point(position)); }

  /// Place `q` of the list when `candidate` (element j of the row) joins a list of min(j, k) elements.
  Stmt settle(te::Graph& graph, const Expr& candidate, const Expr& j, const Expr& q) const {
    Expr shifts = tir::var(graph.fresh("shifts"), DType::Bool), lands = tir::var(graph.fresh("lands"), DType::Bool);
    Expr first = tir::eq(q, Expr(0)), fresh_place = tir::eq(q, j);
    auto before = [&](const Expr& position) { return stands_before(largest, candidate, kept(position)); };
    Expr moved = tir::load(out[1], point(q - Expr(1)));
    return tir::scoped({
        tir::let(shifts, tir::select(first, tir::bool_imm(false), before(q - Expr(1)))),
        tir::let(lands, tir::select(fresh_place, tir::bool_imm(true), before(q))),
        tir::if_then(shifts, tir::seq({tir::store(out[1], point(q), moved), tir::store(out[0], point(q), kept(q - Expr(1)))}),
                     tir::if_then(lands, tir::seq({tir::store(out[1], point(q), j), tir::store(out[0], point(q), candidate)}))),
    });
  }

  Stmt visit(te::Graph& graph, const Expr& j) const {
    Expr candidate = x(point(j)), last = tir::min(j, Expr(k - 1));
    Expr t = tir::var(graph.fresh("t"));
    Expr enters = tir::select(tir::lt(j, Expr(k)), tir::bool_imm(true), stands_before(largest, candidate, kept(Expr(k - 1))));
    Stmt places = tir::for_loop(t, 0, last + Expr(1), tir::ForKind::Serial, settle(graph, candidate, j, last - t));
    return tir::if_then(enters, places);
  }
};

std::vector<Tensor> compute_top_k(const CallSite& call, std::span<const Tensor> in, te::Graph& graph) {
  auto axis = static_cast<size_t>(call.integer("axis"));
  int64_t k = call.integer("k");
  std::vector<Expr> rows = in[0].shape();
  rows[axis] = 1;
  return graph.external("top_k", {call.out(0), call.out(1)}, [&](const std::vector<Buffer>& out) {
    if (k == 0) return tir::seq({});
    return loop_nest(graph, rows, [&](const std::vector<Expr>& i) {
      TopKRow row{in[0], out, axis, k, call.flag("largest"), i};
      Expr j = tir::var(graph.fresh("j"));
      return tir::for_loop(j, 0, in[0].shape()[axis], tir::ForKind::Serial, row.visit(graph, j));
    });
  });
}

// C1  `axis` is an axis of x
std::vector<TensorType> infer_cumsum(const CallSite& call) {
  int64_t axis = call.integer("axis");
  if (axis < 0 || axis >= call.in(0).rank()) call.error(0, "cumsum-C1", fmt::format("a tensor with an axis {}", axis));
  return {call.in(0)};
}

std::vector<Tensor> compute_cumsum(const CallSite& call, std::span<const Tensor> in, te::Graph& graph) {
  auto axis = static_cast<size_t>(call.integer("axis"));
  bool exclusive = call.flag("exclusive"), reverse = call.flag("reverse");
  DType dtype = accumulation_dtype(in[0].dtype());
  Tensor x = cast_tensor(graph, in[0], dtype);
  std::vector<Expr> extents = x.shape();
  Tensor sums = graph.external("cumsum", {{dtype, extents}}, [&](const std::vector<Buffer>& out) {
    return loop_nest(graph, extents, [&](const std::vector<Expr>& i) {
      std::vector<Expr> here = i, previous = i;
      Expr last = extents[axis] - Expr(1);
      here[axis] = reverse ? last - i[axis] : i[axis];
      previous[axis] = reverse ? here[axis] + Expr(1) : here[axis] - Expr(1);
      Expr zero = tir::imm(dtype, 0), first = tir::eq(i[axis], Expr(0));
      Expr so_far = tir::select(first, zero, tir::load(out[0], previous));
      Expr term = exclusive ? tir::select(first, zero, x(previous)) : x(here);
      return tir::store(out[0], here, so_far + term);
    });
  })[0];
  return {cast_tensor(graph, sums, call.out().dtype)};
}

std::vector<ValueId> import_top_k(OnnxNode& node, Builder& builder) {
  std::vector<int64_t> k = node.opset() < 10 ? std::vector<int64_t>{node.attr("k", -1)} : node.constant_ints(1);
  if (k.size() != 1) node.malformed("`k` is not one number");
  int64_t axis = normalized_axis(node, node.attr("axis", -1), node.type(0).rank());
  bool largest = node.opset() < 11 || node.attr("largest", 1) != 0;
  node.ignore("sorted");  // the result is always sorted, which an unsorted one may be
  return builder.call(top_k, {node.in(0)}, {{"axis", axis}, {"k", k[0]}, {"largest", largest}});
}

/// An axis that only the run knows chooses among the sums along each axis.
std::vector<ValueId> import_cumsum(OnnxNode& node, Builder& builder) {
  const int64_t rank = node.type(0).rank();
  const bool exclusive = node.attr("exclusive", 0) != 0, reverse = node.attr("reverse", 0) != 0;
  auto along = [&](int64_t axis) {
    return builder.call1(cumsum, {node.in(0)}, {{"axis", axis}, {"exclusive", exclusive}, {"reverse", reverse}});
  };
  if (node.constant(1)) {
    std::vector<int64_t> axis = node.constant_ints(1);
    if (axis.size() != 1) node.malformed("`axis` is not one number");
    return {along(normalized_axis(node, axis[0], rank))};
  }
  if (rank == 0) node.malformed("a scalar has no axis to sum along");
  ValueId result = along(0);
  if (rank > 1) {
    ValueId given = builder.call1(reshape, {node.in(1)}, {{"shape", Shape{}}});
    for (int64_t axis = 1; axis < rank; ++axis) {
      auto is = [&](int64_t a) {
        return builder.call1(equal, {given, scalar(builder, node.type(1).dtype, static_cast<double>(a))});
      };
      result = builder.call1(where, {builder.call1(logical_or, {is(axis), is(axis - rank)}), along(axis), result});
    }
  }
  return {result};
}

}  // namespace

const OpDef top_k{
    .name = "top_k",
    .doc =
        "The k largest or smallest elements along an axis, best first, and where they stand. Equal ones keep their order; "
        "NaN is the largest.",
    .inputs = {{"x", "numbers, rank 1 at least"}},
    .attrs = {{"axis", AttrKind::Int, {}, "the axis to sort"},
              {"k", AttrKind::Int, {}, "how many to keep"},
              {"largest", AttrKind::Bool, true, "the largest first, else the smallest"}},
    .fusion = Fusion::Opaque,
    .dtypes = graph::kNumeric,
    .dtype_note = "numbers: they have an order",
    .infer = infer_top_k,
    .compute = compute_top_k,
};

const OpDef cumsum{
    .name = "cumsum",
    .doc = "Sums of the elements up to each point of an axis. The 16-bit floats are summed as f32.",
    .inputs = {{"x", "numbers, rank 1 at least"}},
    .attrs = {{"axis", AttrKind::Int, {}, "the axis to walk"},
              {"exclusive", AttrKind::Bool, false, "without the point's own element"},
              {"reverse", AttrKind::Bool, false, "from the end"}},
    .fusion = Fusion::Opaque,
    .dtypes = graph::kNumeric,
    .dtype_note = "numbers: they can be added",
    .infer = infer_cumsum,
    .compute = compute_cumsum,
};

Family sort_family() { return {{&top_k, &cumsum}, {{"TopK", 1, import_top_k}, {"CumSum", 11, import_cumsum}}}; }

}  // namespace tenon::op
