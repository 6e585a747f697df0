// SPDX-License-Identifier: Apache-2.0
// Reductions, matrix products, normalization and softmax, against values by hand.
#include <gtest/gtest.h>

#include <cmath>
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
using test::run_op1;
using Ints = std::vector<int64_t>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

graph::Attrs over(Ints axes, bool keepdims = false) { return {{"axes", std::move(axes)}, {"keepdims", keepdims}}; }
graph::Attrs along(int64_t axis, bool last = false) { return {{"axis", axis}, {"select_last_index", last}}; }

TEST(Reduce, AnyAxesWithAndWithoutKeepingThem) {
  Array x = f32({2, 2, 3}, {1, 2, 3, 4, 5, 6, -1, -2, -3, -4, -5, -6});
  expect_array(run_op1(op::sum, {x}, over({1})), f32({2, 3}, {5, 7, 9, -5, -7, -9}));
  expect_array(run_op1(op::sum, {x}, over({-1, 0}, true)), f32({1, 2, 1}, {0, 0}));
  expect_array(run_op1(op::sum, {x}, over({})), x);
  expect_array(run_op1(op::mean, {x}, over({2})), f32({2, 2}, {2, 5, -2, -5}));
  expect_array(run_op1(op::max, {x}, over({0, 1, 2})), f32({}, {6}));
  expect_array(run_op1(op::min, {x}, over({0, 2}, true)), f32({1, 2, 1}, {-3, -6}));
  expect_array(run_op1(op::prod, {x}, over({2, 1})), f32({2}, {720, 720}));
}

TEST(Reduce, NothingGivesTheIdentity) {
  Array none = f32({0, 2}, {});
  expect_array(run_op1(op::sum, {none}, over({0})), f32({2}, {0, 0}));
  expect_array(run_op1(op::prod, {none}, over({0})), f32({2}, {1, 1}));
  expect_array(run_op1(op::max, {none}, over({0})), f32({2}, {-kInf, -kInf}));
  expect_array(run_op1(op::min, {none}, over({0})), f32({2}, {kInf, kInf}));
  expect_array(run_op1(op::mean, {none}, over({0})), f32({2}, {kNan, kNan}));
  expect_array(run_op1(op::max, {array(DType::I8, {0}, {})}, over({0})), array(DType::I8, {}, {-128}));
  expect_array(run_op1(op::sum, {none}, over({1})), f32({0}, {}));
}

TEST(Reduce, EachDtypeByItsRules) {
  expect_array(run_op1(op::mean, {array(DType::I32, {3}, {-1, -2, -2})}, over({0})), array(DType::I32, {}, {-1}));
  expect_array(run_op1(op::mean, {array(DType::I8, {2}, {127, 127})}, over({0})), array(DType::I8, {}, {127}));
  expect_array(run_op1(op::sum, {array(DType::U8, {2}, {200, 100})}, over({0})), array(DType::U8, {}, {44}));
  // At f16 every step past 2048 would round the 1 away.
  expect_array(run_op1(op::sum, {array(DType::F16, {5}, {2048, 1, 1, 1, 1})}, over({0})), array(DType::F16, {}, {2052}));
  expect_array(run_op1(op::max, {array(DType::Bool, {2, 2}, {0, 1, 0, 0})}, over({1})), array(DType::Bool, {2}, {1, 0}));
  expect_array(run_op1(op::min, {array(DType::Bool, {2, 2}, {1, 1, 1, 0})}, over({1})), array(DType::Bool, {2}, {1, 0}));
  expect_array(run_op1(op::max, {array_of<uint64_t>(DType::U64, {2}, {~uint64_t{0}, 3})}, over({0})),
               array_of<uint64_t>(DType::U64, {}, {~uint64_t{0}}));
  expect_array(run_op1(op::max, {f32({3}, {1, kNan, 2})}, over({0})), f32({}, {kNan}));
  expect_array(run_op1(op::min, {f32({3}, {kNan, 1, 2})}, over({0})), f32({}, {kNan}));
}

TEST(Reduce, ArgumentsOfExtremes) {
  Array x = f32({2, 4}, {3, 9, 9, 1, -kInf, -kInf, -kInf, -kInf});
  expect_array(run_op1(op::argmax, {x}, along(1)), array(DType::I64, {2}, {1, 0}));
  expect_array(run_op1(op::argmax, {x}, along(-1, true)), array(DType::I64, {2}, {2, 3}));
  expect_array(run_op1(op::argmin, {x}, {{"axis", int64_t{0}}, {"keepdims", true}}), array(DType::I64, {1, 4}, {1, 1, 1, 1}));
  Array with_nan = f32({4}, {1, kNan, kNan, 2});
  expect_array(run_op1(op::argmax, {with_nan}, along(0)), array(DType::I64, {}, {1}));
  expect_array(run_op1(op::argmin, {with_nan}, along(0)), array(DType::I64, {}, {1}));
  expect_array(run_op1(op::argmax, {with_nan}, along(0, true)), array(DType::I64, {}, {2}));
  expect_array(run_op1(op::argmin, {array(DType::U8, {3}, {255, 255, 255})}, along(0)), array(DType::I64, {}, {0}));
}

