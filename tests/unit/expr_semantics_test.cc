// SPDX-License-Identifier: Apache-2.0
// What every expression means, by hand: te::evaluate and tir::interpret share no arithmetic, so both are held to it.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "te/te.h"
#include "tir/interpret.h"

namespace tenon {
namespace {

using tir::BinaryOp;
using tir::Expr;
using tir::Intrinsic;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kMin64 = std::numeric_limits<int64_t>::min(), kMax64 = std::numeric_limits<int64_t>::max();

uint64_t element_bits(DType dtype, double value) {
  switch (dtype) {
    case DType::F16: return float_to_half(static_cast<float>(value));
    case DType::BF16: return float_to_bfloat(static_cast<float>(value));
    case DType::F32: return std::bit_cast<uint32_t>(static_cast<float>(value));
    default: return std::bit_cast<uint64_t>(value);
  }
}
uint64_t element_bits(DType, int64_t value) { return static_cast<uint64_t>(value); }

template <class T>
Array pack(DType dtype, const std::vector<T>& values) {
  MutableArray out(dtype, {static_cast<int64_t>(values.size())});
  auto size = static_cast<size_t>(byte_size(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    uint64_t bits = element_bits(dtype, values[i]);
    std::memcpy(out.data() + i * size, &bits, size);
  }
  return std::move(out).freeze();
}
Array ints(DType dtype, const std::vector<int64_t>& values) { return pack(dtype, values); }
Array floats(DType dtype, const std::vector<double>& values) { return pack(dtype, values); }

double as_double(const Array& a, int64_t i) {
  switch (a.dtype) {
    case DType::F16: return half_to_float(a.read<uint16_t>(i));
    case DType::BF16: return bfloat_to_float(a.read<uint16_t>(i));
    case DType::F32: return a.read<float>(i);
    default: return a.read<double>(i);
  }
}

/// Same bits, but any NaN stands for any other.
void expect_same(const Array& got, const Array& expected, const std::string& what) {
  ASSERT_EQ(got.dtype, expected.dtype) << what;
  ASSERT_EQ(got.shape, expected.shape) << what;
  auto size = static_cast<size_t>(byte_size(got.dtype));
  for (int64_t i = 0; i < got.elements(); ++i) {
    if (is_float(got.dtype) && std::isnan(as_double(expected, i))) {
      EXPECT_TRUE(std::isnan(as_double(got, i))) << what << " element " << i;
      continue;
    }
    uint64_t x = 0, y = 0;
    std::memcpy(&x, got.bytes.data() + static_cast<size_t>(i) * size, size);
    std::memcpy(&y, expected.bytes.data() + static_cast<size_t>(i) * size, size);
    EXPECT_EQ(x, y) << what << " element " << i << std::hex << " got " << x << " expected " << y;
  }
}

/// Applies `f` to each element of the inputs, which have one length, in both evaluators.
void expect_elements(const std::string& what, const std::vector<Array>& inputs, const Array& expected,
                     const std::function<Expr(const std::vector<Expr>&)>& f) {
  te::Graph g;
  std::vector<te::Tensor> tensors;
  std::map<std::string, Array, std::less<>> arrays;
  for (const Array& input : inputs) {
    tensors.push_back(g.placeholder("x", input.dtype, {Expr(input.shape[0])}));
    arrays.emplace(tensors.back().buffer->name, input);
  }
  te::Tensor y = g.compute("y", {Expr(expected.shape[0])}, [&](const std::vector<Expr>& i) {
    std::vector<Expr> loads;
    for (const te::Tensor& t : tensors) loads.push_back(t(i));
    return f(loads);
  });
  expect_same(te::evaluate(g, arrays, std::vector{y})[0], expected, "te " + what);
  expect_same(tir::interpret(te::create_prim_func(g, tensors, std::vector{y}, "f"), inputs)[0], expected, "tir " + what);
}

void expect_binary(BinaryOp op, const Array& a, const Array& b, const Array& expected) {
  expect_elements(std::string(name(op)) + " " + std::string(name(a.dtype)), {a, b}, expected,
                  [op](const auto& x) { return tir::binary(op, x[0], x[1]); });
}
void expect_call(Intrinsic op, const std::vector<Array>& in, const Array& expected) {
  expect_elements(std::string(name(op)) + " " + std::string(name(in[0].dtype)), in, expected,
                  [op](const auto& x) { return tir::call(op, x); });
}
void expect_cast(const Array& in, const Array& expected) {
  expect_elements("cast " + std::string(name(in.dtype)) + " to " + std::string(name(expected.dtype)), {in}, expected,
                  [&](const auto& x) { return tir::cast(expected.dtype, x[0]); });
}

TEST(ExprSemantics, IntegersWrapAtTheirWidth) {
  for (DType d : {DType::I8, DType::I16, DType::I32, DType::I64}) {
    int64_t min = tir::int_value(tir::lowest(d)), max = tir::int_value(tir::highest(d));
    expect_binary(BinaryOp::Add, ints(d, {max, min, 5}), ints(d, {1, -1, -7}), ints(d, {min, max, -2}));
    expect_binary(BinaryOp::Sub, ints(d, {min, 0, 5}), ints(d, {1, min, 7}), ints(d, {max, min, -2}));
    expect_binary(BinaryOp::Mul, ints(d, {min, max, -6}), ints(d, {-1, 2, 7}), ints(d, {min, -2, -42}));
    expect_call(Intrinsic::Abs, {ints(d, {min, -3, 3})}, ints(d, {min, 3, 3}));
    expect_call(Intrinsic::BitNot, {ints(d, {0, -1, 5})}, ints(d, {-1, 0, -6}));
  }
  for (DType d : {DType::U8, DType::U16, DType::U32, DType::U64}) {
    int64_t max = -1;  // as bits, whatever the width
    expect_binary(BinaryOp::Add, ints(d, {max, 5}), ints(d, {1, 7}), ints(d, {0, 12}));
    expect_binary(BinaryOp::Sub, ints(d, {0, 7}), ints(d, {1, 5}), ints(d, {max, 2}));
    expect_binary(BinaryOp::Mul, ints(d, {max, 6}), ints(d, {2, 7}), ints(d, {-2, 42}));
    expect_call(Intrinsic::Abs, {ints(d, {max, 3})}, ints(d, {max, 3}));
    expect_call(Intrinsic::BitNot, {ints(d, {0, max})}, ints(d, {max, 0}));
  }
  expect_binary(BinaryOp::Mul, ints(DType::U8, {200}), ints(DType::U8, {3}), ints(DType::U8, {88}));
}

TEST(ExprSemantics, SignedDivision) {
  for (DType d : {DType::I8, DType::I16, DType::I32, DType::I64}) {
    int64_t min = tir::int_value(tir::lowest(d));
    Array a = ints(d, {7, -7, 7, -7, 5, min, 0, 6}), b = ints(d, {2, 2, -2, -2, 0, -1, 3, -3});
    expect_binary(BinaryOp::Div, a, b, ints(d, {3, -3, -3, 3, 0, min, 0, -2}));
    expect_binary(BinaryOp::FloorDiv, a, b, ints(d, {3, -4, -4, 3, 0, min, 0, -2}));
    expect_binary(BinaryOp::TruncMod, a, b, ints(d, {1, -1, 1, -1, 0, 0, 0, 0}));
    expect_binary(BinaryOp::FloorMod, a, b, ints(d, {1, 1, -1, -1, 0, 0, 0, 0}));
  }
}

TEST(ExprSemantics, UnsignedDivisionAndOrder) {
  for (DType d : {DType::U8, DType::U16, DType::U32, DType::U64}) {
    int64_t high = static_cast<int64_t>(uint64_t{1} << (bit_width(d) - 1));  // the sign bit of the signed dtype
    Array a = ints(d, {7, high, high, 5}), b = ints(d, {2, 2, high, 0});
    expect_binary(BinaryOp::Div, a, b, ints(d, {3, static_cast<int64_t>(static_cast<uint64_t>(high) / 2), 1, 0}));
    expect_binary(BinaryOp::FloorDiv, a, b, ints(d, {3, static_cast<int64_t>(static_cast<uint64_t>(high) / 2), 1, 0}));
    expect_binary(BinaryOp::TruncMod, a, b, ints(d, {1, 0, 0, 0}));
    expect_binary(BinaryOp::FloorMod, a, b, ints(d, {1, 0, 0, 0}));
    expect_binary(BinaryOp::Lt, a, b, ints(DType::Bool, {0, 0, 0, 0}));
    expect_binary(BinaryOp::Le, a, b, ints(DType::Bool, {0, 0, 1, 0}));
    expect_binary(BinaryOp::Max, a, b, ints(d, {7, high, high, 5}));
    expect_binary(BinaryOp::Min, a, b, ints(d, {2, 2, high, 0}));
    expect_binary(BinaryOp::Shr, a, ints(d, {1, bit_width(d) - 1, bit_width(d), -1}), ints(d, {3, 1, 0, 0}));
  }
}

TEST(ExprSemantics, SignedOrderBitsAndShifts) {
  for (DType d : {DType::I8, DType::I16, DType::I32, DType::I64}) {
    Array a = ints(d, {-1, 2, 3}), b = ints(d, {1, 2, -3});
    expect_binary(BinaryOp::Eq, a, b, ints(DType::Bool, {0, 1, 0}));
    expect_binary(BinaryOp::Ne, a, b, ints(DType::Bool, {1, 0, 1}));
    expect_binary(BinaryOp::Lt, a, b, ints(DType::Bool, {1, 0, 0}));
    expect_binary(BinaryOp::Le, a, b, ints(DType::Bool, {1, 1, 0}));
    expect_binary(BinaryOp::Min, a, b, ints(d, {-1, 2, -3}));
    expect_binary(BinaryOp::Max, a, b, ints(d, {1, 2, 3}));
    expect_binary(BinaryOp::BitAnd, a, b, ints(d, {1, 2, 1}));
    expect_binary(BinaryOp::BitOr, a, b, ints(d, {-1, 2, -1}));
    expect_binary(BinaryOp::BitXor, a, b, ints(d, {-2, 0, -2}));
    int64_t width = bit_width(d), min = tir::int_value(tir::lowest(d));
    expect_binary(BinaryOp::Shl, ints(d, {1, 1, 3, -1}), ints(d, {width - 1, width, -1, 1}), ints(d, {min, 0, 0, -2}));
    expect_binary(BinaryOp::Shr, ints(d, {min, -5, 5, -8, 7}), ints(d, {width - 1, width, width, 1, -1}),
                  ints(d, {-1, -1, 0, -4, 0}));
  }
}

TEST(ExprSemantics, Bools) {
  Array a = ints(DType::Bool, {0, 0, 1, 1}), b = ints(DType::Bool, {0, 1, 0, 1});
  expect_binary(BinaryOp::And, a, b, ints(DType::Bool, {0, 0, 0, 1}));
  expect_binary(BinaryOp::Or, a, b, ints(DType::Bool, {0, 1, 1, 1}));
  expect_binary(BinaryOp::BitXor, a, b, ints(DType::Bool, {0, 1, 1, 0}));
  expect_binary(BinaryOp::Eq, a, b, ints(DType::Bool, {1, 0, 0, 1}));
  expect_binary(BinaryOp::Max, a, b, ints(DType::Bool, {0, 1, 1, 1}));
  expect_call(Intrinsic::Not, {a}, ints(DType::Bool, {1, 1, 0, 0}));
  expect_elements("select", {a, ints(DType::I32, {1, 2, 3, 4}), ints(DType::I32, {5, 6, 7, 8})}, ints(DType::I32, {5, 6, 3, 4}),
                  [](const auto& x) { return tir::select(x[0], x[1], x[2]); });
}

TEST(ExprSemantics, FloatArithmetic) {
  for (DType d : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
    Array a = floats(d, {7, -7, 7, -7, 1, -1, 0, kInf, kNan}), b = floats(d, {2, 2, -2, -2, 0, 0, 0, 1, 1});
    expect_binary(BinaryOp::Add, a, b, floats(d, {9, -5, 5, -9, 1, -1, 0, kInf, kNan}));
    expect_binary(BinaryOp::Sub, a, b, floats(d, {5, -9, 9, -5, 1, -1, 0, kInf, kNan}));
    expect_binary(BinaryOp::Mul, a, b, floats(d, {14, -14, -14, 14, 0, -0.0, 0, kInf, kNan}));
    expect_binary(BinaryOp::Div, a, b, floats(d, {3.5, -3.5, -3.5, 3.5, kInf, -kInf, kNan, kInf, kNan}));
    expect_binary(BinaryOp::FloorDiv, a, b, floats(d, {3, -4, -4, 3, kInf, -kInf, kNan, kInf, kNan}));
    expect_binary(BinaryOp::TruncMod, a, b, floats(d, {1, -1, 1, -1, kNan, kNan, kNan, kNan, kNan}));
    expect_binary(BinaryOp::FloorMod, floats(d, {7, -7, 7, -7, 5.5}), floats(d, {2, 2, -2, -2, 1.5}),
                  floats(d, {1, 1, -1, -1, 1}));
  }
}

TEST(ExprSemantics, NanIsContagiousInMinAndMaxAndUnordered) {
  for (DType d : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
    Array a = floats(d, {1, kNan, 1, kNan, -kInf}), b = floats(d, {2, 2, kNan, kNan, kInf});
    expect_binary(BinaryOp::Min, a, b, floats(d, {1, kNan, kNan, kNan, -kInf}));
    expect_binary(BinaryOp::Max, a, b, floats(d, {2, kNan, kNan, kNan, kInf}));
    expect_binary(BinaryOp::Lt, a, b, ints(DType::Bool, {1, 0, 0, 0, 1}));
    expect_binary(BinaryOp::Le, a, b, ints(DType::Bool, {1, 0, 0, 0, 1}));
    expect_binary(BinaryOp::Eq, a, b, ints(DType::Bool, {0, 0, 0, 0, 0}));
    expect_binary(BinaryOp::Ne, a, b, ints(DType::Bool, {1, 1, 1, 1, 1}));
    expect_call(Intrinsic::IsNan, {a}, ints(DType::Bool, {0, 1, 0, 1, 0}));
    expect_call(Intrinsic::IsInf, {a}, ints(DType::Bool, {0, 0, 0, 0, 1}));
  }
}

TEST(ExprSemantics, RoundingIntrinsics) {
  for (DType d : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
    Array a = floats(d, {2.5, 3.5, -2.5, -0.5, 1.75, -1.25, kInf});
    expect_call(Intrinsic::RoundEven, {a}, floats(d, {2, 4, -2, -0.0, 2, -1, kInf}));
    expect_call(Intrinsic::Floor, {a}, floats(d, {2, 3, -3, -1, 1, -2, kInf}));
    expect_call(Intrinsic::Ceil, {a}, floats(d, {3, 4, -2, -0.0, 2, -1, kInf}));
    expect_call(Intrinsic::Trunc, {a}, floats(d, {2, 3, -2, -0.0, 1, -1, kInf}));
    expect_call(Intrinsic::Abs, {a}, floats(d, {2.5, 3.5, 2.5, 0.5, 1.75, 1.25, kInf}));
  }
}

TEST(ExprSemantics, TranscendentalsAtExactPoints) {
  struct Row {
    Intrinsic op;
    std::vector<double> in, out;
  };
  const Row rows[] = {
      {Intrinsic::Sqrt, {4, 0, -1, kInf}, {2, 0, kNan, kInf}},
      {Intrinsic::Exp, {0, -kInf, kInf}, {1, 0, kInf}},
      {Intrinsic::Exp2, {3, -1, 0}, {8, 0.5, 1}},
      {Intrinsic::Log, {1, 0, -1}, {0, -kInf, kNan}},
      {Intrinsic::Log2, {8, 0.5, 1}, {3, -1, 0}},
      {Intrinsic::Log1p, {0, -1}, {0, -kInf}},
      {Intrinsic::Expm1, {0, -kInf}, {0, -1}},
      {Intrinsic::Sin, {0}, {0}},
      {Intrinsic::Cos, {0}, {1}},
      {Intrinsic::Tan, {0}, {0}},
      {Intrinsic::Asin, {0, 2}, {0, kNan}},
      {Intrinsic::Acos, {1, 2}, {0, kNan}},
      {Intrinsic::Atan, {0}, {0}},
      {Intrinsic::Sinh, {0, kInf}, {0, kInf}},
      {Intrinsic::Cosh, {0, -kInf}, {1, kInf}},
      {Intrinsic::Tanh, {0, kInf, -kInf}, {0, 1, -1}},
      {Intrinsic::Asinh, {0}, {0}},
      {Intrinsic::Acosh, {1, 0}, {0, kNan}},
      {Intrinsic::Atanh, {0, 1}, {0, kInf}},
      {Intrinsic::Erf, {0, kInf, -kInf}, {0, 1, -1}},
  };
  for (const Row& row : rows)
    for (DType d : {DType::F16, DType::BF16, DType::F32, DType::F64})
      expect_call(row.op, {floats(d, row.in)}, floats(d, row.out));
}

TEST(ExprSemantics, Power) {
  for (DType d : {DType::F16, DType::BF16, DType::F32, DType::F64})
    expect_call(Intrinsic::Pow, {floats(d, {2, -2, 4, 0, -8, 3}), floats(d, {3, 3, 0.5, 0, 0.5, -kInf})},
                floats(d, {8, -8, 2, 1, kNan, 0}));
  for (DType d : {DType::I8, DType::I16, DType::I32, DType::I64})
    expect_call(Intrinsic::Pow, {ints(d, {2, -2, 0, 5, 1, -1, -1, 0}), ints(d, {5, 3, 0, -1, -3, -3, -4, -2})},
                ints(d, {32, -8, 1, 0, 1, -1, 1, 0}));
  expect_call(Intrinsic::Pow, {ints(DType::I8, {3, 2, -2}), ints(DType::I8, {6, 8, 7})}, ints(DType::I8, {-39, 0, -128}));
  expect_call(Intrinsic::Pow, {ints(DType::U8, {3, 2, 255}), ints(DType::U8, {6, 8, 255})}, ints(DType::U8, {217, 0, 255}));
}

TEST(ExprSemantics, FusedMultiplyAddRoundsOnce) {
  // (1 + 2^-12)^2 - 1 = 2^-11 + 2^-24 needs the product's last bit, which a rounded f32 product loses.
  double x = 1 + 0x1p-12;
  expect_call(Intrinsic::Fma, {floats(DType::F32, {x}), floats(DType::F32, {x}), floats(DType::F32, {-1})},
              floats(DType::F32, {0x1p-11 + 0x1p-24}));
  double h = 1 + 0x1p-6;  // in f16 the same with 2^-5 + 2^-12
  expect_call(Intrinsic::Fma, {floats(DType::F16, {h}), floats(DType::F16, {h}), floats(DType::F16, {-1})},
              floats(DType::F16, {0x1p-5 + 0x1p-12}));
}

TEST(ExprSemantics, FloatToIntegerTruncatesAndSaturates) {
  for (DType from : {DType::F32, DType::F64}) {
    Array a = floats(from, {1.9, -1.9, 300, -300, 1e30, -1e30, kInf, -kInf, kNan, 127.5, -128.5});
    expect_cast(a, ints(DType::I8, {1, -1, 127, -128, 127, -128, 127, -128, 0, 127, -128}));
    expect_cast(a, ints(DType::U8, {1, 0, 255, 0, 255, 0, 255, 0, 0, 127, 0}));
    expect_cast(a, ints(DType::I32, {1, -1, 300, -300, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, 0, 127, -128}));
    expect_cast(a, ints(DType::U32, {1, 0, 300, 0, -1, 0, -1, 0, 0, 127, 0}));
    expect_cast(a, ints(DType::I64, {1, -1, 300, -300, kMax64, kMin64, kMax64, kMin64, 0, 127, -128}));
    expect_cast(a, ints(DType::U64, {1, 0, 300, 0, -1, 0, -1, 0, 0, 127, 0}));
    expect_cast(a, ints(DType::Bool, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
    expect_cast(floats(from, {0, -0.0, 0.25}), ints(DType::Bool, {0, 0, 1}));
  }
  expect_cast(floats(DType::F64, {9223372036854774784.0, 9223372036854775808.0}),
              ints(DType::I64, {9223372036854774784, kMax64}));
  expect_cast(floats(DType::F64, {9223372036854775808.0}), ints(DType::U64, {kMin64}));
  expect_cast(floats(DType::F16, {65504, -3.5, kNan}), ints(DType::I16, {32767, -3, 0}));
}

TEST(ExprSemantics, IntegerCastsWrap) {
  expect_cast(ints(DType::I32, {300, -1, 128}), ints(DType::I8, {44, -1, -128}));
  expect_cast(ints(DType::I32, {300, -1, 128}), ints(DType::U8, {44, 255, 128}));
  expect_cast(ints(DType::I8, {-1, 5}), ints(DType::U64, {-1, 5}));
  expect_cast(ints(DType::U8, {255}), ints(DType::I32, {255}));
  expect_cast(ints(DType::U32, {-1}), ints(DType::I64, {4294967295}));
  expect_cast(ints(DType::I16, {256, 0}), ints(DType::Bool, {1, 0}));
  expect_cast(ints(DType::Bool, {0, 1}), ints(DType::I64, {0, 1}));
  expect_cast(ints(DType::Bool, {0, 1}), floats(DType::F16, {0, 1}));
}

TEST(ExprSemantics, CastsToFloatRoundOnceToNearestEven) {
  expect_cast(ints(DType::I32, {16777217, 16777219, -16777217}), floats(DType::F32, {16777216, 16777220, -16777216}));
  expect_cast(ints(DType::I64, {kMax64, 1}), floats(DType::F32, {0x1p63, 1}));
  expect_cast(ints(DType::U64, {-1, 1}), floats(DType::F32, {0x1p64, 1}));
  expect_cast(ints(DType::U64, {-1}), floats(DType::F64, {0x1p64}));
  expect_cast(ints(DType::I32, {2049, 2051, 65519, 65520}), floats(DType::F16, {2048, 2052, 65504, kInf}));
  expect_cast(ints(DType::I32, {257, 259}), floats(DType::BF16, {256, 260}));
  // Just above the middle of two f16 values, by less than an f32 can hold: two roundings would give the even one.
  MutableArray above(DType::F16, {2});
  above.as<uint16_t>()[0] = 0x3c01;  // 1 + 2^-10
  above.as<uint16_t>()[1] = 0x3c00;
  expect_cast(floats(DType::F64, {1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-11}), std::move(above).freeze());
  MutableArray bfloat(DType::BF16, {2});
  bfloat.as<uint16_t>()[0] = 0x3f81;  // 1 + 2^-7
  bfloat.as<uint16_t>()[1] = 0x3f80;
  expect_cast(floats(DType::F64, {1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-8}), std::move(bfloat).freeze());
  MutableArray tiny(DType::F16, {3});
  tiny.as<uint16_t>()[0] = 1;  // the smallest subnormal
  tiny.as<uint16_t>()[1] = 0;  // a tie with zero
  tiny.as<uint16_t>()[2] = 0x8001;
  expect_cast(floats(DType::F64, {0x1.8p-25, 0x1p-25, -0x1p-24}), std::move(tiny).freeze());
}

TEST(ExprSemantics, NarrowFloatsRoundWhenStored) {
  expect_binary(BinaryOp::Add, floats(DType::F16, {2048, 65504}), floats(DType::F16, {1, 16}), floats(DType::F16, {2048, kInf}));
  expect_binary(BinaryOp::Mul, floats(DType::BF16, {129}), floats(DType::BF16, {3}), floats(DType::BF16, {388}));  // 387, a tie
}

TEST(ExprSemantics, ReinterpretKeepsTheBits) {
  auto as = [](DType to) { return [to](const auto& x) { return tir::reinterpret(to, x[0]); }; };
  expect_elements("f32 bits", {floats(DType::F32, {1, -2})}, ints(DType::I32, {0x3f800000, -0x40000000}), as(DType::I32));
  expect_elements("f32 from bits", {ints(DType::U32, {0x3f800000})}, floats(DType::F32, {1}), as(DType::F32));
  expect_elements("f64 bits", {floats(DType::F64, {1})}, ints(DType::U64, {0x3ff0000000000000}), as(DType::U64));
  expect_elements("f16 bits", {floats(DType::F16, {1})}, ints(DType::I16, {0x3c00}), as(DType::I16));
  expect_elements("i8 bits", {ints(DType::I8, {-1})}, ints(DType::U8, {255}), as(DType::U8));
}

TEST(ExprSemantics, ConstantsOfEveryDtype) {
  for (DType d : kAllDTypes) {
    Array expected = is_float(d) ? floats(d, {1}) : ints(d, {1});
    expect_elements("imm " + std::string(name(d)), {}, expected, [d](const auto&) { return tir::imm(d, 1); });
  }
  expect_elements("u64 max", {}, ints(DType::U64, {-1}), [](const auto&) { return tir::highest(DType::U64); });
  expect_elements("i8 min", {}, ints(DType::I8, {-128}), [](const auto&) { return tir::lowest(DType::I8); });
  expect_elements("f32 -inf", {}, floats(DType::F32, {-kInf}), [](const auto&) { return tir::lowest(DType::F32); });
}

TEST(ExprSemantics, OperationsOfTheWrongDtypeAreRefused) {
  Array a = ints(DType::I32, {1});
  EXPECT_THROW(expect_call(Intrinsic::Exp, {a}, a), InternalError);
  Array f = floats(DType::F32, {1});
  EXPECT_THROW(expect_binary(BinaryOp::BitAnd, f, f, f), InternalError);
}

}  // namespace
}  // namespace tenon
