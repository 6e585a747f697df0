// SPDX-License-Identifier: Apache-2.0
// Convolution, its transpose and pooling against direct loops on small integers, for which every order of adding is exact.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "op/ops.h"
#include "support/op_run.h"

namespace tenon {
namespace {

using test::array;
using test::expect_array;
using test::f32;
using test::infer_error;
using test::infer_op;
using test::run_op;
using test::run_op1;
using Ints = std::vector<int64_t>;

/// Calls `f` with every point of a box, last axis fastest.
void for_each_point(const Shape& extents, const std::function<void(const Shape&)>& f) {
  Shape point(extents.size(), 0);
  if (element_count(extents) == 0) return;
  for (;;) {
    f(point);
    size_t axis = extents.size();
    while (axis > 0 && ++point[axis - 1] == extents[axis - 1]) point[--axis] = 0;
    if (axis == 0) return;
  }
}

size_t flat(const Shape& shape, const Shape& point) {
  int64_t index = 0;
  for (size_t k = 0; k < shape.size(); ++k) index = index * shape[k] + point[k];
  return static_cast<size_t>(index);
}

/// A dense tensor of small integers that differ from point to point.
struct Data {
  Shape shape;
  std::vector<double> values;
  explicit Data(Shape s) : shape(std::move(s)), values(static_cast<size_t>(element_count(shape))) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>((i * 37 + 11) % 13) - 6;
  }
  double& at(const Shape& point) { return values[flat(shape, point)]; }
  Array as(DType dtype) const { return array(dtype, shape, values); }
};

struct Geometry {
  Shape x, kernel;
  int64_t outputs = 2, groups = 1;
  Ints strides, pads, dilations;
  graph::Attrs attrs() const { return {{"strides", strides}, {"pads", pads}, {"dilations", dilations}}; }
  size_t rank() const { return kernel.size(); }
  int64_t span(size_t k) const { return (kernel[k] - 1) * dilations[k] + 1; }
};

Shape joined(Shape head, const Shape& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

/// The sum over channels and taps, taps outside x left out.
Data direct_conv(const Geometry& g, Data x, Data w) {
  Shape shape{g.x[0], g.outputs};
  for (size_t k = 0; k < g.rank(); ++k)
    shape.push_back((g.x[k + 2] + g.pads[k] + g.pads[k + g.rank()] - g.span(k)) / g.strides[k] + 1);
  Data y(shape);
  int64_t group_inputs = g.x[1] / g.groups, group_outputs = g.outputs / g.groups;
  for_each_point(shape, [&](const Shape& point) {
    double sum = 0;
    for_each_point(joined({group_inputs}, g.kernel), [&](const Shape& tap) {
      Shape from{point[0], point[1] / group_outputs * group_inputs + tap[0]};
      for (size_t k = 0; k < g.rank(); ++k) {
        int64_t at = point[k + 2] * g.strides[k] + tap[k + 1] * g.dilations[k] - g.pads[k];
        if (at < 0 || at >= g.x[k + 2]) return;
        from.push_back(at);
      }
      sum += x.at(from) * w.at(joined({point[1]}, tap));
    });
    y.at(point) = sum;
  });
  return y;
}

void check_conv(const Geometry& g) {
  Data x(g.x), w(joined({g.outputs, g.x[1] / g.groups}, g.kernel));
  Data expected = direct_conv(g, x, w);
  graph::Attrs attrs = g.attrs();
  attrs["groups"] = g.groups;
  for (DType dtype : {DType::F32, DType::F64, DType::F16, DType::I32, DType::I8})
    expect_array(run_op1(op::conv, {x.as(dtype), w.as(dtype)}, attrs), expected.as(dtype));
}

TEST(Conv, AgreesWithDirectLoops) {
  check_conv({.x = {2, 3, 5}, .kernel = {3}, .strides = {1}, .pads = {0, 0}, .dilations = {1}});
  check_conv({.x = {1, 2, 7}, .kernel = {2}, .strides = {3}, .pads = {2, 1}, .dilations = {2}});
  check_conv({.x = {1, 1, 4, 5}, .kernel = {3, 3}, .strides = {1, 1}, .pads = {1, 1, 1, 1}, .dilations = {1, 1}});
  check_conv({.x = {2, 4, 5, 4},
              .kernel = {3, 2},
              .outputs = 6,
              .groups = 2,
              .strides = {2, 1},
              .pads = {0, 1, 2, 0},
              .dilations = {1, 2}});
  check_conv({.x = {1, 3, 4, 4},
              .kernel = {3, 3},
              .outputs = 3,
              .groups = 3,
              .strides = {1, 1},
              .pads = {1, 1, 1, 1},
              .dilations = {1, 1}});
  check_conv({.x = {1, 2, 3, 3},
              .kernel = {2, 2},
              .outputs = 4,
              .groups = 2,
              .strides = {1, 1},
              .pads = {0, 0, 0, 0},
              .dilations = {1, 1}});
  check_conv(
      {.x = {1, 2, 3, 4, 3}, .kernel = {2, 2, 2}, .strides = {1, 2, 1}, .pads = {1, 0, 0, 0, 1, 1}, .dilations = {1, 1, 2}});
}

/// Every point of x adds its multiple of w, what falls outside is cropped.
Data direct_transpose(const Geometry& g, Data x, Data w, const Ints& extra) {
  Shape shape{g.x[0], g.outputs};
  for (size_t k = 0; k < g.rank(); ++k)
    shape.push_back(g.strides[k] * (g.x[k + 2] - 1) + extra[k] + g.span(k) - g.pads[k] - g.pads[k + g.rank()]);
  Data y(shape);
  std::fill(y.values.begin(), y.values.end(), 0);
  int64_t group_inputs = g.x[1] / g.groups, group_outputs = g.outputs / g.groups;
  for_each_point(g.x, [&](const Shape& from) {
    for_each_point(joined({group_outputs}, g.kernel), [&](const Shape& tap) {
      Shape to{from[0], from[1] / group_inputs * group_outputs + tap[0]};
      for (size_t k = 0; k < g.rank(); ++k) {
        int64_t at = from[k + 2] * g.strides[k] + tap[k + 1] * g.dilations[k] - g.pads[k];
        if (at < 0 || at >= shape[k + 2]) return;
        to.push_back(at);
      }
      y.at(to) += x.at(from) * w.at(joined({from[1]}, tap));
    });
  });
  return y;
}

void check_transpose(const Geometry& g, const Ints& extra) {
  Data x(g.x), w(joined({g.x[1], g.outputs / g.groups}, g.kernel));
  graph::Attrs attrs = g.attrs();
  attrs["groups"] = g.groups;
  attrs["output_padding"] = extra;
  Data expected = direct_transpose(g, x, w, extra);
  for (DType dtype : {DType::F32, DType::F16, DType::I32})
    expect_array(run_op1(op::conv_transpose, {x.as(dtype), w.as(dtype)}, attrs), expected.as(dtype));
}

TEST(ConvTranspose, AgreesWithDirectLoops) {
  check_transpose({.x = {1, 2, 4}, .kernel = {3}, .strides = {1}, .pads = {0, 0}, .dilations = {1}}, {0});
  check_transpose({.x = {1, 2, 4}, .kernel = {2}, .strides = {2}, .pads = {0, 0}, .dilations = {1}}, {0});
  check_transpose({.x = {2, 2, 3}, .kernel = {3}, .strides = {2}, .pads = {1, 1}, .dilations = {1}}, {1});
  check_transpose({.x = {1, 1, 3}, .kernel = {2}, .strides = {5}, .pads = {1, 2}, .dilations = {1}}, {3});
  check_transpose({.x = {1, 1, 4}, .kernel = {3}, .strides = {2}, .pads = {3, 0}, .dilations = {2}}, {0});
  check_transpose({.x = {1, 1, 4}, .kernel = {3}, .strides = {3}, .pads = {-2, -1}, .dilations = {2}}, {0});
  check_transpose({.x = {1, 4, 3, 2},
                   .kernel = {3, 2},
                   .outputs = 6,
                   .groups = 2,
                   .strides = {2, 3},
                   .pads = {1, 0, 0, 1},
                   .dilations = {1, 2}},
                  {1, 0});
  check_transpose(
      {.x = {1, 1, 2, 2, 2}, .kernel = {2, 3, 2}, .strides = {1, 2, 2}, .pads = {0, 1, 0, 0, 1, 0}, .dilations = {1, 1, 1}},
      {0, 1, 0});
}

TEST(ConvTranspose, OutputPaddingAddsPointsAtTheEnd) {
  graph::Attrs attrs{{"strides", Ints{2}}, {"pads", Ints{1, 1}}, {"dilations", Ints{1}}, {"output_padding", Ints{1}}};
  Array x = f32({1, 1, 2}, {1, 2}), w = f32({1, 1, 3}, {1, 1, 1});
  expect_array(run_op1(op::conv_transpose, {x, w}, attrs), f32({1, 1, 4}, {1, 3, 2, 2}));
  attrs["output_padding"] = Ints{0};
  expect_array(run_op1(op::conv_transpose, {x, w}, attrs), f32({1, 1, 3}, {1, 3, 2}));
}

enum class Pool { Max, Sum, Average, AverageWithPadding };

/// By explicit bounds: taps on data, taps on data or padding, and those beyond, which never count.
Data direct_pool(const Geometry& g, Data x, const Shape& counts, Pool pool) {
  Data y(joined({g.x[0], g.x[1]}, counts));
  for_each_point(y.shape, [&](const Shape& point) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    int64_t on_data = 0, on_padding = 0;
    for_each_point(g.kernel, [&](const Shape& tap) {
      Shape from{point[0], point[1]};
      bool data = true, padding = true;
      for (size_t k = 0; k < g.rank(); ++k) {
        int64_t at = point[k + 2] * g.strides[k] + tap[k] * g.dilations[k] - g.pads[k];
        data &= at >= 0 && at < g.x[k + 2];
        padding &= at < g.x[k + 2] + g.pads[k + g.rank()];
        from.push_back(at);
      }
      on_padding += padding;
      if (!data) return;
      ++on_data;
      largest = std::max(largest, x.at(from));
      sum += x.at(from);
    });
    double divisor = static_cast<double>(pool == Pool::Average ? on_data : on_padding);
    y.at(point) = pool == Pool::Max ? largest : pool == Pool::Sum ? sum : sum / divisor;
  });
  return y;
}

void check_pools(const Geometry& g, const Shape& counts, bool ceil_mode) {
  Data x(g.x);
  graph::Attrs attrs = g.attrs();
  attrs["kernel"] = g.kernel;
  attrs["ceil_mode"] = ceil_mode;
  expect_array(run_op1(op::max_pool, {x.as(DType::F32)}, attrs), direct_pool(g, x, counts, Pool::Max).as(DType::F32));
  expect_array(run_op1(op::max_pool, {x.as(DType::I8)}, attrs), direct_pool(g, x, counts, Pool::Max).as(DType::I8));
  expect_array(run_op1(op::sum_pool, {x.as(DType::F16)}, attrs), direct_pool(g, x, counts, Pool::Sum).as(DType::F16));
  expect_array(run_op1(op::avg_pool, {x.as(DType::F32)}, attrs), direct_pool(g, x, counts, Pool::Average).as(DType::F32));
  attrs["count_include_pad"] = true;
  expect_array(run_op1(op::avg_pool, {x.as(DType::F32)}, attrs),
               direct_pool(g, x, counts, Pool::AverageWithPadding).as(DType::F32));
}

TEST(Pool, AgreesWithDirectLoops) {
  check_pools({.x = {1, 2, 6}, .kernel = {2}, .strides = {2}, .pads = {0, 0}, .dilations = {1}}, {3}, false);
  check_pools({.x = {1, 1, 7}, .kernel = {3}, .strides = {2}, .pads = {1, 1}, .dilations = {1}}, {4}, false);
  check_pools({.x = {1, 1, 8}, .kernel = {3}, .strides = {3}, .pads = {1, 0}, .dilations = {2}}, {3}, true);
  check_pools({.x = {2, 1, 5, 6}, .kernel = {3, 2}, .strides = {2, 3}, .pads = {1, 0, 1, 1}, .dilations = {1, 1}}, {3, 2}, false);
  check_pools({.x = {1, 1, 4, 4}, .kernel = {3, 3}, .strides = {2, 2}, .pads = {0, 0, 0, 0}, .dilations = {1, 1}}, {2, 2}, true);
  check_pools(
      {.x = {1, 1, 3, 3, 4}, .kernel = {2, 2, 2}, .strides = {1, 2, 2}, .pads = {0, 1, 0, 0, 0, 0}, .dilations = {1, 1, 1}},
      {2, 2, 2}, false);
}

TEST(Pool, TheLastWindowOfCeilModeStartsOnDataOrFrontPadding) {
  Array x = f32({1, 1, 4}, {1, 2, 3, 4});
  graph::Attrs attrs{
      {"kernel", Ints{3}}, {"strides", Ints{2}}, {"pads", Ints{0, 0}}, {"dilations", Ints{1}}, {"ceil_mode", true}};
  expect_array(run_op1(op::avg_pool, {x}, attrs), f32({1, 1, 2}, {2, 3.5}));
  attrs["pads"] = Ints{1, 1};
  expect_array(run_op1(op::avg_pool, {x}, attrs), f32({1, 1, 3}, {1.5, 3, 4}));
  attrs["count_include_pad"] = true;
  expect_array(run_op1(op::avg_pool, {x}, attrs), f32({1, 1, 3}, {1, 3, 2}));
  // One point, stride 2: a second window would start at 2, behind the point and its padding.
  Array one = f32({1, 1, 1}, {5});
  attrs = {{"kernel", Ints{1}}, {"strides", Ints{2}}, {"pads", Ints{0, 1}}, {"dilations", Ints{1}}, {"ceil_mode", true}};
  expect_array(run_op1(op::max_pool, {one}, attrs), f32({1, 1, 1}, {5}));
}

TEST(Pool, IndicesCountInTheDataWithoutPadding) {
  graph::Attrs attrs{{"kernel", Ints{1, 2}}, {"strides", Ints{1, 2}}, {"pads", Ints{0, 0, 0, 0}}, {"dilations", Ints{1, 1}}};
  std::vector<Array> found = run_op(op::max_pool_indices, {f32({1, 1, 1, 4}, {1, 3, 2, 4})}, attrs);
  expect_array(found[0], f32({1, 1, 1, 2}, {3, 4}));
  expect_array(found[1], array(DType::I64, {1, 1, 1, 2}, {1, 3}));
  attrs = {{"kernel", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 0, 0}}, {"dilations", Ints{1, 1}}};
  Array x = f32({1, 1, 3, 3}, {9, 1, 2, 3, 7, 4, 5, 6, 8});
  found = run_op(op::max_pool_indices, {x}, attrs);
  expect_array(found[0], f32({1, 1, 2, 2}, {9, 2, 5, 8}));
  expect_array(found[1], array(DType::I64, {1, 1, 2, 2}, {0, 2, 6, 8}));
  attrs["column_major"] = true;
  expect_array(run_op(op::max_pool_indices, {x}, attrs)[1], array(DType::I64, {1, 1, 2, 2}, {0, 6, 2, 8}));
}

