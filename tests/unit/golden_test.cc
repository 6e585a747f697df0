// SPDX-License-Identifier: Apache-2.0
// Golden tests: tests/golden/<pass>/<what it shows>.tenon holds a module, `----`, and what the pass makes of it. The
// folder `parse` only reads and prints. Every result also reads back to the same text and stays as it is under the pass.
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/text.h"
#include "op/all_ops.h"
#include "passes/graph/passes.h"
#include "support/text_cases.h"

namespace tenon {
namespace {

using graph::Module;

Module read(const std::string& text, const tir::ConstantBytes& constants = {}) {
  return graph::parse("golden.tenon", text, op::all_ops(), constants);
}

Module run_pass(const std::string& name, const Module& module) {
  if (name == "parse") return module;
  auto passes = pass::graph_passes();
  auto found = std::find_if(passes.begin(), passes.end(), [&](const pass::Pass* p) { return p->name == name; });
  check(found != passes.end(), "a folder of tests/golden is named after a pass");
  return (*found)->run(module, {});
}

class Golden : public ::testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Golden);

TEST_P(Golden, GivesTheTextBelowTheLine) {
  testing::TextCase golden = testing::read_text_case("golden", GetParam());
  std::string pass = GetParam().substr(0, GetParam().find('/'));
  Module result = run_pass(pass, read(golden.input));
  graph::verify(result);
  tir::ConstantBytes constants;
  std::string text = graph::print(result, &constants);
  testing::expect_text(golden, text);
  Module again = read(text, constants);
  EXPECT_EQ(graph::print(again), text) << "the result does not read back";
  EXPECT_EQ(graph::print(run_pass(pass, again)), text) << "running the pass again changes its result";
}

INSTANTIATE_TEST_SUITE_P(File, Golden, ::testing::ValuesIn(testing::text_cases("golden")),
                         [](const auto& info) { return testing::test_name(info.param); });

}  // namespace
}  // namespace tenon
