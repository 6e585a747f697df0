// SPDX-License-Identifier: Apache-2.0
// `greedy_by_size` (Pisarchyk and Lee, arXiv 2001.03288) and `greedy_by_conflicts`: lowest fit in one fixed order. Unlike the
// reference system's, they fill gaps below other items, and a pool once without room is not tried again (its defect D19).
#include <algorithm>
#include <numeric>
#include <tuple>

#include "plan/planners.h"

namespace tenon::plan {
namespace {

/// How many other items each one meets, gaps not counted.
std::vector<size_t> conflicts_of(const std::vector<Item>& items) {
  std::vector<int64_t> begins, ends;
  for (const Item& item : items) {
    begins.push_back(item.begin());
    ends.push_back(item.end());
  }
  std::sort(begins.begin(), begins.end());
  std::sort(ends.begin(), ends.end());
  std::vector<size_t> conflicts;
  for (const Item& item : items) {
    auto begun = std::lower_bound(begins.begin(), begins.end(), item.end()) - begins.begin();
    auto ended = std::upper_bound(ends.begin(), ends.end(), item.begin()) - ends.begin();
    conflicts.push_back(static_cast<size_t>(begun - ended) - 1);
  }
  return conflicts;
}

using Key = std::tuple<int64_t, int64_t>;

template <class KeyOf>
std::vector<uint32_t> descending(const LivenessProblem& problem, const std::vector<Item>& items, KeyOf key_of) {
  std::vector<Key> keys;
  for (uint32_t i = 0; i < items.size(); ++i) keys.push_back(key_of(i));
  std::vector<uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    if (keys[a] != keys[b]) return keys[a] > keys[b];
    return problem.buffers[items[a].buffer].id > problem.buffers[items[b].buffer].id;
  });
  return order;
}

class Greedy : public MemoryPlanner {
 public:
  using Order = std::vector<uint32_t> (*)(const LivenessProblem&, const Items&);
  Greedy(std::string_view name, Order order) : name_(name), order_(order) {}
  std::string_view name() const override { return name_; }

  MemoryPlan plan(const LivenessProblem& problem, const PlannerOptions& options) const override {
    Items items = resolve(problem, Merge::InPlacePartners);
    Fitter fitter(problem, items);
    uint64_t steps = 0;
    Searched result{fitter.place(order_(problem, items), steps)};
    return finish(problem, items, result, name_, options, steps);
  }

 private:
  std::string_view name_;
  Order order_;
};

}  // namespace

std::vector<uint32_t> order_by_size(const LivenessProblem& problem, const Items& items) {
  std::vector<size_t> conflicts = conflicts_of(items.list);
  return descending(problem, items.list, [&](uint32_t i) { return Key(items.list[i].size, conflicts[i]); });
}

std::vector<uint32_t> order_by_conflicts(const LivenessProblem& problem, const Items& items) {
  std::vector<size_t> conflicts = conflicts_of(items.list);
  return descending(problem, items.list, [&](uint32_t i) { return Key(conflicts[i], items.list[i].size); });
}

Ordered best_greedy(const LivenessProblem& problem, const Items& items, Fitter& fitter, Budget& budget) {
  Ordered best{order_by_size(problem, items), {}};
  best.layout = fitter.place(best.order, budget.steps);
  if (budget.spent()) return best;
  Ordered other{order_by_conflicts(problem, items), {}};
  other.layout = fitter.place(other.order, budget.steps);
  return other.layout.better_than(best.layout) ? other : best;
}

const MemoryPlanner& greedy_by_size() {
  static const Greedy planner("greedy_by_size", order_by_size);
  return planner;
}

const MemoryPlanner& greedy_by_conflicts() {
  static const Greedy planner("greedy_by_conflicts", order_by_conflicts);
  return planner;
}

}  // namespace tenon::plan
