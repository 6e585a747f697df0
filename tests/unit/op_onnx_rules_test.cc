// SPDX-License-Identifier: Apache-2.0
// ONNX rules of shape, index, fill, einsum and quantisation operators, in forms that ONNX 1.12's own data does not show.
#include <gtest/gtest.h>

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
using Ints = std::vector<int64_t>;

Array i64(const std::vector<double>& values) { return array(DType::I64, {static_cast<int64_t>(values.size())}, values); }
Input fixed(const Array& a) { return {a, true}; }
Array counted(Shape shape) {
  std::vector<double> values;
  for (int64_t k = 0; k < element_count(shape); ++k) values.push_back(static_cast<double>(k));
  return f32(std::move(shape), values);
}

Array run1(const OnnxNodeCase& node) { return run_node(node).at(0); }

TEST(OnnxShape, SliceByAttributes) {
  OnnxNodeCase node{"Slice", 9, {counted({2, 4})}, {{"axes", Ints{1}}, {"starts", Ints{-3}}, {"ends", Ints{100}}}};
  expect_array(run1(node), f32({2, 3}, {1, 2, 3, 5, 6, 7}));
}

TEST(OnnxShape, SliceBackwardsPastTheStart) {
  auto sliced = [](double start, double end, double step) {
    return run1({"Slice", 13, {counted({5}), fixed(i64({start})), fixed(i64({end})), fixed(i64({0})), fixed(i64({step}))}, {}});
  };
  expect_array(sliced(100, -100, -2), f32({3}, {4, 2, 0}));
  expect_array(sliced(-2, 0, -1), f32({3}, {3, 2, 1}));
  expect_array(sliced(3, 1, 1), f32({0}, {}));
  expect_array(sliced(-100, 2, 1), f32({2}, {0, 1}));
}

TEST(OnnxShape, SplitIntoUnevenOutputs) {
  OnnxNodeCase node{"Split", 18, {counted({5})}, {{"num_outputs", 2}}, {DType::F32, DType::F32}};
  std::vector<Array> parts = run_node(node);
  expect_array(parts[0], f32({3}, {0, 1, 2}));
  expect_array(parts[1], f32({2}, {3, 4}));
  EXPECT_EQ(import_error({"Split", 13, {counted({5})}, {}, {DType::F32, DType::F32}}), ErrorKind::Malformed);
}

TEST(OnnxShape, PadOfSomeAxesAndWrap) {
  expect_array(run1({"Pad", 18, {counted({2, 2}), fixed(i64({1, 0})), f32({}, {7}), fixed(i64({-1}))}, {}}),
               f32({2, 3}, {7, 0, 1, 7, 2, 3}));
  expect_array(run1({"Pad", 19, {counted({3}), fixed(i64({1, 1}))}, {{"mode", "wrap"}}}), f32({5}, {2, 0, 1, 2, 0}));
  expect_array(run1({"Pad", 7, {counted({2})}, {{"pads", Ints{1, 0}}, {"value", 5.0}}}), f32({3}, {5, 0, 1}));
}

TEST(OnnxShape, CenterCropPadCutsAndFills) {
  expect_array(run1({"CenterCropPad", 18, {counted({1, 5}), fixed(i64({3, 2}))}, {}}), f32({3, 2}, {0, 0, 1, 2, 0, 0}));
}

TEST(OnnxShape, ShapeOfSomeAxes) {
  OnnxNodeCase node{"Shape", 15, {counted({2, 3, 4})}, {{"start", -2}, {"end", 5}}, {DType::I64}};
  expect_array(run1(node), i64({3, 4}));
  expect_array(run1({"Size", 13, {counted({2, 3})}, {}, {DType::I64}}), array(DType::I64, {}, {6}));
}

TEST(OnnxShape, FlattenSqueezeExpand) {
  EXPECT_EQ(run1({"Flatten", 13, {counted({2, 3, 4})}, {{"axis", -1}}}).shape, (Shape{6, 4}));
  EXPECT_EQ(run1({"Flatten", 13, {counted({2, 3})}, {{"axis", 0}}}).shape, (Shape{1, 6}));
  EXPECT_EQ(run1({"Squeeze", 13, {counted({1, 2, 1})}, {}}).shape, (Shape{2}));
  EXPECT_EQ(run1({"Squeeze", 7, {counted({1, 2, 1})}, {{"axes", Ints{-1}}}}).shape, (Shape{1, 2}));
  EXPECT_EQ(import_error({"Squeeze", 7, {counted({1, 2})}, {{"axes", Ints{1}}}}), ErrorKind::Malformed);
  EXPECT_EQ(run1({"Unsqueeze", 13, {counted({2}), fixed(i64({0, -1}))}, {}}).shape, (Shape{1, 2, 1}));
  expect_array(run1({"Expand", 13, {f32({2, 1}, {1, 2}), fixed(i64({1, 1, 2}))}, {}}), f32({1, 2, 2}, {1, 1, 2, 2}));
}