TEST(Reduce, ConstraintsAreNamed) {
  TensorType x(DType::F32, {2, 3});
  EXPECT_EQ(infer_error(op::sum, {x}, over({2})), "reduce-C1");
  EXPECT_EQ(infer_error(op::sum, {x}, over({1, -1})), "reduce-C2");
  EXPECT_EQ(infer_error(op::argmax, {x}, along(-3)), "arg-reduce-C1");
  Dim n = tir::var("n");
  EXPECT_EQ(infer_op(op::sum, {TensorType(DType::F32, {n, 3})}, over({1}, true))[0], TensorType(DType::F32, {n, 1}));
}

TEST(Matmul, EveryPairOfRanks) {
  Array v = f32({2}, {1, 2}), m = f32({2, 2}, {1, 2, 3, 4});
  expect_array(run_op1(op::matmul, {v, m}), f32({2}, {7, 10}));
  expect_array(run_op1(op::matmul, {m, v}), f32({2}, {5, 11}));
  expect_array(run_op1(op::matmul, {v, v}), f32({}, {5}));
  expect_array(run_op1(op::matmul, {m, m}), f32({2, 2}, {7, 10, 15, 22}));
  Array batch = f32({2, 1, 2, 2}, {1, 2, 3, 4, 0, 1, 1, 0}), pair = f32({3, 2, 1}, {1, 0, 0, 1, 1, 1});
  expect_array(run_op1(op::matmul, {batch, pair}), f32({2, 3, 2, 1}, {1, 3, 2, 4, 3, 7, 0, 1, 1, 0, 1, 1}));
  expect_array(run_op1(op::matmul, {batch, v}), f32({2, 1, 2}, {5, 11, 2, 1}));
  expect_array(run_op1(op::matmul, {f32({2, 0}, {}), f32({0, 1}, {})}), f32({2, 1}, {0, 0}));
  expect_array(run_op1(op::matmul, {array(DType::I8, {1, 2}, {100, 100}), array(DType::I8, {2, 1}, {1, 1})}),
               array(DType::I8, {1, 1}, {-56}));
  expect_array(run_op1(op::matmul, {array(DType::F16, {3}, {2048, 1, 1}), array(DType::F16, {3}, {1, 1, 1})}),
               array(DType::F16, {}, {2050}));
}

TEST(Matmul, ConstraintsAreNamed) {
  Dim n = tir::var("n");
  auto type = [](std::vector<Dim> shape) { return TensorType(DType::F32, std::move(shape)); };
  EXPECT_EQ(infer_op(op::matmul, {type({n, 5, 4}), type({4, 3})})[0], type({n, 5, 3}));
  EXPECT_EQ(infer_error(op::matmul, {type({}), type({4})}), "matmul-C1");
  EXPECT_EQ(infer_error(op::matmul, {type({4}), type({})}), "matmul-C2");
  EXPECT_EQ(infer_error(op::matmul, {type({2, 4}), type({5, 4})}), "matmul-C3");
  EXPECT_EQ(infer_error(op::matmul, {type({2, 1, 4}), type({3, 4, 1})}), "matmul-C4");
}

TEST(Norm, BatchUsesTheGivenStatistics) {
  auto one = [](double value) { return f32({1}, {value}); };
  expect_array(run_op1(op::batch_norm, {f32({2, 1}, {1, 3}), one(2), one(1), one(0), one(4)}, {{"epsilon", 0.0}}),
               f32({2, 1}, {2, 4}));
  Array x = f32({1, 2, 2}, {1, 2, 3, 4});
  expect_array(
      run_op1(op::batch_norm, {x, f32({2}, {1, 10}), f32({2}, {0, 5}), f32({2}, {1, 2}), f32({2}, {3, 0})}, {{"epsilon", 1.0}}),
      f32({1, 2, 2}, {0, 0.5, 15, 25}));
}

TEST(Norm, LayerOverAnyAxes) {
  double small = 1 / std::sqrt(1 + 1e-5);
  expect_array(run_op1(op::layer_norm, {f32({1, 2}, {1, 3})}, {{"axes", Ints{-1}}}), f32({1, 2}, {-small, small}));
  expect_array(run_op1(op::layer_norm, {f32({2, 2}, {1, 3, 3, 1})}, {{"axes", Ints{0, 1}}, {"epsilon", 3.0}}),
               f32({2, 2}, {-0.5, 0.5, 0.5, -0.5}));
  // A large mean: squares of the differences keep what a difference of squares would lose.
  expect_array(run_op1(op::layer_norm, {f32({2}, {16777214, 16777216})}, {{"axes", Ints{0}}, {"epsilon", 0.0}}),
               f32({2}, {-1, 1}));
}

