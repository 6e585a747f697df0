// SPDX-License-Identifier: Apache-2.0
// Operators on each element of one tensor: arithmetic, elementary functions, tests of a value, casts.
#include "op/elementwise.h"

#include <fmt/format.h>

#include <cmath>
#include <concepts>

#include "op/fold.h"

namespace tenon::op {

using graph::AttrKind;
using graph::Fusion;
using graph::kAnyDType;
using graph::kBool;
using graph::kFloats;
using graph::kIntegers;
using graph::kNumeric;
using graph::kSigned;
using tir::Intrinsic;

std::vector<TensorType> infer_same(const CallSite& call) { return {call.in(0)}; }

OpDef unary(std::string_view name, std::string_view doc, graph::DTypeSet dtypes, std::string_view dtype_note, ComputeFn compute,
            FoldFn fold, std::vector<graph::AttrSpec> attrs) {
  return {.name = name,
          .doc = doc,
          .inputs = {{"x", "any shape"}},
          .attrs = std::move(attrs),
          .fusion = Fusion::ElementWise,
          .dtypes = dtypes,
          .dtype_note = dtype_note,
          .infer = infer_same,
          .compute = compute,
          .fold = fold};
}

namespace {

Folded fold_identity(const CallSite&, std::span<const Array> in) { return std::vector<Array>{in[0]}; }

std::vector<TensorType> infer_bool(const CallSite& call) { return {{DType::Bool, call.in(0).shape}}; }

/// A floating-point function with an intrinsic of its own.
template <Intrinsic op, auto Native>
OpDef function(std::string_view name, std::string_view doc) {
  return unary(name, doc, kFloats, kFloatNote, map_unary<[](const Expr& x) { return tir::call(op, {x}); }>, fold_floats<Native>);
}

Expr negated(const Expr& x) {
  // A float is multiplied, so that the sign of a zero turns too.
  return is_float(x->dtype) ? x * tir::imm(x->dtype, -1) : tir::imm(x->dtype, 0) - x;
}

Expr sign_of(const Expr& x) {
  Expr zero = tir::imm(x->dtype, 0), one = tir::imm(x->dtype, 1);
  if (is_unsigned_integer(x->dtype)) return tir::select(tir::eq(x, zero), zero, one);
  Expr not_positive = tir::select(tir::lt(x, zero), tir::imm(x->dtype, -1), tir::select(tir::eq(x, zero), zero, x));
  return tir::select(tir::lt(zero, x), one, not_positive);
}

Expr is_infinite(const CallSite& call, const Expr& x) {
  bool positive = call.flag("detect_positive"), negative = call.flag("detect_negative");
  if (positive && negative) return tir::call(Intrinsic::IsInf, {x});
  if (positive) return tir::eq(x, tir::highest(x->dtype));
  return negative ? tir::eq(x, tir::lowest(x->dtype)) : tir::bool_imm(false);
}

// cast-C1  `to` names a dtype
std::vector<TensorType> infer_cast(const CallSite& call) {
  auto to = dtype_from_name(call.text("to"));
  if (!to) call.error(-1, "cast-C1", fmt::format("a dtype in `to`, not `{}`", call.text("to")));
  return {{*to, call.in(0).shape}};
}

std::vector<te::Tensor> compute_cast(const CallSite& call, std::span<const te::Tensor> in, te::Graph& graph) {
  return {
      graph.compute("cast", call.out().shape, [&](const std::vector<Expr>& i) { return tir::cast(call.out().dtype, in[0](i)); })};
}

/// Truncates, saturates to the dtype, and gives 0 for NaN.
template <class Out>
Out float_to_integer(double value, DType dtype) {
  if (std::isnan(value)) return 0;
  double limit = std::ldexp(1.0, is_signed_integer(dtype) ? bit_width(dtype) - 1 : bit_width(dtype));
  if (value >= limit) return static_cast<Out>(~uint64_t{0} >> (64 - bit_width(dtype) + (is_signed_integer(dtype) ? 1 : 0)));
  double lowest = is_signed_integer(dtype) ? -limit : 0;
  return static_cast<Out>(value < lowest ? lowest : value);
}

/// The nearest double, or for narrower floats one that rounds to them as the integer would: below 2^53 it is exact, and
/// above the lowest bit kept stands for those dropped.
template <class In>
double integer_to_float(In value, DType dtype) {
  constexpr In kExact = In{1} << 53;
  bool exact = value < kExact && (std::is_unsigned_v<In> || value > In{0} - kExact);
  if (dtype == DType::F64 || exact) return static_cast<double>(value);
  In kept = (value >> 11) | ((value & 0x7ff) != 0);
  return std::ldexp(static_cast<double>(kept), 11);
}

template <class In, class Out>
Array cast_array(const CallSite& call, std::span<const Array> in) {
  DType to = call.out().dtype;
  return fold_chunks<In, Out>(call, in, [&](const std::vector<const In*>& x, Out* y, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      if constexpr (std::is_same_v<In, Out>)
        y[i] = x[0][i];
      else if constexpr (std::is_floating_point_v<In>)
        y[i] = to == DType::Bool ? x[0][i] != 0 : float_to_integer<Out>(x[0][i], to);
      else if constexpr (std::is_floating_point_v<Out>)
        y[i] = integer_to_float(x[0][i], to);
      else
        y[i] = static_cast<Out>(x[0][i]);
    }
  });
}

Folded fold_cast(const CallSite& call, std::span<const Array> in) {
  return with_wide(in[0].dtype, [&](auto from) -> Folded {
    return with_wide(call.out().dtype,
                     [&](auto to) -> Folded { return std::vector<Array>{cast_array<decltype(from), decltype(to)>(call, in)}; });
  });
}

OpDef test_of_float(std::string_view name, std::string_view doc, ComputeFn compute, FoldFn fold,
                    std::vector<graph::AttrSpec> attrs = {}) {
  OpDef op = unary(name, doc, kFloats, kFloatNote, compute, fold, std::move(attrs));
  op.infer = infer_bool;
  return op;
}

}  // namespace

