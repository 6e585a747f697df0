// SPDX-License-Identifier: Apache-2.0
// The attributes of a module that say how it is compiled.
#pragma once

#include "base/target.h"
#include "driver/driver.h"

namespace tenon::driver {

/// The last step that ran; empty for a module as it was written.
std::string stage_of(const graph::Module& module);
Target target_of(const graph::Module& module);
/// A loop function's own target if it has one.
Target target_of(const tir::PrimFunc& function, const Target& otherwise);
pass::PassOptions pass_options(const graph::Module& module);
/// Fills in what the module does not say and the options do; see load_module.
void settle_attributes(graph::Module& module, const std::string& model, const CompileOptions& options);

}  // namespace tenon::driver
