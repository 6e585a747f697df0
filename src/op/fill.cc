// SPDX-License-Identifier: Apache-2.0
// ONNX nodes whose result is known when compiling: ConstantOfShape, Range, EyeLike, the window functions, MelWeightMatrix.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "op/all_ops.h"
#include "op/fold.h"
#include "op/onnx_build.h"
#include "op/ops.h"

namespace tenon::op {
namespace {

using Values = std::vector<ValueId>;

constexpr int64_t kMaxElements = int64_t{1} << 28;

int64_t single_int(OnnxNode& node, size_t input) {
  std::vector<int64_t> values = node.constant_ints(input);
  if (values.size() != 1) node.malformed(fmt::format("input {} is not one number", input), "1", std::to_string(values.size()));
  return values[0];
}

double single_float(OnnxNode& node, size_t input) {
  std::vector<double> values = node.constant_floats(input);
  if (values.size() != 1) node.malformed(fmt::format("input {} is not one number", input), "1", std::to_string(values.size()));
  return values[0];
}

/// A vector or matrix of computed numbers as a constant of a dtype.
ValueId numbers(Builder& builder, DType dtype, Shape shape, const std::vector<double>& values) {
  MutableArray array(dtype, std::move(shape));
  auto count = static_cast<int64_t>(values.size());
  if (is_float(dtype)) {
    narrow(values.data(), count, array, 0);
  } else {
    std::vector<int64_t> integers(values.begin(), values.end());
    narrow(integers.data(), count, array, 0);
  }
  return builder.constant(std::move(array).freeze());
}

/// One element everywhere: a broadcast, so that a large shape costs nothing.
Values import_constant_of_shape(OnnxNode& node, Builder& builder) {
  std::vector<int64_t> shape = node.constant_ints(0);
  for (int64_t extent : shape)
    if (extent < 0) node.malformed("an extent below 0", {}, to_string(shape));
  std::optional<Array> value = node.tensor("value");
  if (value && value->elements() != 1) node.malformed("`value` is not one element", {}, to_string(value->shape));
  ValueId element = scalar(builder, DType::F32, 0);
  if (value) {
    value->shape = {};
    element = builder.constant(std::move(*value), "value");
  }
  return {builder.call1(broadcast_to, {element}, {{"shape", std::move(shape)}})};
}

template <class Number>
Array range(OnnxNode& node, DType dtype, Number start, Number limit, Number delta) {
  if (delta == 0) node.malformed("a range by steps of 0");
  double steps = (static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(delta);
  if (!(steps <= static_cast<double>(kMaxElements))) node.unsupported("a range of so many elements");
  std::vector<Number> values;
  for (int64_t k = 0; k < static_cast<int64_t>(std::ceil(steps)); ++k) values.push_back(start + static_cast<Number>(k) * delta);
  MutableArray array(dtype, {static_cast<int64_t>(values.size())});
  narrow(values.data(), static_cast<int64_t>(values.size()), array, 0);
  return std::move(array).freeze();
}

Values import_range(OnnxNode& node, Builder& builder) {
  DType dtype = node.type(0).dtype;
  if (is_float(dtype)) {
    Array values = range(node, dtype, single_float(node, 0), single_float(node, 1), single_float(node, 2));
    return {builder.constant(std::move(values), "range")};
  }
  Array values = range(node, dtype, single_int(node, 0), single_int(node, 1), single_int(node, 2));
  return {builder.constant(std::move(values), "range")};
}

Values import_eye_like(OnnxNode& node, Builder& builder) {
  const TensorType& x = node.type(0);
  if (x.rank() != 2 || !x.is_static()) node.unsupported("an input of " + to_string(x) + ", not a matrix of known extents");
  std::optional<DType> dtype = x.dtype;
  if (node.has_attr("dtype")) dtype = dtype_from_onnx(node.attr("dtype", 0));
  if (!dtype) node.unsupported("the data type of the result");
  Shape shape = x.static_shape();
  int64_t k = std::clamp(node.attr("k", 0), -shape[0], shape[1]);
  MutableArray eye(DType::U8, shape);
  for (int64_t row = 0; row < shape[0]; ++row)
    if (row + k >= 0 && row + k < shape[1]) eye.as<uint8_t>()[row * shape[1] + row + k] = 1;
  return {cast_to(builder, builder.constant(std::move(eye).freeze(), "eye"), *dtype)};
}

/// sum over j of terms[j] * cos(2 pi j n / period) for each n: a window of raised cosines.
template <int kTerms>
Values cosine_window(OnnxNode& node, Builder& builder, const double (&terms)[kTerms]) {
  int64_t size = single_int(node, 0);
  if (size < 0 || size > kMaxElements) node.malformed("the size of the window is out of range");
  auto dtype = dtype_from_onnx(node.attr("output_datatype", 1));
  if (!dtype) node.unsupported("the data type of the result");
  bool periodic = node.attr("periodic", 1) != 0;
  auto period = static_cast<double>(periodic ? size : size - 1);
  std::vector<double> values;
  for (int64_t n = 0; n < size; ++n) {
    double value = 0;
    for (int j = 0; j < kTerms; ++j) value += terms[j] * std::cos(2 * std::numbers::pi * j * static_cast<double>(n) / period);
    values.push_back(value);
  }
  return {numbers(builder, *dtype, {size}, values)};
}

Values import_hann(OnnxNode& node, Builder& builder) { return cosine_window(node, builder, {0.5, -0.5}); }
Values import_hamming(OnnxNode& node, Builder& builder) { return cosine_window(node, builder, {25.0 / 46, -21.0 / 46}); }
Values import_blackman(OnnxNode& node, Builder& builder) { return cosine_window(node, builder, {0.42, -0.5, 0.08}); }

/// The spectrogram bin at each of `count + 2` places that are even on the mel scale between two frequencies.
std::vector<int64_t> mel_bins(int64_t count, int64_t length, int64_t rate, double low, double high) {
  auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  double step = (mel(high) - mel(low)) / static_cast<double>(count + 2);
  std::vector<int64_t> bins;
  for (int64_t k = 0; k < count + 2; ++k) {
    double hertz = 700 * (std::pow(10, (static_cast<double>(k) * step + mel(low)) / 2595) - 1);
    bins.push_back(static_cast<int64_t>(std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate))));
  }
  return bins;
}

/// Triangles over the spectrogram's bins, one column for each mel bin.
Values import_mel_weights(OnnxNode& node, Builder& builder) {
  int64_t count = single_int(node, 0), length = single_int(node, 1), rate = single_int(node, 2);
  auto dtype = dtype_from_onnx(node.attr("output_datatype", 1));
  if (!dtype) node.unsupported("the data type of the result");
  int64_t rows = length / 2 + 1;
  if (count <= 0 || length <= 0 || rate <= 0 || count > kMaxElements / rows) node.malformed("a count is out of range");
  std::vector<int64_t> bins = mel_bins(count, length, rate, single_float(node, 3), single_float(node, 4));
  if (bins.front() < 0 || bins.back() > rows) node.malformed("a frequency is outside the spectrogram");
  std::vector<double> weights(static_cast<size_t>(rows * count), 0);
  auto at = [&](int64_t row, int64_t column) -> double& { return weights[static_cast<size_t>(row * count + column)]; };
  for (int64_t k = 0; k < count; ++k) {
    int64_t low = bins[static_cast<size_t>(k)], peak = bins[static_cast<size_t>(k) + 1], high = bins[static_cast<size_t>(k) + 2];
    for (int64_t row = low; row <= peak && row < rows; ++row)
      at(row, k) = peak == low ? 1 : static_cast<double>(row - low) / static_cast<double>(peak - low);
    for (int64_t row = peak; row < high; ++row) at(row, k) = static_cast<double>(high - row) / static_cast<double>(high - peak);
  }
  return {numbers(builder, *dtype, {rows, count}, weights)};
}

}  // namespace

Family fill_family() {
  return {{},
          {{"ConstantOfShape", 9, import_constant_of_shape},
           {"Range", 11, import_range},
           {"EyeLike", 9, import_eye_like},
           {"HannWindow", 17, import_hann},
           {"HammingWindow", 17, import_hamming},
           {"BlackmanWindow", 17, import_blackman},
           {"MelWeightMatrix", 17, import_mel_weights}}};
}

}  // namespace tenon::op
