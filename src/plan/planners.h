// SPDX-License-Identifier: Apache-2.0
// The planners of this build and the parts that they share.
#pragma once

#include <span>

#include "plan/budget.h"
#include "plan/fit.h"

namespace tenon::plan {

inline constexpr uint64_t kClimbSteps = 2'000'000;  // the own budget of `hill_climb`

/// A layout with the order that lowest fit makes it from.
struct Ordered {
  std::vector<uint32_t> order;  // of items
  Layout layout;
};

/// Largest first; then those that meet more others; then by id, descending. Or those two the other way round.
std::vector<uint32_t> order_by_size(const LivenessProblem& problem, const Items& items);
std::vector<uint32_t> order_by_conflicts(const LivenessProblem& problem, const Items& items);

/// The better of the two greedy layouts, or the first if it spent the budget.
Ordered best_greedy(const LivenessProblem& problem, const Items& items, Fitter& fitter, Budget& budget);

/// Improves a layout by swapping items in the order, until nothing is missing and the sum is at most `target`, the budget is
/// spent, or no change helped for long.
Ordered climb(const LivenessProblem& problem, const Items& items, Fitter& fitter, Ordered start, int64_t target, Budget& budget);

struct Searched {
  Layout layout;
  bool optimal = false;     // no layout is better
  bool infeasible = false;  // no layout keeps the limits: proven
};
/// Improves a layout pool by pool with the skyline search, leaving items in their pools.
Searched improve_by_search(const LivenessProblem& problem, const Items& items, Layout start, Budget& budget);

/// The plan of a layout. Throws CompileError (limit, `memory-limit`) if something is missing.
MemoryPlan finish(const LivenessProblem& problem, const Items& items, const Searched& searched, std::string_view planner,
                  const PlannerOptions& options, uint64_t steps);

const MemoryPlanner& naive();
const MemoryPlanner& best_fit_tokens();
const MemoryPlanner& greedy_by_size();
const MemoryPlanner& greedy_by_conflicts();
const MemoryPlanner& hill_climb();
const MemoryPlanner& exact();
const MemoryPlanner& automatic();

}  // namespace tenon::plan