TEST(Pool, NanWinsAndPaddingDoesNot) {
  graph::Attrs attrs{{"kernel", Ints{2}}, {"strides", Ints{1}}, {"pads", Ints{1, 0}}, {"dilations", Ints{1}}};
  double nan = std::numeric_limits<double>::quiet_NaN();
  expect_array(run_op1(op::max_pool, {f32({1, 1, 4}, {-5, -6, nan, -7})}, attrs), f32({1, 1, 4}, {-5, -5, nan, nan}));
}

TensorType floats(std::vector<Dim> shape) { return {DType::F32, std::move(shape)}; }

TEST(Conv, ASymbolicBatchPasses) {
  Dim n = tir::var("n"), h = tir::var("h");
  graph::Attrs attrs{{"strides", Ints{2, 1}}, {"pads", Ints{1, 1, 1, 1}}, {"dilations", Ints{1, 1}}};
  TensorType y = infer_op(op::conv, {floats({n, 3, h, 8}), floats({4, 3, 3, 3})}, attrs)[0];
  EXPECT_EQ(y, floats({n, 4, tir::floordiv(h + Dim(-1), 2) + Dim(1), 8}));
}

TEST(Conv, ConstraintsAreNamed) {
  graph::Attrs attrs{{"strides", Ints{1}}, {"pads", Ints{0, 0}}, {"dilations", Ints{1}}};
  TensorType x = floats({1, 4, 6}), w = floats({2, 4, 3});
  EXPECT_EQ(infer_error(op::conv, {x, w}, attrs), "");
  EXPECT_EQ(infer_error(op::conv, {x, floats({2, 4, 3, 3})}, attrs), "conv-C1");
  EXPECT_EQ(infer_error(op::conv, {x, floats({2, 3, 3})}, attrs), "conv-C2");
  EXPECT_EQ(infer_error(op::conv, {x, floats({2, 4, 9})}, attrs), "window-C3");
  graph::Attrs grouped = attrs;
  grouped["groups"] = int64_t{2};
  EXPECT_EQ(infer_error(op::conv, {x, floats({3, 2, 3})}, grouped), "conv-C2");
  graph::Attrs negative = attrs;
  negative["pads"] = Ints{-1, 0};
  EXPECT_EQ(infer_error(op::conv, {x, w}, negative), "conv-C3");
  graph::Attrs still = attrs;
  still["strides"] = Ints{0};
  EXPECT_EQ(infer_error(op::conv, {x, w}, still), "window-C2");
}

