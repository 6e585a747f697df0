// SPDX-License-Identifier: Apache-2.0
// Every operation of loop IR at every dtype on edge values: compiled code, scalar and vectorized, for new and old
// processors, gives the bits that the interpreter gives.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "support/compiled.h"
#include "tir/interpret.h"
#include "tir/text.h"

namespace tenon {
namespace {

using namespace tir;

constexpr int64_t kLanes = 8;

std::vector<double> edge_numbers(DType dtype) {
  if (is_float(dtype))
    return {0.0,    -0.0,  1,     -1,    0.5,    -0.5,  1.5,   -1.5, 2.5,          -2.5,      3.75, -7.25, 100.3,
            -100.3, 1e-3,  -1e-3, 6e-8,  -6e-8,  1e-40, 65504, -7e4, 2147483648.0, -3e9,      1e10, 1e19,  -1e19,
            3.3e38, -1e39, 127.5, 255.5, -128.5, 7,     -3,    11,   INFINITY,     -INFINITY, NAN,  0.1};
  return {0,  1,  -1, 2,  -2,  3,    -3,  5,    7,   -7,   8,    15,     16,    31, 32,
          33, 63, 64, 65, 100, -100, 127, -128, 255, -129, 1000, -32768, 65535, 12, 50};
}

/// The edge values of a dtype as an array: numbers, then the extremes of integers.
Array edge_values(DType dtype) {
  std::vector<double> numbers = edge_numbers(dtype);
  auto n = static_cast<int64_t>(numbers.size());
  PrimFunc convert{.name = "convert", .params = {}, .num_inputs = 1, .attrs = {}, .body = {}};
  DType source = is_float(dtype) ? DType::F64 : DType::I64;
  Buffer in({.name = "x", .dtype = source, .shape = {n + 2}});
  Buffer out({.name = "y", .dtype = dtype, .shape = {n + 2}});
  convert.params = {in, out};
  Expr i = var("i");
  convert.body = for_loop(i, 0, n + 2, ForKind::Serial, store(out, {i}, cast(dtype, load(in, {i}))));
  Array values;
  if (source == DType::F64) {
    numbers.insert(numbers.end(), {1.0 / 3, 5e-324});
    values = array_of(source, {n + 2}, numbers);
  } else {
    std::vector<int64_t> integers(numbers.begin(), numbers.end());
    integers.insert(integers.end(), {int_value(lowest(dtype == DType::Bool ? DType::U8 : dtype)),
                                     int_value(highest(dtype == DType::Bool ? DType::U8 : dtype))});
    values = array_of(source, {n + 2}, integers);
  }
  return interpret(convert, {&values, 1})[0];
}

bool is_nan(const Array& a, int64_t i) {
  switch (a.dtype) {
    case DType::F16: return std::isnan(half_to_float(a.read<uint16_t>(i)));
    case DType::BF16: return std::isnan(bfloat_to_float(a.read<uint16_t>(i)));
    case DType::F32: return std::isnan(a.read<float>(i));
    case DType::F64: return std::isnan(a.read<double>(i));
    default: return false;
  }
}

/// Bit for bit, but for the payload of NaN; returns the first index that differs or -1.
int64_t first_difference(const Array& a, const Array& b) {
  auto size = static_cast<size_t>(byte_size(a.dtype));
  for (int64_t i = 0; i < a.elements(); ++i) {
    size_t at = static_cast<size_t>(i) * size;
    if (std::memcmp(a.bytes.data() + at, b.bytes.data() + at, size) != 0 && !(is_nan(a, i) && is_nan(b, i))) return i;
  }
  return -1;
}

/// y_k[i, j] = values[k] of a = x[i], b = x[j], c = x[n - 1 - j] over all pairs of edge values, eight j in a loop as said.
PrimFunc over_pairs(DType dtype, int64_t n, const std::vector<Expr>& values, ForKind kind) {
  Buffer x({.name = "x", .dtype = dtype, .shape = {n}});
  PrimFunc f{.name = "pairs", .params = {x}, .num_inputs = 1, .attrs = {}, .body = {}};
  Expr i = var("i"), outer = var("jo"), lane = var("ji"), j = outer * Expr(kLanes) + lane;
  std::vector<Stmt> body = {let(var("a", dtype), load(x, {i})), let(var("b", dtype), load(x, {j})),
                            let(var("c", dtype), load(x, {Expr(n - 1) - j}))};
  for (const Expr& value : values) {
    f.params.push_back(Buffer({.name = "y" + std::to_string(f.params.size()), .dtype = value->dtype, .shape = {n, n}}));
    body.push_back(store(f.params.back(), {i, j}, value));
  }
  Stmt loop = for_loop(lane, 0, kLanes, kind, scoped(std::move(body)));
  f.body = for_loop(i, 0, n, ForKind::Serial, for_loop(outer, 0, n / kLanes, ForKind::Serial, loop));
  return f;
}

void expect_same(DType dtype, const std::vector<Expr>& values) {
  Array x = edge_values(dtype);
  int64_t n = x.elements();
  ASSERT_EQ(n % kLanes, 0);
  std::vector<Array> expected = interpret(over_pairs(dtype, n, values, ForKind::Serial), {&x, 1});
  auto compare = [&](ForKind kind, const Target& target) {
    std::vector<Array> actual = test::run_compiled(over_pairs(dtype, n, values, kind), {&x, 1}, target);
    for (size_t k = 0; k < values.size(); ++k) {
      int64_t at = first_difference(expected[k], actual[k]);
      EXPECT_EQ(at, -1) << print(values[k]) << " on " << name(dtype) << ", " << name(kind) << " loop, " << target.text()
                        << ", operands " << at / n << " and " << at % n;
    }
  };
  compare(ForKind::Serial, host_target());
  compare(ForKind::Vectorized, host_target());
  if (dtype == DType::F16 || dtype == DType::I8 || dtype == DType::F32)
    compare(ForKind::Vectorized, parse_target("llvm -mcpu=x86-64"));
}

class ArithmeticOf : public testing::TestWithParam<DType> {
 protected:
  Expr a = var("a", GetParam()), b = var("b", GetParam()), c = var("c", GetParam());
};

TEST_P(ArithmeticOf, BinaryOperations) {
  DType dtype = GetParam();
  std::vector<Expr> values;
  for (int i = 0; i <= static_cast<int>(BinaryOp::Shr); ++i) {
    auto op = static_cast<BinaryOp>(i);
    bool logical = op == BinaryOp::And || op == BinaryOp::Or;
    if (logical ? dtype != DType::Bool : dtype == DType::Bool && !gives_bool(op)) continue;
    if (is_float(dtype) && op >= BinaryOp::BitAnd) continue;
    values.push_back(binary(op, a, b));
  }
  values.push_back(select(le(a, b), b, c));
  expect_same(dtype, values);
}

TEST_P(ArithmeticOf, OperationsWithConstants) {
  DType dtype = GetParam();
  std::vector<Expr> values;
  if (is_integer(dtype))
    for (int64_t divisor : {1, 2, 8, 7, -1, -2, -7, 0})
      for (BinaryOp op : {BinaryOp::Div, BinaryOp::FloorDiv, BinaryOp::FloorMod, BinaryOp::TruncMod})
        values.push_back(binary(op, a, int_imm(dtype, divisor)));
  if (dtype != DType::Bool)
    for (BinaryOp op : {BinaryOp::Min, BinaryOp::Max}) {
      // The sign of a zero result is not defined, so zero itself is only compared.
      values.push_back(eq(binary(op, a, imm(dtype, 0)), imm(dtype, 1)));
      values.push_back(binary(op, a, imm(dtype, 3)));
      values.push_back(binary(op, imm(dtype, 3), a));
    }
  if (!values.empty()) expect_same(dtype, values);
}

TEST_P(ArithmeticOf, Casts) {
  DType dtype = GetParam();
  std::vector<Expr> values = {reinterpret(dtype == DType::F32 ? DType::I32 : dtype == DType::I64 ? DType::F64 : dtype, a)};
  for (DType to : kAllDTypes) values.push_back(cast(to, a));
  expect_same(dtype, values);
}

TEST_P(ArithmeticOf, Intrinsics) {
  DType dtype = GetParam();
  if (dtype == DType::Bool) return expect_same(dtype, {logical_not(a)});
  if (is_integer(dtype))
    return expect_same(dtype, {call(Intrinsic::BitNot, {a}), call(Intrinsic::Abs, {a}), call(Intrinsic::Pow, {a, b})});
  std::vector<Expr> values = {call(Intrinsic::Pow, {a, b}), call(Intrinsic::Fma, {a, b, c})};
  for (Intrinsic op : {Intrinsic::Abs, Intrinsic::Floor, Intrinsic::Ceil, Intrinsic::Trunc, Intrinsic::RoundEven, Intrinsic::Sqrt,
                       Intrinsic::IsNan, Intrinsic::IsInf, Intrinsic::Exp, Intrinsic::Log1p, Intrinsic::Tanh, Intrinsic::Erf})
    values.push_back(call(op, {a}));
  expect_same(dtype, values);
}

INSTANTIATE_TEST_SUITE_P(AllDTypes, ArithmeticOf, testing::ValuesIn(kAllDTypes),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace tenon
