// SPDX-License-Identifier: Apache-2.0
// Conversion between stored elements and the wide numbers that constants are folded with.
#include "op/fold.h"

#include <cmath>
#include <limits>

namespace tenon::op {
namespace {

template <class Stored, class Wide>
void widen_as(const Array& from, int64_t begin, int64_t count, Wide* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<Wide>(from.read<Stored>(begin + i));
}

template <class Stored, class Wide>
void narrow_as(const Wide* from, int64_t count, MutableArray& to, int64_t begin) {
  Stored* out = to.as<Stored>() + begin;
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<Stored>(from[i]);
}

/// The float next to `value` toward zero, its last bit set if anything was lost: rounding that again to fewer bits gives
/// what rounding the double once would.
float round_to_odd(double value) {
  float nearest = static_cast<float>(value);
  if (!(std::isfinite(value)) || static_cast<double>(nearest) == value) return nearest;
  float truncated = std::abs(static_cast<double>(nearest)) > std::abs(value) ? std::nextafter(nearest, 0.0f) : nearest;
  uint32_t bits;
  __builtin_memcpy(&bits, &truncated, sizeof bits);
  bits |= 1;
  __builtin_memcpy(&truncated, &bits, sizeof bits);
  return truncated;
}

void narrow_to_16(DType dtype, const double* from, int64_t count, uint16_t* out) {
  for (int64_t i = 0; i < count; ++i)
    out[i] = dtype == DType::F16 ? float_to_half(round_to_odd(from[i])) : float_to_bfloat(round_to_odd(from[i]));
}

}  // namespace

template <class Wide>
void widen(const Array& from, int64_t begin, int64_t count, Wide* to) {
  switch (from.dtype) {
    case DType::Bool:
    case DType::U8: return widen_as<uint8_t>(from, begin, count, to);
    case DType::I8: return widen_as<int8_t>(from, begin, count, to);
    case DType::I16: return widen_as<int16_t>(from, begin, count, to);
    case DType::U16: return widen_as<uint16_t>(from, begin, count, to);
    case DType::I32: return widen_as<int32_t>(from, begin, count, to);
    case DType::U32: return widen_as<uint32_t>(from, begin, count, to);
    case DType::I64: return widen_as<int64_t>(from, begin, count, to);
    case DType::U64: return widen_as<uint64_t>(from, begin, count, to);
    case DType::F32: return widen_as<float>(from, begin, count, to);
    case DType::F64: return widen_as<double>(from, begin, count, to);
    case DType::F16:
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<Wide>(half_to_float(from.read<uint16_t>(begin + i)));
      return;
    case DType::BF16:
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<Wide>(bfloat_to_float(from.read<uint16_t>(begin + i)));
      return;
  }
}
template void widen(const Array&, int64_t, int64_t, double*);
template void widen(const Array&, int64_t, int64_t, int64_t*);
template void widen(const Array&, int64_t, int64_t, uint64_t*);

template <class Wide>
void narrow(const Wide* from, int64_t count, MutableArray& to, int64_t begin) {
  if constexpr (std::is_floating_point_v<Wide>) {
    switch (to.dtype) {
      case DType::F64: return narrow_as<double>(from, count, to, begin);
      case DType::F32: return narrow_as<float>(from, count, to, begin);
      case DType::F16:
      case DType::BF16: return narrow_to_16(to.dtype, from, count, to.as<uint16_t>() + begin);
      default: fail_internal("a float result is folded into a float dtype");
    }
  } else {
    switch (to.dtype) {
      case DType::Bool:
        for (int64_t i = 0; i < count; ++i) to.as<uint8_t>()[begin + i] = from[i] != 0;
        return;
      case DType::I8:
      case DType::U8: return narrow_as<uint8_t>(from, count, to, begin);
      case DType::I16:
      case DType::U16: return narrow_as<uint16_t>(from, count, to, begin);
      case DType::I32:
      case DType::U32: return narrow_as<uint32_t>(from, count, to, begin);
      case DType::I64:
      case DType::U64: return narrow_as<uint64_t>(from, count, to, begin);
      default: fail_internal("an integer result is folded into an integer dtype");
    }
  }
}
template void narrow(const double*, int64_t, MutableArray&, int64_t);
template void narrow(const int64_t*, int64_t, MutableArray&, int64_t);
template void narrow(const uint64_t*, int64_t, MutableArray&, int64_t);

BroadcastReader::BroadcastReader(const Array& from, const Shape& to)
    : from_(from), extents_(to), strides_(to.size(), 0), index_(to.size(), 0) {
  contiguous_ = from.shape == to;
  int64_t stride = 1;
  for (size_t k = from.shape.size(); k-- > 0;) {
    size_t axis = to.size() - from.shape.size() + k;
    strides_[axis] = from.shape[k] == 1 ? 0 : stride;
    stride *= from.shape[k];
  }
}

template <class Wide>
void BroadcastReader::read(int64_t count, Wide* to) {
  if (contiguous_ || extents_.empty()) {
    widen(from_, offset_, count, to);
    offset_ += count;
    return;
  }
  size_t inner = extents_.size() - 1;
  while (count > 0) {
    int64_t run = std::min(count, extents_[inner] - index_[inner]);
    if (strides_[inner] == 0) {
      widen(from_, offset_, 1, to);
      std::fill(to + 1, to + run, to[0]);
    } else {
      widen(from_, offset_, run, to);
    }
    to += run;
    count -= run;
    index_[inner] += run;
    offset_ += run * strides_[inner];
    for (size_t axis = inner; index_[axis] == extents_[axis];) {
      offset_ -= extents_[axis] * strides_[axis];
      index_[axis] = 0;
      if (axis == 0) return;
      --axis;
      ++index_[axis];
      offset_ += strides_[axis];
    }
  }
}
template void BroadcastReader::read(int64_t, double*);
template void BroadcastReader::read(int64_t, int64_t*);
template void BroadcastReader::read(int64_t, uint64_t*);

}  // namespace tenon::op
