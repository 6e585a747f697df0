// SPDX-License-Identifier: Apache-2.0
// The arithmetic of te::evaluate: floats as doubles, integers as 64 bits brought back to their width after each operation.
#include <bit>
#include <cmath>
#include <limits>

#include "te/lane_program.h"

namespace tenon::te {
namespace {

using tir::BinaryOp;
using tir::Intrinsic;

double as_double(uint64_t lane) { return std::bit_cast<double>(lane); }
int64_t as_signed(uint64_t lane) { return std::bit_cast<int64_t>(lane); }
uint64_t lane_of(double value) { return std::bit_cast<uint64_t>(value); }
uint64_t lane_of(int64_t value) { return std::bit_cast<uint64_t>(value); }

template <class F>
void each(uint64_t* dst, const uint64_t* a, int count, F f) {
  for (int i = 0; i < count; ++i) dst[i] = f(a[i]);
}
template <class F>
void each(uint64_t* dst, const uint64_t* a, const uint64_t* b, int count, F f) {
  for (int i = 0; i < count; ++i) dst[i] = f(a[i], b[i]);
}
template <class F>
void each_float(uint64_t* dst, const uint64_t* a, int count, F f) {
  for (int i = 0; i < count; ++i) dst[i] = lane_of(f(as_double(a[i])));
}
template <class F>
void each_float(uint64_t* dst, const uint64_t* a, const uint64_t* b, int count, F f) {
  for (int i = 0; i < count; ++i) dst[i] = lane_of(f(as_double(a[i]), as_double(b[i])));
}

template <class T>
void narrow_to(uint64_t* lanes, int count) {
  for (int i = 0; i < count; ++i) lanes[i] = static_cast<uint64_t>(static_cast<int64_t>(static_cast<T>(lanes[i])));
}

/// Brings 64-bit results back to the width of an integer dtype.
void narrow(DType dtype, uint64_t* lanes, int count) {
  switch (dtype) {
    case DType::I8: return narrow_to<int8_t>(lanes, count);
    case DType::U8: return narrow_to<uint8_t>(lanes, count);
    case DType::I16: return narrow_to<int16_t>(lanes, count);
    case DType::U16: return narrow_to<uint16_t>(lanes, count);
    case DType::I32: return narrow_to<int32_t>(lanes, count);
    case DType::U32: return narrow_to<uint32_t>(lanes, count);
    case DType::Bool:
      for (int i = 0; i < count; ++i) lanes[i] = lanes[i] != 0;
      return;
    default: return;
  }
}

/// The nearest multiple of the format's spacing, ties to even. `precision` counts significand bits; `lowest` is the
/// exponent of the smallest subnormal. The input may be any 64-bit integer or double, so it is taken exactly.
double round_to_format(long double value, int precision, int lowest, double largest) {
  if (!std::isfinite(value) || value == 0) return static_cast<double>(value);
  int exponent = 0;
  std::frexp(value, &exponent);
  int spacing = std::max(exponent - precision, lowest);
  long double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -spacing)), spacing);
  if (std::fabs(rounded) > largest) return std::copysign(std::numeric_limits<double>::infinity(), static_cast<double>(value));
  return static_cast<double>(rounded);
}

double round_half(long double value) { return round_to_format(value, 11, -24, 65504); }
double round_bfloat(long double value) { return round_to_format(value, 8, -133, 0x1.FEp127); }

void round_lanes(DType dtype, uint64_t* dst, const uint64_t* a, int count) {
  switch (dtype) {
    case DType::F16: return each_float(dst, a, count, [](double v) { return round_half(v); });
    case DType::BF16: return each_float(dst, a, count, [](double v) { return round_bfloat(v); });
    case DType::F32: return each_float(dst, a, count, [](double v) { return static_cast<double>(static_cast<float>(v)); });
    default: return each_float(dst, a, count, [](double v) { return v; });
  }
}

/// Any 64-bit integer to a float dtype in one rounding.
template <class T>
double integer_to_float(DType dtype, T value) {
  switch (dtype) {
    case DType::F16: return round_half(value);
    case DType::BF16: return round_bfloat(value);
    case DType::F32: return static_cast<float>(value);
    default: return static_cast<double>(value);
  }
}

