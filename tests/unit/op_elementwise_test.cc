// SPDX-License-Identifier: Apache-2.0
// Element-wise operators: the numeric policy at its edges, against values known by hand and from NumPy.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "op/all_ops.h"
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

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Array flags(const std::vector<double>& values) { return array(DType::Bool, {static_cast<int64_t>(values.size())}, values); }
Array list(DType dtype, const std::vector<double>& values) { return array(dtype, {static_cast<int64_t>(values.size())}, values); }
Array floats(const std::vector<double>& values) { return list(DType::F32, values); }

TEST(Elementwise, IntegersDivideTowardZeroAndByZeroGiveZero) {
  for (DType dtype : {DType::I32, DType::I64}) {
    Array a = list(dtype, {-7, 7, -7, 7, -8, 0, 5}), b = list(dtype, {2, -2, -2, 2, 2, -5, 0});
    expect_array(run_op1(op::divide, {a, b}), list(dtype, {-3, -3, 3, 3, -4, 0, 0}));
    expect_array(run_op1(op::mod, {a, b}), list(dtype, {1, -1, -1, 1, 0, 0, 0}));
    expect_array(run_op1(op::mod, {a, b}, {{"fmod", true}}), list(dtype, {-1, 1, -1, 1, 0, 0, 0}));
  }
}

TEST(Elementwise, The64BitQuotientIsExact) {
  Array a = array_of<int64_t>(DType::I64, {2}, {27021597764222979, 9223372036854775807});
  Array b = array_of<int64_t>(DType::I64, {2}, {3, 7});
  expect_array(run_op1(op::divide, {a, b}), array_of<int64_t>(DType::I64, {2}, {9007199254740993, 1317624576693539401}));
  Array least = array_of<int64_t>(DType::I64, {1}, {std::numeric_limits<int64_t>::min()});
  Array minus_one = array_of<int64_t>(DType::I64, {1}, {-1});
  expect_array(run_op1(op::divide, {least, minus_one}), least);
  expect_array(run_op1(op::mod, {least, minus_one}), array_of<int64_t>(DType::I64, {1}, {0}));
}

TEST(Elementwise, FloatsDivideAsIeeeSays) {
  expect_array(run_op1(op::divide, {floats({0, 1, -1}), floats({0, 0, 0})}), floats({kNan, kInf, -kInf}));
  expect_array(run_op1(op::mod, {floats({-7.5, 7.5}), floats({2, 2})}, {{"fmod", true}}), floats({-1.5, 1.5}));
}

TEST(Elementwise, IntegersWrapAtTheirWidth) {
  expect_array(run_op1(op::subtract, {list(DType::U32, {3}), list(DType::U32, {5})}), list(DType::U32, {4294967294}));
  expect_array(run_op1(op::subtract, {list(DType::U8, {3}), list(DType::U8, {5})}), list(DType::U8, {254}));
  expect_array(run_op1(op::add, {list(DType::U8, {200}), list(DType::U8, {100})}), list(DType::U8, {44}));
  expect_array(run_op1(op::add, {list(DType::I8, {100}), list(DType::I8, {100})}), list(DType::I8, {-56}));
  expect_array(run_op1(op::neg, {list(DType::I8, {-128, 5})}), list(DType::I8, {-128, -5}));
  expect_array(run_op1(op::abs, {list(DType::I8, {-128, -5})}), list(DType::I8, {-128, 5}));
}

TEST(Elementwise, NanPropagatesThroughExtremes) {
  Array a = floats({kNan, 1, kNan, -2}), b = floats({1, kNan, kNan, -3});
  for (auto [x, y] : {std::pair(a, b), std::pair(b, a)}) {
    expect_array(run_op1(op::maximum, {x, y}), floats({kNan, kNan, kNan, -2}));
    expect_array(run_op1(op::minimum, {x, y}), floats({kNan, kNan, kNan, -3}));
  }
  expect_array(run_op1(op::relu, {floats({kNan, -1, 2})}), floats({kNan, 0, 2}));
  expect_array(run_op1(op::clip, {floats({kNan, 5}), f32({}, {0}), f32({}, {1})}), floats({kNan, 1}));
  expect_array(run_op1(op::sign, {floats({kNan, -3, 0, 7})}), floats({kNan, -1, 0, 1}));
}

