// SPDX-License-Identifier: Apache-2.0
// Normalization: batch, layer, instance and group norm, local response, and those that are taken apart into reductions.
#include <fmt/format.h>

#include "op/all_ops.h"
#include "op/onnx_axes.h"
#include "op/onnx_build.h"
#include "op/ops.h"
#include "op/reduce.h"

namespace tenon::op {
namespace {

using graph::AttrKind;
using graph::Fusion;
using tir::BinaryOp;
using tir::Intrinsic;

Expr ratio(const Expr& a, const Expr& b) { return tir::binary(BinaryOp::Div, a, b); }
Expr root(const Expr& x) { return tir::call(Intrinsic::Sqrt, {x}); }

// batch-norm-C1  x has a batch and a channel axis
// batch-norm-C2  scale, bias, mean and variance are vectors with an element per channel
// same-dtype
std::vector<TensorType> infer_batch_norm(const CallSite& call) {
  same_dtype(call);
  if (call.in(0).rank() < 2) call.error(0, "batch-norm-C1", "[N, C, …]");
  for (size_t k = 1; k < 5; ++k)
    if (call.in(k).rank() != 1 || !structural_equal(call.in(k).dim(0), call.in(0).dim(1)))
      call.error(static_cast<int>(k), "batch-norm-C2", fmt::format("a vector of {} elements", to_string(call.in(0).dim(1))));
  return {call.in(0)};
}

std::vector<te::Tensor> compute_batch_norm(const CallSite& call, std::span<const te::Tensor> in, te::Graph& graph) {
  DType dtype = call.out().dtype, wide = accumulation_dtype(dtype);
  return {graph.compute("batch_norm", call.out().shape, [&](const std::vector<Expr>& i) {
    auto channel = [&](size_t operand) { return tir::cast(wide, in[operand]({i[1]})); };
    Expr factor = ratio(channel(1), root(channel(4) + tir::imm(wide, call.number("epsilon"))));
    return tir::cast(dtype, (tir::cast(wide, in[0](i)) - channel(3)) * factor + channel(2));
  })};
}

// layer-norm-C1  every axis is in [-rank, rank)
// layer-norm-C2  no axis is named twice
ReducedAxes layer_axes(const CallSite& call) {
  return {call.in(0).shape, resolve_axes(call, call.integers("axes"), call.in(0).rank(), "layer-norm-C1", "layer-norm-C2"), true};
}

std::vector<TensorType> infer_layer_norm(const CallSite& call) {
  layer_axes(call);
  return {call.in(0)};
}

/// Two passes: the mean first, then the squares of what is left, which cancels less than a difference of two sums.
std::vector<te::Tensor> compute_layer_norm(const CallSite& call, std::span<const te::Tensor> in, te::Graph& graph) {
  ReducedAxes axes = layer_axes(call);
  DType dtype = call.out().dtype, wide = accumulation_dtype(dtype);
  Expr count = extent_as(wide, axes.count());
  te::Tensor total = sum_over(graph, "total", axes, wide, [&](const std::vector<Expr>& p) { return in[0](p); });
  te::Tensor mean = graph.compute("mean", total.shape(), [&](const std::vector<Expr>& i) { return ratio(total(i), count); });
  te::Tensor centered = graph.compute("centered", in[0].shape(), [&](const std::vector<Expr>& i) {
    return tir::cast(wide, in[0](i)) - mean(axes.result_point(i));
  });
  te::Tensor squares =
      sum_over(graph, "squares", axes, wide, [&](const std::vector<Expr>& p) { return centered(p) * centered(p); });
  te::Tensor factor = graph.compute("factor", squares.shape(), [&](const std::vector<Expr>& i) {
    return ratio(tir::imm(wide, 1), root(ratio(squares(i), count) + tir::imm(wide, call.number("epsilon"))));
  });
  return {graph.compute("layer_norm", in[0].shape(), [&](const std::vector<Expr>& i) {
    return tir::cast(dtype, centered(i) * factor(axes.result_point(i)));
  })};
}

// lrn-C1  x has a channel axis
// lrn-C2  the window has 1 channel or more
std::vector<TensorType> infer_lrn(const CallSite& call) {
  if (call.in(0).rank() < 2) call.error(0, "lrn-C1", "[N, C, …]");
  if (call.integer("size") < 1) call.error(-1, "lrn-C2", fmt::format("a `size` of 1 or more, not {}", call.integer("size")));
  return {call.in(0)};
}

/// x / (bias + alpha/size * sum of squares of the channels around)^beta.
std::vector<te::Tensor> compute_lrn(const CallSite& call, std::span<const te::Tensor> in, te::Graph& graph) {
  const te::Tensor& x = in[0];
  DType dtype = x.dtype(), wide = accumulation_dtype(dtype);
  int64_t size = call.integer("size"), before = (size - 1) / 2;
  std::vector<Expr> padded_shape = x.shape();
  padded_shape[1] = padded_shape[1] + Expr(size - 1);
  te::Tensor squares = graph.compute("squares", padded_shape, [&](const std::vector<Expr>& i) {
    std::vector<Expr> at = i;
    at[1] = i[1] - Expr(before);
    Expr value = tir::cast(wide, x(at));
    Expr inside = tir::logical_and(tir::le(Expr(before), i[1]), tir::lt(at[1], x.dim(1)));
    return tir::select(inside, value * value, tir::imm(wide, 0));
  });
  te::Tensor total =
      graph.sum("total", wide, x.shape(), {Expr(size)}, [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
        std::vector<Expr> at = i;
        at[1] = i[1] + r[0];
        return squares(at);
      });
  return {graph.compute("lrn", x.shape(), [&](const std::vector<Expr>& i) {
    Expr base = tir::imm(wide, call.number("bias")) + tir::imm(wide, call.number("alpha") / static_cast<double>(size)) * total(i);
    return tir::cast(dtype, ratio(tir::cast(wide, x(i)), tir::call(Intrinsic::Pow, {base, tir::imm(wide, call.number("beta"))})));
  })};
}

// ONNX rules.

std::vector<ValueId> build_batch_norm(OnnxNode& node, Builder& builder) {
  node.ignore("momentum");
  if (node.opset() < 9 && node.attr("spatial", int64_t{1}) != 1) node.unsupported("`spatial` 0: statistics per element");
  if (node.opset() >= 14 && node.attr("training_mode", int64_t{0}) != 0) node.unsupported("batch normalization in training mode");
  for (size_t output = 1; output < node.output_count(); ++output)
    if (node.wants(output)) node.unsupported("the running statistics of batch normalization, which belong to training");
  DType dtype = node.type(0).dtype;
  std::vector<ValueId> inputs = all_inputs(node);
  for (ValueId& input : inputs) input = cast_to(builder, input, dtype);
  return {builder.call1(batch_norm, std::move(inputs), {{"epsilon", node.attr("epsilon", 1e-5)}})};
}

std::vector<int64_t> axes_from(int64_t first, int64_t rank) {
  std::vector<int64_t> axes;
  for (int64_t axis = first; axis < rank; ++axis) axes.push_back(axis);
  return axes;
}

/// `parameters`, one per channel, times or plus x of [N, C, …].
ValueId per_channel(Builder& builder, const OpDef& op, ValueId x, ValueId parameters) {
  Shape shape{-2};
  shape.resize(static_cast<size_t>(builder.type(x).rank()) - 1, 1);
  return builder.call1(op, {x, builder.call1(reshape, {parameters}, {{"shape", shape}})});
}

std::vector<ValueId> build_instance_norm(OnnxNode& node, Builder& builder) {
  ValueId y = builder.call1(layer_norm, {node.in(0)},
                            {{"axes", axes_from(2, node.type(0).rank())}, {"epsilon", node.attr("epsilon", 1e-5)}});
  y = per_channel(builder, multiply, y, node.in(1));
  return {per_channel(builder, add, y, node.in(2))};
}

ValueId mean_over(Builder& builder, ValueId x, const std::vector<int64_t>& axes) {
  return builder.call1(mean, {x}, {{"axes", axes}, {"keepdims", true}});
}

std::vector<ValueId> build_layer_norm(OnnxNode& node, Builder& builder) {
  int64_t rank = node.type(0).rank();
  std::vector<int64_t> axes = axes_from(normalized_axis(node, node.attr("axis", int64_t{-1}), rank), rank);
  double epsilon = node.attr("epsilon", 1e-5);
  node.ignore("stash_type");  // 16-bit floats are always normalized at f32
  ValueId x = node.in(0);
  ValueId y = builder.call1(multiply, {builder.call1(layer_norm, {x}, {{"axes", axes}, {"epsilon", epsilon}}), node.in(1)});
  if (node.has(2)) y = builder.call1(add, {y, node.in(2)});
  if (!node.wants(1) && !node.wants(2)) return {y};
  DType wide = node.type(0).dtype == DType::F64 ? DType::F64 : DType::F32;
  x = cast_to(builder, x, wide);
  ValueId center = mean_over(builder, x, axes);
  ValueId rest = builder.call1(subtract, {x, center});
  ValueId variance = mean_over(builder, builder.call1(multiply, {rest, rest}), axes);
  ValueId deviation = builder.call1(sqrt, {builder.call1(add, {variance, scalar(builder, wide, epsilon)})});
  return {y, center, builder.call1(reciprocal, {deviation})};
}

/// Channels fall into groups that are normalized each. Scale and bias were per group before opset 21, then per channel.
std::vector<ValueId> build_group_norm(OnnxNode& node, Builder& builder) {
  node.ignore("stash_type");
  int64_t groups = node.attr("num_groups", int64_t{0});
  const TensorType& type = node.type(0);
  if (type.rank() < 2) node.malformed(fmt::format("the data is {}", to_string(type)), "[N, C, …]");
  Shape shape{-2}, split{-2, groups};
  for (int64_t axis = 1; axis < type.rank(); ++axis) {
    if (!tir::as_int(type.dim(axis))) node.unsupported("group normalization over symbolic extents");
    shape.push_back(tir::int_value(type.dim(axis)));
  }
  if (groups < 1 || shape[1] % groups != 0)
    node.malformed(fmt::format("{} channels", shape[1]), fmt::format("a multiple of `num_groups`, {}", groups));
  split.push_back(shape[1] / groups);
  split.insert(split.end(), shape.begin() + 2, shape.end());
  ValueId y = builder.call1(reshape, {node.in(0)}, {{"shape", split}});
  y = builder.call1(layer_norm, {y},
                    {{"axes", axes_from(2, static_cast<int64_t>(split.size()))}, {"epsilon", node.attr("epsilon", 1e-5)}});
  bool by_channel = node.opset() >= 21;
  if (by_channel) y = builder.call1(reshape, {y}, {{"shape", shape}});
  y = per_channel(builder, multiply, y, node.in(1));
  y = per_channel(builder, add, y, node.in(2));
  return {by_channel ? y : builder.call1(reshape, {y}, {{"shape", shape}})};
}

std::vector<ValueId> build_rms_norm(OnnxNode& node, Builder& builder) {
  int64_t rank = node.type(0).rank();
  std::vector<int64_t> axes = axes_from(normalized_axis(node, node.attr("axis", int64_t{-1}), rank), rank);
  node.ignore("stash_type");
  DType dtype = node.type(0).dtype, wide = accumulation_dtype(dtype);
  ValueId x = cast_to(builder, node.in(0), wide);
  ValueId square = mean_over(builder, builder.call1(multiply, {x, x}), axes);
  ValueId norm = builder.call1(sqrt, {builder.call1(add, {square, scalar(builder, wide, node.attr("epsilon", 1e-5))})});
  return {builder.call1(multiply, {cast_to(builder, builder.call1(divide, {x, norm}), dtype), node.in(1)})};
}

std::vector<ValueId> build_lrn(OnnxNode& node, Builder& builder) {
  return {builder.call1(lrn, {node.in(0)},
                        {{"size", node.attr("size", int64_t{0})},
                         {"alpha", node.attr("alpha", 1e-4)},
                         {"beta", node.attr("beta", 0.75)},
                         {"bias", node.attr("bias", 1.0)}})};
}

std::vector<ValueId> build_lp_norm(OnnxNode& node, Builder& builder) {
  std::vector<int64_t> axes{node.attr("axis", int64_t{-1})};
  int64_t p = node.attr("p", int64_t{2});
  if (p != 1 && p != 2) node.malformed(fmt::format("`p` is {}", p), "1 or 2", std::to_string(p));
  ValueId x = node.in(0);
  ValueId terms = p == 1 ? builder.call1(abs, {x}) : builder.call1(multiply, {x, x});
  ValueId norm = builder.call1(sum, {terms}, {{"axes", axes}, {"keepdims", true}});
  return {builder.call1(divide, {x, p == 1 ? norm : builder.call1(sqrt, {norm})})};
}

/// (x - mean) / (standard deviation + 1e-9), as the specification's function body.
std::vector<ValueId> build_mean_variance_norm(OnnxNode& node, Builder& builder) {
  std::vector<int64_t> axes = node.ints("axes", {0, 2, 3});
  ValueId rest = builder.call1(subtract, {node.in(0), mean_over(builder, node.in(0), axes)});
  ValueId deviation = builder.call1(sqrt, {mean_over(builder, builder.call1(multiply, {rest, rest}), axes)});
  return {builder.call1(divide, {rest, builder.call1(add, {deviation, scalar(builder, node.type(0).dtype, 1e-9)})})};
}

constexpr std::string_view kFloatNote = "a float: normalization divides by real numbers";
const graph::AttrSpec kEpsilon{"epsilon", AttrKind::Float, 1e-5, "added to the variance"};

}  // namespace

const OpDef batch_norm{.name = "batch_norm",
                       .doc = "(x - mean) * scale / sqrt(variance + epsilon) + bias per channel, with given statistics",
                       .inputs = {{"x", "[N, C, …]"}, {"scale", "[C]"}, {"bias", "[C]"}, {"mean", "[C]"}, {"variance", "[C]"}},
                       .attrs = {kEpsilon},
                       .fusion = Fusion::Broadcast,
                       .dtypes = graph::kFloats,
                       .dtype_note = kFloatNote,
                       .infer = infer_batch_norm,
                       .compute = compute_batch_norm};
const OpDef layer_norm{
    .name = "layer_norm",
    .doc = "(x - mean) / sqrt(variance + epsilon), with the statistics over axes; 16-bit floats by way of f32",
    .inputs = {{"x", "any shape"}},
    .attrs = {{"axes", AttrKind::Ints, std::nullopt, "the axes over which mean and variance are taken"}, kEpsilon},
    .fusion = Fusion::OutputFusable,
    .dtypes = graph::kFloats,
    .dtype_note = kFloatNote,
    .infer = infer_layer_norm,
    .compute = compute_layer_norm};
const OpDef lrn{.name = "lrn",
                .doc = "x / (bias + alpha/size * sum of squares of `size` channels around)^beta",
                .inputs = {{"x", "[N, C, …]"}},
                .attrs = {{"size", AttrKind::Int, std::nullopt, "the channels summed, more of them after when even"},
                          {"alpha", AttrKind::Float, 1e-4, "the weight of the sum"},
                          {"beta", AttrKind::Float, 0.75, "the exponent"},
                          {"bias", AttrKind::Float, 1.0, "added to the weighted sum"}},
                .fusion = Fusion::OutputFusable,
                .dtypes = graph::kFloats,
                .dtype_note = kFloatNote,
                .infer = infer_lrn,
                .compute = compute_lrn};

Family norm_family() {
  return {.ops = {&batch_norm, &layer_norm, &lrn},
          .onnx = {{"BatchNormalization", 7, build_batch_norm},
                   {"InstanceNormalization", 6, build_instance_norm},
                   {"LayerNormalization", 17, build_layer_norm},
                   {"GroupNormalization", 18, build_group_norm},
                   {"RMSNormalization", 23, build_rms_norm},
                   {"LRN", 1, build_lrn},
                   {"LpNormalization", 1, build_lp_norm},
                   {"MeanVarianceNormalization", 9, build_mean_variance_norm}}};
}

}  // namespace tenon::op
