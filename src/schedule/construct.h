// SPDX-License-Identifier: Apache-2.0
// A function and decisions to the scheduled function.
#pragma once

#include "schedule/decisions.h"
#include "schedule/schedule.h"

namespace tenon::schedule {

/// The function that the decisions describe, and what is to be packed for it. No decision can change a result. Throws
/// CompileError naming the stage where a decision is not possible: `schedule-nest-stages`, `schedule-nest-shape`,
/// `schedule-nest-size`.
Scheduled construct(const tir::PrimFunc& func, const Decisions& decisions);

}  // namespace tenon::schedule
