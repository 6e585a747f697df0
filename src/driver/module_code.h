// SPDX-License-Identifier: Apache-2.0
// The code of a scheduled module, before anything is linked.
#pragma once

#include "driver/driver.h"
#include "link/link.h"

namespace tenon::driver {

/// Machine code of everything that runs, each loop function in an object of its own.
struct ModuleCode {
  graph::Module module;  // as it is linked: external functions are loop functions without bodies, or with those they were given
  link::Liveness liveness;  // of that module
  std::vector<std::string> objects;
  link::GivenScratch scratch;                                                       // of external objects
  std::map<std::string, external::ComponentKernel, std::less<>> component_kernels;  // by symbol
  std::map<std::string, size_t, std::less<>> external;                              // Built::external
};

/// External code is tested (self_test) unless the options say otherwise. Throws CompileError (`not-scheduled`) naming a loop
/// function without a schedule, and what compile_externals throws.
ModuleCode compile_functions(const graph::Module& scheduled, const link::LivenessOptions& sharing, const CompileOptions& options,
                             Milliseconds* ms);

/// Places and plans what code was made of.
Built link_code(ModuleCode code, const MemoryOptions& memory = {});

/// Runs each external function's code, with its own constants, on random numbers, beside our own code for the function, and
/// throws CompileError (check failed, `external-self-test`) naming the first that gives something else. `from` is the module
/// before its external functions were compiled. Does nothing for a target that this machine cannot run.
void self_test(const graph::Module& from, const ModuleCode& code, const CompileOptions& options);

}  // namespace tenon::driver