TEST(OnnxShape, ReshapeKeepsZeroWhenAsked) {
  EXPECT_EQ(run1({"Reshape", 14, {counted({0, 4}), fixed(i64({4, 0}))}, {{"allowzero", 1}}}).shape, (Shape{4, 0}));
  EXPECT_EQ(run1({"Reshape", 14, {counted({2, 6}), fixed(i64({0, 3, -1}))}, {}}).shape, (Shape{2, 3, 2}));
  EXPECT_EQ(import_error({"Reshape", 14, {counted({4}), fixed(i64({4, 0}))}, {}}), ErrorKind::Malformed);
}

TEST(OnnxIndex, TopKByAttribute) {
  OnnxNodeCase node{"TopK", 7, {f32({1, 3}, {1, 3, 2})}, {{"k", 2}}, {DType::F32, DType::I64}};
  std::vector<Array> best = run_node(node);
  expect_array(best[0], f32({1, 2}, {3, 2}));
  expect_array(best[1], array(DType::I64, {1, 2}, {1, 2}));
}

TEST(OnnxIndex, CompressAndNonZeroOfConstants) {
  Array condition = array(DType::Bool, {2}, {0, 1});
  expect_array(run1({"Compress", 11, {counted({3, 2}), fixed(condition)}, {{"axis", 1}}}), f32({3, 1}, {1, 3, 5}));
  expect_array(run1({"Compress", 11, {counted({3, 2}), fixed(condition)}, {}}), f32({1}, {1}));
  EXPECT_EQ(import_error({"Compress", 11, {counted({2}), condition}, {}}), ErrorKind::Unsupported);
  OnnxNodeCase nonzero{"NonZero", 13, {fixed(f32({2, 2}, {-0.0, 1, 0, -3}))}, {}, {DType::I64}};
  expect_array(run1(nonzero), array(DType::I64, {2, 2}, {0, 1, 1, 1}));
}

TEST(OnnxFill, RangesAndEyes) {
  auto range = [](DType dtype, double start, double limit, double delta) {
    auto one = [&](double v) { return fixed(array(dtype, {}, {v})); };
    return run1({"Range", 11, {one(start), one(limit), one(delta)}, {}, {dtype}});
  };
  expect_array(range(DType::F32, 1, 2, 0.25), f32({4}, {1, 1.25, 1.5, 1.75}));
  expect_array(range(DType::I32, 5, -2, -3), array(DType::I32, {3}, {5, 2, -1}));
  expect_array(range(DType::I64, 3, 3, 1), i64({}));
  OnnxNodeCase eye{"EyeLike", 9, {counted({2, 3})}, {{"k", 1}, {"dtype", 7}}, {DType::I64}};
  expect_array(run1(eye), array(DType::I64, {2, 3}, {0, 1, 0, 0, 0, 1}));
  OnnxNodeCase full{"ConstantOfShape", 9, {fixed(i64({2, 2}))}, {{"value", array(DType::I32, {1}, {7})}}, {DType::I32}};
  expect_array(run1(full), array(DType::I32, {2, 2}, {7, 7, 7, 7}));
}

TEST(OnnxFill, WindowsAreRaisedCosines) {
  auto window = [](const char* op, int periodic) {
    return run1({op, 17, {fixed(array(DType::I32, {}, {4}))}, {{"periodic", periodic}}});
  };
  expect_array(window("HannWindow", 1), f32({4}, {0, 0.5, 1, 0.5}), 1e-6, 1e-6);
  expect_array(window("HannWindow", 0), f32({4}, {0, 0.75, 0.75, 0}), 1e-6, 1e-6);
  expect_array(window("HammingWindow", 1), f32({4}, {4.0 / 46, 25.0 / 46, 1, 25.0 / 46}), 1e-6, 1e-6);
  expect_array(window("BlackmanWindow", 1), f32({4}, {0, 0.34, 1, 0.34}), 1e-6, 1e-6);
}

Array einsum(const char* equation, const std::vector<Array>& operands) {
  OnnxNodeCase node{"Einsum", 12, {}, {{"equation", equation}}};
  for (const Array& operand : operands) node.inputs.emplace_back(operand);
  return run1(node);
}

