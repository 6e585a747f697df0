// SPDX-License-Identifier: Apache-2.0
// `hill_climb`: lowest fit in an order that changes by swaps. One of the items that end at a peak changes places with one that
// was placed before it and meets it, or meets one that meets it.
#include <algorithm>

#include "plan/planners.h"

namespace tenon::plan {
namespace {

constexpr int kPatience = 500;  // swaps in a row without a better layout

/// Bytes above which nothing was gained, so that layouts with something missing compare too.
int64_t cost(const Layout& layout) { return layout.total + layout.missing; }

class Climber {
 public:
  Climber(const LivenessProblem& problem, const Items& items, const Ordered& start)
      : problem_(problem), items_(items.list), position_(items.list.size()) {
    for (uint32_t i = 0; i < start.order.size(); ++i) position_[start.order[i]] = i;
  }

  /// Two positions in the order to swap; none if nothing lies below the peaks.
  std::optional<std::pair<uint32_t, uint32_t>> next_swap(const Ordered& now) {
    std::vector<uint32_t> top = items_at_peaks(now.layout);
    if (top.empty()) return std::nullopt;
    uint32_t high = top[random_.below(top.size())];
    std::vector<uint32_t> below = placed_before(high, high);
    if (below.empty()) return std::nullopt;
    uint32_t low = below[random_.below(below.size())];
    if (random_.below(2) == 1)
      if (std::vector<uint32_t> second = placed_before(low, high); !second.empty()) low = second[random_.below(second.size())];
    return std::pair(position_[high], position_[low]);
  }

  void swap(Ordered& ordered, std::pair<uint32_t, uint32_t> positions) {
    std::swap(position_[ordered.order[positions.first]], position_[ordered.order[positions.second]]);
    std::swap(ordered.order[positions.first], ordered.order[positions.second]);
  }

  bool accepts(int64_t now, int64_t then, int attempt) {
    if (then <= now) return true;
    double worse = static_cast<double>(then - now) / static_cast<double>(now);
    return random_.unit() < 0.5 / (1 + 0.05 * attempt) * std::max(0.0, 1 - 10 * worse);
  }

 private:
  std::vector<uint32_t> items_at_peaks(const Layout& layout) const {
    std::vector<uint32_t> top;
    for (uint32_t i = 0; i < items_.size(); ++i) {
      const Place& place = layout.places[i];
      int64_t end = place.offset + items_[i].size, limit = problem_.pools[place.pool].limit;
      bool past_limit = limit != kUnlimited && end > limit;
      if ((end == layout.peaks[place.pool] || past_limit) && !items_[i].offset) top.push_back(i);
    }
    return top;
  }

  /// Items that meet `item` and come before `than` in the order.
  std::vector<uint32_t> placed_before(uint32_t item, uint32_t than) const {
    std::vector<uint32_t> before;
    for (uint32_t i = 0; i < items_.size(); ++i)
      if (position_[i] < position_[than] && i != item && !items_[i].offset && alive_together(items_[i], items_[item]))
        before.push_back(i);
    return before;
  }

  const LivenessProblem& problem_;
  const std::vector<Item>& items_;
  std::vector<uint32_t> position_;  // in the order, by item
  Sequence random_;
};

class HillClimb : public MemoryPlanner {
 public:
  std::string_view name() const override { return "hill_climb"; }

  MemoryPlan plan(const LivenessProblem& problem, const PlannerOptions& options) const override {
    Items items = resolve(problem, Merge::InPlacePartners);
    Fitter fitter(problem, items);
    Budget budget(options, kClimbSteps);
    Ordered start = best_greedy(problem, items, fitter, budget);
    Ordered best = climb(problem, items, fitter, std::move(start), lower_bound(problem).total, budget);
    return finish(problem, items, {std::move(best.layout)}, name(), options, budget.steps);
  }
};

}  // namespace

Ordered climb(const LivenessProblem& problem, const Items& items, Fitter& fitter, Ordered start, int64_t target, Budget& budget) {
  Climber climber(problem, items, start);
  Ordered best = start, now = std::move(start);
  for (int attempt = 0, since_best = 0; since_best < kPatience && !budget.spent(); ++attempt, ++since_best) {
    if (best.layout.missing == 0 && best.layout.total <= target) break;
    auto positions = climber.next_swap(now);
    if (!positions) break;
    budget.steps += items.list.size();
    int64_t before = cost(now.layout);
    climber.swap(now, *positions);
    Layout then = fitter.place(now.order, budget.steps);
    if (!climber.accepts(before, cost(then), attempt)) {
      climber.swap(now, *positions);
      continue;
    }
    now.layout = std::move(then);
    if (!now.layout.better_than(best.layout)) continue;
    best = now;
    since_best = 0;
  }
  return best;
}

const MemoryPlanner& hill_climb() {
  static const HillClimb planner;
  return planner;
}

}  // namespace tenon::plan
