// SPDX-License-Identifier: Apache-2.0
// Comparison of arrays.
#include "base/compare.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/diagnostic.h"

namespace tenon {
namespace {

/// Float bits as an integer that counts through the values in order.
template <class Bits>
int64_t ordered(Bits bits) {
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  auto magnitude = static_cast<int64_t>(bits & ~kSign);
  return bits & kSign ? -magnitude : magnitude;
}

uint64_t gap(int64_t a, int64_t b) {
  return a > b ? static_cast<uint64_t>(a) - static_cast<uint64_t>(b) : static_cast<uint64_t>(b) - static_cast<uint64_t>(a);
}

uint64_t ulp_distance(const Array& a, const Array& b, int64_t i) {
  switch (a.dtype) {
    case DType::F16:
    case DType::BF16: return gap(ordered(a.read<uint16_t>(i)), ordered(b.read<uint16_t>(i)));
    case DType::F32: return gap(ordered(a.read<uint32_t>(i)), ordered(b.read<uint32_t>(i)));
    case DType::F64: return gap(ordered(a.read<uint64_t>(i)), ordered(b.read<uint64_t>(i)));
    default: return static_cast<uint64_t>(std::abs(element(a, i) - element(b, i)));
  }
}

bool same_bits(const Array& a, const Array& b, int64_t i) {
  auto size = static_cast<size_t>(byte_size(a.dtype)), at = static_cast<size_t>(i) * size;
  return std::equal(a.bytes.data() + at, a.bytes.data() + at + size, b.bytes.data() + at);
}

}  // namespace

double element(const Array& array, int64_t index) {
  switch (array.dtype) {
    case DType::Bool:
    case DType::U8: return array.read<uint8_t>(index);
    case DType::I8: return array.read<int8_t>(index);
    case DType::I16: return array.read<int16_t>(index);
    case DType::U16: return array.read<uint16_t>(index);
    case DType::I32: return array.read<int32_t>(index);
    case DType::U32: return array.read<uint32_t>(index);
    case DType::I64: return static_cast<double>(array.read<int64_t>(index));
    case DType::U64: return static_cast<double>(array.read<uint64_t>(index));
    case DType::F16: return half_to_float(array.read<uint16_t>(index));
    case DType::BF16: return bfloat_to_float(array.read<uint16_t>(index));
    case DType::F32: return array.read<float>(index);
    case DType::F64: return array.read<double>(index);
  }
  fail_internal("a dtype is one of the enumeration");
}

Difference compare(const Array& got, const Array& want, const Tolerance& tolerance) {
  check(got.dtype == want.dtype && got.shape == want.shape, "arrays to compare have one type");
  Difference difference;
  for (int64_t i = 0, count = want.elements(); i < count; ++i) {
    if (same_bits(got, want, i)) continue;
    double a = element(got, i), b = element(want, i);
    if (std::isnan(a) && std::isnan(b)) continue;
    double off = a == b ? (is_float(want.dtype) ? 0 : 1) : std::abs(a - b);  // integers beyond 2^53 may look the same
    difference.max_abs = std::isnan(off) ? std::numeric_limits<double>::infinity() : std::max(difference.max_abs, off);
    if (off <= tolerance.atol + tolerance.rtol * std::abs(b) && std::isfinite(off)) continue;
    if (difference.count++ == 0) difference = {i, a, b, ulp_distance(got, want, i), difference.max_abs, 1};
  }
  return difference;
}

double scale_of(const Array& array) {
  double scale = 0;
  for (int64_t i = 0, count = array.elements(); i < count; ++i)
    if (double size = std::abs(element(array, i)); std::isfinite(size)) scale = std::max(scale, size);
  return scale;
}

}  // namespace tenon
