// SPDX-License-Identifier: Apache-2.0
// Memory planners on problems small enough to plan by hand, and on the reference system's own test vectors.
#include <gtest/gtest.h>

#include <ctime>

#include "base/diagnostic.h"
#include "base/mapped_file.h"
#include "support/memory_problem.h"
#include "support/paths.h"
#include "support/round_trip.h"

namespace tenon::plan {
namespace {

using testing::buffer;

MemoryPlan planned(const LivenessProblem& problem, std::string_view planner, const PlannerOptions& options = {}) {
  return make_plan(problem, find_planner(planner), options);
}

std::vector<int64_t> offsets(const MemoryPlan& plan) {
  std::vector<int64_t> list;
  for (uint32_t i = 0; i < plan.assignment.size(); ++i) list.push_back(plan.offset_of(i));
  return list;
}

std::vector<uint32_t> slots(const MemoryPlan& plan) {
  std::vector<uint32_t> list;
  for (const Assignment& assignment : plan.assignment) list.push_back(assignment.slot);
  return list;
}

Diagnostic refusal(const LivenessProblem& problem, std::string_view planner) {
  try {
    planned(problem, planner);
  } catch (const CompileError& error) {
    return error.diagnostics()[0];
  }
  return {};
}

TEST(Planner, NaivePutsEveryBufferOnItsOwnBytes) {
  LivenessProblem problem{{buffer("a", 0, 1, 10, 64), buffer("b", 1, 2, 20, 64), buffer("c", 2, 3, 30, 64)}};
  MemoryPlan plan = planned(problem, "naive");
  EXPECT_EQ(offsets(plan), (std::vector<int64_t>{0, 64, 128}));
  EXPECT_EQ(plan.peak_bytes, 158);
  EXPECT_EQ(plan.lower_bound_bytes, 30);
  EXPECT_FALSE(plan.optimal);
}

TEST(Planner, GreedyReusesTheMemoryOfADeadBuffer) {
  LivenessProblem problem{{buffer("a", 0, 2, 64), buffer("b", 1, 3, 64), buffer("c", 2, 4, 64), buffer("d", 3, 5, 64)}};
  MemoryPlan plan = planned(problem, "greedy_by_size");
  EXPECT_EQ(plan.peak_bytes, 128);
  EXPECT_TRUE(plan.optimal);
  ASSERT_EQ(plan.slots.size(), 2u);
  EXPECT_EQ(plan.slots[0].tenants.size(), 2u);
}

TEST(Planner, GreedyFillsTheLowestGapThatIsLargeEnough) {
  // a and b are alive with c; between them lies a gap of 40 left by `hole`, which is dead when c begins.
  LivenessProblem problem{{buffer("a", 0, 9, 50), buffer("hole", 0, 1, 40), buffer("b", 0, 9, 35), buffer("c", 2, 9, 30)}};
  MemoryPlan plan = planned(problem, "greedy_by_size");
  EXPECT_EQ(offsets(plan), (std::vector<int64_t>{0, 50, 90, 50}));
  EXPECT_EQ(plan.peak_bytes, 125);
}

TEST(Planner, APoolWithoutRoomIsNotTriedAgain) {
  // Defect D19 of the reference system: it puts A and B on the same bytes of the fast pool.
  LivenessProblem problem{{buffer("A", 0, 1, 40), buffer("B", 0, 1, 40), buffer("C", 0, 1, 60)},
                          {{.name = "fast", .limit = 130}, {.name = "slow"}}};
  for (const char* planner : {"greedy_by_size", "greedy_by_conflicts", "hill_climb", "exact", "auto"}) {
    MemoryPlan plan = planned(problem, planner);
    EXPECT_LE(plan.pools[0].peak_bytes, 130) << planner;
    EXPECT_EQ(plan.peak_bytes, 140) << planner;
  }
  MemoryPlan plan = planned(problem, "greedy_by_size");
  EXPECT_EQ(plan.pool_of(2), 0u);
  EXPECT_EQ(plan.offset_of(1), 60);
  EXPECT_EQ(plan.pool_of(0), 1u);
}

// The vectors of spec.md 4.5. Lowest fit also uses gaps below other buffers, which the reference system does not, so that its
// peaks are upper bounds here.
LivenessProblem linear() {
  return {{buffer("a", 0, 2, 10), buffer("b", 1, 3, 20), buffer("c", 2, 4, 100), buffer("d", 3, 5, 40), buffer("e", 4, 6, 50),
           buffer("f", 5, 7, 50)}};
}
LivenessProblem fan_out() {
  return {{buffer("a", 0, 2, 10), buffer("b", 1, 3, 20), buffer("c", 1, 5, 100), buffer("d", 4, 7, 40), buffer("e", 2, 7, 50),
           buffer("f", 6, 9, 60), buffer("g", 8, 10, 70)}};
}

TEST(Planner, TheLinearVectorOfTheReferenceSystem) {
  for (const char* planner : {"greedy_by_size", "greedy_by_conflicts", "hill_climb", "exact", "auto"})
    EXPECT_EQ(planned(linear(), planner).peak_bytes, 140) << planner;
  // c0 e0 f50 d100 b100 as there; a fits below b.
  EXPECT_EQ(offsets(planned(linear(), "greedy_by_size")), (std::vector<int64_t>{0, 100, 0, 100, 0, 50}));
}

TEST(Planner, TheFanOutVectorOfTheReferenceSystem) {
  EXPECT_EQ(planned(fan_out(), "hill_climb").peak_bytes, 190);
  EXPECT_EQ(planned(fan_out(), "exact").peak_bytes, 190);
  EXPECT_LE(planned(fan_out(), "greedy_by_conflicts").peak_bytes, 320);
  EXPECT_EQ(lower_bound(fan_out()).total, 190);
}

TEST(Planner, EqualBuffersAreOrderedByIdDescending) {
  LivenessProblem problem{{buffer("bi_a", 0, 1, 10), buffer("bi_b", 0, 1, 10), buffer("bi_c", 0, 1, 10)}};
  for (const char* planner : {"greedy_by_size", "greedy_by_conflicts", "hill_climb"})
    EXPECT_EQ(offsets(planned(problem, planner)), (std::vector<int64_t>{20, 10, 0})) << planner;
}

// The vectors of spec.md 4.1.
TEST(Tokens, GrowAndTellTheFirstTenant) {
  constexpr int64_t kEnd = 10;
  LivenessProblem problem{{buffer("x", 0, kEnd, 40), buffer("y", 0, kEnd, 4), buffer("e", 0, 2, 4), buffer("z0", 1, 3, 40),
                           buffer("z1", 2, 4, 40), buffer("z2", 3, 5, 40), buffer("z3", 4, 6, 40), buffer("z4", 5, 7, 40),
                           buffer("z5", 6, kEnd, 40)}};
  problem.buffers[0].kind = problem.buffers[1].kind = BufferKind::Input;
  MemoryPlan plan = planned(problem, "best_fit_tokens");
  EXPECT_EQ(slots(plan), (std::vector<uint32_t>{0, 1, 2, 3, 2, 3, 2, 3, 2}));
  std::vector<int64_t> blocks, first;
  for (const StorageSlot& slot : plan.slots) {
    blocks.push_back(slot.size);
    first.push_back(slot.first_tenant_size);
  }
  EXPECT_EQ(blocks, (std::vector<int64_t>{40, 4, 40, 40}));
  EXPECT_EQ(first, (std::vector<int64_t>{40, 4, 4, 40})) << "row 27 of spec.md 6.2 reports 40/4/4/40";
}

TEST(Tokens, AReshapeSharesTheStorageOfItsOperand) {
  constexpr int64_t kEnd = 5;
  LivenessProblem problem{{buffer("x", 0, kEnd, 160), buffer("y", 0, 2, 160), buffer("r", 1, kEnd, 160), buffer("t", 2, 4, 160),
                           buffer("s", 3, kEnd, 160), buffer("q", 4, kEnd, 160)}};
  problem.buffers[0].kind = BufferKind::Input;
  problem.buffers[2].alias = Alias{1, 0};
  problem.buffers[5].alias = Alias{3, 0};
  EXPECT_EQ(slots(planned(problem, "best_fit_tokens")), (std::vector<uint32_t>{0, 1, 1, 2, 3, 2}));
}

TEST(Tokens, ABlockMoreThan16TimesAsLargeIsNotTaken) {
  LivenessProblem problem{{buffer("d", 0, 9, 1024), buffer("c", 0, 2, 4096), buffer("r", 1, 3, 4096), buffer("p", 2, 4, 256),
                           buffer("f", 3, 5, 40), buffer("s", 4, 9, 40)}};
  problem.buffers[0].kind = BufferKind::Input;
  MemoryPlan plan = planned(problem, "best_fit_tokens");
  EXPECT_EQ(slots(plan), (std::vector<uint32_t>{0, 1, 2, 1, 3, 4}));
  EXPECT_EQ(plan.slots[1].size, 4096);
}

TEST(Tokens, TheFirstOfEqualFreeBlocksIsTaken) {
  LivenessProblem problem{{buffer("d", 0, 9, 1024), buffer("w", 0, 9, 65536), buffer("a", 0, 3, 4096), buffer("b", 1, 3, 4096),
                           buffer("c", 2, 4, 4096), buffer("p", 3, 5, 256), buffer("s", 4, 9, 256)}};
  problem.buffers[0].kind = problem.buffers[1].kind = BufferKind::Input;
  EXPECT_EQ(slots(planned(problem, "best_fit_tokens")), (std::vector<uint32_t>{0, 1, 2, 3, 4, 2, 3}));
}

TEST(Exact, SolvesWhatGreedyDoesNotAndProvesIt) {
  // MiniMalloc's example: 12 bytes suffice.
  LivenessProblem problem{
      {buffer("b1", 0, 3, 4), buffer("b2", 3, 9, 4), buffer("b3", 0, 9, 4), buffer("b4", 9, 21, 4), buffer("b5", 0, 21, 4)}};
  MemoryPlan plan = planned(problem, "exact");
  EXPECT_EQ(plan.peak_bytes, 12);
  EXPECT_TRUE(plan.optimal);
}

TEST(Exact, ProvesThatAPlanAboveTheBoundIsOptimal) {
  // At most two of a, b and c, of 2 bytes, are alive at once, and d, of 1, meets them all: 5 live bytes. Under a height of 5, a
  // and c would be at 0 or 3 with b between them at 3 or 0: b takes 3 and d 2, but then c, which meets b and d, has 0 and a too,
  // while e, of 2, meets a, c and d and finds no two bytes together.
  LivenessProblem problem{{buffer("a", 0, 2, 2), buffer("b", 1, 4, 2), buffer("c", 3, 6, 2), buffer("d", 0, 7, 1),
                           buffer("e", 5, 7, 2), buffer("f", 2, 3, 1), buffer("g", 4, 5, 1)}};
  MemoryPlan plan = planned(problem, "exact");
  EXPECT_EQ(plan.lower_bound_bytes, 5);
  EXPECT_TRUE(plan.optimal);
}

/// MiniMalloc's inputs, each with a tenth more steps than it takes: what ranks, cuts and parts are for is that they are few.
TEST(Exact, SolvesMiniMallocsInputsInFewSteps) {
  const std::pair<const char*, uint64_t> kSteps[] = {{"A", 7200000}, {"B", 335000},  {"C", 2550000}, {"D", 10200000},
                                                     {"E", 4700000}, {"F", 1150000}, {"G", 1750000}, {"H", 250000},
                                                     {"I", 2450000}, {"J", 8200000}, {"K", 600000}};
  constexpr int64_t kCapacity = 1048576;
  for (const auto& [input, steps] : kSteps) {
    std::string file = tests_dir() + "/../bench/data/minimalloc/" + input + ".1048576.csv";
    MappedFile text = map_file(file);
    std::string_view csv(reinterpret_cast<const char*>(text.bytes.data()), text.bytes.size());
    LivenessProblem problem = read_problem_csv(file, csv, {Pool{.limit = kCapacity}});
    MemoryPlan plan = planned(problem, "exact");
    EXPECT_LE(plan.peak_bytes, kCapacity) << input;
    EXPECT_LE(plan.steps, steps) << input;
  }
}

TEST(Exact, CountsTheStepsOfItsBudget) {
  LivenessProblem problem = fan_out();
  MemoryPlan plan = planned(problem, "exact", {.max_steps = 5});
  EXPECT_FALSE(plan.wall_limit_ms);
  EXPECT_EQ(offsets(plan), offsets(planned(problem, "exact", {.max_steps = 5})));
  EXPECT_EQ(planned(problem, "exact", {.wall_limit_ms = 60000}).wall_limit_ms, 60000);
}

TEST(Planner, EmptyIntervalsAndSizesTakeNoMemory) {
  LivenessProblem problem{{buffer("never", 3, 3, 1 << 30), buffer("nothing", 0, 9, 0), buffer("a", 0, 9, 8)}};
  for (std::string_view planner : planner_names()) {
    MemoryPlan plan = planned(problem, planner);
    EXPECT_EQ(plan.peak_bytes, 8) << planner;
    EXPECT_EQ(plan.lower_bound_bytes, 8) << planner;
  }
  for (std::string_view planner : planner_names()) EXPECT_EQ(planned({}, planner).peak_bytes, 0) << planner;
}

TEST(Planner, TooMuchMemoryIsALimit) {
  LivenessProblem problem{{buffer("a", 0, 1, int64_t{1} << 61), buffer("b", 0, 1, int64_t{1} << 62)}};
  for (std::string_view planner : planner_names()) {
    Diagnostic error = refusal(problem, planner);
    EXPECT_EQ(error.code, "memory-too-large") << planner;
    EXPECT_EQ(error.kind, ErrorKind::Limit) << planner;
  }
}

TEST(Planner, WhatDoesNotFitNamesTheBufferAndTheShortfall) {
  LivenessProblem problem{{buffer("a", 0, 2, 60), buffer("b", 1, 3, 50)}, {{.name = "sram", .limit = 100}}};
  for (std::string_view planner : planner_names()) {
    Diagnostic error = refusal(problem, planner);
    EXPECT_EQ(error.code, "memory-limit") << planner;
    EXPECT_NE(error.message.find("10 bytes more"), std::string::npos) << error.message;
    EXPECT_TRUE(error.input == "a" || error.input == "b") << planner;
  }
  EXPECT_NE(refusal(problem, "exact").message.find("whatever the plan"), std::string::npos);
}

TEST(Planner, KeepsPinsToPoolsAndOffsets) {
  LivenessProblem problem{{buffer("io", 0, 4, 32), buffer("a", 0, 2, 16), buffer("b", 1, 4, 16), buffer("far", 0, 4, 8)},
                          {{.name = "fast"}, {.name = "slow"}}};
  problem.buffers[0].pin = Pin{0, 8};
  problem.buffers[3].pin = Pin{1, std::nullopt};
  for (std::string_view planner : planner_names()) {
    MemoryPlan plan = planned(problem, planner);
    EXPECT_EQ(plan.offset_of(0), 8) << planner;
    EXPECT_EQ(plan.pool_of(3), 1u) << planner;
    EXPECT_TRUE(plan.slot_of(0).pinned) << planner;
  }
}

TEST(Planner, PinsThatNoPlanCanKeepAreRefused) {
  LivenessProblem overlap{{buffer("a", 0, 2, 16), buffer("b", 1, 3, 16)}};
  overlap.buffers[0].pin = Pin{0, 0};
  overlap.buffers[1].pin = Pin{0, 12};
  LivenessProblem crooked{{buffer("a", 0, 2, 16, 8)}};
  crooked.buffers[0].pin = Pin{0, 4};
  LivenessProblem beyond{{buffer("a", 0, 2, 16)}, {{.limit = 20}}};
  beyond.buffers[0].pin = Pin{0, 8};
  LivenessProblem nowhere{{buffer("a", 0, 2, 16)}};
  nowhere.buffers[0].device = "gpu";
  for (std::string_view planner : planner_names()) {
    EXPECT_EQ(refusal(overlap, planner).code, "memory-pin") << planner;
    EXPECT_NE(refusal(overlap, planner).message.find("4 bytes"), std::string::npos) << planner;
    EXPECT_EQ(refusal(crooked, planner).code, "memory-pin") << planner;
    EXPECT_EQ(refusal(beyond, planner).code, "memory-limit") << planner;
    EXPECT_EQ(refusal(nowhere, planner).code, "memory-limit") << planner;
  }
}

TEST(Planner, PartnersOfOneSizeShareTheirBytes) {
  LivenessProblem problem{{buffer("x", 0, 2, 64), buffer("y", 1, 3, 64), buffer("z", 2, 4, 64)}};
  problem.buffers[1].may_share_with = {0};
  problem.buffers[2].may_share_with = {1};
  EXPECT_EQ(planned(problem, "auto").peak_bytes, 64);
  EXPECT_EQ(planned(problem, "auto").lower_bound_bytes, 64);
  problem.buffers[2].begin = 1;  // z and x, no partners, now are alive together
  EXPECT_EQ(planned(problem, "auto").peak_bytes, 128);
}

TEST(Planner, AViewLengthensTheLifeOfItsBuffer) {
  LivenessProblem problem{{buffer("a", 0, 1, 64), buffer("slice", 2, 4, 16), buffer("b", 3, 5, 64)}};
  problem.buffers[1].alias = Alias{0, 48};
  MemoryPlan plan = planned(problem, "auto");
  EXPECT_EQ(plan.peak_bytes, 128);
  EXPECT_EQ(plan.offset_of(1), plan.offset_of(0) + 48);
  EXPECT_EQ(slots(plan)[1], slots(plan)[0]);
}

TEST(Planner, AGapGivesTheBytesToOthers) {
  LivenessProblem problem{{buffer("long", 0, 9, 64), buffer("short", 3, 5, 64)}};
  EXPECT_EQ(planned(problem, "auto").peak_bytes, 128);
  problem.buffers[0].gaps = {{3, 5, 0, 0}};
  EXPECT_EQ(planned(problem, "auto").peak_bytes, 64);
  EXPECT_TRUE(planned(problem, "auto").optimal);
}

TEST(Planner, AnUnknownNameListsTheKnownOnes) {
  std::string text = testing::compile_error([] { find_planner("simulated_annealing"); });
  EXPECT_NE(text.find("[unknown-planner]"), std::string::npos) << text;
  EXPECT_NE(text.find("hill_climb"), std::string::npos) << text;
}

TEST(Planner, PlansTenThousandBuffersQuickly) {
  LivenessProblem chain, dense;
  for (int64_t i = 0; i < 10000; ++i) {
    chain.buffers.push_back(buffer("c" + std::to_string(i), i, i + 2, 64 + i % 7 * 64, 64));
    dense.buffers.push_back(buffer("d" + std::to_string(i), i % 100, 200 - i % 90, 64 + i % 977, 64));
  }
  for (const LivenessProblem& problem : {chain, dense}) {
    std::clock_t start = std::clock();
    planned(problem, "auto");
    double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    EXPECT_LT(seconds, 2) << "of processor time; far above what it takes, for builds with checks";
  }
}

TEST(Problem, WhatMakesNoSenseIsRefusedByName) {
  auto refused = [](auto change) {
    LivenessProblem problem{{buffer("a", 0, 2, 16), buffer("b", 1, 3, 16)}};
    change(problem);
    return testing::compile_error([&] { validate(problem); });
  };
  EXPECT_NE(refused([](auto& p) { p.buffers[1].id = "a"; }).find("given twice"), std::string::npos);
  EXPECT_NE(refused([](auto& p) { p.buffers[0].size = -1; }).find("-1 bytes"), std::string::npos);
  EXPECT_NE(refused([](auto& p) { p.buffers[0].end = -1; }).find("before it begins"), std::string::npos);
  EXPECT_NE(refused([](auto& p) { p.buffers[0].alignment = 3; }).find("alignment 3"), std::string::npos);
  EXPECT_NE(refused([](auto& p) { p.pools[0].limit = -7; }).find("limit -7"), std::string::npos);
  EXPECT_NE(refused([](auto& p) { p.pools.clear(); }).find("no pool"), std::string::npos);
  EXPECT_NE(refused([](auto& p) { p.buffers[0].pools = {4}; }).find("pool 4"), std::string::npos);
  EXPECT_NE(refused([](auto& p) { p.buffers[0].pin = Pin{2, 0}; }).find("pool 2"), std::string::npos);
  EXPECT_NE(refused([](auto& p) { p.buffers[0].pin = Pin{0, -4}; }).find("offset -4"), std::string::npos);
  EXPECT_NE(refused([](auto& p) { p.buffers[0].may_share_with = {9}; }).find("buffer 9"), std::string::npos);
  EXPECT_NE(refused([](auto& p) { p.buffers[0].alias = Alias{1, 8}; }).find("passes its end"), std::string::npos);
  EXPECT_NE(refused([](auto& p) { p.buffers[0].alias = p.buffers[1].alias = Alias{0, 0}; }).find("is a view"), std::string::npos);
  EXPECT_NE(refused([](auto& p) { p.buffers[0].gaps = {{1, 3, 0, 0}}; }).find("[1, 3)"), std::string::npos);
  EXPECT_NE(refused([](auto& p) { p.buffers[0].gaps = {{0, 1, 4, 20}}; }).find("[4, 20)"), std::string::npos);
  std::string text = refused([](auto& p) { p.buffers[0].size = -1; });
  EXPECT_NE(text.find("[plan-problem]"), std::string::npos) << text;
}

}  // namespace
}  // namespace tenon::plan
