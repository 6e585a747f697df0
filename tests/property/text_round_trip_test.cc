// SPDX-License-Identifier: Apache-2.0
// Laws of the text at every stage of a build over random modules: what a stage makes is valid, reads back equal and
// prints the same again.
#include <gtest/gtest.h>

#include "graph/text.h"
#include "lower/lower.h"
#include "op/all_ops.h"
#include "passes/graph/passes.h"
#include "schedule/schedule.h"
#include "support/random_module.h"
#include "support/round_trip.h"

namespace tenon {
namespace {

void expect_valid_and_readable(const graph::Module& module, const char* stage) {
  SCOPED_TRACE(stage);
  EXPECT_NO_THROW(graph::verify(module));
  testing::round_trip(module);
}

TEST(TextRoundTrip, HoldsAtEveryStageOfABuild) {
  for (uint64_t seed = 1; seed <= 40 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    graph::Module m = test::random_module(seed).module;
    expect_valid_and_readable(m, "as built");
    for (const pass::Pass* p : pass::graph_passes()) expect_valid_and_readable(p->run(m, {}), std::string(p->name).c_str());
    graph::Module lowered = lower::lower_module(pass::fuse.run(m, {}), nullptr);
    expect_valid_and_readable(lowered, "lowered");
    Target target = parse_target("llvm -mcpu=haswell");
    for (auto& [name, function] : lowered.prim_funcs)
      for (int level : {0, 3}) {
        SCOPED_TRACE(name);
        tir::PrimFunc scheduled = schedule::schedule({function, target, std::vector<bool>(function.params.size()), level}).func;
        EXPECT_NO_THROW(tir::verify(scheduled));
        testing::round_trip(scheduled);
      }
  }
}

/// 256 operators, each reading the last result twice, in one kernel: its text stays linear and within the limit of nesting.
TEST(TextRoundTrip, HoldsForTheLongestKernel) {
  graph::Module m;
  graph::Builder b(m, "main");
  graph::ValueId v = b.param("x", TensorType::of(DType::F32, Shape{4, 8}));
  for (int i = 0; i < 128; ++i) v = b.call1(*op::all_ops().find("tanh"), {b.call1(*op::all_ops().find("multiply"), {v, v})});
  m.functions.emplace("main", b.finish({v}));
  graph::Module lowered = lower::lower_module(pass::fuse.run(m, {}), nullptr);
  ASSERT_EQ(lowered.prim_funcs.size(), 1u);
  expect_valid_and_readable(lowered, "lowered");
  const tir::PrimFunc& function = lowered.prim_funcs.begin()->second;
  tir::PrimFunc scheduled = schedule::schedule({function, parse_target("llvm -mcpu=haswell"), {false, false}, 3}).func;
  EXPECT_NO_THROW(tir::verify(scheduled));
  testing::round_trip(scheduled);
  EXPECT_LT(tir::print(function).size(), size_t{400000});
  EXPECT_LT(tir::print(scheduled).size(), size_t{400000});
}

}  // namespace
}  // namespace tenon
