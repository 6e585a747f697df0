// SPDX-License-Identifier: Apache-2.0
// Tensor types and their text.
#include "type/type.h"

#include "tir/text.h"

namespace tenon {

TensorType TensorType::of(DType dtype, std::span<const int64_t> shape) {
  return {dtype, std::vector<Dim>(shape.begin(), shape.end())};
}

bool TensorType::is_static() const {
  for (const Dim& d : shape)
    if (!tir::as_int(d)) return false;
  return true;
}

Shape TensorType::static_shape() const {
  Shape out;
  for (const Dim& d : shape) out.push_back(tir::int_value(d));
  return out;
}

int64_t TensorType::elements() const { return element_count(static_shape()); }

bool same_shape(std::span<const Dim> a, std::span<const Dim> b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!tir::structural_equal(a[i], b[i])) return false;
  return true;
}

bool operator==(const TensorType& a, const TensorType& b) { return a.dtype == b.dtype && same_shape(a.shape, b.shape); }

std::string to_string(const Dim& dim) { return tir::print(dim); }

std::string to_string(std::span<const Dim> shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i) out += ',';
    out += to_string(shape[i]);
  }
  return out + ']';
}

std::string to_string(const TensorType& type) { return std::string(name(type.dtype)) + to_string(std::span(type.shape)); }

TensorType type_of(const Array& array) { return TensorType::of(array.dtype, array.shape); }

}  // namespace tenon
