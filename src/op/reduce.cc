// SPDX-License-Identifier: Apache-2.0
// Operators that reduce axes: sum, mean, product, extremes and where they are. A reduction of nothing gives its identity.
#include "op/reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "op/all_ops.h"
#include "op/fold.h"
#include "op/onnx_build.h"
#include "op/ops.h"

namespace tenon::op {

using graph::AttrKind;
using graph::Fusion;
using graph::kBool;
using graph::kNumeric;
using tir::BinaryOp;

ReducedAxes::ReducedAxes(std::vector<Dim> shape, std::vector<int64_t> axes, bool keepdims)
    : shape_(std::move(shape)), axes_(std::move(axes)), keepdims_(keepdims) {}

bool ReducedAxes::is_reduced(size_t axis) const {
  return std::binary_search(axes_.begin(), axes_.end(), static_cast<int64_t>(axis));
}

std::vector<Dim> ReducedAxes::extents() const {
  std::vector<Dim> extents;
  for (int64_t axis : axes_) extents.push_back(shape_[static_cast<size_t>(axis)]);
  return extents;
}

Dim ReducedAxes::count() const {
  Dim count = 1;
  for (const Dim& extent : extents()) count = count * extent;
  return count;
}

std::vector<Dim> ReducedAxes::result_shape() const {
  std::vector<Dim> shape;
  for (size_t axis = 0; axis < shape_.size(); ++axis) {
    if (!is_reduced(axis))
      shape.push_back(shape_[axis]);
    else if (keepdims_)
      shape.emplace_back(1);
  }
  return shape;
}

std::vector<Expr> ReducedAxes::point(const std::vector<Expr>& result, const std::vector<Expr>& reduced) const {
  std::vector<Expr> point;
  size_t from_result = 0, from_reduced = 0;
  for (size_t axis = 0; axis < shape_.size(); ++axis) {
    if (!is_reduced(axis)) {
      point.push_back(result[from_result++]);
    } else {
      point.push_back(reduced[from_reduced++]);
      from_result += keepdims_;
    }
  }
  return point;
}

std::vector<Expr> ReducedAxes::result_point(const std::vector<Expr>& point) const {
  std::vector<Expr> result;
  for (size_t axis = 0; axis < shape_.size(); ++axis) {
    if (!is_reduced(axis))
      result.push_back(point[axis]);
    else if (keepdims_)
      result.emplace_back(0);
  }
  return result;
}

te::Tensor sum_over(te::Graph& graph, std::string_view name, const ReducedAxes& axes, DType dtype,
                    function_ref<Expr(const std::vector<Expr>& point)> body) {
  return graph.sum(name, dtype, axes.result_shape(), axes.extents(),
                   [&](const std::vector<Expr>& i, const std::vector<Expr>& r) { return body(axes.point(i, r)); });
}

namespace {

/// A reduction of one carried value of the dtype of `x` by `step(so_far, element)`.
te::Tensor reduce_over(te::Graph& graph, std::string_view name, const ReducedAxes& axes, DType dtype, const te::Tensor& x,
                       const Expr& start, function_ref<Expr(const Expr&, const Expr&)> step) {
  auto init = [&](const std::vector<Expr>&) { return std::vector<Expr>{start}; };
  auto next = [&](const std::vector<Expr>& i, const std::vector<Expr>& r, const std::vector<Expr>& so_far) {
    return std::vector<Expr>{step(so_far[0], tir::cast(dtype, x(axes.point(i, r))))};
  };
  return graph.reduce(name, axes.result_shape(), axes.extents(), {{dtype}, init, next})[0];
}

constexpr auto larger = [](const Expr& a, const Expr& b) {
  return a->dtype == DType::Bool ? tir::logical_or(a, b) : tir::max(a, b);
};
constexpr auto smaller = [](const Expr& a, const Expr& b) {
  return a->dtype == DType::Bool ? tir::logical_and(a, b) : tir::min(a, b);
};

}  // namespace

te::Tensor max_over(te::Graph& graph, std::string_view name, const ReducedAxes& axes, const te::Tensor& x) {
  return reduce_over(graph, name, axes, x.dtype(), x, tir::lowest(x.dtype()), larger);
}

te::Tensor index_of_extreme(te::Graph& graph, std::string_view name, const ReducedAxes& axes, const te::Tensor& x, bool largest,
                            bool last) {
  DType dtype = x.dtype();
  auto init = [&](const std::vector<Expr>&) {
    return std::vector<Expr>{largest ? tir::lowest(dtype) : tir::highest(dtype), Expr(0)};
  };
  auto next = [&](const std::vector<Expr>& i, const std::vector<Expr>& r, const std::vector<Expr>& best) {
    Expr value = x(axes.point(i, r));
    const Expr& low = largest ? best[0] : value;
    const Expr& high = largest ? value : best[0];
    Expr better = last ? tir::le(low, high) : tir::lt(low, high);
    if (is_float(dtype)) {
      Expr unordered = tir::call(tir::Intrinsic::IsNan, {value});
      if (!last) unordered = tir::logical_and(unordered, tir::logical_not(tir::call(tir::Intrinsic::IsNan, {best[0]})));
      better = tir::logical_or(better, unordered);
    }
    return std::vector<Expr>{tir::select(better, value, best[0]), tir::select(better, r[0], best[1])};
  };
  return graph.reduce(name, axes.result_shape(), axes.extents(), {{dtype, DType::I64}, init, next})[1];
}

namespace {

// reduce-C1  every axis is in [-rank, rank)
// reduce-C2  no axis is named twice
ReducedAxes reduced_axes(const CallSite& call) {
  std::vector<int64_t> axes = resolve_axes(call, call.integers("axes"), call.in(0).rank(), "reduce-C1", "reduce-C2");
  return {call.in(0).shape, std::move(axes), call.flag("keepdims")};
}

std::vector<TensorType> infer_reduce(const CallSite& call) { return {{call.in(0).dtype, reduced_axes(call).result_shape()}}; }

std::vector<te::Tensor> compute_sum(const CallSite& call, std::span<const te::Tensor> in, te::Graph& graph) {
  DType dtype = in[0].dtype();
  te::Tensor total = sum_over(graph, "sum", reduced_axes(call), accumulation_dtype(dtype),
                              [&](const std::vector<Expr>& point) { return in[0](point); });
  return {cast_tensor(graph, total, dtype)};
}

/// Integers are summed at 64 bits and divided toward zero.
std::vector<te::Tensor> compute_mean(const CallSite& call, std::span<const te::Tensor> in, te::Graph& graph) {
  DType dtype = in[0].dtype();
  DType wide = is_float(dtype) ? accumulation_dtype(dtype) : is_signed_integer(dtype) ? DType::I64 : DType::U64;
  ReducedAxes axes = reduced_axes(call);
  te::Tensor total = sum_over(graph, "sum", axes, wide, [&](const std::vector<Expr>& point) { return in[0](point); });
  return {graph.compute("mean", total.shape(), [&](const std::vector<Expr>& i) {
    return tir::cast(dtype, tir::binary(BinaryOp::Div, total(i), extent_as(wide, axes.count())));
  })};
}

std::vector<te::Tensor> compute_prod(const CallSite& call, std::span<const te::Tensor> in, te::Graph& graph) {
  DType wide = accumulation_dtype(in[0].dtype());
  te::Tensor product = reduce_over(graph, "prod", reduced_axes(call), wide, in[0], tir::imm(wide, 1),
                                   [](const Expr& a, const Expr& b) { return a * b; });
  return {cast_tensor(graph, product, in[0].dtype())};
}

std::vector<te::Tensor> compute_max(const CallSite& call, std::span<const te::Tensor> in, te::Graph& graph) {
  return {max_over(graph, "max", reduced_axes(call), in[0])};
}

std::vector<te::Tensor> compute_min(const CallSite& call, std::span<const te::Tensor> in, te::Graph& graph) {
  return {reduce_over(graph, "min", reduced_axes(call), in[0].dtype(), in[0], tir::highest(in[0].dtype()), smaller)};
}

// arg-reduce-C1  the axis is in [-rank, rank)
ReducedAxes arg_axis(const CallSite& call) {
  int64_t axis = resolve_axis(call, call.integer("axis"), call.in(0).rank(), "arg-reduce-C1");
  return {call.in(0).shape, {axis}, call.flag("keepdims")};
}

std::vector<TensorType> infer_arg(const CallSite& call) { return {{DType::I64, arg_axis(call).result_shape()}}; }

template <bool largest>
std::vector<te::Tensor> compute_arg(const CallSite& call, std::span<const te::Tensor> in, te::Graph& graph) {
  return {index_of_extreme(graph, call.op().name, arg_axis(call), in[0], largest, call.flag("select_last_index"))};
}

// Native folds.

/// Visits the elements of `x` in order; `out` holds the start values and gets `step(out, x)` for each.
template <class Wide>
void accumulate(const Array& x, const ReducedAxes& axes, std::vector<Wide>& out, function_ref<Wide(Wide, Wide)> step) {
  size_t rank = x.shape.size();
  Shape strides(rank, 0), index(rank, 0);
  int64_t stride = 1;
  for (size_t axis = rank; axis-- > 0;) {
    if (axes.is_reduced(axis)) continue;
    strides[axis] = stride;
    stride *= x.shape[axis];
  }
  std::vector<Wide> chunk(kFoldChunk);
  int64_t total = x.elements(), at = 0;
  for (int64_t begin = 0; begin < total; begin += kFoldChunk) {
    int64_t count = std::min(kFoldChunk, total - begin);
    widen(x, begin, count, chunk.data());
    for (int64_t i = 0; i < count; ++i) {
      Wide& slot = out[static_cast<size_t>(at)];
      slot = step(slot, chunk[static_cast<size_t>(i)]);
      for (size_t axis = rank; axis-- > 0;) {
        at += strides[axis];
        if (++index[axis] < x.shape[axis]) break;
        at -= strides[axis] * x.shape[axis];
        index[axis] = 0;
      }
    }
  }
}

/// The least and the largest value of a dtype as a wide number.
template <class Wide>
std::pair<Wide, Wide> limits(DType dtype) {
  if constexpr (std::is_floating_point_v<Wide>) {
    return {-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  } else if constexpr (std::is_unsigned_v<Wide>) {
    return {0, dtype == DType::Bool ? 1 : ~uint64_t{0} >> (64 - bit_width(dtype))};
  } else {
    auto highest = static_cast<int64_t>(~uint64_t{0} >> (65 - bit_width(dtype)));
    return {-highest - 1, highest};
  }
}

enum class Reduce : uint8_t { Sum, Mean, Prod, Max, Min };

template <class Wide>
Wide start_of(Reduce kind, DType dtype) {
  switch (kind) {
    case Reduce::Sum:
    case Reduce::Mean: return 0;
    case Reduce::Prod: return 1;
    case Reduce::Max: return limits<Wide>(dtype).first;
    case Reduce::Min: return limits<Wide>(dtype).second;
  }
  fail_internal("a reduction of no known kind");
}

template <class Wide>
Wide step_of(Reduce kind, Wide a, Wide b) {
  switch (kind) {
    case Reduce::Sum:
    case Reduce::Mean: return wrap_add(a, b);
    case Reduce::Prod: return wrap_multiply(a, b);
    case Reduce::Max: return a != a || a > b ? a : b;
    case Reduce::Min: return a != a || a < b ? a : b;
  }
  fail_internal("a reduction of no known kind");
}

template <Reduce kind>
Folded fold_reduce(const CallSite& call, std::span<const Array> in) {
  return with_wide(in[0].dtype, [&](auto wide) -> Folded {
    using Wide = decltype(wide);
    ReducedAxes axes = reduced_axes(call);
    MutableArray result(call.out().dtype, call.out().static_shape());
    std::vector<Wide> out(static_cast<size_t>(element_count(result.shape)), start_of<Wide>(kind, in[0].dtype));
    accumulate<Wide>(in[0], axes, out, [](Wide a, Wide b) { return step_of(kind, a, b); });
    if (kind == Reduce::Mean) {
      auto count = static_cast<Wide>(tir::int_value(axes.count()));
      for (Wide& value : out) value = std::is_floating_point_v<Wide> || count != 0 ? value / count : 0;
    }
    narrow(out.data(), static_cast<int64_t>(out.size()), result, 0);
    return std::vector<Array>{std::move(result).freeze()};
  });
}

// ONNX rules.

/// What a Reduce node asks for. Its axes were an attribute before they became an input (ReduceSum at 13, the others at 18);
/// none given means all, or with `noop_with_empty_axes` none: what is done beside the reduction still is.
struct Request {
  ValueId x;
  std::vector<int64_t> axes;
  bool keepdims = true;
};

Request read_request(OnnxNode& node, int axes_input_since) {
  Request request{.x = node.in(0)};
  request.keepdims = node.attr("keepdims", int64_t{1}) != 0;
  bool keep_all = false;
  if (node.opset() >= axes_input_since) {
    keep_all = node.attr("noop_with_empty_axes", int64_t{0}) != 0;
    if (node.has(1)) request.axes = node.constant_ints(1);
  } else {
    request.axes = node.ints("axes", {});
  }
  if (!request.axes.empty() || keep_all) return request;
  for (int64_t axis = 0; axis < node.type(0).rank(); ++axis) request.axes.push_back(axis);
  return request;
}

ValueId reduce_by(Builder& builder, const OpDef& op, ValueId x, const Request& request) {
  return builder.call1(op, {x}, {{"axes", request.axes}, {"keepdims", request.keepdims}});
}

template <const OpDef& op, int axes_input_since = 18>
std::vector<ValueId> build_reduce(OnnxNode& node, Builder& builder) {
  Request request = read_request(node, axes_input_since);
  return {request.axes.empty() ? request.x : reduce_by(builder, op, request.x, request)};
}

std::vector<ValueId> build_l1(OnnxNode& node, Builder& builder) {
  Request request = read_request(node, 18);
  return {reduce_by(builder, sum, builder.call1(abs, {request.x}), request)};
}

std::vector<ValueId> build_sum_square(OnnxNode& node, Builder& builder) {
  Request request = read_request(node, 18);
  return {reduce_by(builder, sum, builder.call1(multiply, {request.x, request.x}), request)};
}

/// A root or logarithm of integers is computed in f64 and truncated.
DType real_dtype(DType dtype) { return is_float(dtype) ? dtype : DType::F64; }

std::vector<ValueId> build_l2(OnnxNode& node, Builder& builder) {
  Request request = read_request(node, 18);
  DType dtype = node.type(0).dtype;
  ValueId x = cast_to(builder, request.x, real_dtype(dtype));
  ValueId squares = reduce_by(builder, sum, builder.call1(multiply, {x, x}), request);
  return {cast_to(builder, builder.call1(sqrt, {squares}), dtype)};
}

std::vector<ValueId> build_log_sum(OnnxNode& node, Builder& builder) {
  Request request = read_request(node, 18);
  DType dtype = node.type(0).dtype;
  ValueId total = reduce_by(builder, sum, cast_to(builder, request.x, real_dtype(dtype)), request);
  return {cast_to(builder, builder.call1(log, {total}), dtype)};
}

/// log(sum(e^(x - m))) + m, where m is the maximum, or 0 if that is infinite or there is no element.
std::vector<ValueId> build_log_sum_exp(OnnxNode& node, Builder& builder) {
  Request request = read_request(node, 18);
  DType dtype = node.type(0).dtype, real = real_dtype(dtype);
  ValueId x = cast_to(builder, request.x, real);
  Request kept = request;
  kept.keepdims = true;
  ValueId largest = reduce_by(builder, max, x, kept);
  ValueId shift = builder.call1(where, {builder.call1(isinf, {largest}), scalar(builder, real, 0), largest});
  ValueId powers = builder.call1(exp, {builder.call1(subtract, {x, shift})});
  ValueId result = builder.call1(add, {builder.call1(log, {reduce_by(builder, sum, powers, kept)}), shift});
  if (!request.keepdims) result = reduce_by(builder, sum, result, request);  // drops axes of extent 1
  return {cast_to(builder, result, dtype)};
}

template <const OpDef& op>
std::vector<ValueId> build_arg(OnnxNode& node, Builder& builder) {
  bool last = node.opset() >= 12 && node.attr("select_last_index", int64_t{0}) != 0;
  return {builder.call1(op, {node.in(0)},
                        {{"axis", node.attr("axis", int64_t{0})},
                         {"keepdims", node.attr("keepdims", int64_t{1}) != 0},
                         {"select_last_index", last}})};
}

OpDef reduction(std::string_view name, std::string_view doc, graph::DTypeSet dtypes, decltype(OpDef::compute) compute,
                decltype(OpDef::fold) fold) {
  return {.name = name,
          .doc = doc,
          .inputs = {{"x", "any shape"}},
          .attrs = {{"axes", AttrKind::Ints, std::nullopt, "the axes to reduce; negative ones count from the end"},
                    {"keepdims", AttrKind::Bool, false, "whether a reduced axis stays with extent 1"}},
          .fusion = Fusion::Reduction,
          .dtypes = dtypes,
          .dtype_note = "a number: arithmetic is not defined on bool",
          .infer = infer_reduce,
          .compute = compute,
          .fold = fold};
}

OpDef arg_reduction(std::string_view name, std::string_view doc, decltype(OpDef::compute) compute) {
  return {.name = name,
          .doc = doc,
          .inputs = {{"x", "any shape"}},
          .attrs = {{"axis", AttrKind::Int, std::nullopt, "the axis to search"},
                    {"keepdims", AttrKind::Bool, false, "whether the axis stays with extent 1"},
                    {"select_last_index", AttrKind::Bool, false, "whether the last of equal elements is taken, not the first"}},
          .fusion = Fusion::Reduction,
          .dtypes = kNumeric,
          .dtype_note = "a number: bool has no order",
          .infer = infer_arg,
          .compute = compute};
}

}  // namespace

const OpDef sum = reduction("sum", "the sum over axes; 16-bit floats are added at f32, integers wrap", kNumeric, compute_sum,
                            fold_reduce<Reduce::Sum>);
const OpDef mean = reduction("mean", "the sum over axes divided by the count; integers truncate", kNumeric, compute_mean,
                             fold_reduce<Reduce::Mean>);
const OpDef prod = reduction("prod", "the product over axes", kNumeric, compute_prod, fold_reduce<Reduce::Prod>);
const OpDef max = reduction("max", "the largest over axes; NaN if one is NaN, the least value if there is none", kNumeric | kBool,
                            compute_max, fold_reduce<Reduce::Max>);
const OpDef min = reduction("min", "the smallest over axes; NaN if one is NaN, the largest value if there is none",
                            kNumeric | kBool, compute_min, fold_reduce<Reduce::Min>);
const OpDef argmax =
    arg_reduction("argmax", "the index of the largest along an axis; NaN counts as the largest", compute_arg<true>);
const OpDef argmin =
    arg_reduction("argmin", "the index of the smallest along an axis; NaN counts as the smallest", compute_arg<false>);

Family reduce_family() {
  return {.ops = {&sum, &mean, &prod, &max, &min, &argmax, &argmin},
          .onnx = {{"ReduceSum", 1, build_reduce<sum, 13>},
                   {"ReduceMean", 1, build_reduce<mean>},
                   {"ReduceProd", 1, build_reduce<prod>},
                   {"ReduceMax", 1, build_reduce<max>},
                   {"ReduceMin", 1, build_reduce<min>},
                   {"ReduceL1", 1, build_l1},
                   {"ReduceL2", 1, build_l2},
                   {"ReduceSumSquare", 1, build_sum_square},
                   {"ReduceLogSum", 1, build_log_sum},
                   {"ReduceLogSumExp", 1, build_log_sum_exp},
                   {"ArgMax", 1, build_arg<argmax>},
                   {"ArgMin", 1, build_arg<argmin>}}};
}

}  // namespace tenon::op
