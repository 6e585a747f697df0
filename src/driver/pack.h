// SPDX-License-Identifier: Apache-2.0
// Running loop functions on constants while compiling.
#pragma once

#include <vector>

#include "base/array.h"
#include "tir/stmt.h"

namespace tenon::driver {

/// A function of one input and one output, and its input.
struct PackJob {
  const tir::PrimFunc* function;
  Array input;
};

/// Runs the jobs on `workers` threads. Lets go of each input when it is packed.
std::vector<Array> run_packs(std::vector<PackJob> jobs, int workers);

}  // namespace tenon::driver
