// SPDX-License-Identifier: Apache-2.0
// Quantisation by ONNX's rules, taken apart into casts, arithmetic and products of i32.
#include <fmt/format.h>

#include "op/all_ops.h"
#include "op/conv_bias.h"
#include "op/onnx_axes.h"
#include "op/onnx_build.h"
#include "op/ops.h"
#include "op/window.h"

namespace tenon::op {
namespace {

/// A scale or zero point as it broadcasts to a tensor of rank `rank`: one for all, or one for each index of `axis`.
ValueId along_axis(OnnxNode& node, Builder& builder, ValueId parameter, int64_t axis, const TensorType& x) {
  const TensorType& type = builder.type(parameter);
  bool single = type.is_static() && type.elements() == 1;
  if (type.rank() > 1) node.unsupported("a scale for each block of a tensor");
  if (single) return builder.call1(reshape, {parameter}, {{"shape", Shape{}}});
  if (!tir::structural_equal(type.dim(0), x.dim(axis)))
    node.malformed("a scale or zero point does not fit its axis", to_string(x.dim(axis)), to_string(type.dim(0)));
  Shape shape(static_cast<size_t>(x.rank()), 1);
  shape[static_cast<size_t>(axis)] = -1;
  return builder.call1(reshape, {parameter}, {{"shape", std::move(shape)}});
}

int64_t quantization_axis(OnnxNode& node, const TensorType& x, const TensorType& scale) {
  int64_t axis = node.opset() >= 13 ? node.attr("axis", 1) : 1;
  if (scale.rank() == 0 || (scale.is_static() && scale.elements() == 1)) return 0;
  return normalized_axis(node, axis, x.rank());
}

/// round(x / scale) + zero point, half to even, saturated to the dtype; in the dtype of x. Adding and saturating happen in
/// f32, where every value of an 8-bit or 16-bit dtype is exact.
ValueId quantized(OnnxNode& node, Builder& builder, ValueId x, ValueId scale, ValueId zero_point, DType to) {
  if (byte_size(to) > 2 || is_float(to)) node.unsupported("quantising to " + std::string(name(to)));
  DType real = builder.type(x).dtype;
  ValueId rounded = builder.call1(round, {builder.call1(divide, {x, cast_to(builder, scale, real)})});
  ValueId moved = builder.call1(add, {rounded, cast_to(builder, zero_point, real)});
  return cast_to(builder, moved, to);
}

std::vector<ValueId> import_quantize(OnnxNode& node, Builder& builder) {
  const TensorType& x = node.type(0);
  node.ignore("saturate");  // concerns 8-bit floats only
  if (node.opset() >= 21 && node.attr("block_size", 0) != 0) node.unsupported("a scale for each block of a tensor");
  DType to = node.has(2) ? node.type(2).dtype : DType::U8;
  if (!node.has(2) && node.opset() >= 21)
    if (int64_t wanted = node.attr("output_dtype", 0)) to = dtype_from_onnx(wanted).value_or(DType::F32);
  int64_t axis = quantization_axis(node, x, node.type(1));
  ValueId real = is_float(x.dtype) ? node.in(0) : cast_to(builder, node.in(0), DType::F32);
  ValueId zero_point = node.has(2) ? along_axis(node, builder, node.in(2), axis, x) : scalar(builder, to, 0);
  return {quantized(node, builder, real, along_axis(node, builder, node.in(1), axis, x), zero_point, to)};
}

/// x - zero point in i32, which holds the difference of any two 8-bit or 16-bit values; what is 32-bit wraps.
ValueId centered(Builder& builder, ValueId x, std::optional<ValueId> zero_point) {
  ValueId wide = cast_to(builder, x, DType::I32);
  return zero_point ? builder.call1(subtract, {wide, cast_to(builder, *zero_point, DType::I32)}) : wide;
}

std::vector<ValueId> import_dequantize(OnnxNode& node, Builder& builder) {
  const TensorType& x = node.type(0);
  if (node.opset() >= 21 && node.attr("block_size", 0) != 0) node.unsupported("a scale for each block of a tensor");
  int64_t axis = quantization_axis(node, x, node.type(1));
  std::optional<ValueId> zero_point;
  if (node.has(2)) zero_point = along_axis(node, builder, node.in(2), axis, x);
  ValueId scale = along_axis(node, builder, node.in(1), axis, x);
  ValueId real = cast_to(builder, centered(builder, node.in(0), zero_point), builder.type(scale).dtype);
  return {builder.call1(multiply, {real, scale})};
}

/// A scale and zero point that map the range of x, widened to hold 0, onto u8.
std::vector<ValueId> import_dynamic_quantize(OnnxNode& node, Builder& builder) {
  ValueId x = node.in(0);
  ValueId zero = scalar(builder, DType::F32, 0), steps = scalar(builder, DType::F32, 255);
  Shape axes;
  for (int64_t axis = 0; axis < node.type(0).rank(); ++axis) axes.push_back(axis);
  graph::Attrs all{{"axes", axes}, {"keepdims", false}};
  ValueId low = builder.call1(minimum, {builder.call1(min, {x}, all), zero});
  ValueId high = builder.call1(maximum, {builder.call1(max, {x}, all), zero});
  ValueId scale = builder.call1(divide, {builder.call1(subtract, {high, low}), steps});
  ValueId start = builder.call1(divide, {builder.call1(subtract, {zero, low}), scale});
  ValueId zero_point = cast_to(builder, builder.call1(round, {builder.call1(clip, {start, zero, steps})}), DType::U8);
  return {quantized(node, builder, x, scale, zero_point, DType::U8), scale, zero_point};
}

/// A zero point of a matrix: one for all, or one for each row (axis -2) or column (axis -1).
std::optional<ValueId> matrix_zero_point(OnnxNode& node, Builder& builder, size_t input, size_t matrix, int64_t from_end) {
  if (!node.has(input)) return std::nullopt;
  const TensorType& type = node.type(input);
  if (type.rank() != 1) return node.in(input);
  if (node.type(matrix).rank() < 2) return builder.call1(reshape, {node.in(input)}, {{"shape", Shape{}}});
  if (from_end == 1) return node.in(input);
  return builder.call1(reshape, {node.in(input)}, {{"shape", Shape{-1, 1}}});
}

ValueId integer_matmul(Builder& builder, ValueId a, std::optional<ValueId> a_zero, ValueId b, std::optional<ValueId> b_zero) {
  return builder.call1(matmul, {centered(builder, a, a_zero), centered(builder, b, b_zero)});
}

std::vector<ValueId> import_matmul_integer(OnnxNode& node, Builder& builder) {
  return {integer_matmul(builder, node.in(0), matrix_zero_point(node, builder, 2, 0, 2), node.in(1),
                         matrix_zero_point(node, builder, 3, 1, 1))};
}

/// An i32 result times `scale`, quantised to the output's scale (input `scale_input`) and zero point (the input after it).
ValueId requantized(OnnxNode& node, Builder& builder, ValueId sums, ValueId scale, size_t scale_input) {
  ValueId real = builder.call1(multiply, {cast_to(builder, sums, DType::F32), scale});
  ValueId zero_point = node.in(scale_input + 1);
  auto single = [&](ValueId v) { return builder.type(v).rank() == 0 ? v : builder.call1(reshape, {v}, {{"shape", Shape{}}}); };
  DType to = builder.type(zero_point).dtype;
  return quantized(node, builder, real, single(node.in(scale_input)), single(zero_point), to);
}

/// Inputs a, its scale and zero point, b, its scale and zero point, and the result's scale and zero point.
std::vector<ValueId> import_qlinear_matmul(OnnxNode& node, Builder& builder) {
  ValueId sums = integer_matmul(builder, node.in(0), matrix_zero_point(node, builder, 2, 0, 2), node.in(3),
                                matrix_zero_point(node, builder, 5, 3, 1));
  std::optional<ValueId> a_scale = matrix_zero_point(node, builder, 1, 0, 2), b_scale = matrix_zero_point(node, builder, 4, 3, 1);
  ValueId scale = cast_to(builder, builder.call1(multiply, {*a_scale, *b_scale}), DType::F32);
  return {requantized(node, builder, sums, scale, 6)};
}

/// A scale or zero point of the weights [O, C, kernel…]: one for all, or one for each output channel.
ValueId of_channels(Builder& builder, ValueId parameter, int64_t rank) {
  Shape shape(static_cast<size_t>(rank), 1);
  if (builder.type(parameter).rank() == 1) shape[0] = -1;
  return builder.call1(reshape, {parameter}, {{"shape", std::move(shape)}});
}

/// The convolution of centred integers, in i32: a border of zeros is one of zero points before centring.
ValueId integer_conv(OnnxNode& node, Builder& builder, ValueId x, ValueId w, size_t weights_input) {
  graph::Attrs attrs = window_attrs(read_window(node, read_kernel(node, weights_input)));
  attrs["groups"] = node.attr("group", 1);
  return builder.call1(conv, {x, w}, std::move(attrs));
}

std::vector<ValueId> import_conv_integer(OnnxNode& node, Builder& builder) {
  std::optional<ValueId> x_zero, w_zero;
  if (node.has(2)) x_zero = builder.call1(reshape, {node.in(2)}, {{"shape", Shape{}}});
  if (node.has(3)) w_zero = of_channels(builder, node.in(3), node.type(1).rank());
  return {integer_conv(node, builder, centered(builder, node.in(0), x_zero), centered(builder, node.in(1), w_zero), 1)};
}

/// Inputs x, its scale and zero point, w, its scale and zero point, the result's scale and zero point, and an i32 bias.
std::vector<ValueId> import_qlinear_conv(OnnxNode& node, Builder& builder) {
  int64_t rank = node.type(3).rank();
  ValueId x = centered(builder, node.in(0), builder.call1(reshape, {node.in(2)}, {{"shape", Shape{}}}));
  ValueId sums = integer_conv(node, builder, x, centered(builder, node.in(3), of_channels(builder, node.in(5), rank)), 3);
  if (node.has(8)) sums = builder.call1(add, {sums, of_channels(builder, node.in(8), rank - 1)});
  ValueId x_scale = builder.call1(reshape, {node.in(1)}, {{"shape", Shape{}}});
  ValueId scale = builder.call1(multiply, {x_scale, of_channels(builder, node.in(4), rank - 1)});
  return {requantized(node, builder, sums, scale, 6)};
}

}  // namespace

Family quantize_family() {
  return {{},
          {{"QuantizeLinear", 10, import_quantize},
           {"DequantizeLinear", 10, import_dequantize},
           {"DynamicQuantizeLinear", 11, import_dynamic_quantize},
           {"MatMulInteger", 10, import_matmul_integer},
           {"QLinearMatMul", 10, import_qlinear_matmul},
           {"ConvInteger", 10, import_conv_integer},
           {"QLinearConv", 10, import_qlinear_conv}}};
}

}  // namespace tenon::op
