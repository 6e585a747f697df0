// SPDX-License-Identifier: Apache-2.0
// Fourier transforms as products with a constant matrix: DFT, STFT.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "op/all_ops.h"
#include "op/onnx_axes.h"
#include "op/onnx_build.h"
#include "op/ops.h"

namespace tenon::op {
namespace {

using Values = std::vector<ValueId>;

/// A transform of `points` points of one (real) or two (complex) parts into `bins` complex ones.
struct Transform {
  int64_t points = 0, parts = 1, length = 0, bins = 0;
  bool inverse = false;
};

/// The matrix [points * parts, bins * 2]. Points from `length` on do not count; missing ones are zeros.
Array transform_matrix(const Transform& t, DType dtype) {
  std::vector<double> values;
  auto length = static_cast<double>(t.length);
  double scale = t.inverse ? 1 / length : 1, sign = t.inverse ? 1 : -1;
  for (int64_t j = 0; j < t.points; ++j)
    for (int64_t part = 0; part < t.parts; ++part)
      for (int64_t k = 0; k < t.bins; ++k) {
        double turn = 2 * std::numbers::pi * static_cast<double>(j * k % t.length) / length;
        double in_range = j < t.length ? scale : 0;
        double cosine = in_range * std::cos(turn), sine = in_range * sign * std::sin(turn);
        values.insert(values.end(), {part == 0 ? cosine : -sine, part == 0 ? sine : cosine});
      }
  Shape shape{t.points * t.parts, t.bins * 2};
  if (dtype == DType::F64) return array_of(dtype, shape, values);
  return array_of(DType::F32, shape, std::vector<float>(values.begin(), values.end()));
}

/// Transforms the last axis but one of x, whose last axis holds the parts.
ValueId transformed(OnnxNode& node, Builder& builder, ValueId x, int64_t length, bool onesided, bool inverse) {
  constexpr int64_t kMaxMatrix = int64_t{1} << 26;
  Shape shape = builder.type(x).static_shape();
  DType dtype = builder.type(x).dtype;
  Transform t{shape[shape.size() - 2], shape.back(), length, onesided ? length / 2 + 1 : length, inverse};
  if (t.parts != 1 && t.parts != 2)
    node.malformed("the last axis holds neither real nor complex numbers", "1 or 2", to_string(shape));
  if (length <= 0) node.malformed("a transform of no points");
  if (dtype != DType::F32 && dtype != DType::F64) node.unsupported("a transform of " + std::string(name(dtype)));
  if (t.points > kMaxMatrix / 4 / length) node.unsupported(fmt::format("a transform of {} points", length));
  ValueId rows = builder.call1(
      reshape, {x}, {{"shape", Shape{element_count(shape) / std::max<int64_t>(1, t.points * t.parts), t.points * t.parts}}});
  ValueId product = builder.call1(matmul, {rows, builder.constant(transform_matrix(t, dtype), "transform")});
  shape[shape.size() - 2] = t.bins;
  shape.back() = 2;
  return builder.call1(reshape, {product}, {{"shape", shape}});
}

int64_t known_count(OnnxNode& node, size_t input, int64_t fallback) {
  if (!node.has(input)) return fallback;
  std::vector<int64_t> values = node.constant_ints(input);
  if (values.size() != 1) node.malformed(fmt::format("input {} is not one number", input));
  return values[0];
}

/// The axis moves before the parts, is transformed, and moves back.
Values import_dft(OnnxNode& node, Builder& builder) {
  const TensorType& x = node.type(0);
  if (!x.is_static() || x.rank() < 2) node.unsupported("an input of " + to_string(x) + ", not of two known extents at least");
  int64_t axis = node.opset() < 20 ? node.attr("axis", 1) : known_count(node, 2, -2);
  axis = normalized_axis(node, axis, x.rank());
  if (axis == x.rank() - 1) node.malformed("the axis of the parts is transformed");
  bool inverse = node.attr("inverse", 0) != 0, onesided = node.attr("onesided", 0) != 0;
  Shape order;
  for (int64_t k = 0; k < x.rank(); ++k) order.push_back(k);
  std::swap(order[static_cast<size_t>(axis)], order[order.size() - 2]);
  ValueId moved = builder.call1(transpose, {node.in(0)}, {{"axes", order}});
  int64_t length = known_count(node, 1, tir::int_value(x.dim(axis)));
  return {builder.call1(transpose, {transformed(node, builder, moved, length, onesided, inverse)}, {{"axes", order}})};
}

/// Frames of the signal, `step` apart, each times the window and then transformed.
Values import_stft(OnnxNode& node, Builder& builder) {
  const TensorType& signal = node.type(0);
  if (!signal.is_static() || signal.rank() < 2) node.unsupported("a signal of " + to_string(signal));
  Shape shape = signal.static_shape();
  if (shape.size() == 2) shape.push_back(1);
  int64_t step = known_count(node, 1, 0);
  const Dim* window_extent = node.has(2) && node.type(2).rank() == 1 ? &node.type(2).dim(0) : nullptr;
  const int64_t* window_length = window_extent ? tir::as_int(*window_extent) : nullptr;
  int64_t width = known_count(node, 3, window_length ? *window_length : shape[1]);
  if (step <= 0 || width <= 0 || width > shape[1])
    node.malformed("frames that do not fit the signal", std::to_string(shape[1]), std::to_string(width));
  int64_t frames = (shape[1] - width) / step + 1;
  std::vector<int64_t> points;
  for (int64_t frame = 0; frame < frames; ++frame)
    for (int64_t k = 0; k < width; ++k) points.push_back(frame * step + k);
  ValueId indices = builder.constant(array_of(DType::I64, {frames, width}, points), "frames");
  ValueId whole = builder.call1(reshape, {node.in(0)}, {{"shape", shape}});
  ValueId framed = builder.call1(gather, {whole, indices}, {{"axis", int64_t{1}}});
  if (node.has(2)) {
    ValueId window = builder.call1(reshape, {node.in(2)}, {{"shape", Shape{width, 1}}});
    framed = builder.call1(multiply, {framed, window});
  }
  return {transformed(node, builder, framed, width, node.attr("onesided", 1) != 0, false)};
}

}  // namespace

Family signal_family() { return {{}, {{"DFT", 17, import_dft}, {"STFT", 17, import_stft}}}; }

}  // namespace tenon::op
