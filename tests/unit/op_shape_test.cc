// SPDX-License-Identifier: Apache-2.0
// Operators that move data without looking at it, against results worked out by hand; each constraint has its error.
#include <gtest/gtest.h>

#include "op/ops.h"
#include "support/op_run.h"

namespace tenon::op {
namespace {

using test::array;
using test::expect_array;
using test::f32;
using test::infer_error;
using test::infer_op;
using test::run_op;
using test::run_op1;

using Ints = std::vector<int64_t>;

/// 0, 1, 2, … under a shape.
Array counted(Shape shape, DType dtype = DType::F32) {
  std::vector<double> values;
  for (int64_t k = 0; k < element_count(shape); ++k) values.push_back(static_cast<double>(k));
  return array(dtype, std::move(shape), values);
}

TensorType f32_type(std::vector<Dim> shape) { return {DType::F32, std::move(shape)}; }

TEST(Reshape, KeepsTheOrderAndInfersOneExtent) {
  expect_array(run_op1(reshape, {counted({2, 6})}, {{"shape", Ints{3, -1}}}), counted({3, 4}));
  expect_array(run_op1(reshape, {counted({2, 3, 4})}, {{"shape", Ints{-2, 12}}}), counted({2, 12}));
  expect_array(run_op1(reshape, {counted({1, 2, 1, 3})}, {{"shape", Ints{3, 1, 2}}}), counted({3, 1, 2}));
  expect_array(run_op1(reshape, {counted({1})}, {{"shape", Ints{}}}), counted({}));
  expect_array(run_op1(reshape, {counted({0, 5})}, {{"shape", Ints{7, 0}}}), counted({7, 0}));
}

TEST(Reshape, WorksOnSymbolicExtents) {
  Dim n = tir::var("n");
  EXPECT_EQ(infer_op(reshape, {f32_type({n, 128, 768})}, {{"shape", Ints{-2, 128, 12, 64}}})[0], f32_type({n, 128, 12, 64}));
  EXPECT_EQ(to_string(infer_op(reshape, {f32_type({n, 6})}, {{"shape", Ints{-1, 2}}})[0].dim(1)), "2");
  EXPECT_EQ(infer_error(reshape, {f32_type({n, 6})}, {{"shape", Ints{6}}}), "reshape-C2");
}

TEST(Reshape, Refuses) {
  EXPECT_EQ(infer_error(reshape, {f32_type({6})}, {{"shape", Ints{-1, -1}}}), "reshape-C1");
  EXPECT_EQ(infer_error(reshape, {f32_type({6})}, {{"shape", Ints{2, -2}}}), "reshape-C1");
  EXPECT_EQ(infer_error(reshape, {f32_type({6})}, {{"shape", Ints{4, -1}}}), "reshape-C2");
  EXPECT_EQ(infer_error(reshape, {f32_type({6})}, {{"shape", Ints{5}}}), "reshape-C2");
  EXPECT_EQ(infer_error(reshape, {f32_type({0})}, {{"shape", Ints{0, -1}}}), "reshape-C2");
}

TEST(Transpose, PermutesAxes) {
  expect_array(run_op1(transpose, {counted({2, 3})}, {{"axes", Ints{1, 0}}}), f32({3, 2}, {0, 3, 1, 4, 2, 5}));
  expect_array(run_op1(transpose, {counted({2, 1, 3}, DType::I8)}, {{"axes", Ints{2, 0, 1}}}),
               array(DType::I8, {3, 2, 1}, {0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(infer_error(transpose, {f32_type({2, 3})}, {{"axes", Ints{0, 0}}}), "transpose-C1");
}

TEST(BroadcastTo, StretchesOnes) {
  expect_array(run_op1(broadcast_to, {f32({2, 1}, {1, 2})}, {{"shape", Ints{2, 2, 3}}}),
               f32({2, 2, 3}, {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(infer_error(broadcast_to, {f32_type({2, 3})}, {{"shape", Ints{3}}}), "broadcast_to-C1");
  EXPECT_EQ(infer_error(broadcast_to, {f32_type({2})}, {{"shape", Ints{3}}}), "broadcast_to-C2");
}

TEST(Tile, RepeatsTheWhole) {
  expect_array(run_op1(tile, {f32({1, 2}, {1, 2})}, {{"reps", Ints{2, 2}}}), f32({2, 4}, {1, 2, 1, 2, 1, 2, 1, 2}));
  expect_array(run_op1(tile, {f32({2}, {1, 2})}, {{"reps", Ints{0}}}), f32({0}, {}));
  EXPECT_EQ(infer_error(tile, {f32_type({2})}, {{"reps", Ints{1, 1}}}), "tile-C1");
}

TEST(Repeat, RepeatsEachPoint) {
  expect_array(run_op1(repeat, {counted({2, 2})}, {{"axis", int64_t{1}}, {"times", int64_t{3}}}),
               f32({2, 6}, {0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3}));
  EXPECT_EQ(infer_error(repeat, {f32_type({2})}, {{"axis", int64_t{1}}, {"times", int64_t{2}}}), "repeat-C1");
  EXPECT_EQ(infer_error(repeat, {f32_type({2})}, {{"axis", int64_t{0}}, {"times", int64_t{-1}}}), "repeat-C2");
}

TEST(Concat, JoinsAnyNumberOfParts) {
  std::vector<Array> parts{counted({2, 1}), counted({2, 0}), f32({2, 2}, {5, 6, 7, 8}), counted({2, 1})};
  expect_array(run_op1(concat, parts, {{"axis", int64_t{1}}}), f32({2, 4}, {0, 5, 6, 0, 1, 7, 8, 1}));
  expect_array(run_op1(concat, {counted({1, 2}), counted({1, 2})}, {{"axis", int64_t{0}}}), f32({2, 2}, {0, 1, 0, 1}));
  EXPECT_EQ(infer_error(concat, {f32_type({2})}, {{"axis", int64_t{1}}}), "concat-C1");
  EXPECT_EQ(infer_error(concat, {f32_type({2}), {DType::I32, {2}}}, {{"axis", int64_t{0}}}), "concat-C2");
  EXPECT_EQ(infer_error(concat, {f32_type({2, 3}), f32_type({2, 4})}, {{"axis", int64_t{0}}}), "concat-C3");
}

TEST(Split, CutsIntoSizes) {
  auto parts = run_op(split, {counted({2, 3})}, {{"axis", int64_t{1}}, {"sizes", Ints{2, 0, 1}}});
  ASSERT_EQ(parts.size(), 3u);
  expect_array(parts[0], f32({2, 2}, {0, 1, 3, 4}));
  expect_array(parts[1], f32({2, 0}, {}));
  expect_array(parts[2], f32({2, 1}, {2, 5}));
  EXPECT_EQ(infer_error(split, {f32_type({3})}, {{"axis", int64_t{1}}, {"sizes", Ints{3}}}), "split-C1");
  EXPECT_EQ(infer_error(split, {f32_type({3})}, {{"axis", int64_t{0}}, {"sizes", Ints{2, 2}}}), "split-C2");
}

TEST(StridedSlice, StepsForwardAndBack) {
  expect_array(run_op1(strided_slice, {counted({2, 5})}, {{"begin", Ints{0, 1}}, {"end", Ints{2, 5}}, {"strides", Ints{1, 2}}}),
               f32({2, 2}, {1, 3, 6, 8}));
  expect_array(run_op1(strided_slice, {counted({5})}, {{"begin", Ints{4}}, {"end", Ints{-1}}, {"strides", Ints{-2}}}),
               f32({3}, {4, 2, 0}));
  expect_array(run_op1(strided_slice, {counted({5})}, {{"begin", Ints{2}}, {"end", Ints{2}}, {"strides", Ints{1}}}),
               f32({0}, {}));
}

TEST(StridedSlice, Refuses) {
  auto code = [](Ints begin, Ints end, Ints strides, Dim extent = 5) {
    return infer_error(strided_slice, {f32_type({extent})}, {{"begin", begin}, {"end", end}, {"strides", strides}});
  };
  EXPECT_EQ(code({0, 0}, {1}, {1}), "strided_slice-C1");
  EXPECT_EQ(code({0}, {1}, {0}), "strided_slice-C1");
  EXPECT_EQ(code({0}, {6}, {1}), "strided_slice-C2");
  EXPECT_EQ(code({5}, {-1}, {-1}), "strided_slice-C2");
  EXPECT_EQ(code({0}, {3}, {1}, tir::var("n")), "strided_slice-C3");
}

TEST(ReverseSequence, ReversesEachPrefix) {
  Array x = counted({4, 2}), lens = array(DType::I64, {2}, {3, 9});  // 9 is clamped to 4
  expect_array(run_op1(reverse_sequence, {x, lens}, {{"time_axis", int64_t{0}}, {"batch_axis", int64_t{1}}}),
               f32({4, 2}, {4, 7, 2, 5, 0, 3, 6, 1}));
  EXPECT_EQ(infer_error(reverse_sequence, {f32_type({4, 2}), {DType::I64, {2}}},
                        {{"time_axis", int64_t{1}}, {"batch_axis", int64_t{1}}}),
            "reverse_sequence-C1");
  EXPECT_EQ(infer_error(reverse_sequence, {f32_type({4, 2}), {DType::I64, {4}}},
                        {{"time_axis", int64_t{0}}, {"batch_axis", int64_t{1}}}),
            "reverse_sequence-C2");
}

TEST(Trilu, KeepsATriangle) {
  Array x = f32({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  expect_array(run_op1(trilu, {x, array(DType::I64, {}, {1})}, {{"upper", true}}), f32({3, 3}, {0, 2, 3, 0, 0, 6, 0, 0, 0}));
  expect_array(run_op1(trilu, {x, array(DType::I64, {}, {-1})}, {{"upper", false}}), f32({3, 3}, {0, 0, 0, 4, 0, 0, 7, 8, 0}));
  EXPECT_EQ(infer_error(trilu, {f32_type({3}), {DType::I64, {}}}), "trilu-C1");
  EXPECT_EQ(infer_error(trilu, {f32_type({3, 3}), {DType::I64, {1}}}), "trilu-C2");
}

Array padded(const Array& x, Ints before, Ints after, const char* mode) {
  return run_op1(pad, {x, f32({}, {9})}, {{"before", before}, {"after", after}, {"mode", std::string(mode)}});
}

TEST(Pad, FillsByMode) {
  Array x = counted({4});
  expect_array(padded(x, {2}, {1}, "constant"), f32({7}, {9, 9, 0, 1, 2, 3, 9}));
  expect_array(padded(x, {2}, {1}, "edge"), f32({7}, {0, 0, 0, 1, 2, 3, 3}));
  expect_array(padded(x, {2}, {1}, "reflect"), f32({7}, {2, 1, 0, 1, 2, 3, 2}));
  expect_array(padded(x, {2}, {1}, "wrap"), f32({7}, {2, 3, 0, 1, 2, 3, 0}));
  expect_array(padded(f32({1}, {5}), {1}, {2}, "reflect"), f32({4}, {5, 5, 5, 5}));
}

TEST(Pad, CutsByNegativeWidths) {
  expect_array(padded(counted({2, 3}), {0, -1}, {1, 0}, "constant"), f32({3, 2}, {1, 2, 4, 5, 9, 9}));
  expect_array(padded(counted({4}), {-1}, {2}, "edge"), f32({5}, {1, 2, 3, 3, 3}));
  expect_array(padded(counted({4}), {3}, {-5}, "constant"), f32({2}, {9, 9}));
}

TEST(Pad, Refuses) {
  auto code = [](TensorType x, TensorType value, Ints before, const char* mode = "constant") {
    return infer_error(pad, {x, value}, {{"before", before}, {"after", Ints{0}}, {"mode", std::string(mode)}});
  };
  EXPECT_EQ(code(f32_type({4}), f32_type({}), {0, 0}), "pad-C1");
  EXPECT_EQ(code(f32_type({4}), {DType::I32, {}}, {0}), "pad-C2");
  EXPECT_EQ(code(f32_type({4}), f32_type({}), {0}, "mirror"), "pad-C3");
  EXPECT_EQ(code(f32_type({4}), f32_type({}), {-5}), "pad-C4");
  EXPECT_EQ(code(f32_type({0}), f32_type({}), {1}, "edge"), "pad-C4");
}

}  // namespace
}  // namespace tenon::op
