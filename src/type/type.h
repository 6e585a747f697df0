// SPDX-License-Identifier: Apache-2.0
// Tensor types. A dimension is a number or an expression of named symbols (`f32[n,3,2*h]`).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/array.h"
#include "base/dtype.h"
#include "tir/expr.h"

namespace tenon {

/// An i64 expression over named symbols (Var). Equality is structural.
using Dim = tir::Expr;

struct TensorType {
  DType dtype = DType::F32;
  std::vector<Dim> shape;

  TensorType() = default;
  TensorType(DType dtype, std::vector<Dim> shape) : dtype(dtype), shape(std::move(shape)) {}
  static TensorType of(DType dtype, std::span<const int64_t> shape);

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  const Dim& dim(int64_t axis) const { return shape[static_cast<size_t>(axis)]; }
  /// Whether every dimension is a number.
  bool is_static() const;
  /// The extents; an internal error unless is_static().
  Shape static_shape() const;
  /// Number of elements; an internal error unless is_static().
  int64_t elements() const;
  /// Bytes of a compact tensor; an internal error unless is_static().
  int64_t bytes() const { return elements() * byte_size(dtype); }
};

bool operator==(const TensorType& a, const TensorType& b);
bool same_shape(std::span<const Dim> a, std::span<const Dim> b);

/// `f32[n,3,224]`
std::string to_string(const TensorType& type);
std::string to_string(std::span<const Dim> shape);
std::string to_string(const Dim& dim);

/// `bytes` of a rank-0 or rank-n array as its type.
TensorType type_of(const Array& array);

}  // namespace tenon