TEST(Elementwise, ClipTakesTheUpperBoundWhenTheBoundsCross) {
  expect_array(run_op1(op::clip, {floats({-1, 2, 6}), f32({}, {4}), f32({}, {3})}), floats({3, 3, 3}));
}

TEST(Elementwise, HalfFloatsCompareAsNumbers) {
  Array a = list(DType::F16, {2, -1, -8}), b = list(DType::F16, {3, -4, -2});
  expect_array(run_op1(op::minimum, {a, b}), list(DType::F16, {2, -4, -8}));
  expect_array(run_op1(op::maximum, {a, b}), list(DType::F16, {3, -1, -2}));
}

TEST(Elementwise, RoundingKeepsLargeValues) {
  expect_array(run_op1(op::round, {floats({0.5, 1.5, 2.5, -0.5, -1.5, -2.5})}), floats({0, 2, 2, -0.0, -2, -2}));
  expect_array(run_op1(op::floor, {floats({3e9, -3e9, 1e20, -0.5, 2.5})}), floats({3e9, -3e9, 1e20, -1, 2}));
  EXPECT_TRUE(std::signbit(run_op1(op::neg, {floats({0})}).read<float>(0)));
}

TEST(Elementwise, CastsTruncateSaturateAndTurnNanIntoZero) {
  auto to = [](const char* dtype) { return graph::Attrs{{"to", std::string(dtype)}}; };
  expect_array(run_op1(op::cast, {floats({1.9, -1.9, 127, -128, 0.5, 300, -300, kNan, kInf})}, to("i8")),
               list(DType::I8, {1, -1, 127, -128, 0, 127, -128, 0, 127}));
  expect_array(run_op1(op::cast, {floats({255.9, 0.9, -3, 1e9})}, to("u8")), list(DType::U8, {255, 0, 0, 255}));
  expect_array(run_op1(op::cast, {floats({kNan, 0, -0.0, 2, 0.5})}, to("bool")), flags({1, 0, 0, 1, 1}));
  expect_array(run_op1(op::cast, {floats({1e30, -1e30})}, to("i64")),
               array_of<int64_t>(DType::I64, {2}, {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}));
  expect_array(run_op1(op::cast, {floats({1e30, -1})}, to("u64")), array_of<uint64_t>(DType::U64, {2}, {~uint64_t{0}, 0}));
  expect_array(run_op1(op::cast, {list(DType::I32, {300, -1})}, to("u8")), list(DType::U8, {44, 255}));
}

TEST(Elementwise, CastsToNarrowFloatsRoundOnce) {
  // 1 + 2^-11 + 2^-40 lies just above a tie of f16: rounding by way of f32 would fall on the tie and go down.
  Array x = list(DType::F64, {1 + 0x1p-11 + 0x1p-40, 65519.99, 65520});
  EXPECT_EQ(graph::fold_node(op::cast, std::vector{x}, std::vector{TensorType(DType::F16, {3})}, {{"to", std::string("f16")}}, 64)
                ->at(0)
                .read<uint16_t>(0),
            0x3c01);
  expect_array(run_op1(op::cast, {x}, {{"to", std::string("f16")}}), list(DType::F16, {1 + 0x1p-10, 65504, kInf}));
  // 2^56 + 2^32 + 1 lies just above a tie of f32.
  Array wide = array_of<int64_t>(DType::I64, {1}, {(int64_t{1} << 56) + (int64_t{1} << 32) + 1});
  expect_array(run_op1(op::cast, {wide}, {{"to", std::string("f32")}}), floats({0x1p56 + 0x1p33}));
}

TEST(Elementwise, PowersOfIntegersWrapAndNegativeExponentsVanish) {
  expect_array(run_op1(op::power, {list(DType::I32, {3, -2, 2, 1, -1, -1, 7}), list(DType::I32, {4, 3, 40, -5, -3, -4, 0})}),
               list(DType::I32, {81, -8, 0, 1, -1, 1, 1}));
}

