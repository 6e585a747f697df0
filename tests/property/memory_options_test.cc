// SPDX-License-Identifier: Apache-2.0
// Property P2 of spec.md over random modules: however memory is planned, the plan passes the checker, takes no less than its
// bound, and the outputs are the same bits; and no kernel reads or writes what is not its own.
#include <gtest/gtest.h>

#include "driver/driver.h"
#include "link/link.h"
#include "support/memory_problem.h"
#include "support/random_module.h"

#include "runtime/session.h"

namespace tenon::driver {
namespace {

struct Variant {
  std::string name;
  MemoryOptions memory;
  bool debug = false;
};

std::vector<Variant> variants() {
  auto planner = [](std::string_view name) {
    return std::shared_ptr<const plan::MemoryPlanner>(std::shared_ptr<void>(), &plan::find_planner(name));
  };
  Variant plain{"naive, nothing shared", {.planner = planner("naive"), .in_place = false, .parts = false, .reorder = false}};
  Variant pools{"two pools", {.pools = {{.name = "small", .limit = 512, .alignment = 128}, {.name = "large"}}}};
  Variant tokens{"storage ids", {.planner = planner("best_fit_tokens")}};
  return {plain, {"default", {}}, pools, tokens, {"default, looked after", {}, true}};
}

std::vector<Array> outputs_of(const graph::Module& module, int level, const Variant& variant, const std::vector<Array>& inputs) {
  CompileOptions options;
  options.memory = variant.memory;
  graph::Module copy = module;
  copy.attrs["opt_level"] = int64_t{level};
  Built built = build(run_pipeline(std::move(copy), options), options);
  EXPECT_EQ(testing::fault_of(built.problem, built.plan), "");
  EXPECT_GE(built.plan.peak_bytes, built.plan.lower_bound_bytes);
  runtime::Session session(load(std::move(built)), {.debug_memory = variant.debug});
  for (size_t i = 0; i < inputs.size(); ++i) session.bind_input(i, inputs[i].bytes.data());
  session.run();
  std::vector<Array> outputs;
  for (size_t i = 0; i < session.program().outputs.size(); ++i) outputs.push_back(session.output(i));
  return outputs;
}

TEST(MemoryLaw, OutputsAreTheSameHoweverMemoryIsPlanned) {
  for (uint64_t seed = 1; seed <= static_cast<uint64_t>(testing::problem_count(20, 1000)) && !::testing::Test::HasFailure();
       ++seed)
    for (int level : {0, 3}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", level " + std::to_string(level));
      test::RandomModule random = test::random_module(seed);
      std::vector<Array> expected;
      for (const Variant& variant : variants()) {
        std::vector<Array> found = outputs_of(random.module, level, variant, random.inputs);
        if (expected.empty()) expected = found;
        ASSERT_EQ(found.size(), expected.size());
        for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i] == expected[i]) << variant.name << ", output " << i;
      }
    }
}

}  // namespace
}  // namespace tenon::driver
