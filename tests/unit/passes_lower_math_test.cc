// SPDX-License-Identifier: Apache-2.0
// Elementary functions as arithmetic: error in ulp over all magnitudes, special values, and size.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "passes/tir/passes.h"
#include "support/compiled.h"
#include "tir/interpret.h"

namespace tenon {
namespace {

using namespace tir;

constexpr int64_t kLanes = 8;

/// y[i] = value of v = x[i], vectorized.
PrimFunc map_function(DType dtype, int64_t n, const Expr& value) {
  Buffer x({.name = "x", .dtype = dtype, .shape = {n}}), y({.name = "y", .dtype = value->dtype, .shape = {n}});
  Expr outer = var("o"), lane = var("l"), i = outer * Expr(kLanes) + lane;
  Stmt body = scoped({let(var("v", dtype), load(x, {i})), store(y, {i}, value)});
  body = for_loop(outer, 0, n / kLanes, ForKind::Serial, for_loop(lane, 0, kLanes, ForKind::Vectorized, body));
  return PrimFunc{.name = "map", .params = {x, y}, .num_inputs = 1, .attrs = {}, .body = body};
}

/// Floats of every magnitude and both signs, infinities and NaN among them.
std::vector<float> sweep() {
  std::vector<float> values;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 30011)
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  for (int i = -2000; i <= 2000; ++i) values.push_back(static_cast<float>(i) * 0.0625F);
  for (float v : {0.0F, -0.0F, 1.0F, -1.0F, INFINITY, -INFINITY, NAN, std::numeric_limits<float>::max(), 1e-45F, 1.17549435e-38F})
    values.push_back(v);
  while (values.size() % kLanes != 0) values.push_back(0.5F);
  return values;
}

/// |actual - exact| in units of the spacing of floats at the exact result.
double error_in_ulp(float actual, double exact) {
  auto nearest = static_cast<float>(exact);
  if (std::isnan(exact) || std::isinf(nearest))
    return std::isnan(exact) == std::isnan(actual) && (std::isnan(exact) || actual == nearest) ? 0 : 1e9;
  if (std::isnan(actual) || std::isinf(actual)) return std::fabs(exact) > 3.4028234e38 && std::isinf(actual) ? 0 : 1e9;
  int exponent = std::max(std::ilogb(nearest == 0 ? 1e-45F : nearest), -126);
  return std::fabs(static_cast<double>(actual) - exact) / std::ldexp(1.0, exponent - 23);
}

struct Function {
  Intrinsic op;
  double (*exact)(double);
  double limit;
};

class LowerMath : public testing::TestWithParam<Function> {};

TEST_P(LowerMath, ErrorIsSmallEverywhere) {
  const Function& function = GetParam();
  std::vector<float> values = sweep();
  auto n = static_cast<int64_t>(values.size());
  Array x = array_of(DType::F32, {n}, values);
  for (bool fma : {true, false}) {
    PrimFunc f = lower_math(map_function(DType::F32, n, call(function.op, {var("v", DType::F32)})), {.fma = fma});
    visit_exprs(f.body, [&](const Expr& e) {
      const auto* n = as<Call>(e);
      EXPECT_FALSE(n && n->op == function.op);
    });
    Array y = test::run_compiled(f, {&x, 1})[0];
    double worst = 0;
    float at = 0;
    for (int64_t i = 0; i < n; ++i) {
      float v = values[static_cast<size_t>(i)];
      double error = error_in_ulp(y.read<float>(i), function.exact(v));
      if (error > worst) worst = error, at = v;
    }
    EXPECT_LE(worst, function.limit) << name(function.op) << " at " << at << (fma ? " with fma" : " without fma");
    RecordProperty(fma ? "ulp_fma" : "ulp", std::to_string(worst));
  }
}

INSTANTIATE_TEST_SUITE_P(Functions, LowerMath,
                         testing::Values(Function{Intrinsic::Exp, [](double v) { return std::exp(v); }, 2},
                                         Function{Intrinsic::Exp2, [](double v) { return std::exp2(v); }, 2},
                                         Function{Intrinsic::Expm1, [](double v) { return std::expm1(v); }, 4},
                                         Function{Intrinsic::Log, [](double v) { return std::log(v); }, 2},
                                         Function{Intrinsic::Log2, [](double v) { return std::log2(v); }, 2},
                                         Function{Intrinsic::Log1p, [](double v) { return std::log1p(v); }, 4},
                                         Function{Intrinsic::Tanh, [](double v) { return std::tanh(v); }, 4},
                                         Function{Intrinsic::Erf, [](double v) { return std::erf(v); }, 4}),
                         [](const auto& info) { return std::string(name(info.param.op)); });

TEST(LowerMathForms, CompiledEqualsInterpreted) {
  std::vector<float> values;
  for (int i = -40; i < 40; ++i) values.push_back(static_cast<float>(i) * 0.37F);
  Array x = array_of(DType::F32, {80}, values);
  Expr v = var("v", DType::F32);
  Expr nested = call(Intrinsic::Tanh, {call(Intrinsic::Log, {call(Intrinsic::Exp, {v}) + float_imm(DType::F32, 1)})});
  PrimFunc f = lower_math(map_function(DType::F32, 80, nested * v), {.fma = true});
  EXPECT_EQ(test::run_compiled(f, {&x, 1})[0], interpret(f, {&x, 1})[0]);
}

TEST(LowerMathForms, HalfPrecisionRoundsTheResultOfSingle) {
  std::vector<uint16_t> bits;
  for (int i = 0; i < 65536; i += 8) bits.push_back(static_cast<uint16_t>(i + i / 8 % 8));
  auto n = static_cast<int64_t>(bits.size());
  Array x = array_of(DType::F16, {n}, bits);
  PrimFunc f = lower_math(map_function(DType::F16, n, call(Intrinsic::Exp, {var("v", DType::F16)})), {.fma = true});
  Array y = test::run_compiled(f, {&x, 1})[0];
  int64_t inexact = 0;
  for (int64_t i = 0; i < n; ++i) {
    float exact = std::exp(half_to_float(bits[static_cast<size_t>(i)]));
    if (std::isnan(exact)) continue;
    int distance = std::abs(static_cast<int>(y.read<uint16_t>(i)) - static_cast<int>(float_to_half(exact)));
    EXPECT_LE(distance, 1) << half_to_float(bits[static_cast<size_t>(i)]);
    inexact += distance;
  }
  EXPECT_LE(inexact, n / 1000);
}

TEST(LowerMathForms, PowersWithSimpleExponents) {
  std::vector<float> values = {0.0F, -0.0F, 1.5F, -2.0F, 9.0F, 0.25F, INFINITY, -INFINITY};
  Array x = array_of(DType::F32, {8}, values);
  for (double exponent : {-1.0, 0.5, 1.0, 2.0, 3.0}) {
    Expr v = var("v", DType::F32);
    PrimFunc f = lower_math(map_function(DType::F32, 8, call(Intrinsic::Pow, {v, float_imm(DType::F32, exponent)})), {});
    Array y = test::run_compiled(f, {&x, 1})[0];
    for (int64_t i = 0; i < 8; ++i) {
      float expected = std::pow(values[static_cast<size_t>(i)], static_cast<float>(exponent));
      if (std::isnan(expected))
        EXPECT_TRUE(std::isnan(y.read<float>(i))) << values[static_cast<size_t>(i)] << " ^ " << exponent;
      else
        EXPECT_EQ(y.read<float>(i), expected) << values[static_cast<size_t>(i)] << " ^ " << exponent;
    }
  }
}

TEST(LowerMathForms, LoadsStayBehindTheirSelect) {
  Buffer x({.name = "x", .dtype = DType::F32, .shape = {4}}), y({.name = "y", .dtype = DType::F32, .shape = {6}});
  Expr i = var("i"), inside = logical_and(le(1, i), lt(i, 5));
  Expr value = select(inside, call(Intrinsic::Exp, {load(x, {i - Expr(1)})}), float_imm(DType::F32, 0));
  PrimFunc f{.name = "pad",
             .params = {x, y},
             .num_inputs = 1,
             .attrs = {},
             .body = for_loop(i, 0, 6, ForKind::Serial, store(y, {i}, value))};
  Array input = array_of<float>(DType::F32, {4}, {0, 0, 0, 0});
  Array expected = array_of<float>(DType::F32, {6}, {0, 1, 1, 1, 1, 0});
  EXPECT_EQ(interpret(lower_math(f, {}), {&input, 1})[0], expected);
}

TEST(LowerMathForms, ChainsStayLinear) {
  auto size = [](int length) {
    Expr value = var("v", DType::F32);
    for (int i = 0; i < length; ++i) value = call(Intrinsic::Tanh, {value});
    int64_t nodes = 0;
    visit_exprs(lower_math(map_function(DType::F32, kLanes, value), {}).body, [&](const Expr&) { ++nodes; });
    return nodes;
  };
  EXPECT_LT(size(64), 70 * size(1));
}

}  // namespace
}  // namespace tenon
