// SPDX-License-Identifier: Apache-2.0
// Laws of memory planning over random problems (properties P2 and P10 of spec.md).
#include <gtest/gtest.h>

#include "base/diagnostic.h"
#include "support/memory_problem.h"

namespace tenon::plan {
namespace {

using testing::fault_of;
using testing::is_free_of_overlaps;
using testing::problem_count;
using testing::ProblemShape;
using testing::random_problem;

ProblemShape shape_of(uint64_t seed) {
  return {.buffers = seed % 4 == 0 ? 60 : 12,
          .pools = seed % 3 == 0 ? 3 : 1,
          .gaps = seed % 5 == 0,
          .shares = seed % 7 == 0,
          .views = seed % 11 == 0,
          .pins = seed % 13 == 0};
}

TEST(PlanLaw, EveryPlanIsAcceptedAndNoPlanGoesBelowTheBound) {
  int above = 0;
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(problem_count(2000, 100000)); ++seed) {
    std::mt19937_64 random(seed);
    LivenessProblem problem = random_problem(random, shape_of(seed));
    int64_t least = INT64_MAX, exact = 0;
    for (std::string_view name : planner_names()) {
      const MemoryPlanner& planner = find_planner(name);
      PlannerOptions options{.max_steps = name == "exact" || name == "hill_climb" ? 20000u : 0u};
      MemoryPlan plan = planner.plan(problem, options);
      ASSERT_EQ(fault_of(problem, plan), "") << "seed " << seed << ", " << name;
      ASSERT_TRUE(is_free_of_overlaps(problem, plan)) << "seed " << seed << ", " << name;
      ASSERT_GE(plan.peak_bytes, plan.lower_bound_bytes) << "seed " << seed << ", " << name;
      if (seed % 16 == 0)
        ASSERT_EQ(write_plan_csv(problem, planner.plan(problem, options)), write_plan_csv(problem, plan)) << seed << ", " << name;
      least = std::min(least, plan.peak_bytes);
      if (name == "exact") exact = plan.peak_bytes;
    }
    ASSERT_EQ(exact, least) << "seed " << seed << ": `exact` is never worse than another";
    above += exact > lower_bound(problem).total;
  }
  EXPECT_GT(above, 0) << "some problems need more than their bound";
}

/// Whether the buffers from `next` on fit under a height, trying every offset.
bool fits(const LivenessProblem& problem, std::vector<Place>& places, size_t next, int64_t height) {
  if (next == problem.buffers.size()) return true;
  const Buffer& b = problem.buffers[next];
  for (places[next].offset = 0; places[next].offset + b.size <= height; places[next].offset += b.alignment) {
    bool free = true;
    for (size_t i = 0; i < next && free; ++i) {
      const Buffer& other = problem.buffers[i];
      bool meet = std::max(b.begin, other.begin) < std::min(b.end, other.end);
      free = !meet || places[i].offset + other.size <= places[next].offset || places[next].offset + b.size <= places[i].offset;
    }
    if (free && fits(problem, places, next + 1, height)) return true;
  }
  return false;
}

TEST(PlanLaw, ExactIsOptimalOnSmallProblems) {
  int above = 0;
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(problem_count(400, 4000)); ++seed) {
    std::mt19937_64 random(seed);
    auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
    LivenessProblem problem;
    for (int64_t i = 0; i < 4 + below(4); ++i) {
      int64_t begin = below(6);
      problem.buffers.push_back(
          testing::buffer("b" + std::to_string(i), begin, begin + 1 + below(4), 1 + below(5), 1 + below(2)));
    }
    MemoryPlan plan = make_plan(problem, find_planner("exact"));
    ASSERT_TRUE(plan.optimal) << "seed " << seed;
    std::vector<Place> places(problem.buffers.size());
    ASSERT_FALSE(fits(problem, places, 0, plan.peak_bytes - 1)) << "seed " << seed;
    above += plan.peak_bytes > plan.lower_bound_bytes;
  }
  EXPECT_GT(above, 5) << "some optimal plans lie above the live bytes";
}

TEST(PlanLaw, TheCheckerAgreesWithTheObviousTestOnBrokenPlans) {
  int refused = 0;
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(problem_count(2000, 100000)); ++seed) {
    std::mt19937_64 random(seed);
    ProblemShape shape = shape_of(seed);
    shape.pins = false;
    LivenessProblem problem = random_problem(random, shape);
    if (problem.buffers.empty()) continue;
    MemoryPlan plan = find_planner("greedy_by_size").plan(problem, {});
    std::vector<Place> places;
    for (uint32_t i = 0; i < problem.buffers.size(); ++i) places.push_back({plan.pool_of(i), plan.offset_of(i)});
    size_t moved = random() % problem.buffers.size();
    int64_t step = std::max(problem.buffers[moved].alignment, problem.pools[places[moved].pool].alignment);
    places[moved].offset = static_cast<int64_t>(random() % 8) * step;
    plan = plan_from_places(problem, places, "");
    std::string fault = fault_of(problem, plan);
    if (fault == "plan-pool-limit") continue;
    ASSERT_EQ(fault == "plan-overlap", !is_free_of_overlaps(problem, plan)) << "seed " << seed << ", " << fault;
    ASSERT_TRUE(fault.empty() || fault == "plan-overlap") << "seed " << seed << ", " << fault;
    refused += !fault.empty();
  }
  EXPECT_GT(refused, 200);
}

TEST(PlanLaw, ADamagedPlanIsRefusedWithoutACrash) {
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(problem_count(2000, 100000)); ++seed) {
    std::mt19937_64 random(seed);
    LivenessProblem problem = random_problem(random, shape_of(seed));
    if (problem.buffers.empty()) continue;
    MemoryPlan plan = find_planner("greedy_by_size").plan(problem, {});
    auto any = [&] { return static_cast<int64_t>(random() >> (random() % 64)) * (random() % 2 ? 1 : -1); };
    StorageSlot& slot = plan.slots[random() % plan.slots.size()];
    bool must_fail = true;
    switch (random() % 8) {
      case 0: plan.assignment.resize(random() % problem.buffers.size()); break;
      case 1:
        plan.assignment[random() % plan.assignment.size()].slot = static_cast<uint32_t>(plan.slots.size() + random() % 9);
        break;
      case 2: slot.pool = static_cast<uint32_t>(problem.pools.size() + random() % 9); break;
      case 3: plan.peak_bytes = any(), must_fail = false; break;
      case 4: slot.offset = any(), must_fail = false; break;
      case 5: slot.size = any(), must_fail = false; break;
      case 6: plan.pools.pop_back(); break;
      default: plan.assignment[random() % plan.assignment.size()].offset = any(), must_fail = false; break;
    }
    std::string fault = fault_of(problem, plan);
    ASSERT_TRUE(!must_fail || !fault.empty()) << "seed " << seed;
    if (fault.empty()) ASSERT_TRUE(is_free_of_overlaps(problem, plan)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tenon::plan
