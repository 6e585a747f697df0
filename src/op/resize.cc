// SPDX-License-Identifier: Apache-2.0
// Resizing: weighted sums of points along an axis, and how ONNX chooses the points and weights.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

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

// C1  `axis` is an axis of x with elements
// C2  indices is i64 [points, taps]
// C3  weights has the shape of indices and the dtype that x is summed in: f32, or f64 for f64
std::vector<TensorType> infer_resample(const CallSite& call) {
  TensorType out = call.in(0);
  const TensorType &indices = call.in(1), &weights = call.in(2);
  int64_t axis = call.integer("axis");
  if (axis < 0 || axis >= out.rank() || tir::structural_equal(out.dim(axis), 0))
    call.error(0, "resample-C1", fmt::format("a tensor with elements on axis {}", axis));
  if (indices.dtype != DType::I64 || indices.rank() != 2 || !indices.is_static())
    call.error(1, "resample-C2", "i64 [points, taps]");
  TensorType expected(accumulation_dtype(out.dtype), indices.shape);
  if (weights != expected) call.error(2, "resample-C3", to_string(expected));
  out.shape[static_cast<size_t>(axis)] = indices.dim(0);
  return {out};
}

std::vector<Tensor> compute_resample(const CallSite& call, std::span<const Tensor> in, te::Graph& graph) {
  auto axis = static_cast<size_t>(call.integer("axis"));
  DType dtype = in[2].dtype();
  auto term = [&](const std::vector<Expr>& i, const Expr& tap) {
    std::vector<Expr> at = i;
    at[axis] = safe_index(in[1]({i[axis], tap}), in[0].shape()[axis]);
    return tir::cast(dtype, in[0](at)) * in[2]({i[axis], tap});
  };
  constexpr int64_t kUnrolledTaps = 8;
  int64_t taps = tir::int_value(in[1].dim(1));
  const std::vector<Dim>& shape = call.out().shape;
  if (taps > kUnrolledTaps || taps == 0) {
    auto body = [&](const std::vector<Expr>& i, const std::vector<Expr>& r) { return term(i, r[0]); };
    return {cast_tensor(graph, graph.sum("resample", dtype, shape, {Expr(taps)}, body), call.out().dtype)};
  }
  return {graph.compute("resample", shape, [&](const std::vector<Expr>& i) {
    Expr sum = term(i, 0);
    for (int64_t tap = 1; tap < taps; ++tap) sum = sum + term(i, tap);
    return tir::cast(call.out().dtype, sum);
  })};
}

/// How a Resize node reads its input, the same on every axis.
struct Sampling {
  enum class Kernel : uint8_t { Nearest, Linear, Cubic };
  Kernel kernel = Kernel::Nearest;
  std::string coordinate = "asymmetric", nearest = "floor";
  double cubic_a = -0.75;
  bool exclude_outside = false, antialias = false;
};

/// One axis to resize: point x of `out` stands for a place among the `in` points. `width` may have a fraction, since it
/// is what the scale asks for.
struct ResizedAxis {
  int64_t axis = 0, in = 0, out = 0;
  double scale = 1, width = 0, roi_start = 0, roi_end = 1;
};

double source_place(const Sampling& sampling, const ResizedAxis& a, double x) {
  const std::string& mode = sampling.coordinate;
  double last = static_cast<double>(a.in) - 1;
  if (mode == "asymmetric") return x / a.scale;
  if (mode == "align_corners") return a.width == 1 ? 0 : x * last / (a.width - 1);
  if (mode == "tf_half_pixel_for_nn") return (x + 0.5) / a.scale;
  if (mode == "pytorch_half_pixel" && a.width == 1) return -0.5;
  if (mode == "tf_crop_and_resize") {
    double span = (a.roi_end - a.roi_start) * last;
    return a.roi_start * last + (a.width == 1 ? span / 2 : x * span / (a.width - 1));
  }
  double place = (x + 0.5) / a.scale - 0.5;
  if (mode != "half_pixel_symmetric") return place;
  return place + static_cast<double>(a.in) / 2 * (1 - static_cast<double>(a.out) / a.width);
}

