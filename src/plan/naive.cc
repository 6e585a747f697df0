// SPDX-License-Identifier: Apache-2.0
// `naive`: every item on bytes of its own.
#include "plan/planners.h"

namespace tenon::plan {
namespace {

class Naive : public MemoryPlanner {
 public:
  std::string_view name() const override { return "naive"; }

  MemoryPlan plan(const LivenessProblem& problem, const PlannerOptions& options) const override {
    Items items = resolve(problem, Merge::ViewsOnly);
    for (Item& item : items.list) item.pieces = {{INT64_MIN, INT64_MAX}};  // alive with every other
    Fitter fitter(problem, items);
    std::vector<uint32_t> order(items.list.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    uint64_t steps = 0;
    Searched result{fitter.place(order, steps)};
    return finish(problem, items, result, name(), options, steps);
  }
};

}  // namespace

const MemoryPlanner& naive() {
  static const Naive planner;
  return planner;
}

}  // namespace tenon::plan
