// SPDX-License-Identifier: Apache-2.0
// How far apart two arrays are.
#pragma once

#include <cstdint>

#include "base/array.h"

namespace tenon {

struct Tolerance {
  double rtol = 1e-3, atol = 1e-5;
};

/// Where two arrays differ by more than `atol + rtol * |want|`. NaN equals NaN.
struct Difference {
  int64_t index = 0;  // of the first element that differs too much
  double got = 0, want = 0;
  uint64_t ulp = 0;    // values of the dtype between the two
  double max_abs = 0;  // over all elements
  int64_t count = 0;   // elements that differ too much
};

/// The arrays have one dtype and shape.
Difference compare(const Array& got, const Array& want, const Tolerance& tolerance = {});

/// The largest absolute value that is finite; 0 if none is.
double scale_of(const Array& array);

/// An element as a number; 64-bit integers lose their low bits.
double element(const Array& array, int64_t index);

}  // namespace tenon
