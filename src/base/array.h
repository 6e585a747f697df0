// SPDX-License-Identifier: Apache-2.0
// An immutable dense array on the host: constants, inputs and results outside a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace tenon {

using Shape = std::vector<int64_t>;

/// Product of the extents; 1 for rank 0. Throws CompileError (limit) past 2^62 elements.
int64_t element_count(std::span<const int64_t> shape);

/// `[1,3,224,224]`, `[]` for rank 0.
std::string to_string(std::span<const int64_t> shape);

/// Row-major, compact, host byte order (little endian). The bytes may be a view (of a mapped file, say) that
/// `owner` keeps alive. Copying an Array copies the handle, never the bytes.
struct Array {
  DType dtype = DType::F32;
  Shape shape;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;

  int64_t elements() const { return element_count(shape); }
  /// The elements as T, whose size must equal the dtype's; the bytes may be unaligned in a mapped file, so
  /// prefer `read`.
  template <class T>
  T read(int64_t index) const {
    T value;
    __builtin_memcpy(&value, bytes.data() + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
  }
};

/// An array that owns a copy of `bytes`, aligned to 64.
Array make_array(DType dtype, Shape shape, std::span<const std::byte> bytes);

/// A zeroed array to be filled through `data` before the Array is shared, aligned to 64.
struct MutableArray {
  MutableArray(DType dtype, Shape shape);
  DType dtype;
  Shape shape;
  std::shared_ptr<std::byte[]> storage;
  size_t size_bytes = 0;
  std::byte* data() { return storage.get(); }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(storage.get());
  }
  Array freeze() &&;
};

/// From values: `array_of<int64_t>(DType::I64, {2}, {1, 2})`.
template <class T>
Array array_of(DType dtype, Shape shape, const std::vector<T>& values) {
  return make_array(dtype, std::move(shape), std::as_bytes(std::span(values)));
}

/// Same dtype, shape and bytes.
bool operator==(const Array& a, const Array& b);

// IEEE half and bfloat16 conversions, round to nearest even.
float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);
float bfloat_to_float(uint16_t bits);
uint16_t float_to_bfloat(float value);

}  // namespace tenon