TEST(Norm, LocalResponseSumsOverTheChannelsAround) {
  graph::Attrs attrs{{"size", int64_t{2}}, {"alpha", 2.0}, {"beta", 1.0}, {"bias", 1.0}};
  // Channel c sees c and c + 1: 1 + (1 + 4), 1 + (4 + 9), 1 + 9.
  expect_array(run_op1(op::lrn, {f32({1, 3}, {1, 2, 3})}, attrs), f32({1, 3}, {1.0 / 6, 2.0 / 14, 3.0 / 10}));
  attrs["size"] = int64_t{3};
  attrs["alpha"] = 3.0;
  attrs["beta"] = 0.5;
  expect_array(run_op1(op::lrn, {f32({1, 3}, {1, 2, 3})}, attrs),
               f32({1, 3}, {1 / std::sqrt(6), 2 / std::sqrt(15), 3 / std::sqrt(14)}));
}

TEST(Norm, ConstraintsAreNamed) {
  TensorType x(DType::F32, {2, 3}), c(DType::F32, {3}), wrong(DType::F32, {2});
  EXPECT_EQ(infer_error(op::batch_norm, {c, c, c, c, c}), "batch-norm-C1");
  EXPECT_EQ(infer_error(op::batch_norm, {x, c, c, wrong, c}), "batch-norm-C2");
  EXPECT_EQ(infer_error(op::layer_norm, {x}, {{"axes", Ints{2}}}), "layer-norm-C1");
  EXPECT_EQ(infer_error(op::layer_norm, {x}, {{"axes", Ints{0, 0}}}), "layer-norm-C2");
  EXPECT_EQ(infer_error(op::lrn, {c}, {{"size", int64_t{1}}}), "lrn-C1");
  EXPECT_EQ(infer_error(op::lrn, {x}, {{"size", int64_t{0}}}), "lrn-C2");
}

TEST(Softmax, OverOneOrSeveralAxes) {
  Array zeros = f32({1, 2, 2}, {0, 0, 0, 0});
  expect_array(run_op1(op::softmax, {zeros}, {{"axes", Ints{1, 2}}}), f32({1, 2, 2}, {0.25, 0.25, 0.25, 0.25}));
  expect_array(run_op1(op::softmax, {zeros}, {{"axes", Ints{-1}}}), f32({1, 2, 2}, {0.5, 0.5, 0.5, 0.5}));
  expect_array(run_op1(op::log_softmax, {zeros}, {{"axes", Ints{1, 2}}}),
               f32({1, 2, 2}, {-1.3862944, -1.3862944, -1.3862944, -1.3862944}));
  Array x = f32({2, 2}, {std::log(1), std::log(3), std::log(9), std::log(1)});
  expect_array(run_op1(op::softmax, {x}, {{"axes", Ints{1}}}), f32({2, 2}, {0.25, 0.75, 0.9, 0.1}), 1e-5);
  expect_array(run_op1(op::softmax, {x}, {{"axes", Ints{0}}}), f32({2, 2}, {0.1, 0.75, 0.9, 0.25}), 1e-5);
}

TEST(Softmax, LargeValuesDoNotOverflow) {
  Array x = f32({3}, {1000, 1000, -1000});
  expect_array(run_op1(op::softmax, {x}, {{"axes", Ints{0}}}), f32({3}, {0.5, 0.5, 0}));
  expect_array(run_op1(op::log_softmax, {x}, {{"axes", Ints{0}}}), f32({3}, {-std::log(2), -std::log(2), -2000 - std::log(2)}));
  expect_array(run_op1(op::softmax, {array(DType::F16, {2}, {60000, 60000})}, {{"axes", Ints{0}}}),
               array(DType::F16, {2}, {0.5, 0.5}));
}

TEST(Softmax, HardmaxMarksTheFirstLargest) {
  Array x = f32({2, 3}, {1, 5, 5, 2, 0, 1});
  expect_array(run_op1(op::hardmax, {x}, {{"axis", int64_t{1}}}), f32({2, 3}, {0, 1, 0, 1, 0, 0}));
  expect_array(run_op1(op::hardmax, {x}, {{"axis", int64_t{-2}}}), f32({2, 3}, {0, 1, 1, 1, 0, 0}));
}

TEST(Softmax, ConstraintsAreNamed) {
  TensorType x(DType::F32, {2, 3});
  EXPECT_EQ(infer_error(op::softmax, {x}, {{"axes", Ints{2}}}), "softmax-C1");
  EXPECT_EQ(infer_error(op::log_softmax, {x}, {{"axes", Ints{1, 1}}}), "softmax-C2");
  EXPECT_EQ(infer_error(op::hardmax, {x}, {{"axis", int64_t{5}}}), "hardmax-C1");
  EXPECT_EQ(infer_error(op::cast, {x}, {{"to", std::string("f8")}}), "cast-C1");
}

}  // namespace
}  // namespace tenon