/// Toward zero, held inside the dtype; NaN gives 0.
uint64_t float_to_integer(DType dtype, double value) {
  if (std::isnan(value)) return 0;
  int bits = bit_width(dtype);
  bool is_signed = is_signed_integer(dtype);
  double above = std::ldexp(1.0, is_signed ? bits - 1 : bits);
  uint64_t largest = ~uint64_t{0} >> (is_signed ? 65 - bits : 64 - bits);
  if (value >= above) return largest;
  if (is_signed) return value < -above ? ~largest : lane_of(static_cast<int64_t>(value));
  return value <= 0 ? 0 : static_cast<uint64_t>(value);
}

void cast_lanes(DType to, DType from, uint64_t* dst, const uint64_t* a, int count) {
  if (is_float(from)) {
    if (is_float(to)) return round_lanes(to, dst, a, count);
    if (to == DType::Bool) return each(dst, a, count, [](uint64_t v) -> uint64_t { return as_double(v) != 0; });
    return each(dst, a, count, [to](uint64_t v) { return float_to_integer(to, as_double(v)); });
  }
  if (is_float(to)) {
    if (from == DType::U64) return each(dst, a, count, [to](uint64_t v) { return lane_of(integer_to_float(to, v)); });
    return each(dst, a, count, [to](uint64_t v) { return lane_of(integer_to_float(to, as_signed(v))); });
  }
  std::copy_n(a, count, dst);
  narrow(to, dst, count);
}

double float_minimum(double a, double b) { return std::isnan(a) ? a : std::isnan(b) ? b : a < b ? a : b; }
double float_maximum(double a, double b) { return std::isnan(a) ? a : std::isnan(b) ? b : a > b ? a : b; }

void float_binary(BinaryOp op, uint64_t* dst, const uint64_t* a, const uint64_t* b, int count) {
  auto compare = [&](auto f) {
    each(dst, a, b, count, [f](uint64_t x, uint64_t y) -> uint64_t { return f(as_double(x), as_double(y)); });
  };
  switch (op) {
    case BinaryOp::Add: return each_float(dst, a, b, count, [](double x, double y) { return x + y; });
    case BinaryOp::Sub: return each_float(dst, a, b, count, [](double x, double y) { return x - y; });
    case BinaryOp::Mul: return each_float(dst, a, b, count, [](double x, double y) { return x * y; });
    case BinaryOp::Div: return each_float(dst, a, b, count, [](double x, double y) { return x / y; });
    case BinaryOp::FloorDiv: return each_float(dst, a, b, count, [](double x, double y) { return std::floor(x / y); });
    case BinaryOp::FloorMod: return each_float(dst, a, b, count, [](double x, double y) { return x - std::floor(x / y) * y; });
    case BinaryOp::TruncMod: return each_float(dst, a, b, count, [](double x, double y) { return std::fmod(x, y); });
    case BinaryOp::Min: return each_float(dst, a, b, count, float_minimum);
    case BinaryOp::Max: return each_float(dst, a, b, count, float_maximum);
    case BinaryOp::Eq: return compare([](double x, double y) { return x == y; });
    case BinaryOp::Ne: return compare([](double x, double y) { return x != y; });
    case BinaryOp::Lt: return compare([](double x, double y) { return x < y; });
    case BinaryOp::Le: return compare([](double x, double y) { return x <= y; });
    default: fail_internal("`" + std::string(name(op)) + "` is not an operation of floats");
  }
}

