// SPDX-License-Identifier: Apache-2.0
// The list of planners, and planning with a check behind it.
#include "plan/planners.h"

#include <fmt/format.h>

#include <array>

#include "base/diagnostic.h"

namespace tenon::plan {
namespace {

std::array<const MemoryPlanner*, 7> all() {
  return {&automatic(), &exact(), &hill_climb(), &greedy_by_size(), &greedy_by_conflicts(), &best_fit_tokens(), &naive()};
}

}  // namespace

std::vector<std::string_view> planner_names() {
  std::vector<std::string_view> names;
  for (const MemoryPlanner* planner : all()) names.push_back(planner->name());
  return names;
}

const MemoryPlanner& find_planner(std::string_view name) {
  std::string known;
  for (const MemoryPlanner* planner : all()) {
    if (planner->name() == name) return *planner;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", planner->name());
  }
  throw CompileError(Diagnostic{.kind = ErrorKind::Usage,
                                .code = "unknown-planner",
                                .message = fmt::format("there is no planner `{}`", name),
                                .input = "--planner",
                                .expected = known,
                                .found = std::string(name),
                                .hint = "choose one of " + known});
}

MemoryPlan make_plan(const LivenessProblem& problem, const MemoryPlanner& planner, const PlannerOptions& options) {
  validate(problem);
  MemoryPlan plan = planner.plan(problem, options);
  check_plan(problem, plan);
  return plan;
}

MemoryPlan finish(const LivenessProblem& problem, const Items& items, const Searched& searched, std::string_view planner,
                  const PlannerOptions& options, uint64_t steps) {
  if (searched.layout.missing > 0) fail_for_want_of_memory(problem, items, *searched.layout.first, planner, searched.infeasible);
  MemoryPlan plan = plan_from_items(problem, items, searched.layout.places, std::string(planner));
  plan.optimal |= searched.optimal;
  plan.steps = steps;
  plan.wall_limit_ms = options.wall_limit_ms;
  return plan;
}

}  // namespace tenon::plan
