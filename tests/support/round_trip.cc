// SPDX-License-Identifier: Apache-2.0
// Checks of the text forms.
#include "support/round_trip.h"

#include <gtest/gtest.h>

namespace tenon::testing {

void round_trip(const tir::PrimFunc& function) {
  tir::ConstantBytes constants;
  std::string text = tir::print(function, &constants);
  try {
    tir::PrimFunc again = tir::parse_prim_func("round_trip.tenon", text, constants);
    EXPECT_TRUE(tir::structural_equal(again, function)) << text;
    EXPECT_EQ(tir::print(again), text);
  } catch (const CompileError& error) {
    ADD_FAILURE() << error.what() << "\nin\n" << text;
  }
}

std::string compile_error(function_ref<void()> f) {
  try {
    f();
  } catch (const CompileError& error) {
    return std::string(error.what()) + '\n';
  }
  ADD_FAILURE() << "no CompileError is thrown";
  return {};
}

}  // namespace tenon::testing
