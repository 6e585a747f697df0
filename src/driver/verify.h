// SPDX-License-Identifier: Apache-2.0
// Finding the step that changes a result.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/compare.h"
#include "driver/driver.h"

namespace tenon::driver {

struct FirstDifference {
  std::string pass;  // the first step after which a result differs; `codegen` when all do not but the compiled code does
  int opt_level = 0;
  std::string node;   // the first node in order, among those that both sides have, whose value differs
  std::string value;  // the value in the module after the pass
  Difference difference;
};

/// Runs the module as it was imported in the interpreter, and compiled at level 0 and at the options' level, and compares.
/// Where they differ, interprets the module after each pass, and then looks at every kernel's result.
std::optional<FirstDifference> verify_module(const graph::Module& imported, std::span<const Array> inputs,
                                             const CompileOptions& options, const Tolerance& tolerance);

}  // namespace tenon::driver
