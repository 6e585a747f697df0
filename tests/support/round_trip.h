// SPDX-License-Identifier: Apache-2.0
// The law of every text form: what is printed reads back to an equal value and prints the same again.
#pragma once

#include "tir/text.h"

namespace tenon::testing {

/// Asserts (as gtest failures) the law for a loop function.
void round_trip(const tir::PrimFunc& function);

/// The rendered diagnostics of the CompileError that `f` throws; a gtest failure and empty if it throws none.
std::string compile_error(function_ref<void()> f);

}  // namespace tenon::testing
