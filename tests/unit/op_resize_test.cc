// SPDX-License-Identifier: Apache-2.0
// ONNX's Resize and Upsample beyond its own test data, against results worked out by hand from its formulas.
#include <gtest/gtest.h>

#include "op/ops.h"
#include "support/onnx_run.h"
#include "support/op_run.h"

namespace tenon::op {
namespace {

using test::array;
using test::expect_array;
using test::f32;
using test::import_error;
using test::OnnxAttr;
using test::OnnxNodeCase;
using test::operators_of;
using test::run_node;

using Input = OnnxNodeCase::Input;

Input fixed(const Array& a) { return {a, true}; }
Input scales(const std::vector<double>& s) { return fixed(f32({static_cast<int64_t>(s.size())}, s)); }
Input sizes(const std::vector<double>& s) { return fixed(array(DType::I64, {static_cast<int64_t>(s.size())}, s)); }

Array row(const std::vector<double>& values) { return f32({1, static_cast<int64_t>(values.size())}, values); }

/// Resize of one row by a scale.
OnnxNodeCase by_scale(const std::vector<double>& values, double scale, std::vector<OnnxAttr> attrs, int opset = 19) {
  return {"Resize", opset, {row(values), {}, scales({1, scale})}, std::move(attrs)};
}

TEST(Resize, LinearHalfPixel) { expect_array(run_node(by_scale({1, 2}, 2, {{"mode", "linear"}}))[0], row({1, 1.25, 1.75, 2})); }

TEST(Resize, NearestModes) {
  auto nearest = [](const char* mode) {  // places -0.1, 0.7, 1.5, 2.3 (scale 1.25: 4 points to 5 would end at 3.1)
    return run_node(by_scale({0, 1, 2, 3}, 1.25, {{"mode", "nearest"}, {"nearest_mode", mode}}))[0];
  };
  expect_array(nearest("floor"), row({0, 0, 1, 2, 3}));
  expect_array(nearest("ceil"), row({0, 1, 2, 3, 3}));
  expect_array(nearest("round_prefer_floor"), row({0, 1, 1, 2, 3}));
  expect_array(nearest("round_prefer_ceil"), row({0, 1, 2, 2, 3}));
}

TEST(Resize, Coordinates) {
  auto linear = [](const char* coordinate, double scale) {
    return run_node(by_scale({0, 1, 2, 3}, scale, {{"mode", "linear"}, {"coordinate_transformation_mode", coordinate}}))[0];
  };
  expect_array(linear("asymmetric", 0.5), row({0, 2}));
  expect_array(linear("align_corners", 0.5), row({0, 3}));
  expect_array(linear("pytorch_half_pixel", 0.5), row({0.5, 2.5}));
  expect_array(linear("pytorch_half_pixel", 0.25), row({0}));
  expect_array(linear("half_pixel_symmetric", 0.6), row({2.0 / 3, 7.0 / 3}), 1e-5);
}

TEST(Resize, AntialiasWidensTheKernel) {
  // Places 0.5 and 2.5, weights 1/8, 3/8, 3/8, 1/8 on four points, clamped at the border.
  expect_array(run_node(by_scale({0, 1, 2, 3}, 0.5, {{"mode", "linear"}, {"antialias", 1}}, 18))[0], row({0.625, 2.375}));
}

TEST(Resize, CubicOfALineIsTheLineWhenNothingIsOutside) {
  Array y = run_node(by_scale({0, 1, 2, 3, 4, 5, 6, 7}, 2, {{"mode", "cubic"}, {"cubic_coeff_a", -0.5}}))[0];
  for (int64_t x = 4; x < 12; ++x) EXPECT_NEAR(y.read<float>(x), (static_cast<double>(x) + 0.5) / 2 - 0.5, 1e-5);
}

TEST(Resize, ExcludeOutsideSharesTheRest) {
  // Point 0 lies at -0.25: taps -2 and -1 are outside; tap 0 has 0.8946…, tap 1 has 0.2363…, of the kernel with a = -0.75.
  double w0 = (1.25 * 0.25 - 2.25) * 0.25 * 0.25 + 1, w1 = ((-0.75 * 1.25 + 3.75) * 1.25 - 6) * 1.25 + 3;
  Array y = run_node(by_scale({8, 4}, 2, {{"mode", "cubic"}, {"exclude_outside", 1}}))[0];
  EXPECT_NEAR(y.read<float>(0), (8 * w0 + 4 * w1) / (w0 + w1), 1e-5);
}

TEST(Resize, CropFillsOutside) {
  OnnxNodeCase node{"Resize",
                    13,
                    {row({0, 1, 2, 3}), scales({0, 0, 1, 2}), {}, sizes({1, 3})},
                    {{"mode", "linear"}, {"coordinate_transformation_mode", "tf_crop_and_resize"}, {"extrapolation_value", 9.0}}};
  expect_array(run_node(node)[0], row({0, 3, 9}));  // places 0, 3, 6
}

TEST(Resize, AspectRatioPolicies) {
  auto shape = [](const char* policy) {
    OnnxNodeCase node{"Resize",
                      18,
                      {f32({2, 4}, std::vector<double>(8, 1)), {}, {}, sizes({6, 6})},
                      {{"mode", "nearest"}, {"keep_aspect_ratio_policy", policy}}};
    return run_node(node)[0].shape;
  };
  EXPECT_EQ(shape("stretch"), (Shape{6, 6}));
  EXPECT_EQ(shape("not_larger"), (Shape{3, 6}));
  EXPECT_EQ(shape("not_smaller"), (Shape{6, 12}));
}

TEST(Resize, AxesNameWhatIsResized) {
  OnnxNodeCase node{
      "Resize", 18, {f32({2, 1, 1}, {1, 2}), {}, scales({2})}, {{"mode", "nearest"}, {"axes", std::vector<int64_t>{-3}}}};
  expect_array(run_node(node)[0], f32({4, 1, 1}, {1, 1, 2, 2}));
}

TEST(Resize, IntegersAreInterpolatedInFloat) {
  OnnxNodeCase node{"Resize", 13, {array(DType::U8, {1, 2}, {10, 21}), {}, scales({1, 2})}, {{"mode", "linear"}}, {DType::U8}};
  expect_array(run_node(node)[0], array(DType::U8, {1, 4}, {10, 12, 18, 21}));  // 10, 12.75, 18.25, 21
}

TEST(Resize, ChoosesTheSimplestOperator) {
  EXPECT_EQ(operators_of(by_scale({0, 1}, 3, {{"mode", "nearest"}})), "repeat");
  EXPECT_EQ(operators_of(by_scale({0, 1, 2, 3}, 0.5, {{"mode", "nearest"}})), "gather");
  EXPECT_EQ(operators_of(by_scale({0, 1}, 2, {{"mode", "linear"}})), "resample");
  EXPECT_EQ(operators_of(by_scale({0, 1}, 1, {{"mode", "linear"}})), "");
  OnnxNodeCase upsample{"Upsample", 7, {row({0, 1})}, {{"scales", std::vector<double>{2, 2}}}};
  EXPECT_EQ(operators_of(upsample), "repeat repeat");
  expect_array(run_node(upsample)[0], f32({2, 4}, {0, 0, 1, 1, 0, 0, 1, 1}));
}

TEST(Resize, RefusesWhatIsUnknown) {
  EXPECT_EQ(import_error(by_scale({0, 1}, 2, {{"mode", "lanczos"}})), ErrorKind::Malformed);
  EXPECT_EQ(import_error(by_scale({0, 1}, 2, {{"coordinate_transformation_mode", "polar"}})), ErrorKind::Unsupported);
  EXPECT_EQ(import_error(by_scale({0, 1}, -1, {})), ErrorKind::Malformed);
  EXPECT_EQ(import_error({"Resize", 13, {row({0, 1}), {}, f32({2}, {1, 2})}, {}}), ErrorKind::Unsupported);
}

TEST(Resample, Refuses) {
  TensorType x(DType::F32, {4}), indices(DType::I64, {2, 3}), weights(DType::F32, {2, 3});
  graph::Attrs attrs{{"axis", int64_t{0}}};
  EXPECT_EQ(test::infer_error(resample, {TensorType(DType::F32, {0}), indices, weights}, attrs), "resample-C1");
  EXPECT_EQ(test::infer_error(resample, {x, TensorType(DType::I32, {2, 3}), weights}, attrs), "resample-C2");
  EXPECT_EQ(test::infer_error(resample, {x, indices, TensorType(DType::F32, {2, 2})}, attrs), "resample-C3");
}

TEST(Resample, SumsManyTaps) {
  std::vector<double> points, weights;
  for (int k = 0; k < 10; ++k) points.push_back(k % 3), weights.push_back(k);
  Array y = test::run_op1(resample, {f32({3}, {1, 10, 100}), array(DType::I64, {1, 10}, points), f32({1, 10}, weights)},
                          {{"axis", int64_t{0}}});
  expect_array(y, f32({1}, {18 + 120 + 1500}));  // weights 0+3+6+9, 1+4+7, 2+5+8
}

}  // namespace
}  // namespace tenon::op