TEST(Elementwise, ShiftsPastTheWidthLeaveNothing) {
  expect_array(run_op1(op::shift_left, {list(DType::U8, {3, 255, 1}), list(DType::U8, {1, 4, 9})}), list(DType::U8, {6, 240, 0}));
  expect_array(run_op1(op::shift_right, {list(DType::U8, {16, 255}), list(DType::U8, {2, 200})}), list(DType::U8, {4, 0}));
  expect_array(run_op1(op::bitwise_not, {list(DType::U8, {0, 5})}), list(DType::U8, {255, 250}));
}

TEST(Elementwise, ComparisonsWithNanAreFalse) {
  Array a = floats({1, kNan, 2}), b = floats({1, 1, 3});
  expect_array(run_op1(op::equal, {a, b}), flags({1, 0, 0}));
  expect_array(run_op1(op::not_equal, {a, b}), flags({0, 1, 1}));
  expect_array(run_op1(op::less, {a, b}), flags({0, 0, 1}));
  expect_array(run_op1(op::less_equal, {a, b}), flags({1, 0, 1}));
  expect_array(run_op1(op::greater, {a, b}), flags({0, 0, 0}));
  expect_array(run_op1(op::greater_equal, {a, b}), flags({1, 0, 0}));
  Array large = array_of<uint64_t>(DType::U64, {1}, {~uint64_t{0}}), small = array_of<uint64_t>(DType::U64, {1}, {1});
  expect_array(run_op1(op::greater, {large, small}), flags({1}));
}

TEST(Elementwise, LogicOfBools) {
  Array a = flags({0, 0, 1, 1}), b = flags({0, 1, 0, 1});
  expect_array(run_op1(op::logical_and, {a, b}), flags({0, 0, 0, 1}));
  expect_array(run_op1(op::logical_or, {a, b}), flags({0, 1, 1, 1}));
  expect_array(run_op1(op::logical_xor, {a, b}), flags({0, 1, 1, 0}));
  expect_array(run_op1(op::logical_not, {a}), flags({1, 1, 0, 0}));
}

TEST(Elementwise, InfinitiesOfAWantedSign) {
  Array x = floats({kInf, -kInf, 1, kNan});
  expect_array(run_op1(op::isinf, {x}), flags({1, 1, 0, 0}));
  expect_array(run_op1(op::isinf, {x}, {{"detect_negative", false}}), flags({1, 0, 0, 0}));
  expect_array(run_op1(op::isinf, {x}, {{"detect_positive", false}}), flags({0, 1, 0, 0}));
  expect_array(run_op1(op::isinf, {x}, {{"detect_positive", false}, {"detect_negative", false}}), flags({0, 0, 0, 0}));
  expect_array(run_op1(op::isnan, {x}), flags({0, 0, 0, 1}));
}

TEST(Elementwise, OperandsBroadcast) {
  expect_array(run_op1(op::where, {array(DType::Bool, {2, 1}, {1, 0}), f32({1, 3}, {1, 2, 3}), f32({}, {9})}),
               f32({2, 3}, {1, 2, 3, 9, 9, 9}));
  expect_array(run_op1(op::prelu, {f32({1, 2, 1, 2}, {-1, 2, -3, 4}), f32({2, 1, 1}, {0.1, 0.5})}),
               f32({1, 2, 1, 2}, {-0.1, 2, -1.5, 4}));
  expect_array(run_op1(op::add, {f32({0, 3}, {}), f32({3}, {1, 2, 3})}), f32({0, 3}, {}));
  // More than one chunk of the constant folder, its rows across the chunks' ends.
  std::vector<double> rows(7 * 300), sums(7 * 300);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = static_cast<double>(i);
    sums[i] = static_cast<double>(i + 10 * (i / 300));
  }
  expect_array(run_op1(op::add, {f32({7, 300}, rows), f32({7, 1}, {0, 10, 20, 30, 40, 50, 60})}), f32({7, 300}, sums));
}

