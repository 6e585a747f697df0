// SPDX-License-Identifier: Apache-2.0
// Law: any sequence of accepted schedule steps leaves a function's result unchanged, bit for bit on small whole numbers, and
// its trace replays to an equal function. A few results are compiled too.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "schedule/steps.h"
#include "support/compiled.h"
#include "support/long_run.h"
#include "support/random_schedule.h"
#include "support/schedule_pool.h"
#include "tir/interpret.h"
#include "tir/text.h"

namespace tenon {
namespace {

using schedule::Schedule;
using schedule::Step;

struct Counts {
  int proposed = 0, accepted = 0;
};
using Statistics = std::map<std::string, Counts>;

/// Takes up to `length` random steps.
void take_random_steps(Schedule& schedule, uint64_t seed, int length, Statistics& statistics) {
  test::StepProposer proposer(seed);
  for (int i = 0; i < length; ++i) {
    std::optional<Step> step = proposer.propose(schedule.func());
    if (!step) continue;
    Counts& counts = statistics[step->primitive];
    ++counts.proposed;
    tir::PrimFunc before = schedule.func();
    try {
      schedule.apply(*step);
      ++counts.accepted;
    } catch (const CompileError& refusal) {
      EXPECT_TRUE(refusal.diagnostics()[0].code.starts_with("schedule-")) << refusal.what();
      EXPECT_TRUE(structural_equal(before, schedule.func())) << "a refused step changed the function";
    }
  }
}

/// The shortest start of a trace whose result differs, for the report.
std::string first_wrong(const tir::PrimFunc& func, const schedule::Trace& trace, const std::vector<Array>& inputs) {
  std::vector<Array> expected = tir::interpret(func, inputs);
  Schedule schedule(func, test::copy_intrinsic);
  for (const Step& step : trace) {
    std::string before = tir::print(schedule.func());
    schedule.apply(step);
    std::vector<Array> found;
    try {
      found = tir::interpret(schedule.func(), inputs);
    } catch (const CompileError& error) {
      return std::string(error.what()) + "\nafter " + print(step) + " on\n" + before + "gives\n" + tir::print(schedule.func());
    }
    if (found != expected)
      return print(step) + " changes the result of\n" + before + "to that of\n" + tir::print(schedule.func());
  }
  return "nothing: the steps one by one keep the result";
}

/// The function with loops that have the same names in each nest, whatever their extents.
tir::PrimFunc with_common_names(tir::PrimFunc func) {
  std::function<tir::Stmt(const tir::Stmt&, int)> renamed = [&](const tir::Stmt& s, int depth) -> tir::Stmt {
    const auto* loop = tir::as<tir::For>(s);
    if (!loop)
      return tir::map_children(s, [&](const tir::Stmt& c) { return renamed(c, depth); }, [](const tir::Expr& e) { return e; });
    tir::Expr var = tir::var("l" + std::to_string(depth));
    tir::Stmt body = tir::substitute(loop->body, {{tir::as<tir::Var>(loop->var)->name, var}});
    return tir::for_loop(var, loop->min, loop->extent, loop->loop_kind, renamed(body, depth + 1));
  };
  func.body = renamed(func.body, 0);
  return func;
}

TEST(ScheduleSteps, KeepTheResult) {
  const int sequences = test::long_run() ? 10000 : 300;
  constexpr int kLength = 12, kCompileEvery = 25;
  Statistics statistics;
  for (int seed = 1; seed <= sequences; ++seed) {
    const tir::PrimFunc& drawn = test::schedule_pool()[static_cast<size_t>(seed) % test::schedule_pool().size()];
    const tir::PrimFunc func = seed % 5 == 0 ? with_common_names(drawn) : drawn;
    std::vector<Array> inputs = test::integer_inputs(func, static_cast<uint64_t>(seed));
    Schedule schedule(func, test::copy_intrinsic);
    take_random_steps(schedule, static_cast<uint64_t>(seed), kLength, statistics);
    std::vector<Array> expected = tir::interpret(func, inputs);
    auto report = [&] { return "seed " + std::to_string(seed) + ": " + first_wrong(func, schedule.trace(), inputs); };
    try {
      ASSERT_TRUE(tir::interpret(schedule.func(), inputs) == expected) << report();
    } catch (const CompileError&) {
      FAIL() << report();
    }
    tir::PrimFunc again = schedule::replay(func, "trace", print(schedule.trace()), test::copy_intrinsic).func();
    ASSERT_TRUE(structural_equal(again, schedule.func())) << "seed " << seed << ":\n" << print(schedule.trace());
    if (seed % kCompileEvery == 0) {
      ASSERT_TRUE(test::run_compiled(schedule.func(), inputs) == expected)
          << "seed " << seed << ", compiled:\n"
          << print(schedule.trace()) << tir::print(schedule.func());
    }
  }
  Counts all;
  for (const auto& [primitive, counts] : statistics) {
    RecordProperty(primitive, std::to_string(counts.accepted) + " of " + std::to_string(counts.proposed));
    all.proposed += counts.proposed;
    all.accepted += counts.accepted;
    EXPECT_GE(counts.accepted, test::long_run() ? 500 : 1) << primitive << " was proposed " << counts.proposed << " times";
  }
  EXPECT_GE(all.accepted * 100, all.proposed * 60) << all.accepted << " of " << all.proposed << " steps were accepted";
}

}  // namespace
}  // namespace tenon
