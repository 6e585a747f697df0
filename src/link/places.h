// SPDX-License-Identifier: Apache-2.0
// Places that the user chose, as attributes say them.
//
// On a node of `main`, for its results:          %3 = relu(%2) {memory = "fast@128"} : f32[8]
// On a loop function, for its buffers by name:   primfunc @f(x: f32[8]) -> (y: f32[8]) {memory = "y: fast, tmp: slow@64"} { … }
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/memory_attr.h"
#include "tenon/plan.h"
#include "tir/scratch.h"

namespace tenon::link {

using graph::kMemoryAttr;

/// `POOL` or `POOL@OFFSET`. Throws CompileError (malformed, `memory-place`) about a text that is neither; a pool that is not
/// declared is `memory-pool`. `value` is named by the error.
plan::Pin parse_place(std::string_view text, const std::vector<plan::Pool>& pools, const std::string& value);

/// What `memory` says about one buffer of a loop function.
std::optional<std::string> place_of_buffer(const tir::PrimFunc& function, std::string_view buffer);

/// Throws CompileError (malformed, `memory-place`) about a place of something that is neither a parameter nor a workspace.
void check_places(const tir::PrimFunc& function, const tir::Scratch& scratch);

}  // namespace tenon::link