TEST(Elementwise, SymbolicExtentsBroadcastByStructure) {
  Dim n = tir::var("n");
  TensorType rows(DType::F32, {n, 3}), row(DType::F32, {3}), column(DType::F32, {n, 1});
  EXPECT_EQ(infer_op(op::add, {rows, row})[0], rows);
  EXPECT_EQ(infer_op(op::add, {column, row})[0], rows);
  EXPECT_EQ(infer_error(op::add, {rows, TensorType(DType::F32, {tir::var("m"), 3})}), "broadcast-C1");
  EXPECT_EQ(infer_error(op::add, {rows, TensorType(DType::I32, {3})}), "same-dtype");
  EXPECT_EQ(infer_error(op::prelu, {row, rows}), "broadcast-C2");
  EXPECT_EQ(infer_error(op::sqrt, {TensorType(DType::I32, {3})}), "operand-dtype");
}

// Values by NumPy from the formulas of the ONNX specification.
TEST(Activation, Formulas) {
  Array x = floats({-3, -0.5, 0, 0.5, 3});
  expect_array(run_op1(op::sigmoid, {x}), floats({0.0474258732, 0.3775406688, 0.5, 0.6224593312, 0.9525741268}));
  expect_array(run_op1(op::softplus, {x}), floats({0.0485873516, 0.4740769842, 0.6931471806, 0.9740769842, 3.0485873516}));
  expect_array(run_op1(op::softsign, {x}), floats({-0.75, -1.0 / 3, 0, 1.0 / 3, 0.75}));
  expect_array(run_op1(op::leaky_relu, {x}, {{"alpha", 0.1}}), floats({-0.3, -0.05, 0, 0.5, 3}));
  expect_array(run_op1(op::elu, {x}, {{"alpha", 2.0}}), floats({-1.9004258633, -0.7869386806, 0, 0.5, 3}));
  expect_array(run_op1(op::celu, {x}, {{"alpha", 2.0}}), floats({-1.5537396797, -0.4423984339, 0, 0.5, 3}));
  expect_array(run_op1(op::selu, {x}), floats({-1.6705687287, -0.6917581878, 0, 0.5253505105, 3.1521030664}));
  expect_array(run_op1(op::hard_sigmoid, {x}, {{"alpha", 0.5}, {"beta", 0.6}}), floats({0, 0.35, 0.6, 0.85, 1}));
  expect_array(run_op1(op::hard_swish, {x}), floats({0, -0.2083333333, 0, 0.2916666667, 3}));
  expect_array(run_op1(op::gelu, {x}), floats({-0.0040496942, -0.1542687694, 0, 0.3457312306, 2.9959503058}), 1e-5);
  expect_array(run_op1(op::gelu, {x}, {{"approximate", std::string("tanh")}}),
               floats({-0.0036373920, -0.1542859904, 0, 0.3457140096, 2.9963626080}), 1e-5);
  expect_array(run_op1(op::mish, {x}), floats({-0.1456474643, -0.2207444236, 0, 0.3752452135, 2.9865350049}), 1e-5);
  expect_array(run_op1(op::thresholded_relu, {x}, {{"alpha", 0.5}}), floats({0, 0, 0, 0, 3}));
  expect_array(run_op1(op::shrink, {x}, {{"lambd", 0.5}, {"bias", 0.25}}), floats({-2.75, 0, 0, 0, 2.75}));
  EXPECT_EQ(infer_error(op::gelu, {TensorType(DType::F32, {2})}, {{"approximate", std::string("fast")}}), "gelu-C1");
}

TEST(Activation, LargeArgumentsStayFinite) {
  Array x = floats({-200, 200});
  expect_array(run_op1(op::sigmoid, {x}), floats({0, 1}));
  expect_array(run_op1(op::softplus, {x}), floats({0, 200}));
  expect_array(run_op1(op::mish, {x}), floats({0, 200}));
}

TEST(OpTable, FindsEveryOperatorAndTheRuleOfAnOpset) {
  for (const graph::OpDef* op : op::all_ops().all()) EXPECT_EQ(op::all_ops().find(op->name), op);
  EXPECT_EQ(op::all_ops().find("no_such"), nullptr);
  EXPECT_EQ(op::find_onnx_rule("Clip", 10)->since, 6);
  EXPECT_EQ(op::find_onnx_rule("Clip", 11)->since, 11);
  EXPECT_EQ(op::find_onnx_rule("Clip", 5), nullptr);
  EXPECT_EQ(op::find_onnx_rule("Mish", 17), nullptr);
}

}  // namespace
}  // namespace tenon
