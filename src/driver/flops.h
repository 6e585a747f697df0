// SPDX-License-Identifier: Apache-2.0
// How much arithmetic a loop function does.
#pragma once

#include "tir/stmt.h"

namespace tenon::driver {

/// Floating-point operations of one call, a multiply-add counted as two, every branch as taken; 0 if an extent is unknown.
double count_flops(const tir::PrimFunc& function);

}  // namespace tenon::driver
