// SPDX-License-Identifier: Apache-2.0
// The law of every text form: what is printed reads back to an equal value and prints the same again.
#pragma once

#include "graph/text.h"

namespace tenon::testing {

/// Asserts (as gtest failures) the law for a loop function.
void round_trip(const tir::PrimFunc& function);

/// Asserts the law for a module, read back with the operators it uses.
void round_trip(const graph::Module& module);

/// The rendered diagnostics of the CompileError that `f` throws; a gtest failure and empty if it throws none.
std::string compile_error(function_ref<void()> f);

}  // namespace tenon::testing
