// SPDX-License-Identifier: Apache-2.0
// Moves a box of elements between two arrays, whatever their dtype: the native fold of every operator that only moves data.
#pragma once

#include <vector>

#include "base/array.h"

namespace tenon::op {

/// A box, and where its points lie in the source and in the destination. Starts and strides count elements.
struct StridedCopy {
  Shape extents;
  std::vector<int64_t> from_strides, to_strides;
  int64_t from_start = 0, to_start = 0;
};

void copy_strided(const StridedCopy& box, const Array& from, MutableArray& to);

/// Elements to step over to advance by one on each axis of a row-major array.
std::vector<int64_t> row_major_strides(std::span<const int64_t> shape);

/// A new array of which each element is one of `from`: strides per axis of the result, starting at `from_start`.
Array gather_strided(const Array& from, Shape shape, std::vector<int64_t> from_strides, int64_t from_start = 0);

}  // namespace tenon::op