/// The cubic convolution kernel at distance `x` (Keys 1981).
double cubic_kernel(double x, double a) {
  x = std::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

int64_t nearest_point(const std::string& mode, double place) {
  if (mode == "floor") return static_cast<int64_t>(std::floor(place));
  if (mode == "ceil") return static_cast<int64_t>(std::ceil(place));
  if (mode == "round_prefer_ceil") return static_cast<int64_t>(std::floor(place + 0.5));
  return static_cast<int64_t>(std::ceil(place - 0.5));
}

/// The points each point of the result reads, and their weights: [out, taps] each. `outside` marks the points of
/// tf_crop_and_resize that lie beyond the input.
struct TapTable {
  int64_t taps = 1;
  std::vector<int64_t> indices;
  std::vector<double> weights;
  std::vector<uint8_t> outside;
};

/// Weights of the taps around `place`, whose first is `first`.
std::vector<double> tap_weights(const Sampling& sampling, const ResizedAxis& a, double place, int64_t first, int64_t taps) {
  double squeeze = sampling.antialias ? std::min(a.scale, 1.0) : 1.0;
  std::vector<double> weights;
  for (int64_t t = 0; t < taps; ++t) {
    double distance = (static_cast<double>(first + t) - place) * squeeze;
    bool linear = sampling.kernel == Sampling::Kernel::Linear;
    double weight = linear ? std::max(0.0, 1 - std::fabs(distance)) : cubic_kernel(distance, sampling.cubic_a);
    bool dropped = sampling.exclude_outside && (first + t < 0 || first + t >= a.in);
    weights.push_back(dropped ? 0 : weight);
  }
  if (sampling.antialias || sampling.exclude_outside) {
    double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (double& w : weights) w /= total;
  }
  return weights;
}

TapTable tap_table(const Sampling& sampling, const ResizedAxis& a) {
  TapTable table;
  int64_t radius = sampling.kernel == Sampling::Kernel::Cubic ? 2 : 1;
  if (sampling.antialias && a.scale < 1) radius = static_cast<int64_t>(std::ceil(static_cast<double>(radius) / a.scale));
  bool nearest = sampling.kernel == Sampling::Kernel::Nearest;
  table.taps = nearest ? 1 : 2 * radius;
  for (int64_t x = 0; x < a.out; ++x) {
    double place = source_place(sampling, a, static_cast<double>(x));
    bool crops = sampling.coordinate == "tf_crop_and_resize";
    table.outside.push_back(crops && (place < 0 || place > static_cast<double>(a.in - 1)));
    int64_t first = nearest ? nearest_point(sampling.nearest, place) : static_cast<int64_t>(std::ceil(place)) - radius;
    std::vector<double> weights = nearest ? std::vector<double>{1} : tap_weights(sampling, a, place, first, table.taps);
    for (int64_t t = 0; t < table.taps; ++t) table.indices.push_back(std::clamp<int64_t>(first + t, 0, a.in - 1));
    table.weights.insert(table.weights.end(), weights.begin(), weights.end());
  }
  return table;
}

/// How often each point in turn is read, when the table says just that; else 0.
int64_t repeat_count(const TapTable& table, const ResizedAxis& a) {
  if (table.taps != 1 || a.out % a.in != 0 || std::count(table.outside.begin(), table.outside.end(), 1) > 0) return 0;
  int64_t times = a.out / a.in;
  for (int64_t x = 0; x < a.out; ++x)
    if (table.indices[static_cast<size_t>(x)] != x / times) return 0;
  return times;
}

Array weights_as(DType dtype, const TapTable& table, int64_t points) {
  Shape shape{points, table.taps};
  if (dtype == DType::F64) return array_of(dtype, shape, table.weights);
  return array_of(dtype, shape, std::vector<float>(table.weights.begin(), table.weights.end()));
}

ValueId resample_axis(Builder& builder, ValueId x, const TapTable& table, const ResizedAxis& a) {
  if (table.taps == 1) {
    ValueId indices = builder.constant(array_of(DType::I64, {a.out}, table.indices), "points");
    return builder.call1(gather, {x, indices}, {{"axis", a.axis}});
  }
  ValueId indices = builder.constant(array_of(DType::I64, {a.out, table.taps}, table.indices), "points");
  ValueId weights = builder.constant(weights_as(accumulation_dtype(builder.type(x).dtype), table, a.out), "weights");
  return builder.call1(resample, {x, indices, weights}, {{"axis", a.axis}});
}

/// `value` at the points of the axis that are marked.
ValueId fill_outside(Builder& builder, ValueId x, const TapTable& table, const ResizedAxis& a, double value) {
  const TensorType& type = builder.type(x);
  Shape shape(type.shape.size(), 1);
  shape[static_cast<size_t>(a.axis)] = a.out;
  ValueId mask = builder.constant(array_of(DType::Bool, shape, table.outside), "outside");
  return builder.call1(where, {mask, scalar(builder, type.dtype, value), x});
}

ValueId resize_axis(Builder& builder, ValueId x, const Sampling& sampling, const ResizedAxis& a, double extrapolation) {
  TapTable table = tap_table(sampling, a);
  int64_t times = repeat_count(table, a);
  if (times == 1) return x;
  if (times > 1) return builder.call1(repeat, {x}, {{"axis", a.axis}, {"times", times}});
  ValueId y = resample_axis(builder, x, table, a);
  bool any_outside = std::count(table.outside.begin(), table.outside.end(), 1) > 0;
  return any_outside ? fill_outside(builder, y, table, a, extrapolation) : y;
}

/// Resizes the axes, the innermost first. Integers are interpolated in f32 and truncated.
std::vector<ValueId> resize(OnnxNode& node, Builder& builder, const Sampling& sampling, std::vector<ResizedAxis> axes,
                            double extrapolation) {
  DType dtype = node.type(0).dtype;
  ValueId x = node.in(0);
  bool nearest = sampling.kernel == Sampling::Kernel::Nearest;
  if (!nearest && !is_float(dtype)) x = cast_to(builder, x, DType::F32);
  for (size_t k = axes.size(); k-- > 0;) {
    ResizedAxis& a = axes[k];
    bool same_grid = a.scale == 1 && a.in == a.out && sampling.coordinate != "tf_crop_and_resize";
    if (same_grid) continue;
    if (a.in == 0) node.malformed("an axis without elements is resized");
    x = resize_axis(builder, x, sampling, a, extrapolation);
  }
  return {cast_to(builder, x, dtype)};
}

/// An axis scaled by `scale`. One of unknown extent is modelled by a short one; its table must be a plain repetition.
ResizedAxis scaled_axis(OnnxNode& node, const Sampling& sampling, int64_t axis, double scale) {
  constexpr int64_t kModel = 8;
  const int64_t* extent = tir::as_int(node.type(0).dim(axis));
  ResizedAxis a{axis, extent ? *extent : kModel};
  if (!(scale > 0) || scale > 1e6) node.malformed("a scale is out of range", "a number above 0", fmt::format("{}", scale));
  a.scale = scale;
  // At f32, where 5 times the f32 nearest to 1.8 is 9.
  a.width = static_cast<float>(a.in) * static_cast<float>(scale);
  a.out = static_cast<int64_t>(std::floor(a.width));
  bool crops = sampling.coordinate == "tf_crop_and_resize";
  bool known = extent || (!crops && (scale == 1 || repeat_count(tap_table(sampling, a), a) > 0));
  if (!known) node.unsupported(fmt::format("resizing axis {}, whose extent is not known when compiling, by {}", axis, scale));
  return a;
}

Sampling::Kernel kernel_of(const OnnxNode& node, const std::string& mode) {
  if (mode == "nearest") return Sampling::Kernel::Nearest;
  if (mode == "linear" || mode == "bilinear") return Sampling::Kernel::Linear;
  if (mode == "cubic") return Sampling::Kernel::Cubic;
  node.malformed("an unknown mode", "nearest, linear or cubic", mode);
}

std::vector<ResizedAxis> scaled_axes(OnnxNode& node, const Sampling& sampling, const std::vector<int64_t>& axes,
                                     const std::vector<double>& scales) {
  if (scales.size() != axes.size())
    node.malformed("a scale for each axis is needed", std::to_string(axes.size()), std::to_string(scales.size()));
  std::vector<ResizedAxis> resized;
  for (size_t k = 0; k < axes.size(); ++k) resized.push_back(scaled_axis(node, sampling, axes[k], scales[k]));
  return resized;
}

std::vector<int64_t> every_axis(int64_t rank) {
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

/// Upsample and the first Resize (opset 10): scales alone, points rounded down from x / scale.
std::vector<ValueId> import_upsample(OnnxNode& node, Builder& builder) {
  Sampling sampling;
  sampling.kernel = kernel_of(node, node.attr("mode", "nearest"));
  bool by_attribute = node.op_type() == "Upsample" && node.opset() < 9;
  std::vector<double> scales = by_attribute ? node.floats("scales", {}) : node.constant_floats(1);
  std::vector<int64_t> axes = every_axis(node.type(0).rank());
  return resize(node, builder, sampling, scaled_axes(node, sampling, axes, scales), 0);
}

Sampling read_sampling(OnnxNode& node) {
  Sampling sampling;
  sampling.kernel = kernel_of(node, node.attr("mode", "nearest"));
  sampling.coordinate = node.attr("coordinate_transformation_mode", "half_pixel");
  sampling.nearest = node.attr("nearest_mode", "round_prefer_floor");
  sampling.cubic_a = node.attr("cubic_coeff_a", -0.75);
  sampling.exclude_outside = node.attr("exclude_outside", 0) != 0;
  sampling.antialias = node.opset() >= 18 && node.attr("antialias", 0) != 0;
  constexpr std::string_view kCoordinates[] = {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",  "align_corners",
                                               "asymmetric", "tf_crop_and_resize",   "tf_half_pixel_for_nn"};
  constexpr std::string_view kNearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
  if (std::ranges::find(kCoordinates, sampling.coordinate) == std::end(kCoordinates))
    node.unsupported("the coordinate transformation mode " + sampling.coordinate);
  if (std::ranges::find(kNearest, sampling.nearest) == std::end(kNearest))
    node.unsupported("the nearest mode " + sampling.nearest);
  return sampling;
}

/// Sizes for each axis, or one scale for all that keeps the picture inside (not_larger) or around (not_smaller) them.
std::vector<ResizedAxis> sized_axes(OnnxNode& node, const std::vector<int64_t>& axes, const std::vector<int64_t>& sizes) {
  std::string policy = node.opset() >= 18 ? node.attr("keep_aspect_ratio_policy", "stretch") : "stretch";
  if (sizes.size() != axes.size())
    node.malformed("a size for each axis is needed", std::to_string(axes.size()), std::to_string(sizes.size()));
  std::vector<ResizedAxis> resized;
  double common = policy == "not_larger" ? HUGE_VAL : 0;
  for (size_t k = 0; k < axes.size(); ++k) {
    const int64_t* extent = tir::as_int(node.type(0).dim(axes[k]));
    if (!extent) node.unsupported(fmt::format("resizing axis {}, whose extent is not known when compiling", axes[k]));
    if (sizes[k] < 0) node.malformed("a size below 0", {}, std::to_string(sizes[k]));
    ResizedAxis a{axes[k], *extent, sizes[k]};
    a.width = static_cast<double>(sizes[k]);
    a.scale = *extent == 0 ? 1 : a.width / static_cast<double>(*extent);
    common = policy == "not_larger" ? std::min(common, a.scale) : std::max(common, a.scale);
    resized.push_back(a);
  }
  if (policy == "stretch") return resized;
  if (policy != "not_larger" && policy != "not_smaller") node.malformed("an unknown aspect ratio policy", {}, policy);
  for (ResizedAxis& a : resized) {
    a.scale = common;
    a.width = common * static_cast<double>(a.in);
    a.out = static_cast<int64_t>(a.width + 0.5);
  }
  return resized;
}

void read_roi(OnnxNode& node, std::vector<ResizedAxis>& axes) {
  if (!node.has(1)) node.malformed("tf_crop_and_resize without a region of interest");
  std::vector<double> roi = node.constant_floats(1);
  if (roi.size() != 2 * axes.size())
    node.malformed("the region of interest has the wrong length", std::to_string(2 * axes.size()), std::to_string(roi.size()));
  for (size_t k = 0; k < axes.size(); ++k) {
    axes[k].roi_start = roi[k];
    axes[k].roi_end = roi[axes.size() + k];
  }
}

std::vector<ValueId> import_resize(OnnxNode& node, Builder& builder) {
  Sampling sampling = read_sampling(node);
  double extrapolation = node.attr("extrapolation_value", 0.0);
  int64_t rank = node.type(0).rank();
  std::vector<int64_t> axes = every_axis(rank);
  if (node.opset() >= 18 && node.has_attr("axes")) axes = normalized_axes(node, node.ints("axes", {}), rank);
  std::vector<double> scales = node.has(2) ? node.constant_floats(2) : std::vector<double>{};
  bool sized = scales.empty() && node.has(3);
  if (!sized && node.opset() >= 18) node.ignore("keep_aspect_ratio_policy");
  std::vector<ResizedAxis> resized =
      sized ? sized_axes(node, axes, node.constant_ints(3)) : scaled_axes(node, sampling, axes, scales);
  if (sampling.coordinate == "tf_crop_and_resize") read_roi(node, resized);
  std::ranges::sort(resized, {}, &ResizedAxis::axis);
  return resize(node, builder, sampling, resized, extrapolation);
}

}  // namespace

const OpDef resample{
    .name = "resample",
    .doc =
        "Point p of an axis of the result is the sum over t of x at indices[p,t] times weights[p,t]. The 16-bit floats are "
        "summed "
        "as f32; indices are clamped.",
    .inputs = {{"x", "floats, rank 1 at least"}, {"indices", "i64 [points, taps]"}, {"weights", "[points, taps]"}},
    .attrs = {{"axis", AttrKind::Int, {}, "the axis of x to read"}},
    .fusion = Fusion::OutputFusable,
    .dtypes = graph::kFloats,
    .dtype_note = "a float: the sum is weighted",
    .infer = infer_resample,
    .compute = compute_resample,
};

Family resize_family() {
  return {{&resample}, {{"Upsample", 7, import_upsample}, {"Resize", 10, import_upsample}, {"Resize", 11, import_resize}}};
}

}  // namespace tenon::op