const OpDef identity = unary("identity", "x", kAnyDType, "", map_unary<[](const Expr& x) { return x; }>, fold_identity);
const OpDef stop_fusion = [] {
  OpDef op = unary("stop_fusion", "x; what makes it and what reads it are never one kernel", kAnyDType, "", identity.compute,
                   nullptr, {});
  op.fusion = Fusion::Opaque;
  return op;
}();
const OpDef neg =
    unary("neg", "-x; integers wrap", kSigned, kSignedNote, map_unary<negated>,
          fold_each<[](auto x) { return std::is_floating_point_v<decltype(x)> ? -x : wrap_subtract(decltype(x){0}, x); }>);
const OpDef abs =
    unary("abs", "the magnitude of x; the least signed integer stays as it is", kNumeric, kNumberNote,
          map_unary<[](const Expr& x) { return is_unsigned_integer(x->dtype) ? x : tir::call(Intrinsic::Abs, {x}); }>,
          fold_each<[](auto x) {
            if constexpr (std::is_floating_point_v<decltype(x)>)
              return std::fabs(x);
            else
              return x < 0 ? wrap_subtract(decltype(x){0}, x) : x;
          }>);
const OpDef sign = unary("sign", "-1, 0 or 1 with the sign of x; NaN stays NaN", kNumeric, kNumberNote, map_unary<sign_of>,
                         fold_each<[](auto x) {
                           decltype(x) zero = 0, one = 1;
                           if (x > zero) return one;
                           if (x < zero) return static_cast<decltype(x)>(zero - one);
                           return x == zero ? zero : x;
                         }>);
const OpDef reciprocal = unary("reciprocal", "1 / x", kFloats, kFloatNote,
                               map_unary<[](const Expr& x) { return tir::binary(tir::BinaryOp::Div, tir::imm(x->dtype, 1), x); }>,
                               fold_floats<[](double x) { return 1 / x; }>);

const OpDef floor =
    function<Intrinsic::Floor, [](double x) { return std::floor(x); }>("floor", "the largest integer not above x");
const OpDef ceil = function<Intrinsic::Ceil, [](double x) { return std::ceil(x); }>("ceil", "the smallest integer not below x");
const OpDef round =
    function<Intrinsic::RoundEven, [](double x) { return std::nearbyint(x); }>("round", "the nearest integer, half to even");
