// SPDX-License-Identifier: Apache-2.0
// Passes over loop functions. Each takes a function and returns a function that computes the same.
#pragma once

#include "tir/stmt.h"

namespace tenon::tir {

struct MathOptions {
  bool fma = false;  // the target has a fused multiply-add
};

/// Writes exp, exp2, expm1, log, log2, log1p, tanh and erf of f32, f16 and bf16 values, and pow with a constant exponent of
/// -1, 0.5, 1, 2 or 3, as arithmetic that vectorizes. exp, exp2, log and log2 are within 2 ulp of f32, the others within 4;
/// infinities, NaN, overflow and results below the normal range are right. Other functions stay calls.
PrimFunc lower_math(const PrimFunc& function, const MathOptions& options);

}  // namespace tenon::tir
