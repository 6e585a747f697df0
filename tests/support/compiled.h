// SPDX-License-Identifier: Apache-2.0
// Runs a loop function through the code generator, for tests that compare it with something else.
#pragma once

#include <span>
#include <vector>

#include "base/array.h"
#include "base/target.h"
#include "tir/stmt.h"

namespace tenon::test {

/// Compiles the function, loads it and calls it once on copies of the inputs. Parallel loops are cut in `workers` ranges
/// that run one after the other, each with scratch of its own. Outputs and scratch start filled with 0xcd bytes, and it
/// is checked that nothing before or after an array, and no input, is written.
std::vector<Array> run_compiled(const tir::PrimFunc& function, std::span<const Array> inputs,
                                const Target& target = host_target(), int64_t workers = 3);

}  // namespace tenon::test
