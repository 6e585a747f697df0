// SPDX-License-Identifier: Apache-2.0
// A few unscheduled loop functions, small enough to interpret ten thousand times, and data on which they are exact.
#pragma once

#include <vector>

#include "base/array.h"
#include "tir/stmt.h"

namespace tenon::test {

/// matmul, convolution with padding, a fused element-wise chain, a softmax-like chain of row reductions, reductions with several
/// carried values, a depthwise convolution, and a transposition through a reshape with a constant.
const std::vector<tir::PrimFunc>& schedule_pool();

/// relu(conv(x) + b) of a square image of `c` channels and `h` rows, padded with zeros: parameters x, w, b, y.
tir::PrimFunc conv(int64_t c, int64_t h, int64_t oc, int64_t k, int64_t stride, int64_t pad, int64_t groups);

/// The array in the shape of a buffer, whose extents are numbers.
Array reshaped(Array array, const tir::Buffer& like);
/// Inputs and then outputs in the shapes of a function's parameters: `first` is 0 for inputs.
std::vector<Array> reshaped(std::vector<Array> arrays, const tir::PrimFunc& like, size_t first);

/// Small whole numbers for the inputs of a function whose shapes are numbers.
std::vector<Array> integer_inputs(const tir::PrimFunc& function, uint64_t seed);

}  // namespace tenon::test
