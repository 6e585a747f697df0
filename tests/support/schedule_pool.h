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

/// Small whole numbers for the inputs of a function whose shapes are numbers.
std::vector<Array> integer_inputs(const tir::PrimFunc& function, uint64_t seed);

}  // namespace tenon::test
