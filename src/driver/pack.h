// SPDX-License-Identifier: Apache-2.0
// Running loop functions on constants while compiling.
#pragma once

#include <vector>

#include "lower/cache.h"
#include "tir/stmt.h"

namespace tenon::driver {

/// An unscheduled function of one input and one output, and its input.
struct PackJob {
  const tir::PrimFunc* function;
  Array input;
};

/// Compiles each distinct function once for the machine we run on, and runs the jobs on `workers` threads. Lets go of each
/// input when it is packed.
std::vector<Array> run_packs(std::vector<PackJob> jobs, const lower::Caching& caching, int workers);

}  // namespace tenon::driver
