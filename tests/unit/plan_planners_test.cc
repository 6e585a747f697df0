// SPDX-License-Identifier: Apache-2.0
// Memory planners on problems small enough to plan by hand, and the checker on wrong plans.
#include <gtest/gtest.h>

#include <ctime>

#include "base/diagnostic.h"
#include "plan/plan.h"

namespace tenon::plan {
namespace {

Buffer buffer(std::string id, int64_t begin, int64_t end, int64_t size, int64_t alignment = 1) {
  return {std::move(id), begin, end, size, alignment};
}

std::string message_of(const LivenessProblem& problem, const MemoryPlan& plan) {
  try {
    check_plan(problem, plan);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Planner, NaivePutsEveryBufferOnItsOwnBytes) {
  LivenessProblem problem{{buffer("a", 0, 1, 10, 64), buffer("b", 1, 2, 20, 64), buffer("c", 2, 3, 30, 64)}};
  MemoryPlan plan = plan_naive(problem);
  EXPECT_EQ(plan.offsets, (std::vector<int64_t>{0, 64, 128}));
  EXPECT_EQ(plan.peak_bytes, 158);
  EXPECT_EQ(plan.lower_bound_bytes, 30);
  check_plan(problem, plan);
}

TEST(Planner, GreedyReusesTheMemoryOfADeadBuffer) {
  LivenessProblem problem{{buffer("a", 0, 2, 64), buffer("b", 1, 3, 64), buffer("c", 2, 4, 64), buffer("d", 3, 5, 64)}};
  MemoryPlan plan = plan_greedy_by_size(problem);
  EXPECT_EQ(plan.offsets, (std::vector<int64_t>{0, 64, 0, 64}));
  EXPECT_EQ(plan.peak_bytes, 128);
  EXPECT_EQ(plan.lower_bound_bytes, 128);
}

TEST(Planner, GreedyFillsTheLowestGapThatIsLargeEnough) {
  // a and b are alive with c; between them lies a gap of 30 left by `hole`, which is dead when c begins.
  LivenessProblem problem{{buffer("a", 0, 9, 50), buffer("hole", 0, 1, 40), buffer("b", 0, 9, 35), buffer("c", 2, 9, 30)}};
  MemoryPlan plan = plan_greedy_by_size(problem);
  EXPECT_EQ(plan.offsets, (std::vector<int64_t>{0, 50, 90, 50}));
  EXPECT_EQ(plan.peak_bytes, 125);
}

TEST(Planner, GreedyNeverReusesBytesThatALaterConflictTook) {
  // The case of defect D19: every buffer conflicts with every other, so each keeps its own bytes.
  LivenessProblem problem{{buffer("A", 0, 1, 40), buffer("B", 0, 1, 40), buffer("C", 0, 1, 60)}};
  MemoryPlan plan = plan_greedy_by_size(problem);
  EXPECT_EQ(plan.offsets, (std::vector<int64_t>{60, 100, 0}));
  EXPECT_EQ(plan.peak_bytes, 140);
  check_plan(problem, plan);
}

TEST(Planner, EmptyIntervalsAndSizesTakeNoMemory) {
  LivenessProblem problem{{buffer("never", 3, 3, 1 << 30), buffer("nothing", 0, 9, 0), buffer("a", 0, 9, 8)}};
  for (const MemoryPlan& plan : {plan_naive(problem), plan_greedy_by_size(problem)}) {
    EXPECT_EQ(plan.peak_bytes, 8);
    EXPECT_EQ(plan.lower_bound_bytes, 8);
    check_plan(problem, plan);
  }
}

TEST(Planner, TooMuchMemoryIsALimit) {
  LivenessProblem problem{{buffer("a", 0, 1, int64_t{1} << 62), buffer("b", 0, 1, int64_t{1} << 62)}};
  for (auto planner : {plan_naive, plan_greedy_by_size}) {
    try {
      planner(problem);
      ADD_FAILURE();
    } catch (const CompileError& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Limit);
      EXPECT_EQ(error.diagnostics()[0].code, "memory-too-large");
    }
  }
}

TEST(Planner, PlansTenThousandBuffersQuickly) {
  LivenessProblem chain, dense;
  for (int64_t i = 0; i < 10000; ++i) {
    chain.buffers.push_back(buffer("c" + std::to_string(i), i, i + 2, 64 + i % 7 * 64, 64));
    dense.buffers.push_back(buffer("d" + std::to_string(i), i % 100, 200 - i % 90, 64 + i % 977, 64));
  }
  for (const LivenessProblem& problem : {chain, dense}) {
    std::clock_t start = std::clock();
    MemoryPlan plan = plan_greedy_by_size(problem);
    double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    check_plan(problem, plan);
    EXPECT_LT(seconds, 1) << "of processor time; far above what it takes, for builds with checks";
  }
}

TEST(PlanChecker, NamesTwoBuffersThatOverlap) {
  LivenessProblem problem{{buffer("left", 0, 2, 10), buffer("right", 1, 3, 10)}};
  std::string message = message_of(problem, {{0, 9}, 19, 20});
  EXPECT_NE(message.find("`left`"), std::string::npos) << message;
  EXPECT_NE(message.find("overlaps `right`"), std::string::npos) << message;
  EXPECT_EQ(message_of(problem, {{0, 10}, 20, 20}), "accepted");
}

TEST(PlanChecker, SeesALargeBufferBehindASmallOne) {
  // `big` starts below both; the small one in between ends before the third starts.
  LivenessProblem problem{{buffer("big", 0, 9, 100), buffer("third", 2, 9, 10)}};
  EXPECT_NE(message_of(problem, {{0, 50}, 100, 110}).find("overlaps"), std::string::npos);
}

TEST(PlanChecker, RefusesBadPlacesAndBounds) {
  LivenessProblem problem{{buffer("a", 0, 2, 10, 64)}};
  EXPECT_NE(message_of(problem, {{32}, 64, 10}).find("not aligned"), std::string::npos);
  EXPECT_NE(message_of(problem, {{64}, 70, 10}).find("outside the pool"), std::string::npos);
  EXPECT_NE(message_of(problem, {{-64}, 70, 10}).find("outside the pool"), std::string::npos);
  EXPECT_NE(message_of(problem, {{0}, 10, 9}).find("lower bound"), std::string::npos);
  EXPECT_NE(message_of(problem, {{}, 10, 10}).find("one offset"), std::string::npos);
  EXPECT_EQ(message_of(problem, {{0}, 10, 10}), "accepted");
}

}  // namespace
}  // namespace tenon::plan
