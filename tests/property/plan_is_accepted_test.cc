// SPDX-License-Identifier: Apache-2.0
// Laws: the checker accepts every plan of every planner and refuses a plan whose buffers were moved onto each other.
#include <gtest/gtest.h>

#include <random>

#include "base/diagnostic.h"
#include "plan/plan.h"

namespace tenon::plan {
namespace {

LivenessProblem random_problem(std::mt19937_64& random) {
  auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  LivenessProblem problem;
  int64_t count = below(60), horizon = 1 + below(40), longest = 1 + below(horizon), largest = 1 + below(300);
  for (int64_t i = 0; i < count; ++i) {
    int64_t begin = below(horizon);
    problem.buffers.push_back(
        {"b" + std::to_string(i), begin, begin + below(longest + 1), below(largest), int64_t{1} << below(7)});
  }
  return problem;
}

/// Quadratic and obvious, to judge the checker.
bool overlaps(const LivenessProblem& problem, const MemoryPlan& plan) {
  for (size_t i = 0; i < problem.buffers.size(); ++i)
    for (size_t j = i + 1; j < problem.buffers.size(); ++j) {
      const Buffer &a = problem.buffers[i], &b = problem.buffers[j];
      bool in_time = std::max(a.begin, b.begin) < std::min(a.end, b.end);
      bool in_space = std::max(plan.offsets[i], plan.offsets[j]) < std::min(plan.offsets[i] + a.size, plan.offsets[j] + b.size);
      if (in_time && in_space) return true;
    }
  return false;
}

bool accepted(const LivenessProblem& problem, const MemoryPlan& plan) {
  try {
    check_plan(problem, plan);
    return true;
  } catch (const InternalError&) {
    return false;
  }
}

TEST(PlanLaw, EveryPlanIsAcceptedAndHasNoOverlap) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    std::mt19937_64 random(seed);
    LivenessProblem problem = random_problem(random);
    for (auto planner : {plan_naive, plan_greedy_by_size}) {
      MemoryPlan plan = planner(problem);
      ASSERT_TRUE(accepted(problem, plan)) << "seed " << seed;
      ASSERT_FALSE(overlaps(problem, plan)) << "seed " << seed;
      ASSERT_GE(plan.peak_bytes, plan.lower_bound_bytes) << "seed " << seed;
      ASSERT_EQ(planner(problem).offsets, plan.offsets) << "seed " << seed;
    }
  }
}

TEST(PlanLaw, TheCheckerAgreesWithTheObviousTestOnRandomOffsets) {
  int refused = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    std::mt19937_64 random(seed);
    LivenessProblem problem = random_problem(random);
    MemoryPlan plan = plan_greedy_by_size(problem);
    if (problem.buffers.empty()) continue;
    size_t moved = random() % problem.buffers.size();
    plan.offsets[moved] = static_cast<int64_t>(random() % 8) * problem.buffers[moved].alignment;
    for (size_t i = 0; i < plan.offsets.size(); ++i)
      plan.peak_bytes = std::max(plan.peak_bytes, plan.offsets[i] + problem.buffers[i].size);
    ASSERT_EQ(accepted(problem, plan), !overlaps(problem, plan)) << "seed " << seed;
    refused += overlaps(problem, plan);
  }
  EXPECT_GT(refused, 200);
}

}  // namespace
}  // namespace tenon::plan
