// SPDX-License-Identifier: Apache-2.0
// Arrays and the 16-bit float conversions.
#include "base/array.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "base/diagnostic.h"
#include "base/reuse.h"

namespace tenon {

// Of one array on the host.
constexpr int64_t kMaxBytes = int64_t{1} << 40;

[[noreturn]] static void fail_too_large(std::span<const int64_t> shape, const char* expected, const std::string& why = "") {
  throw CompileError(Diagnostic{.kind = ErrorKind::Limit,
                                .code = "tensor-too-large",
                                .message = "a tensor of shape " + to_string(shape) + " cannot be held" + why,
                                .expected = expected,
                                .found = to_string(shape)});
}

int64_t element_count(std::span<const int64_t> shape) {
  int64_t count = 1;
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t extent = shape[axis];
    if (extent < 0)
      fail_too_large(shape, "an extent of 0 or more", ": axis " + std::to_string(axis) + " is " + std::to_string(extent));
    const bool overflow = !empty && (__builtin_mul_overflow(count, extent, &count) || count > (int64_t{1} << 62));
    if (overflow) fail_too_large(shape, "at most 2^62 elements", ": axis " + std::to_string(axis) + " takes it past the limit");
  }
  return empty ? 0 : count;
}

std::string to_string(std::span<const int64_t> shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i) out += ',';
    out += std::to_string(shape[i]);
  }
  return out + ']';
}

constexpr size_t kHugePage = size_t{2} << 20;

/// Zeroed and aligned to 64; null if there is none.
static std::shared_ptr<std::byte[]> small_memory(size_t bytes) {
  auto* data = static_cast<std::byte*>(::operator new[](bytes ? bytes : 1, std::align_val_t{64}, std::nothrow));
  if (!data) return nullptr;
  std::memset(data, 0, bytes);
  return {data, [](std::byte* p) { ::operator delete[](p, std::align_val_t{64}); }};
}

/// Gives back memory of the system's.
struct Unmap {
  void* memory;
  size_t reserved, usable;
  void operator()(std::byte*) const { munmap(memory, reserved); }
};

/// The same from the system, which takes much less time to hand out weights in pages of 2 MiB than in those of 4 KiB.
static std::shared_ptr<std::byte[]> huge_pages(size_t bytes) {
  size_t reserved = (bytes + 2 * kHugePage - 1) / kHugePage * kHugePage;  // so that whole pages lie inside
  void* memory = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  madvise(memory, reserved, MADV_HUGEPAGE);
  size_t gap = (kHugePage - reinterpret_cast<uintptr_t>(memory) % kHugePage) % kHugePage;
  return {static_cast<std::byte*>(memory) + gap, Unmap{memory, reserved, reserved - gap}};
}

MutableArray::MutableArray(DType dtype, Shape shape) : dtype(dtype), shape(std::move(shape)) {
  const int64_t count = element_count(this->shape);
  if (count > kMaxBytes / byte_size(dtype)) fail_too_large(this->shape, "at most 2^40 bytes");
  size_bytes = static_cast<size_t>(count) * byte_size(dtype);
  storage = size_bytes < kHugePage / 2 ? small_memory(size_bytes) : huge_pages(size_bytes);
  if (!storage) fail_too_large(this->shape, "as many bytes as there is memory for");
}

MutableArray reuse(Array used, DType dtype, Shape shape) {
  const int64_t count = element_count(shape);
  const Unmap* pages = std::get_deleter<Unmap>(used.owner);
  const size_t usable = pages && used.owner.use_count() == 1 ? pages->usable : 0;
  if (usable / byte_size(dtype) < static_cast<size_t>(count)) return {dtype, std::move(shape)};
  MutableArray out(dtype, {0});
  out.shape = std::move(shape);
  out.size_bytes = static_cast<size_t>(count) * byte_size(dtype);
  auto* data = static_cast<std::byte*>(const_cast<void*>(used.owner.get()));
  out.storage = {std::move(used.owner), data};
  return out;
}

Array MutableArray::freeze() && {
  return {dtype, std::move(shape), {storage.get(), size_bytes}, std::shared_ptr<const void>(std::move(storage))};
}

Array make_array(DType dtype, Shape shape, std::span<const std::byte> bytes) {
  MutableArray array(dtype, std::move(shape));
  check(bytes.size() == array.size_bytes, "the bytes of an array match its shape");
  if (!bytes.empty()) std::memcpy(array.data(), bytes.data(), bytes.size());
  return std::move(array).freeze();
}

bool operator==(const Array& a, const Array& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.bytes.size() == b.bytes.size() &&
         (a.bytes.data() == b.bytes.data() || a.bytes.empty() ||
          std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0);
}

float half_to_float(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  uint32_t exponent = (bits >> 10) & 0x1f;
  uint32_t mantissa = bits & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000 | (mantissa << 13));
  if (exponent == 0) {
    float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t float_to_half(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint16_t sign = (bits >> 16) & 0x8000;
  bits &= 0x7fffffff;
  if (bits >= 0x7f800000) return sign | 0x7c00 | (bits > 0x7f800000 ? 0x200 | ((bits >> 13) & 0x3ff) : 0);
  if (bits >= 0x477ff000) return sign | 0x7c00;
  if (bits < 0x38800000) {  // subnormal: the addition rounds to a multiple of 2^-24
    float magic = std::bit_cast<float>(bits) + 0.5f;
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(magic) - 0x3f000000);
  }
  bits += 0xfff + ((bits >> 13) & 1);
  return sign | static_cast<uint16_t>((bits - 0x38000000) >> 13);
}

float bfloat_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t float_to_bfloat(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

}  // namespace tenon