const OpDef sqrt = function<Intrinsic::Sqrt, [](double x) { return std::sqrt(x); }>("sqrt", "the square root; NaN below 0");
const OpDef exp = function<Intrinsic::Exp, [](double x) { return std::exp(x); }>("exp", "e to the power x");
const OpDef log = function<Intrinsic::Log, [](double x) { return std::log(x); }>("log", "the natural logarithm");
const OpDef sin = function<Intrinsic::Sin, [](double x) { return std::sin(x); }>("sin", "the sine of x in radians");
const OpDef cos = function<Intrinsic::Cos, [](double x) { return std::cos(x); }>("cos", "the cosine of x in radians");
const OpDef tan = function<Intrinsic::Tan, [](double x) { return std::tan(x); }>("tan", "the tangent of x in radians");
const OpDef asin = function<Intrinsic::Asin, [](double x) { return std::asin(x); }>("asin", "the inverse sine, in radians");
const OpDef acos = function<Intrinsic::Acos, [](double x) { return std::acos(x); }>("acos", "the inverse cosine, in radians");
const OpDef atan = function<Intrinsic::Atan, [](double x) { return std::atan(x); }>("atan", "the inverse tangent, in radians");
const OpDef sinh = function<Intrinsic::Sinh, [](double x) { return std::sinh(x); }>("sinh", "the hyperbolic sine");
const OpDef cosh = function<Intrinsic::Cosh, [](double x) { return std::cosh(x); }>("cosh", "the hyperbolic cosine");
const OpDef tanh = function<Intrinsic::Tanh, [](double x) { return std::tanh(x); }>("tanh", "the hyperbolic tangent");
const OpDef asinh = function<Intrinsic::Asinh, [](double x) { return std::asinh(x); }>("asinh", "the inverse hyperbolic sine");
const OpDef acosh = function<Intrinsic::Acosh, [](double x) { return std::acosh(x); }>("acosh", "the inverse hyperbolic cosine");
const OpDef atanh = function<Intrinsic::Atanh, [](double x) { return std::atanh(x); }>("atanh", "the inverse hyperbolic tangent");
const OpDef erf = function<Intrinsic::Erf, [](double x) { return std::erf(x); }>("erf", "the error function");

const OpDef logical_not =
    unary("logical_not", "true where x is false", kBool, kBoolNote, map_unary<[](const Expr& x) { return tir::logical_not(x); }>,
          fold_each<[](uint64_t x) { return x == 0; }>);
const OpDef bitwise_not = unary("bitwise_not", "x with every bit flipped", kIntegers, kIntegerNote,
                                map_unary<[](const Expr& x) { return tir::call(Intrinsic::BitNot, {x}); }>,
                                fold_each<[](std::integral auto x) { return ~x; }>);
const OpDef isnan =
    test_of_float("isnan", "whether x is NaN", map_unary<[](const Expr& x) { return tir::call(Intrinsic::IsNan, {x}); }>,
                  fold_each<[](double x) { return std::isnan(x); }>);
const OpDef isinf = test_of_float("isinf", "whether x is an infinity of a wanted sign", map_unary<is_infinite>, nullptr,
                                  {{"detect_positive", AttrKind::Bool, true, "whether +inf counts"},
                                   {"detect_negative", AttrKind::Bool, true, "whether -inf counts"}});
const OpDef cast{
    .name = "cast",
    .doc = "x as another dtype: floats to integers truncate, saturate and give 0 for NaN; integers wrap; bool is x != 0",
    .inputs = {{"x", "any shape"}},
    .attrs = {{"to", AttrKind::String, std::nullopt, "the dtype of the result"}},
    .fusion = Fusion::ElementWise,
    .infer = infer_cast,
    .compute = compute_cast,
    .fold = fold_cast};

std::vector<const OpDef*> unary_ops() {
  return {&identity, &stop_fusion, &neg,   &abs,   &floor, &ceil,        &round,       &sign,  &reciprocal, &sqrt,
          &exp,      &log,         &sin,   &cos,   &tan,   &asin,        &acos,        &atan,  &sinh,       &cosh,
          &tanh,     &asinh,       &acosh, &atanh, &erf,   &logical_not, &bitwise_not, &isnan, &isinf,      &cast};
}

Family elementwise_family() {
  Family family;
  for (const auto& ops : {unary_ops(), activation_ops(), binary_ops()})
    family.ops.insert(family.ops.end(), ops.begin(), ops.end());
  family.onnx = elementwise_rules();
  return family;
}

}  // namespace tenon::op