TEST(ConvTranspose, ConstraintsAreNamed) {
  graph::Attrs attrs{{"strides", Ints{1}}, {"pads", Ints{0, 0}}, {"dilations", Ints{1}}, {"output_padding", Ints{0}}};
  TensorType x = floats({1, 4, 6});
  EXPECT_EQ(infer_error(op::conv_transpose, {x, floats({4, 2, 3})}, attrs), "");
  EXPECT_EQ(infer_error(op::conv_transpose, {x, floats({3, 2, 3})}, attrs), "conv-transpose-C1");
  EXPECT_EQ(infer_error(op::conv_transpose, {floats({1, 4, tir::var("w")}), floats({4, 2, 3})}, attrs), "conv-transpose-C3");
  attrs["pads"] = Ints{4, 4};
  EXPECT_EQ(infer_error(op::conv_transpose, {x, floats({4, 2, 3})}, attrs), "conv-transpose-C4");
  attrs["groups"] = int64_t{3};
  EXPECT_EQ(infer_error(op::conv_transpose, {x, floats({4, 2, 3})}, attrs), "conv-transpose-C2");
}

TEST(Pool, ConstraintsAreNamed) {
  graph::Attrs attrs{
      {"kernel", Ints{2}}, {"strides", Ints{1}}, {"pads", Ints{0, 0}}, {"dilations", Ints{1}}, {"ceil_mode", true}};
  EXPECT_EQ(infer_error(op::max_pool, {floats({1, 1, 4, 4})}, attrs), "window-C1");
  EXPECT_EQ(infer_error(op::max_pool, {floats({1, 1, tir::var("w")})}, attrs), "window-C4");
}

}  // namespace
}  // namespace tenon
