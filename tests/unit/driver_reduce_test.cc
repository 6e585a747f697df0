// SPDX-License-Identifier: Apache-2.0
// The smallest graph on which a condition still holds.
#include "driver/reduce.h"

#include <gtest/gtest.h>

#include "graph/text.h"
#include "op/all_ops.h"

namespace tenon::driver {
namespace {

graph::Module parse(std::string_view text) { return graph::parse("test", text, op::all_ops()); }

bool has(const graph::Module& module, std::string_view op) {
  for (const graph::Node& node : module.functions.at("main").nodes)
    if (node.kind == graph::NodeKind::Op && node.op->name == op) return true;
  return false;
}

constexpr std::string_view kChain = R"(fn @main(%0: f32[2,3] "x", %1: f32[3,4] "w") -> ("y", "z") {
  %2 = relu(%0) : f32[2,3]
  %3 = matmul(%2, %1) : f32[2,4]
  %4 = tanh(%3) : f32[2,4]
  %5 = exp(%4) : f32[2,4]
  %6 = add(%5, %4) : f32[2,4]
  %7 = relu(%0) : f32[2,3]
  return %6, %7
}
)";

TEST(ReduceGraph, OneOperatorIsLeftOfAChain) {
  graph::Module reduced = reduce(parse(kChain), [](const graph::Module& m) { return has(m, "tanh"); });
  EXPECT_EQ(graph::print(reduced), R"(fn @main(%0: f32[2,4] "value3") -> ("value4") {
  %1 = tanh(%0) : f32[2,4]
  return %1
}
)");
}

TEST(ReduceGraph, BothOperatorsOfACombinationStay) {
  graph::Module reduced = reduce(parse(kChain), [](const graph::Module& m) { return has(m, "matmul") && has(m, "exp"); });
  const graph::Function& main = reduced.functions.at("main");
  EXPECT_EQ(main.nodes.size(), 2u);
  EXPECT_EQ(main.results.size(), 1u);
  EXPECT_NO_THROW(graph::verify(reduced));
}

TEST(ReduceGraph, AModuleWithoutMainIsRefused) {
  graph::Module module = parse("fn @other(%0: f32[2] \"x\") { return %0 }\n");
  try {
    reduce(module, [](const graph::Module&) { return true; });
    FAIL() << "expected an error";
  } catch (const CompileError& error) {
    EXPECT_EQ(error.diagnostics()[0].code, "no-main");
  }
}

}  // namespace
}  // namespace tenon::driver
