// SPDX-License-Identifier: Apache-2.0
// The code of a scheduled module, before anything is linked.
#pragma once

#include "driver/driver.h"
#include "link/link.h"

namespace tenon::driver {

/// Machine code of every loop function that runs, each in an object of its own, and what scratch it needs.
struct ModuleCode {
  std::vector<std::string> objects;
  std::map<std::string, link::KernelScratch, std::less<>> scratch;  // by symbol
};

/// Throws CompileError (`not-scheduled`) naming a loop function without a schedule.
ModuleCode compile_functions(const graph::Module& scheduled, const link::Liveness& liveness, const CompileOptions& options,
                             Milliseconds* ms);

}  // namespace tenon::driver
