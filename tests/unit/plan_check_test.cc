// SPDX-License-Identifier: Apache-2.0
// The plan checker on plans with one fault each.
#include <gtest/gtest.h>

#include "support/memory_problem.h"
#include "support/round_trip.h"

namespace tenon::plan {
namespace {

using testing::buffer;
using testing::fault_of;

LivenessProblem two() { return {{buffer("left", 0, 2, 16, 8), buffer("right", 1, 3, 16, 8)}}; }

MemoryPlan placed(const LivenessProblem& problem, std::vector<Place> places) { return plan_from_places(problem, places, "hand"); }

std::string message(const LivenessProblem& problem, const MemoryPlan& plan) {
  return testing::compile_error([&] { check_plan(problem, plan); });
}

TEST(PlanChecker, AcceptsWhatIsRight) {
  EXPECT_EQ(fault_of(two(), placed(two(), {{0, 0}, {0, 16}})), "");
  EXPECT_EQ(fault_of(two(), placed(two(), {{0, 64}, {0, 0}})), "");
}

TEST(PlanChecker, NamesTwoBuffersThatOverlap) {
  std::string text = message(two(), placed(two(), {{0, 0}, {0, 8}}));
  EXPECT_NE(text.find("`left` (bytes [0, 16), alive [0, 2)) overlaps `right` (bytes [8, 24), alive [1, 3))"), std::string::npos)
      << text;
  EXPECT_NE(text.find("[plan-overlap]"), std::string::npos) << text;
  EXPECT_EQ(fault_of(two(), placed(two(), {{0, 0}, {0, 0}})), "plan-overlap") << "in one slot too";
}

TEST(PlanChecker, SeesALargeBufferBehindASmallOne) {
  LivenessProblem problem{{buffer("big", 0, 9, 100), buffer("small", 1, 2, 1), buffer("third", 2, 9, 10)}};
  EXPECT_EQ(fault_of(problem, placed(problem, {{0, 0}, {0, 200}, {0, 50}})), "plan-overlap");
}

TEST(PlanChecker, NamesAMisalignedBuffer) {
  std::string text = message(two(), placed(two(), {{0, 0}, {0, 20}}));
  EXPECT_NE(text.find("`right`"), std::string::npos) << text;
  EXPECT_NE(text.find("[plan-alignment]"), std::string::npos) << text;
  LivenessProblem problem = two();
  problem.pools[0].alignment = 32;
  EXPECT_EQ(fault_of(problem, placed(problem, {{0, 0}, {0, 16}})), "plan-alignment") << "of the pool";
}

TEST(PlanChecker, NamesThePoolWhoseLimitIsPassed) {
  LivenessProblem problem = two();
  problem.pools[0].limit = 31;
  std::string text = message(problem, placed(problem, {{0, 0}, {0, 16}}));
  EXPECT_NE(text.find("1 bytes past the limit of pool `arena`"), std::string::npos) << text;
  EXPECT_NE(text.find("[plan-pool-limit]"), std::string::npos) << text;
  EXPECT_EQ(fault_of(two(), placed(two(), {{0, 0}, {0, -16}})), "plan-pool-limit") << "below the pool";
  EXPECT_EQ(fault_of(two(), placed(two(), {{0, 0}, {0, INT64_MAX - 7}})), "plan-pool-limit") << "past the last offset";
}

TEST(PlanChecker, NamesABrokenPin) {
  LivenessProblem problem = two();
  problem.pools.push_back({.name = "fast"});
  problem.buffers[0].pin = Pin{0, 32};
  EXPECT_EQ(fault_of(problem, placed(problem, {{0, 0}, {0, 16}})), "plan-pin");
  EXPECT_EQ(fault_of(problem, placed(problem, {{1, 32}, {0, 16}})), "plan-pin");
  EXPECT_EQ(fault_of(problem, placed(problem, {{0, 32}, {0, 0}})), "");
  EXPECT_NE(message(problem, placed(problem, {{0, 0}, {0, 16}})).find("`left`"), std::string::npos);
}

TEST(PlanChecker, NamesAPoolThatABufferMayNotUse) {
  LivenessProblem problem = two();
  problem.pools.push_back({.name = "fast", .device = "npu"});
  problem.buffers[0].pools = {1};
  EXPECT_EQ(fault_of(problem, placed(problem, {{0, 0}, {0, 16}})), "plan-pool");
  problem.buffers[0].pools = {};
  problem.buffers[0].device = "npu";
  EXPECT_EQ(fault_of(problem, placed(problem, {{0, 0}, {0, 16}})), "plan-pool");
  EXPECT_EQ(fault_of(problem, placed(problem, {{1, 0}, {0, 0}})), "");
}

TEST(PlanChecker, NamesAMissingOrResizedBuffer) {
  LivenessProblem problem = two();
  MemoryPlan good = placed(problem, {{0, 0}, {0, 16}});
  MemoryPlan shorter = good;
  shorter.assignment.pop_back();
  EXPECT_EQ(fault_of(problem, shorter), "plan-missing");
  MemoryPlan nowhere = good;
  nowhere.assignment[1].slot = 7;
  EXPECT_NE(message(problem, nowhere).find("`right` has no place"), std::string::npos);
  MemoryPlan small = good;
  small.slots[1].size = 8;
  EXPECT_EQ(fault_of(problem, small), "plan-size");
  MemoryPlan stranger = good;
  stranger.slots[0].tenants.push_back(1);
  EXPECT_EQ(fault_of(problem, stranger), "plan-missing");
  MemoryPlan elsewhere = good;
  elsewhere.slots[0].pool = 3;
  EXPECT_EQ(fault_of(problem, elsewhere), "plan-pool");
}

TEST(PlanChecker, ComputesPeakAndBoundItself) {
  LivenessProblem problem = two();
  MemoryPlan good = placed(problem, {{0, 0}, {0, 16}});
  for (auto field : {&MemoryPlan::peak_bytes, &MemoryPlan::lower_bound_bytes}) {
    MemoryPlan plan = good;
    plan.*field += 1;
    EXPECT_EQ(fault_of(problem, plan), "plan-peak");
  }
  for (auto field : {&PoolUse::peak_bytes, &PoolUse::lower_bound_bytes}) {
    MemoryPlan plan = good;
    plan.pools[0].*field -= 1;
    EXPECT_EQ(fault_of(problem, plan), "plan-peak");
  }
}

TEST(PlanChecker, PartnersMayShareOneOffsetOnly) {
  LivenessProblem problem = two();
  problem.buffers[1].may_share_with = {0};
  EXPECT_EQ(fault_of(problem, placed(problem, {{0, 0}, {0, 0}})), "");
  EXPECT_EQ(fault_of(problem, placed(problem, {{0, 0}, {0, 8}})), "plan-overlap");
  problem.buffers.push_back(buffer("third", 1, 3, 16));
  EXPECT_EQ(fault_of(problem, placed(problem, {{0, 0}, {0, 0}, {0, 0}})), "plan-overlap");
}

TEST(PlanChecker, AViewLiesWhereItsBufferDoes) {
  LivenessProblem problem = two();
  problem.buffers.push_back(buffer("view", 1, 5, 8));
  problem.buffers[2].alias = Alias{0, 4};
  MemoryPlan plan = placed(problem, {{0, 0}, {0, 16}, {0, 0}});
  EXPECT_EQ(fault_of(problem, plan), "");
  plan.assignment[2].offset = 0;
  EXPECT_EQ(fault_of(problem, plan), "plan-alias");
}

TEST(PlanChecker, GapsAreFreeForOthers) {
  LivenessProblem problem{{buffer("long", 0, 9, 64), buffer("short", 3, 5, 32)}};
  MemoryPlan plan = placed(problem, {{0, 0}, {0, 0}});
  EXPECT_EQ(fault_of(problem, plan), "plan-overlap");
  problem.buffers[0].gaps = {{3, 5, 32, 64}};
  EXPECT_EQ(fault_of(problem, placed(problem, {{0, 0}, {0, 0}})), "");
  problem.buffers[0].gaps = {{3, 5, 31, 64}};
  EXPECT_EQ(fault_of(problem, placed(problem, {{0, 0}, {0, 0}})), "plan-overlap");
}

TEST(LowerBound, CountsEachPoolAndTheSumOfAll) {
  LivenessProblem problem{{buffer("a", 0, 2, 10), buffer("b", 2, 4, 20), buffer("c", 0, 4, 5)}, {{.name = "x"}, {.name = "y"}}};
  problem.buffers[0].pools = {0};
  problem.buffers[1].pin = Pin{1, 7};
  LowerBound bound = lower_bound(problem);
  EXPECT_EQ(bound.pools, (std::vector<int64_t>{10, 27})) << "7 bytes below the pin are lost";
  EXPECT_EQ(bound.total, 37) << "25 bytes are alive at once, but the two pools cannot share";
}

TEST(LowerBound, TooMuchLiveMemoryIsALimit) {
  LivenessProblem problem{{buffer("a", 0, 1, int64_t{1} << 62), buffer("b", 0, 1, int64_t{1} << 62)}};
  EXPECT_NE(testing::compile_error([&] { lower_bound(problem); }).find("[memory-too-large]"), std::string::npos);
}

}  // namespace
}  // namespace tenon::plan
