// SPDX-License-Identifier: Apache-2.0
// Operators whose positions come from data, against results worked out by hand; each constraint has its error.
#include <gtest/gtest.h>

#include <cmath>

#include "op/ops.h"
#include "support/op_run.h"

namespace tenon::op {
namespace {

using test::array;
using test::expect_array;
using test::f32;
using test::infer_error;
using test::run_op;
using test::run_op1;

Array i64(Shape shape, const std::vector<double>& values) { return array(DType::I64, std::move(shape), values); }

TensorType f32_type(std::vector<Dim> shape) { return {DType::F32, std::move(shape)}; }
TensorType i64_type(std::vector<Dim> shape) { return {DType::I64, std::move(shape)}; }

const int64_t kZero = 0, kOne = 1;

TEST(Gather, TakesSlicesAndClampsWhatIsOutside) {
  Array x = f32({3, 2}, {0, 1, 10, 11, 20, 21});
  expect_array(run_op1(gather, {x, i64({2, 2}, {2, 0, -1, -3})}, {{"axis", kZero}}),
               f32({2, 2, 2}, {20, 21, 0, 1, 20, 21, 0, 1}));
  expect_array(run_op1(gather, {x, array(DType::I32, {}, {1})}, {{"axis", kOne}}), f32({3}, {1, 11, 21}));
  expect_array(run_op1(gather, {x, i64({2}, {7, -9})}, {{"axis", kZero}}), f32({2, 2}, {20, 21, 0, 1}));
}

TEST(Gather, Refuses) {
  EXPECT_EQ(infer_error(gather, {f32_type({3}), i64_type({2})}, {{"axis", kOne}}), "gather-C1");
  EXPECT_EQ(infer_error(gather, {f32_type({3}), f32_type({2})}, {{"axis", kZero}}), "gather-C2");
  EXPECT_EQ(infer_error(gather, {f32_type({0}), i64_type({2})}, {{"axis", kZero}}), "gather-C3");
}

TEST(GatherElements, TakesOneElementForEachIndex) {
  Array x = f32({2, 3}, {0, 1, 2, 3, 4, 5});
  expect_array(run_op1(gather_elements, {x, i64({2, 2}, {2, 0, -1, 9})}, {{"axis", kOne}}), f32({2, 2}, {2, 0, 5, 5}));
  expect_array(run_op1(gather_elements, {x, i64({1, 3}, {1, 0, 1})}, {{"axis", kZero}}), f32({1, 3}, {3, 1, 5}));
  EXPECT_EQ(infer_error(gather_elements, {f32_type({3}), i64_type({2, 2})}, {{"axis", kZero}}), "gather_elements-C1");
  EXPECT_EQ(infer_error(gather_elements, {f32_type({3}), f32_type({2})}, {{"axis", kZero}}), "gather_elements-C2");
  EXPECT_EQ(infer_error(gather_elements, {f32_type({2, 3}), i64_type({3, 3})}, {{"axis", kOne}}), "gather_elements-C3");
}

TEST(GatherNd, TakesPointsAndBatches) {
  Array x = f32({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  expect_array(run_op1(gather_nd, {x, i64({2, 2}, {0, 1, 1, -2})}), f32({2, 2}, {2, 3, 4, 5}));
  expect_array(run_op1(gather_nd, {x, i64({2, 1}, {1, 0})}, {{"batch_dims", kOne}}), f32({2, 2}, {2, 3, 4, 5}));
  EXPECT_EQ(infer_error(gather_nd, {f32_type({2}), i64_type({})}), "gather_nd-C1");
  EXPECT_EQ(infer_error(gather_nd, {f32_type({2}), i64_type({3, 2})}), "gather_nd-C2");
  EXPECT_EQ(infer_error(gather_nd, {f32_type({0}), i64_type({3, 1})}), "gather_nd-C3");
}

TEST(OneHot, IsOffOutsideItsDepth) {
  expect_array(run_op1(one_hot, {i64({4}, {1, -1, 3, -4}), f32({2}, {-1, 5})}, {{"axis", kOne}, {"depth", int64_t{3}}}),
               f32({4, 3}, {-1, 5, -1, -1, -1, 5, -1, -1, -1, -1, -1, -1}));
  expect_array(run_op1(one_hot, {array(DType::U8, {2}, {0, 1}), i64({2}, {0, 1})}, {{"axis", kZero}, {"depth", int64_t{2}}}),
               i64({2, 2}, {1, 0, 0, 1}));
  EXPECT_EQ(infer_error(one_hot, {i64_type({2}), f32_type({2})}, {{"axis", int64_t{2}}, {"depth", kOne}}), "one_hot-C1");
  EXPECT_EQ(infer_error(one_hot, {i64_type({2}), f32_type({3})}, {{"axis", kZero}, {"depth", kOne}}), "one_hot-C2");
  EXPECT_EQ(infer_error(one_hot, {i64_type({2}), f32_type({2})}, {{"axis", kZero}, {"depth", kZero}}), "one_hot-C3");
}

Array scattered(const char* reduction) {
  return run_op1(scatter_elements, {f32({1, 4}, {1, 2, 3, 4}), i64({1, 3}, {1, -1, 1}), f32({1, 3}, {10, 20, 5})},
                 {{"axis", kOne}, {"reduction", std::string(reduction)}});
}

TEST(ScatterElements, WritesInOrderAndReduces) {
  expect_array(scattered("none"), f32({1, 4}, {1, 5, 3, 20}));
  expect_array(scattered("add"), f32({1, 4}, {1, 17, 3, 24}));
  expect_array(scattered("mul"), f32({1, 4}, {1, 100, 3, 80}));
  expect_array(scattered("max"), f32({1, 4}, {1, 10, 3, 20}));
  expect_array(scattered("min"), f32({1, 4}, {1, 2, 3, 4}));
}

TEST(ScatterElements, Refuses) {
  auto code = [](TensorType x, TensorType indices, TensorType updates, const char* reduction = "none") {
    return infer_error(scatter_elements, {x, indices, updates}, {{"axis", kZero}, {"reduction", std::string(reduction)}});
  };
  EXPECT_EQ(code(f32_type({4}), f32_type({1}), f32_type({1})), "scatter_elements-C1");
  EXPECT_EQ(code(f32_type({4}), i64_type({1}), i64_type({1})), "scatter_elements-C1");
  EXPECT_EQ(code(f32_type({4}), i64_type({1}), f32_type({1}), "xor"), "scatter_elements-C2");
  EXPECT_EQ(code(f32_type({4}), i64_type({1}), f32_type({2})), "scatter_elements-C3");
  EXPECT_EQ(code(f32_type({4, 2}), i64_type({1, 3}), f32_type({1, 3})), "scatter_elements-C4");
}

TEST(ScatterNd, WritesSlices) {
  Array x = f32({3, 2}, {0, 0, 1, 1, 2, 2});
  expect_array(run_op1(scatter_nd, {x, i64({2, 1}, {2, -3}), f32({2, 2}, {5, 6, 7, 8})}), f32({3, 2}, {7, 8, 1, 1, 5, 6}));
  expect_array(run_op1(scatter_nd, {x, i64({2, 2}, {1, 0, 1, 0}), f32({2}, {5, 6})}, {{"reduction", std::string("add")}}),
               f32({3, 2}, {0, 0, 12, 1, 2, 2}));
  EXPECT_EQ(infer_error(scatter_nd, {f32_type({3}), f32_type({1, 1}), f32_type({1})}), "scatter_nd-C1");
  EXPECT_EQ(
      infer_error(scatter_nd, {{DType::Bool, {3}}, i64_type({1, 1}), {DType::Bool, {1}}}, {{"reduction", std::string("add")}}),
      "scatter_nd-C2");
  EXPECT_EQ(infer_error(scatter_nd, {f32_type({3}), i64_type({1, 2}), f32_type({1})}), "scatter_nd-C3");
  EXPECT_EQ(infer_error(scatter_nd, {f32_type({3}), i64_type({2, 1}), f32_type({1})}), "scatter_nd-C4");
}

TEST(TopK, SortsStablyWithNanLargest) {
  Array x = f32({2, 5}, {3, 1, 3, NAN, 2, 5, 5, 5, 5, 6});
  auto best = run_op(top_k, {x}, {{"axis", kOne}, {"k", int64_t{3}}, {"largest", true}});
  expect_array(best[0], f32({2, 3}, {NAN, 3, 3, 6, 5, 5}));
  expect_array(best[1], i64({2, 3}, {3, 0, 2, 4, 0, 1}));
  auto least = run_op(top_k, {x}, {{"axis", kOne}, {"k", int64_t{5}}, {"largest", false}});
  expect_array(least[0], f32({2, 5}, {1, 2, 3, 3, NAN, 5, 5, 5, 5, 6}));
  expect_array(least[1], i64({2, 5}, {1, 4, 0, 2, 3, 0, 1, 2, 3, 4}));
}

TEST(TopK, SortsOuterAxesAndUnsigned) {
  auto best = run_op(top_k, {array(DType::U8, {3, 2}, {1, 200, 255, 3, 7, 100})}, {{"axis", kZero}, {"k", int64_t{2}}});
  expect_array(best[0], array(DType::U8, {2, 2}, {255, 200, 7, 100}));
  expect_array(best[1], i64({2, 2}, {1, 0, 2, 2}));
  EXPECT_EQ(run_op(top_k, {f32({2}, {1, 2})}, {{"axis", kZero}, {"k", kZero}})[0].shape, Shape{0});
  EXPECT_EQ(infer_error(top_k, {f32_type({2})}, {{"axis", kOne}, {"k", kOne}}), "top_k-C1");
  EXPECT_EQ(infer_error(top_k, {f32_type({2})}, {{"axis", kZero}, {"k", int64_t{3}}}), "top_k-C2");
}

TEST(CumSum, WalksBothWays) {
  Array x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  auto sums = [&](int64_t axis, bool exclusive, bool reverse) {
    return run_op1(cumsum, {x}, {{"axis", axis}, {"exclusive", exclusive}, {"reverse", reverse}});
  };
  expect_array(sums(1, false, false), f32({2, 3}, {1, 3, 6, 4, 9, 15}));
  expect_array(sums(1, true, false), f32({2, 3}, {0, 1, 3, 0, 4, 9}));
  expect_array(sums(1, false, true), f32({2, 3}, {6, 5, 3, 15, 11, 6}));
  expect_array(sums(0, true, true), f32({2, 3}, {4, 5, 6, 0, 0, 0}));
}

}  // namespace
}  // namespace tenon::op