int64_t quotient(int64_t x, int64_t y) {
  if (y == 0) return 0;
  return y == -1 ? as_signed(-lane_of(x)) : x / y;  // MIN / -1 wraps
}
int64_t remainder(int64_t x, int64_t y) { return y == 0 || y == -1 ? 0 : x % y; }
int64_t floor_quotient(int64_t x, int64_t y) {
  int64_t rest = remainder(x, y);
  return quotient(x, y) - (rest != 0 && (rest < 0) != (y < 0));
}
int64_t floor_remainder(int64_t x, int64_t y) {
  int64_t rest = remainder(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

/// Division, order and right shift, where the sign matters.
void signed_binary(BinaryOp op, uint64_t width, uint64_t* dst, const uint64_t* a, const uint64_t* b, int count) {
  auto apply = [&](auto f) {
    each(dst, a, b, count, [f](uint64_t x, uint64_t y) { return lane_of(static_cast<int64_t>(f(as_signed(x), as_signed(y)))); });
  };
  switch (op) {
    case BinaryOp::Div: return apply(quotient);
    case BinaryOp::FloorDiv: return apply(floor_quotient);
    case BinaryOp::FloorMod: return apply(floor_remainder);
    case BinaryOp::TruncMod: return apply(remainder);
    case BinaryOp::Min: return apply([](int64_t x, int64_t y) { return std::min(x, y); });
    case BinaryOp::Max: return apply([](int64_t x, int64_t y) { return std::max(x, y); });
    case BinaryOp::Lt: return apply([](int64_t x, int64_t y) { return x < y; });
    case BinaryOp::Le: return apply([](int64_t x, int64_t y) { return x <= y; });
    default: return apply([width](int64_t x, int64_t y) { return lane_of(y) >= width ? (x < 0 ? -1 : 0) : x >> y; });
  }
}

void unsigned_binary(BinaryOp op, uint64_t width, uint64_t* dst, const uint64_t* a, const uint64_t* b, int count) {
  auto apply = [&](auto f) { each(dst, a, b, count, [f](uint64_t x, uint64_t y) -> uint64_t { return f(x, y); }); };
  switch (op) {
    case BinaryOp::Div:
    case BinaryOp::FloorDiv: return apply([](uint64_t x, uint64_t y) { return y == 0 ? 0 : x / y; });
    case BinaryOp::FloorMod:
    case BinaryOp::TruncMod: return apply([](uint64_t x, uint64_t y) { return y == 0 ? 0 : x % y; });
    case BinaryOp::Min: return apply([](uint64_t x, uint64_t y) { return std::min(x, y); });
    case BinaryOp::Max: return apply([](uint64_t x, uint64_t y) { return std::max(x, y); });
    case BinaryOp::Lt: return apply([](uint64_t x, uint64_t y) { return x < y; });
    case BinaryOp::Le: return apply([](uint64_t x, uint64_t y) { return x <= y; });
    default: return apply([width](uint64_t x, uint64_t y) { return y >= width ? 0 : x >> y; });
  }
}

void integer_binary(BinaryOp op, DType dtype, uint64_t* dst, const uint64_t* a, const uint64_t* b, int count) {
  auto apply = [&](auto f) { each(dst, a, b, count, [f](uint64_t x, uint64_t y) -> uint64_t { return f(x, y); }); };
  auto width = static_cast<uint64_t>(bit_width(dtype));
  switch (op) {
    case BinaryOp::Add: apply([](uint64_t x, uint64_t y) { return x + y; }); break;
    case BinaryOp::Sub: apply([](uint64_t x, uint64_t y) { return x - y; }); break;
    case BinaryOp::Mul: apply([](uint64_t x, uint64_t y) { return x * y; }); break;
    case BinaryOp::Eq: return apply([](uint64_t x, uint64_t y) { return x == y; });
    case BinaryOp::Ne: return apply([](uint64_t x, uint64_t y) { return x != y; });
    case BinaryOp::And:
    case BinaryOp::BitAnd: return apply([](uint64_t x, uint64_t y) { return x & y; });
    case BinaryOp::Or:
    case BinaryOp::BitOr: return apply([](uint64_t x, uint64_t y) { return x | y; });
    case BinaryOp::BitXor: return apply([](uint64_t x, uint64_t y) { return x ^ y; });
    case BinaryOp::Shl: apply([width](uint64_t x, uint64_t y) { return y >= width ? 0 : x << y; }); break;
    default:
      if (is_signed_integer(dtype))
        signed_binary(op, width, dst, a, b, count);
      else
        unsigned_binary(op, width, dst, a, b, count);
  }
  if (!gives_bool(op)) narrow(dtype, dst, count);
}

uint64_t integer_power(uint64_t base, uint64_t exponent, DType dtype) {
  if (is_signed_integer(dtype) && as_signed(exponent) < 0) {
    if (as_signed(base) == -1) return exponent & 1 ? base : 1;
    return base == 1 ? 1 : 0;
  }
  uint64_t result = 1;
  for (; exponent; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}

/// A lane as the bits of one element, and back.
uint64_t element_bits(DType dtype, uint64_t lane) {
  switch (dtype) {
    case DType::F16: return float_to_half(static_cast<float>(round_half(as_double(lane))));
    case DType::BF16: return float_to_bfloat(static_cast<float>(round_bfloat(as_double(lane))));
    case DType::F32: return std::bit_cast<uint32_t>(static_cast<float>(as_double(lane)));
    default: return lane;
  }
}

uint64_t from_element_bits(DType dtype, uint64_t bits) {
  switch (dtype) {
    case DType::F16: return lane_of(double{half_to_float(static_cast<uint16_t>(bits))});
    case DType::BF16: return lane_of(double{bfloat_to_float(static_cast<uint16_t>(bits))});
    case DType::F32: return lane_of(double{std::bit_cast<float>(static_cast<uint32_t>(bits))});
    default: narrow(dtype, &bits, 1); return bits;
  }
}

/// Intrinsics with a meaning for integers and bool too. False if this is not one of them.
bool any_intrinsic(const Instruction& i, uint64_t* dst, const uint64_t* a, const uint64_t* b, int count) {
  switch (i.intrinsic) {
    case Intrinsic::Not: each(dst, a, count, [](uint64_t v) -> uint64_t { return v == 0; }); return true;
    case Intrinsic::BitNot:
      each(dst, a, count, [](uint64_t v) { return ~v; });
      if (i.dtype == DType::Bool) each(dst, a, count, [](uint64_t v) -> uint64_t { return v == 0; });
      narrow(i.dtype, dst, count);
      return true;
    case Intrinsic::Reinterpret:
      each(dst, a, count, [&](uint64_t v) { return from_element_bits(i.dtype, element_bits(i.from, v)); });
      return true;
    case Intrinsic::Abs:
      if (is_float(i.dtype)) return false;
      each(dst, a, count, [&](uint64_t v) { return is_signed_integer(i.dtype) && as_signed(v) < 0 ? -v : v; });
      narrow(i.dtype, dst, count);
      return true;
    case Intrinsic::Pow:
      if (is_float(i.dtype)) return false;
      each(dst, a, b, count, [&](uint64_t x, uint64_t y) { return integer_power(x, y, i.dtype); });
      narrow(i.dtype, dst, count);
      return true;
    default: return false;
  }
}

void intrinsic(const Instruction& i, uint64_t* dst, const uint64_t* a, const uint64_t* b, const uint64_t* c, int count) {
  if (any_intrinsic(i, dst, a, b, count)) return;
  if (!is_float(i.from)) fail_internal("`" + std::string(name(i.intrinsic)) + "` is not an operation of integers");
  auto apply = [&](double (*f)(double)) { each_float(dst, a, count, f); };
  switch (i.intrinsic) {
    case Intrinsic::Abs: return apply(std::fabs);
    case Intrinsic::Floor: return apply(std::floor);
    case Intrinsic::Ceil: return apply(std::ceil);
    case Intrinsic::Trunc: return apply(std::trunc);
    case Intrinsic::RoundEven: return apply(std::nearbyint);
    case Intrinsic::Sqrt: return apply(std::sqrt);
    case Intrinsic::Exp: return apply(std::exp);
    case Intrinsic::Exp2: return apply(std::exp2);
    case Intrinsic::Log: return apply(std::log);
    case Intrinsic::Log2: return apply(std::log2);
    case Intrinsic::Log1p: return apply(std::log1p);
    case Intrinsic::Expm1: return apply(std::expm1);
    case Intrinsic::Sin: return apply(std::sin);
    case Intrinsic::Cos: return apply(std::cos);
    case Intrinsic::Tan: return apply(std::tan);
    case Intrinsic::Asin: return apply(std::asin);
    case Intrinsic::Acos: return apply(std::acos);
    case Intrinsic::Atan: return apply(std::atan);
    case Intrinsic::Sinh: return apply(std::sinh);
    case Intrinsic::Cosh: return apply(std::cosh);
    case Intrinsic::Tanh: return apply(std::tanh);
    case Intrinsic::Asinh: return apply(std::asinh);
    case Intrinsic::Acosh: return apply(std::acosh);
    case Intrinsic::Atanh: return apply(std::atanh);
    case Intrinsic::Erf: return apply(std::erf);
    case Intrinsic::Pow: return each_float(dst, a, b, count, [](double x, double y) { return std::pow(x, y); });
    case Intrinsic::Fma:
      for (int k = 0; k < count; ++k) dst[k] = lane_of(std::fma(as_double(a[k]), as_double(b[k]), as_double(c[k])));
      return;
    case Intrinsic::IsNan: return each(dst, a, count, [](uint64_t v) -> uint64_t { return std::isnan(as_double(v)); });
    case Intrinsic::IsInf: return each(dst, a, count, [](uint64_t v) -> uint64_t { return std::isinf(as_double(v)); });
    case Intrinsic::Not:
    case Intrinsic::BitNot:
    case Intrinsic::Reinterpret: break;
  }
  fail_internal("an intrinsic of no known kind");
}

template <class T, class F>
void gather(const std::byte* data, const int64_t* offsets, uint64_t* dst, int count, F to_lane) {
  for (int i = 0; i < count; ++i) {
    T value;
    __builtin_memcpy(&value, data + offsets[i] * static_cast<int64_t>(sizeof(T)), sizeof(T));
    dst[i] = to_lane(value);
  }
}

template <class T, class F>
void scatter(std::byte* data, int64_t first, const uint64_t* lanes, int count, F from_lane) {
  data += first * static_cast<int64_t>(sizeof(T));
  for (int i = 0; i < count; ++i) {
    T value = from_lane(lanes[i]);
    __builtin_memcpy(data + static_cast<size_t>(i) * sizeof(T), &value, sizeof(T));
  }
}

template <class T>
void gather_integers(const std::byte* data, const int64_t* offsets, uint64_t* dst, int count) {
  gather<T>(data, offsets, dst, count, [](T v) { return lane_of(static_cast<int64_t>(v)); });
}
template <class T>
void scatter_integers(std::byte* data, int64_t first, const uint64_t* lanes, int count) {
  scatter<T>(data, first, lanes, count, [](uint64_t v) { return static_cast<T>(v); });
}

}  // namespace

void apply_lanes(const Instruction& i, uint64_t* dst, const uint64_t* a, const uint64_t* b, const uint64_t* c, int count) {
  switch (i.kind) {
    case tir::ExprKind::IntImm:
    case tir::ExprKind::FloatImm: std::fill_n(dst, count, i.bits); return;
    case tir::ExprKind::Cast: return cast_lanes(i.dtype, i.from, dst, a, count);
    case tir::ExprKind::Binary:
      return is_float(i.from) ? float_binary(i.binary, dst, a, b, count) : integer_binary(i.binary, i.from, dst, a, b, count);
    case tir::ExprKind::Select:
      for (int k = 0; k < count; ++k) dst[k] = a[k] ? b[k] : c[k];
      return;
    case tir::ExprKind::Call: return intrinsic(i, dst, a, b, c, count);
    case tir::ExprKind::Var:
    case tir::ExprKind::Load: break;
  }
  fail_internal("an instruction that is not arithmetic");
}

void gather_lanes(DType dtype, const std::byte* data, const int64_t* offsets, uint64_t* dst, int count) {
  switch (dtype) {
    case DType::Bool:
    case DType::U8: return gather_integers<uint8_t>(data, offsets, dst, count);
    case DType::I8: return gather_integers<int8_t>(data, offsets, dst, count);
    case DType::I16: return gather_integers<int16_t>(data, offsets, dst, count);
    case DType::U16: return gather_integers<uint16_t>(data, offsets, dst, count);
    case DType::I32: return gather_integers<int32_t>(data, offsets, dst, count);
    case DType::U32: return gather_integers<uint32_t>(data, offsets, dst, count);
    case DType::I64:
    case DType::U64: return gather_integers<int64_t>(data, offsets, dst, count);
    case DType::F16:
      return gather<uint16_t>(data, offsets, dst, count, [](uint16_t v) { return lane_of(double{half_to_float(v)}); });
    case DType::BF16:
      return gather<uint16_t>(data, offsets, dst, count, [](uint16_t v) { return lane_of(double{bfloat_to_float(v)}); });
    case DType::F32: return gather<float>(data, offsets, dst, count, [](float v) { return lane_of(double{v}); });
    case DType::F64: return gather<double>(data, offsets, dst, count, [](double v) { return lane_of(v); });
  }
}

void store_lanes(DType dtype, std::byte* data, int64_t first, const uint64_t* lanes, int count) {
  switch (dtype) {
    case DType::Bool:
    case DType::I8:
    case DType::U8: return scatter_integers<uint8_t>(data, first, lanes, count);
    case DType::I16:
    case DType::U16: return scatter_integers<uint16_t>(data, first, lanes, count);
    case DType::I32:
    case DType::U32: return scatter_integers<uint32_t>(data, first, lanes, count);
    case DType::I64:
    case DType::U64:
    case DType::F64: return scatter_integers<uint64_t>(data, first, lanes, count);
    case DType::F16:
    case DType::BF16:
      return scatter<uint16_t>(data, first, lanes, count,
                               [&](uint64_t v) { return static_cast<uint16_t>(element_bits(dtype, v)); });
    case DType::F32:
      return scatter<float>(data, first, lanes, count, [](uint64_t v) { return static_cast<float>(as_double(v)); });
  }
}

}  // namespace tenon::te
