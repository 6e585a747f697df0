// SPDX-License-Identifier: Apache-2.0
// Pooling: the maximum, mean or sum of each window, and pooling over all spatial axes by way of reductions.
#include <fmt/format.h>

#include <algorithm>

#include "op/all_ops.h"
#include "op/onnx_build.h"
#include "op/ops.h"
#include "op/window.h"

namespace tenon::op {
namespace {

using graph::AttrKind;
using graph::Fusion;
using tir::BinaryOp;

std::vector<Dim> pooled_shape(const CallSite& call) {
  Window window = window_of(call, call.integers("kernel"));
  std::vector<Dim> shape{call.in(0).dim(0), call.in(0).dim(1)};
  for (size_t axis = 0; axis < window.rank(); ++axis) shape.push_back(window_count(call, window, axis, call.flag("ceil_mode")));
  return shape;
}

std::vector<TensorType> infer_pool(const CallSite& call) { return {{call.in(0).dtype, pooled_shape(call)}}; }

std::vector<TensorType> infer_pool_indices(const CallSite& call) {
  std::vector<Dim> shape = pooled_shape(call);
  return {{call.in(0).dtype, shape}, {DType::I64, shape}};
}

/// Points that the last window reads past the end of the padded front and the data.
std::vector<int64_t> overhang(const CallSite& call, const Window& window) {
  std::vector<int64_t> after;
  for (size_t k = 0; k < window.rank(); ++k) {
    const int64_t* extent = tir::as_int(call.in(0).shape[k + 2]);
    const int64_t* count = tir::as_int(call.out().shape[k + 2]);
    if (extent && count) {
      int64_t end = (*count - 1) * window.strides[k] + window.span(k);
      after.push_back(std::max<int64_t>(end - *extent - window.before(k), 0));
    } else {
      after.push_back(window.after(k));
    }
  }
  return after;
}

te::Tensor padded(const CallSite& call, const te::Tensor& x, te::Graph& graph, const Window& window, const Expr& value) {
  std::vector<int64_t> before(window.pads.begin(), window.pads.begin() + static_cast<int64_t>(window.rank()));
  return pad_spatial(graph, x, before, overhang(call, window), value);
}

/// Where tap `r` of window `i` reads the padded data.
std::vector<Expr> tap(const Window& window, const std::vector<Expr>& i, const std::vector<Expr>& r) {
  std::vector<Expr> at{i[0], i[1]};
  for (size_t k = 0; k < window.rank(); ++k) at.push_back(i[k + 2] * Expr(window.strides[k]) + r[k] * Expr(window.dilations[k]));
  return at;
}

std::vector<Expr> taps(const Window& window) { return {window.kernel.begin(), window.kernel.end()}; }

std::vector<te::Tensor> compute_max_pool(const CallSite& call, std::span<const te::Tensor> in, te::Graph& graph) {
  Window window = window_of(call, call.integers("kernel"));
  Expr lowest = tir::lowest(in[0].dtype());
  te::Tensor x = padded(call, in[0], graph, window, lowest);
  auto init = [&](const std::vector<Expr>&) { return std::vector<Expr>{lowest}; };
  auto next = [&](const std::vector<Expr>& i, const std::vector<Expr>& r, const std::vector<Expr>& so_far) {
    return std::vector<Expr>{tir::max(so_far[0], x(tap(window, i, r)))};
  };
  return graph.reduce("max_pool", call.out().shape, taps(window), {{in[0].dtype()}, init, next});
}

/// The flat index into the data of a tap; with `column_major` the first spatial axis varies fastest.
Expr flat_index(const te::Tensor& x, const Window& window, const std::vector<Expr>& at, bool column_major) {
  Expr plane = at[0] * x.dim(1) + at[1], spatial = 0, size = 1;
  size_t rank = window.rank();
  for (size_t n = 0; n < rank; ++n) {
    size_t k = column_major ? rank - 1 - n : n;
    const Expr& extent = x.shape()[k + 2];
    spatial = spatial * extent + (at[k + 2] - Expr(window.before(k)));
    size = size * extent;
  }
  return plane * size + spatial;
}

std::vector<te::Tensor> compute_max_pool_indices(const CallSite& call, std::span<const te::Tensor> in, te::Graph& graph) {
  Window window = window_of(call, call.integers("kernel"));
  DType dtype = in[0].dtype();
  Expr lowest = tir::lowest(dtype);
  te::Tensor x = padded(call, in[0], graph, window, lowest);
  auto init = [&](const std::vector<Expr>&) { return std::vector<Expr>{lowest, Expr(0)}; };
  auto next = [&](const std::vector<Expr>& i, const std::vector<Expr>& r, const std::vector<Expr>& best) {
    std::vector<Expr> at = tap(window, i, r);
    Expr value = x(at);
    Expr better = tir::lt(best[0], value);
    if (is_float(dtype)) better = tir::logical_or(better, tir::call(tir::Intrinsic::IsNan, {value}));
    Expr index = flat_index(in[0], window, at, call.flag("column_major"));
    return std::vector<Expr>{tir::select(better, value, best[0]), tir::select(better, index, best[1])};
  };
  return graph.reduce("max_pool", call.out().shape, taps(window), {{dtype, DType::I64}, init, next});
}

te::Tensor window_sum(const CallSite& call, const te::Tensor& data, te::Graph& graph, const Window& window) {
  DType wide = accumulation_dtype(data.dtype());
  te::Tensor x = padded(call, data, graph, window, tir::imm(data.dtype(), 0));
  return graph.sum("window_sum", wide, call.out().shape, taps(window),
                   [&](const std::vector<Expr>& i, const std::vector<Expr>& r) { return x(tap(window, i, r)); });
}

std::vector<te::Tensor> compute_sum_pool(const CallSite& call, std::span<const te::Tensor> in, te::Graph& graph) {
  Window window = window_of(call, call.integers("kernel"));
  return {cast_tensor(graph, window_sum(call, in[0], graph, window), in[0].dtype())};
}

/// How many taps of window `i` lie in [low, high) on one axis of the padded data.
Expr taps_within(const Window& window, size_t axis, const Expr& i, const Expr& low, const Expr& high) {
  Expr start = i * Expr(window.strides[axis]), dilation(window.dilations[axis]), kernel(window.kernel[axis]);
  auto first_tap_from = [&](const Expr& point) {
    Expr up = tir::floordiv(point - start + (dilation - Expr(1)), dilation);
    return tir::min(tir::max(up, Expr(0)), kernel);
  };
  return first_tap_from(high) - first_tap_from(low);
}

/// The divisor counts the taps on data, or those on data and padding; never those that hang over the padding.
std::vector<te::Tensor> compute_avg_pool(const CallSite& call, std::span<const te::Tensor> in, te::Graph& graph) {
  Window window = window_of(call, call.integers("kernel"));
  te::Tensor total = window_sum(call, in[0], graph, window);
  std::vector<int64_t> after = overhang(call, window);
  bool all = call.flag("count_include_pad");
  return {graph.compute("avg_pool", call.out().shape, [&](const std::vector<Expr>& i) {
    Expr count = 1;
    for (size_t k = 0; k < window.rank(); ++k) {
      Expr front(window.before(k));
      bool always_full = after[k] <= (all ? window.after(k) : 0) && (all || window.before(k) == 0);
      Expr end = front + in[0].shape()[k + 2];
      count = count * (always_full ? Expr(window.kernel[k])
                       : all       ? taps_within(window, k, i[k + 2], Expr(0), end + Expr(window.after(k)))
                                   : taps_within(window, k, i[k + 2], front, end));
    }
    return tir::cast(call.out().dtype, tir::binary(BinaryOp::Div, total(i), extent_as(total.dtype(), count)));
  })};
}

// ONNX rules.

struct PoolRequest {
  Window window;
  graph::Attrs attrs;
};

PoolRequest read_pool(OnnxNode& node) {
  std::vector<int64_t> kernel = node.ints("kernel_shape", {});
  if (kernel.empty()) node.malformed("`kernel_shape` is missing");
  PoolRequest request{.window = read_window(node, kernel)};
  request.attrs = window_attrs(request.window);
  request.attrs["kernel"] = kernel;
  request.attrs["ceil_mode"] = node.attr("ceil_mode", int64_t{0}) != 0;
  return request;
}

std::vector<ValueId> build_max_pool(OnnxNode& node, Builder& builder) {
  PoolRequest request = read_pool(node);
  bool column_major = node.attr("storage_order", int64_t{0}) != 0;
  if (!node.wants(1)) return {builder.call1(max_pool, {node.in(0)}, request.attrs)};
  request.attrs["column_major"] = column_major;
  return builder.call(max_pool_indices, {node.in(0)}, request.attrs);
}

std::vector<ValueId> build_average_pool(OnnxNode& node, Builder& builder) {
  PoolRequest request = read_pool(node);
  request.attrs["count_include_pad"] = node.attr("count_include_pad", int64_t{0}) != 0;
  return {builder.call1(avg_pool, {node.in(0)}, request.attrs)};
}

/// |x| to the power p.
ValueId magnitude_power(Builder& builder, ValueId x, int64_t p) {
  ValueId magnitude = builder.call1(abs, {x});
  if (p == 1) return magnitude;
  if (p == 2) return builder.call1(multiply, {x, x});
  return builder.call1(power, {magnitude, scalar(builder, builder.type(x).dtype, static_cast<double>(p))});
}

ValueId root(Builder& builder, ValueId x, int64_t p) {
  if (p == 1) return x;
  if (p == 2) return builder.call1(sqrt, {x});
  return builder.call1(power, {x, scalar(builder, builder.type(x).dtype, 1.0 / static_cast<double>(p))});
}

std::vector<ValueId> build_lp_pool(OnnxNode& node, Builder& builder) {
  int64_t p = node.attr("p", int64_t{2});
  if (p < 1) node.malformed("`p` is below 1", "1 or more", std::to_string(p));
  PoolRequest request = read_pool(node);
  ValueId powers = magnitude_power(builder, node.in(0), p);
  return {root(builder, builder.call1(sum_pool, {powers}, request.attrs), p)};
}

graph::Attrs spatial_axes(const OnnxNode& node) {
  std::vector<int64_t> axes;
  for (int64_t axis = 2; axis < node.type(0).rank(); ++axis) axes.push_back(axis);
  return {{"axes", axes}, {"keepdims", true}};
}

template <const OpDef& op>
std::vector<ValueId> build_global_pool(OnnxNode& node, Builder& builder) {
  return {builder.call1(op, {node.in(0)}, spatial_axes(node))};
}

std::vector<ValueId> build_global_lp_pool(OnnxNode& node, Builder& builder) {
  int64_t p = node.attr("p", int64_t{2});
  if (p < 1) node.malformed("`p` is below 1", "1 or more", std::to_string(p));
  ValueId powers = magnitude_power(builder, node.in(0), p);
  return {root(builder, builder.call1(sum, {powers}, spatial_axes(node)), p)};
}

OpDef pool(std::string_view name, std::string_view doc, graph::DTypeSet dtypes, std::string_view dtype_note,
           decltype(OpDef::compute) compute, std::vector<graph::AttrSpec> more = {}) {
  std::vector<graph::AttrSpec> schema = window_schema();
  schema.push_back({"kernel", AttrKind::Ints, std::nullopt, "the taps of a window, per spatial axis"});
  schema.push_back({"ceil_mode", AttrKind::Bool, false, "whether a last window may hang over the end"});
  schema.insert(schema.end(), more.begin(), more.end());
  return {.name = name,
          .doc = doc,
          .inputs = {{"x", "[N, C, spatial…]"}},
          .attrs = std::move(schema),
          .fusion = Fusion::OutputFusable,
          .dtypes = dtypes,
          .dtype_note = dtype_note,
          .infer = infer_pool,
          .compute = compute};
}

OpDef make_max_pool_indices() {
  OpDef op = pool("max_pool_indices", "as max_pool, and the index of each maximum in the flat data", graph::kNumeric,
                  "a number: bool has no order", compute_max_pool_indices,
                  {{"column_major", AttrKind::Bool, false, "whether spatial axes are counted with the first one fastest"}});
  op.infer = infer_pool_indices;
  return op;
}

constexpr std::string_view kFloatNote = "a float: means and sums of windows are defined on real numbers";

}  // namespace

const OpDef max_pool = pool("max_pool", "the largest value of each window; padding never wins", graph::kNumeric,
                            "a number: bool has no order", compute_max_pool);
const OpDef max_pool_indices = make_max_pool_indices();
const OpDef avg_pool = pool("avg_pool", "the mean of each window", graph::kFloats, kFloatNote, compute_avg_pool,
                            {{"count_include_pad", AttrKind::Bool, false, "whether padding counts in the divisor"}});
const OpDef sum_pool = pool("sum_pool", "the sum of each window", graph::kFloats, kFloatNote, compute_sum_pool);

Family pool_family() {
  return {.ops = {&max_pool, &max_pool_indices, &avg_pool, &sum_pool},
          .onnx = {{"MaxPool", 1, build_max_pool},
                   {"AveragePool", 7, build_average_pool},
                   {"LpPool", 2, build_lp_pool},
                   {"GlobalMaxPool", 1, build_global_pool<max>},
                   {"GlobalAveragePool", 1, build_global_pool<mean>},
                   {"GlobalLpPool", 2, build_global_lp_pool}}};
}

}  // namespace tenon::op
