// SPDX-License-Identifier: Apache-2.0
// Scalar arithmetic at native widths: floats as float or double (f16 and bf16 as float, rounded after each operation),
// integers as the machine's own types.
#include "tir/scalar_ops.h"

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/array.h"

namespace tenon::tir {
namespace {

/// How a dtype's bits become a C++ value, and back.
template <class T>
struct Native {
  using Value = T;
  static T get(uint64_t bits) {
    T value;
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
  }
  static uint64_t put(T value) {
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    return bits;
  }
};
struct Half {
  using Value = float;
  static float get(uint64_t bits) { return half_to_float(static_cast<uint16_t>(bits)); }
  static uint64_t put(float value) { return float_to_half(value); }
};
struct Bfloat {
  using Value = float;
  static float get(uint64_t bits) { return bfloat_to_float(static_cast<uint16_t>(bits)); }
  static uint64_t put(float value) { return float_to_bfloat(value); }
};
struct Bool {
  using Value = uint8_t;
  static uint8_t get(uint64_t bits) { return (bits & 0xff) != 0; }
  static uint64_t put(uint8_t value) { return value != 0; }
};

/// Rounds to float so that a second rounding, to a narrower format, gives what one rounding would: an inexact result
/// is cut toward zero and its last bit set.
float sticky_float(long double value) {
  auto rounded = static_cast<float>(value);
  if (rounded == value || !std::isfinite(value)) return rounded;
  auto bits = std::bit_cast<uint32_t>(rounded);
  if (std::fabs(static_cast<long double>(rounded)) > std::fabs(value)) --bits;
  return std::bit_cast<float>(bits | 1);
}

template <class F>
ScalarOp with_integer(DType dtype, F f) {
  switch (dtype) {
    case DType::Bool: return f.template operator()<Bool>();
    case DType::I8: return f.template operator()<Native<int8_t>>();
    case DType::U8: return f.template operator()<Native<uint8_t>>();
    case DType::I16: return f.template operator()<Native<int16_t>>();
    case DType::U16: return f.template operator()<Native<uint16_t>>();
    case DType::I32: return f.template operator()<Native<int32_t>>();
    case DType::U32: return f.template operator()<Native<uint32_t>>();
    case DType::I64: return f.template operator()<Native<int64_t>>();
    case DType::U64: return f.template operator()<Native<uint64_t>>();
    default: return nullptr;
  }
}

template <class F>
ScalarOp with_float(DType dtype, F f) {
  switch (dtype) {
    case DType::F16: return f.template operator()<Half>();
    case DType::BF16: return f.template operator()<Bfloat>();
    case DType::F32: return f.template operator()<Native<float>>();
    case DType::F64: return f.template operator()<Native<double>>();
    default: return nullptr;
  }
}

using U64 = uint64_t;

/// The operation F on values of N, giving a value of N.
template <class N, auto F>
uint64_t one(uint64_t a, uint64_t, uint64_t) {
  return N::put(static_cast<typename N::Value>(F(N::get(a))));
}
template <class N, auto F>
uint64_t two(uint64_t a, uint64_t b, uint64_t) {
  return N::put(static_cast<typename N::Value>(F(N::get(a), N::get(b))));
}
/// The same, giving a bool.
template <class N, auto F>
uint64_t test_one(uint64_t a, uint64_t, uint64_t) {
  return F(N::get(a)) ? 1 : 0;
}
template <class N, auto F>
uint64_t test_two(uint64_t a, uint64_t b, uint64_t) {
  return F(N::get(a), N::get(b)) ? 1 : 0;
}

template <class N>
ScalarOp comparison(BinaryOp op) {
  switch (op) {
    case BinaryOp::Eq: return test_two<N, [](auto x, auto y) { return x == y; }>;
    case BinaryOp::Ne: return test_two<N, [](auto x, auto y) { return x != y; }>;
    case BinaryOp::Lt: return test_two<N, [](auto x, auto y) { return x < y; }>;
    case BinaryOp::Le: return test_two<N, [](auto x, auto y) { return x <= y; }>;
    default: return nullptr;
  }
}

template <class N>
ScalarOp float_binary(BinaryOp op) {
  using V = typename N::Value;
  switch (op) {
    case BinaryOp::Add: return two<N, [](V x, V y) { return x + y; }>;
    case BinaryOp::Sub: return two<N, [](V x, V y) { return x - y; }>;
    case BinaryOp::Mul: return two<N, [](V x, V y) { return x * y; }>;
    case BinaryOp::Div: return two<N, [](V x, V y) { return x / y; }>;
    case BinaryOp::FloorDiv: return two<N, [](V x, V y) { return std::floor(x / y); }>;
    case BinaryOp::FloorMod: return two<N, [](V x, V y) { return x - std::floor(x / y) * y; }>;
    case BinaryOp::TruncMod: return two<N, [](V x, V y) { return std::fmod(x, y); }>;
    case BinaryOp::Min: return two<N, [](V x, V y) { return x != x || x < y ? x : y; }>;
    case BinaryOp::Max: return two<N, [](V x, V y) { return x != x || x > y ? x : y; }>;
    default: return comparison<N>(op);
  }
}

template <class V>
V divide(V x, V y) {
  if (y == 0) return 0;
  if constexpr (std::is_signed_v<V>)
    if (y == -1) return static_cast<V>(U64{0} - static_cast<U64>(x));
  return static_cast<V>(x / y);
}

/// x - divide(x, y) * y, which never overflows.
template <class V>
V rest(V x, V y) {
  if (y == 0) return 0;
  if constexpr (std::is_signed_v<V>)
    if (y == -1) return 0;
  return static_cast<V>(x % y);
}

template <class V>
bool rounds_up(V x, V y) {
  V r = rest(x, y);
  return r != 0 && (r < 0) != (y < 0);
}

template <class V>
bool shifted_out(V count) {
  return static_cast<std::make_unsigned_t<V>>(count) >= 8 * sizeof(V);
}

template <class N>
ScalarOp integer_binary(BinaryOp op) {
  using V = typename N::Value;
  switch (op) {
    case BinaryOp::Add: return two<N, [](V x, V y) { return static_cast<U64>(x) + static_cast<U64>(y); }>;
    case BinaryOp::Sub: return two<N, [](V x, V y) { return static_cast<U64>(x) - static_cast<U64>(y); }>;
    case BinaryOp::Mul: return two<N, [](V x, V y) { return static_cast<U64>(x) * static_cast<U64>(y); }>;
    case BinaryOp::Div: return two<N, divide<V>>;
    case BinaryOp::FloorDiv: return two<N, [](V x, V y) { return divide(x, y) - (rounds_up(x, y) ? 1 : 0); }>;
    case BinaryOp::FloorMod: return two<N, [](V x, V y) { return rest(x, y) + (rounds_up(x, y) ? y : V{0}); }>;
    case BinaryOp::TruncMod: return two<N, rest<V>>;
    case BinaryOp::Min: return two<N, [](V x, V y) { return x < y ? x : y; }>;
    case BinaryOp::Max: return two<N, [](V x, V y) { return x < y ? y : x; }>;
    case BinaryOp::And: return two<N, [](V x, V y) { return x && y; }>;
    case BinaryOp::Or: return two<N, [](V x, V y) { return x || y; }>;
    case BinaryOp::BitAnd: return two<N, [](V x, V y) { return x & y; }>;
    case BinaryOp::BitOr: return two<N, [](V x, V y) { return x | y; }>;
    case BinaryOp::BitXor: return two<N, [](V x, V y) { return x ^ y; }>;
    case BinaryOp::Shl: return two<N, [](V x, V y) { return shifted_out(y) ? U64{0} : static_cast<U64>(x) << y; }>;
    case BinaryOp::Shr: return two<N, [](V x, V y) { return shifted_out(y) ? (x < 0 ? V(-1) : V{0}) : V(x >> y); }>;
    default: return comparison<N>(op);
  }
}

template <class V>
V integer_power(V x, V y) {
  if (y < 0) return x == 1 ? V{1} : x == static_cast<V>(-1) ? static_cast<V>(y % 2 == 0 ? 1 : -1) : V{0};
  U64 result = 1, factor = static_cast<U64>(x);
  for (V left = y; left != 0; left = static_cast<V>(left / 2), factor *= factor)
    if (left % 2 != 0) result *= factor;
  return static_cast<V>(result);
}

template <class N>
ScalarOp integer_intrinsic(Intrinsic op) {
  using V = typename N::Value;
  switch (op) {
    case Intrinsic::Not: return one<N, [](V x) { return x == 0; }>;
    case Intrinsic::BitNot:
      if constexpr (std::is_same_v<N, Bool>) return one<N, [](V x) { return x == 0; }>;
      return one<N, [](V x) { return ~x; }>;
    case Intrinsic::Abs: return one<N, [](V x) { return x < 0 ? U64{0} - static_cast<U64>(x) : static_cast<U64>(x); }>;
    case Intrinsic::Pow: return two<N, integer_power<V>>;
    default: return nullptr;
  }
}

/// One rounding at the end. Of a 16-bit format's fma the product is exact; if the sum cuts something off and still
/// looks like an exact float, it moves by one step, so that halfway between two results it goes the right way.
template <class N>
uint64_t fused_multiply_add(uint64_t a, uint64_t b, uint64_t c) {
  if constexpr (std::is_same_v<N, Native<float>> || std::is_same_v<N, Native<double>>) {
    return N::put(std::fma(N::get(a), N::get(b), N::get(c)));
  } else {
    long double product = static_cast<long double>(N::get(a)) * N::get(b), addend = N::get(c), sum = product + addend;
    long double error = (product - (sum - (sum - product))) + (addend - (sum - product));
    bool looks_exact = static_cast<float>(sum) == sum;
    if (looks_exact && (error > 0 || error < 0)) sum = std::nextafter(sum, error > 0 ? HUGE_VALL : -HUGE_VALL);
    return N::put(sticky_float(sum));
  }
}

template <class N>
ScalarOp float_intrinsic(Intrinsic op) {
  using V = typename N::Value;
  switch (op) {
    case Intrinsic::Abs: return one<N, [](V x) { return std::fabs(x); }>;
    case Intrinsic::Floor: return one<N, [](V x) { return std::floor(x); }>;
    case Intrinsic::Ceil: return one<N, [](V x) { return std::ceil(x); }>;
    case Intrinsic::Trunc: return one<N, [](V x) { return std::trunc(x); }>;
    case Intrinsic::RoundEven: return one<N, [](V x) { return std::rint(x); }>;
    case Intrinsic::Sqrt: return one<N, [](V x) { return std::sqrt(x); }>;
    case Intrinsic::Exp: return one<N, [](V x) { return std::exp(x); }>;
    case Intrinsic::Exp2: return one<N, [](V x) { return std::exp2(x); }>;
    case Intrinsic::Log: return one<N, [](V x) { return std::log(x); }>;
    case Intrinsic::Log2: return one<N, [](V x) { return std::log2(x); }>;
    case Intrinsic::Log1p: return one<N, [](V x) { return std::log1p(x); }>;
    case Intrinsic::Expm1: return one<N, [](V x) { return std::expm1(x); }>;
    case Intrinsic::Sin: return one<N, [](V x) { return std::sin(x); }>;
    case Intrinsic::Cos: return one<N, [](V x) { return std::cos(x); }>;
    case Intrinsic::Tan: return one<N, [](V x) { return std::tan(x); }>;
    case Intrinsic::Asin: return one<N, [](V x) { return std::asin(x); }>;
    case Intrinsic::Acos: return one<N, [](V x) { return std::acos(x); }>;
    case Intrinsic::Atan: return one<N, [](V x) { return std::atan(x); }>;
    case Intrinsic::Sinh: return one<N, [](V x) { return std::sinh(x); }>;
    case Intrinsic::Cosh: return one<N, [](V x) { return std::cosh(x); }>;
    case Intrinsic::Tanh: return one<N, [](V x) { return std::tanh(x); }>;
    case Intrinsic::Asinh: return one<N, [](V x) { return std::asinh(x); }>;
    case Intrinsic::Acosh: return one<N, [](V x) { return std::acosh(x); }>;
    case Intrinsic::Atanh: return one<N, [](V x) { return std::atanh(x); }>;
    case Intrinsic::Erf: return one<N, [](V x) { return std::erf(x); }>;
    case Intrinsic::Pow: return two<N, [](V x, V y) { return std::pow(x, y); }>;
    case Intrinsic::Fma: return fused_multiply_add<N>;
    case Intrinsic::IsNan: return test_one<N, [](V x) { return x != x; }>;
    case Intrinsic::IsInf: return test_one<N, [](V x) { return std::isinf(x); }>;
    case Intrinsic::Not:
    case Intrinsic::BitNot:
    case Intrinsic::Reinterpret: return nullptr;
  }
  return nullptr;
}

/// Toward zero, held inside the integer type; NaN gives 0.
template <class V, class F>
V truncate(F value) {
  using Limits = std::numeric_limits<V>;
  if (value != value) return 0;
  if (value <= static_cast<F>(Limits::min())) return Limits::min();
  if (value >= static_cast<F>(Limits::max())) return Limits::max();
  return static_cast<V>(value);
}

template <class To, class From>
uint64_t convert(uint64_t a, uint64_t, uint64_t) {
  auto value = From::get(a);
  constexpr bool from_float = std::is_floating_point_v<decltype(value)>;
  if constexpr (std::is_same_v<To, Bool>)
    return value != 0;
  else if constexpr (from_float && std::is_integral_v<typename To::Value>)
    return To::put(truncate<typename To::Value>(value));
  else if constexpr (std::is_same_v<To, Half> || std::is_same_v<To, Bfloat>)
    return To::put(sticky_float(value));
  else
    return To::put(static_cast<typename To::Value>(value));
}

template <class F>
ScalarOp with_any(DType dtype, F f) {
  return is_float(dtype) ? with_float(dtype, f) : with_integer(dtype, f);
}

ScalarOp found(ScalarOp op, std::string_view operation, DType dtype) {
  if (!op) fail_internal("`" + std::string(operation) + "` is not an operation of " + std::string(name(dtype)));
  return op;
}

}  // namespace

ScalarOp scalar_binary(BinaryOp op, DType dtype) {
  ScalarOp out = is_float(dtype) ? with_float(dtype, [op]<class N>() { return float_binary<N>(op); })
                                 : with_integer(dtype, [op]<class N>() { return integer_binary<N>(op); });
  return found(out, name(op), dtype);
}

ScalarOp scalar_cast(DType to, DType from) {
  return with_any(to, [from]<class To>() { return with_any(from, []<class From>() -> ScalarOp { return convert<To, From>; }); });
}

ScalarOp scalar_intrinsic(Intrinsic op, DType dtype) {
  if (op == Intrinsic::Reinterpret) return [](uint64_t a, uint64_t, uint64_t) { return a; };
  ScalarOp out = is_float(dtype) ? with_float(dtype, [op]<class N>() { return float_intrinsic<N>(op); })
                                 : with_integer(dtype, [op]<class N>() { return integer_intrinsic<N>(op); });
  return found(out, name(op), dtype);
}

uint64_t scalar_bits(const IntImm& e) { return scalar_cast(e.dtype, DType::I64)(static_cast<uint64_t>(e.value), 0, 0); }

uint64_t scalar_bits(const FloatImm& e) { return scalar_cast(e.dtype, DType::F64)(std::bit_cast<uint64_t>(e.value), 0, 0); }

}  // namespace tenon::tir
