// SPDX-License-Identifier: Apache-2.0
// Checks of the text forms.
#include "support/round_trip.h"

#include <gtest/gtest.h>

#include <set>

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

void round_trip(const graph::Module& module) {
  std::set<const graph::OpDef*> ops;
  for (const auto& [name, function] : module.functions)
    for (const graph::Node& node : function.nodes)
      if (node.op) ops.insert(node.op);
  tir::ConstantBytes constants;
  std::string text = graph::print(module, &constants);
  try {
    graph::Module again = graph::parse("round_trip.tenon", text, graph::OpTable({ops.begin(), ops.end()}), constants);
    EXPECT_TRUE(again == module) << text;
    EXPECT_EQ(graph::print(again), text);
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