TEST(OnnxEinsum, ReadsEveryForm) {
  Array a = counted({2, 3}), b = counted({3, 2}), v = f32({2}, {1, 10});
  expect_array(einsum("ij,jk->ik", {a, b}), f32({2, 2}, {10, 13, 28, 40}));
  expect_array(einsum("ij,jk", {a, b}), f32({2, 2}, {10, 13, 28, 40}));
  expect_array(einsum("ij->ji", {a}), f32({3, 2}, {0, 3, 1, 4, 2, 5}));
  expect_array(einsum("ba", {a}), f32({3, 2}, {0, 3, 1, 4, 2, 5}));
  expect_array(einsum("ij->", {a}), f32({}, {15}));
  expect_array(einsum("ij, i -> j", {a, v}), f32({3}, {30, 41, 52}));
  expect_array(einsum("i,j->ji", {v, v}), f32({2, 2}, {1, 10, 10, 100}));
  expect_array(einsum("...ii->...i", {counted({2, 2, 2})}), f32({2, 2}, {0, 3, 4, 7}));
  expect_array(einsum("iii->i", {counted({2, 2, 2})}), f32({2}, {0, 7}));
  expect_array(einsum("b...i,b...i->b...", {counted({1, 2, 2}), counted({1, 2, 2})}), f32({1, 2}, {1, 13}));
  expect_array(einsum("ij,jk,k->i", {a, b, v}), f32({2}, {140, 428}));
}

TEST(OnnxEinsum, Refuses) {
  auto error = [](const char* equation, const Array& a) {
    return import_error({"Einsum", 12, {a, counted({3})}, {{"equation", equation}}});
  };
  EXPECT_EQ(error("ij", counted({2, 3})), ErrorKind::Malformed);
  EXPECT_EQ(error("ij,j,k", counted({2, 3})), ErrorKind::Malformed);
  EXPECT_EQ(error("ijk,j->i", counted({2, 3})), ErrorKind::Malformed);
  EXPECT_EQ(error("ij,j->iz", counted({2, 3})), ErrorKind::Malformed);
  EXPECT_EQ(error("i?,j->i", counted({2, 3})), ErrorKind::Malformed);
  EXPECT_EQ(error("ij,j->i", counted({2, 1})), ErrorKind::Unsupported);
}

TEST(OnnxQuantize, SaturatesPerChannel) {
  OnnxNodeCase node{"QuantizeLinear",
                    13,
                    {f32({2, 3}, {-300, 0.5, 1.5, 300, 2, -3}), f32({2}, {1, 2}), array(DType::I8, {2}, {0, 10})},
                    {{"axis", 0}},
                    {DType::I8}};
  expect_array(run1(node), array(DType::I8, {2, 3}, {-128, 0, 2, 127, 11, 8}));  // -3 / 2 = -1.5 rounds to -2
}

TEST(OnnxQuantize, DequantizesPerChannel) {
  OnnxNodeCase node{"DequantizeLinear",
                    13,
                    {array(DType::U8, {2, 2}, {0, 255, 128, 3}), f32({2}, {0.5, 2}), array(DType::U8, {2}, {1, 128})},
                    {{"axis", -1}}};
  expect_array(run1(node), f32({2, 2}, {-0.5, 254, 63.5, -250}));
}

TEST(OnnxQuantize, ConvolvesWithAScaleForEachChannel) {
  // x - 1 = [1, 2, 3]; the weights less their zero points are [1, 1] and [2, -1]; the border is a zero point.
  OnnxNodeCase node{"QLinearConv", 10, {}, {{"pads", Ints{1, 0}}}, {DType::U8}};
  node.inputs = {array(DType::U8, {1, 1, 3}, {2, 3, 4}),
                 f32({}, {0.5}),
                 array(DType::U8, {}, {1}),
                 array(DType::U8, {2, 1, 2}, {1, 1, 5, 2}),
                 f32({2}, {2, 4}),
                 array(DType::U8, {2}, {0, 3}),
                 f32({}, {0.5}),
                 array(DType::U8, {}, {10}),
                 array(DType::I32, {2}, {0, 1})};
  // Channel 0: sums 1, 3, 5, times 0.5 * 2 / 0.5. Channel 1: -1, 0, 1 plus 1, times 0.5 * 4 / 0.5.
  expect_array(run1(node), array(DType::U8, {1, 2, 3}, {12, 16, 20, 10, 14, 18}));
}

TEST(OnnxLoss, IgnoresAndWeighs) {
  // Log-probabilities of two rows; the second target is ignored.
  OnnxNodeCase node{"NegativeLogLikelihoodLoss",
                    13,
                    {f32({2, 2}, {-1, -2, -3, -4}), array(DType::I64, {2}, {1, -5}), f32({2}, {1, 3})},
                    {{"ignore_index", -5}}};
  expect_array(run1(node), f32({}, {2}));
  node.attrs.emplace_back("reduction", "sum");
  expect_array(run1(node), f32({}, {6}));
  node.attrs.back() = {"reduction", "none"};
  expect_array(run1(node), f32({2}, {6, 0}));
}

}  // namespace
}  // namespace tenon::op
