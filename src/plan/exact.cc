// SPDX-License-Identifier: Apache-2.0
// `auto`, which takes the planners in order of their cost until one reaches the bound, and `exact`, which searches on for long.
#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>

#include "base/diagnostic.h"
#include "plan/planners.h"
#include "plan/skyline.h"

namespace tenon::plan {
namespace {

constexpr uint64_t kOwnSteps = 100'000'000;    // of `exact`: some seconds
constexpr uint64_t kImproveSteps = 5'000'000;  // of these, for improving a plan that keeps a limit
constexpr uint64_t kAutoStepsPerItem = 500;    // of `auto`: 1 ms for 100 items
constexpr uint64_t kAutoMostSteps = 3'000'000;
constexpr size_t kMostSearched = 4096;  // items of one part; more take too much memory for a search

/// The items of one pool that are connected in time.
struct Part {
  std::vector<uint32_t> items;
  int64_t peak = 0;   // of the layout at hand
  int64_t bound = 0;  // no layout is lower: live bytes, or proven
  bool searchable = true;
};

std::vector<Part> parts_of(const std::vector<Item>& items, const std::vector<Place>& places, uint32_t pool) {
  std::vector<uint32_t> by_begin;
  for (uint32_t i = 0; i < items.size(); ++i)
    if (places[i].pool == pool) by_begin.push_back(i);
  std::sort(by_begin.begin(), by_begin.end(),
            [&](uint32_t a, uint32_t b) { return std::pair(items[a].begin(), a) < std::pair(items[b].begin(), b); });
  std::vector<Part> parts;
  int64_t end = INT64_MIN;
  for (uint32_t i : by_begin) {
    if (parts.empty() || items[i].begin() >= end) parts.emplace_back();
    end = std::max(end, items[i].end());
    Part& part = parts.back();
    part.items.push_back(i);
    part.peak = std::max(part.peak, places[i].offset + items[i].size);
    part.searchable &= !items[i].offset;
  }
  return parts;
}

/// What no layout of some items in one pool goes below: the largest sum of live bytes, where all but the highest item take up
/// their alignment.
int64_t live_bytes(const std::vector<Item>& items, const std::vector<uint32_t>& of, int64_t pool_alignment) {
  int64_t alignment = std::numeric_limits<int64_t>::max();  // of every item's offset
  for (uint32_t i : of) alignment = std::min(alignment, std::max(items[i].alignment, pool_alignment));
  std::vector<std::tuple<int64_t, bool, uint32_t>> changes;  // point, whether it begins, item: ends come first
  for (uint32_t i : of)
    for (auto [begin, end] : items[i].pieces) {
      changes.emplace_back(begin, true, i);
      changes.emplace_back(end, false, i);
    }
  std::sort(changes.begin(), changes.end());
  int64_t alive = 0, most = 0;
  std::multiset<int64_t> filling;
  for (auto [point, begins, i] : changes) {
    int64_t size = align_up(items[i].size, alignment);
    alive += begins ? size : -size;
    if (begins)
      filling.insert(size - items[i].size);
    else
      filling.erase(filling.find(size - items[i].size));
    if (!filling.empty()) most = std::max(most, alive - *filling.rbegin());
  }
  return most;
}

/// Lowers one part in one pool.
class PartImprover {
 public:
  PartImprover(const LivenessProblem& problem, const std::vector<Item>& items, uint32_t pool, Budget& budget)
      : items_(items), pool_(problem.pools[pool]), budget_(budget) {}

  /// Nothing below `target` is of use, since another part or pool is that high anyway.
  void run(Part& part, int64_t target, std::vector<Place>& places) {
    part.bound = live_bytes(items_, part.items, pool_.alignment);
    if (part.peak <= std::max(part.bound, target) || !part.searchable || part.items.size() > kMostSearched) return;
    if (part.items.size() * part.items.size() / 2 > budget_.left()) return;
    std::vector<SkylineBlock> blocks;
    for (uint32_t i : part.items)
      blocks.push_back({items_[i].pieces, items_[i].size, std::max(items_[i].alignment, pool_.alignment)});
    SkylineSearch search(std::move(blocks));
    if (pool_.limit != kUnlimited && part.peak > pool_.limit && !keep_limit(search, part, places)) return;
    bool limited = pool_.limit != kUnlimited;
    uint64_t end = budget_.steps + std::min(budget_.left(), limited ? kImproveSteps : budget_.left());
    lower(search, part, target, end, places);
  }

 private:
  bool keep_limit(SkylineSearch& search, Part& part, std::vector<Place>& places) {
    Outcome outcome = search.fit(pool_.limit, budget_, budget_.left());
    if (outcome == Outcome::Found) take(search, part, places);
    if (outcome == Outcome::Infeasible) part.bound = std::max(part.bound, pool_.limit + 1);
    return outcome == Outcome::Found;
  }

  /// From the bound upwards, so that a proof for one height raises the bound for the next; a height that takes too long is
  /// left for one half-way to the peak.
  void lower(SkylineSearch& search, Part& part, int64_t target, uint64_t end, std::vector<Place>& places) {
    int64_t height = std::max(part.bound, target);
    while (part.peak > std::max(part.bound, target) && budget_.steps < end && !budget_.spent()) {
      Outcome outcome = search.fit(height, budget_, (end - budget_.steps) / 2 + 1);
      if (outcome == Outcome::Found) {
        take(search, part, places);
        height = std::max(part.bound, target);
      } else if (outcome == Outcome::Infeasible) {
        part.bound = height + 1;
        height = std::max(search.next_height(height), part.bound);
      } else {
        height += (part.peak - height) / 2;
      }
      if (height >= part.peak) height = part.peak - 1;
    }
  }

  void take(const SkylineSearch& search, Part& part, std::vector<Place>& places) {
    part.peak = 0;
    for (size_t k = 0; k < part.items.size(); ++k) {
      places[part.items[k]].offset = search.offsets()[k];
      part.peak = std::max(part.peak, search.offsets()[k] + items_[part.items[k]].size);
    }
  }

  const std::vector<Item>& items_;
  const Pool& pool_;
  Budget& budget_;
};

/// Peaks, and what is missing, of places that the search has changed.
void measure(const LivenessProblem& problem, const std::vector<Item>& items, Layout& layout) {
  std::fill(layout.peaks.begin(), layout.peaks.end(), 0);
  layout.missing = layout.total = 0;
  layout.first.reset();
  for (uint32_t i = 0; i < items.size(); ++i) {
    const Place& place = layout.places[i];
    int64_t end = place.offset + items[i].size, limit = problem.pools[place.pool].limit;
    layout.peaks[place.pool] = std::max(layout.peaks[place.pool], end);
    if (limit == kUnlimited || end <= limit) continue;
    layout.missing += end - limit;
    if (!layout.first || layout.first->missing < end - limit) layout.first = Shortfall{i, place.pool, end - limit};
  }
  layout.total = std::accumulate(layout.peaks.begin(), layout.peaks.end(), int64_t{0});
}

/// Largest first, then in order of time: better on chains of equal sizes than an order that time plays no part in.
Ordered largest_then_earliest(const Items& items, Fitter& fitter, Budget& budget) {
  Ordered result{std::vector<uint32_t>(items.list.size()), {}};
  std::iota(result.order.begin(), result.order.end(), 0u);
  std::sort(result.order.begin(), result.order.end(), [&](uint32_t a, uint32_t b) {
    return std::tuple(-items.list[a].size, items.list[a].begin(), a) < std::tuple(-items.list[b].size, items.list[b].begin(), b);
  });
  result.layout = fitter.place(result.order, budget.steps);
  return result;
}

/// The greedy layouts, then a short climb, then a search, each only as long as the bound is not reached.
Searched plan_automatically(const LivenessProblem& problem, const Items& items, Fitter& fitter, Budget& budget) {
  int64_t bound = lower_bound(problem).total;
  Ordered best = largest_then_earliest(items, fitter, budget);
  if (!budget.spent() && (best.layout.missing > 0 || best.layout.total > bound)) {
    Ordered other = best_greedy(problem, items, fitter, budget);
    if (other.layout.better_than(best.layout)) best = std::move(other);
  }
  if (!budget.spent() && (best.layout.missing > 0 || best.layout.total > bound)) {
    Budget climbing({.max_steps = std::min(budget.left() / 4, kClimbSteps) + 1}, 0);
    best = climb(problem, items, fitter, std::move(best), bound, climbing);
    budget.steps += climbing.steps;
  }
  return improve_by_search(problem, items, std::move(best.layout), budget);
}

uint64_t auto_steps(const Items& items) {
  return std::min(kAutoStepsPerItem * std::max<uint64_t>(items.list.size(), 20), kAutoMostSteps);
}

class Auto : public MemoryPlanner {
 public:
  std::string_view name() const override { return kDefaultPlanner; }
  MemoryPlan plan(const LivenessProblem& problem, const PlannerOptions& options) const override {
    Items items = resolve(problem, Merge::InPlacePartners);
    Budget budget(options, auto_steps(items));
    Fitter fitter(problem, items);
    return finish(problem, items, plan_automatically(problem, items, fitter, budget), name(), options, budget.steps);
  }
};

bool done(const Searched& result) { return result.infeasible || (result.optimal && result.layout.missing == 0); }

/// What `auto` finds, then a long search, then what `hill_climb` finds and a search from there: never worse than any of them.
Searched search_for_long(const LivenessProblem& problem, const Items& items, const PlannerOptions& options, uint64_t& steps) {
  Fitter fitter(problem, items);
  Budget first({.wall_limit_ms = options.wall_limit_ms}, auto_steps(items)), climbing(options, kClimbSteps),
      search(options, kOwnSteps);
  Searched best = plan_automatically(problem, items, fitter, first);
  if (!done(best)) best = improve_by_search(problem, items, std::move(best.layout), search);
  if (!done(best)) {
    Ordered start = best_greedy(problem, items, fitter, climbing);
    Ordered climbed = climb(problem, items, fitter, std::move(start), lower_bound(problem).total, climbing);
    if (climbed.layout.better_than(best.layout)) best = improve_by_search(problem, items, std::move(climbed.layout), search);
  }
  steps += first.steps + climbing.steps + search.steps;
  return best;
}

/// The best of what `hill_climb`, `best_fit_tokens` and `naive` find alone: now and then, with several pools or pins, less than a
/// search that starts from them.
std::optional<MemoryPlan> plan_of_others(const LivenessProblem& problem, const PlannerOptions& options) {
  std::optional<MemoryPlan> best;
  for (const MemoryPlanner* planner : {&hill_climb(), &best_fit_tokens(), &naive()}) try {
      MemoryPlan plan = planner->plan(problem, options);
      if (!best || plan.peak_bytes < best->peak_bytes) best = std::move(plan);
    } catch (const CompileError&) {
      continue;  // it does not keep the limits
    }
  return best;
}

class Exact : public MemoryPlanner {
 public:
  std::string_view name() const override { return "exact"; }
  MemoryPlan plan(const LivenessProblem& problem, const PlannerOptions& options) const override {
    Items items = resolve(problem, Merge::InPlacePartners);
    uint64_t steps = 0;
    Searched best = search_for_long(problem, items, options, steps);
    if (items.conservative && best.layout.total > lower_bound(problem).total) {
      Items apart = resolve(problem, Merge::ViewsOnly);  // sharing binds buffers to one place, which may cost more than it saves
      Searched other = search_for_long(problem, apart, options, steps);
      if (other.layout.better_than(best.layout)) {
        items = std::move(apart);
        best = std::move(other);
      }
    }
    std::optional<MemoryPlan> other = done(best) ? std::nullopt : plan_of_others(problem, options);
    if (!other || (best.layout.missing == 0 && best.layout.total <= other->peak_bytes))
      return finish(problem, items, best, name(), options, steps);
    other->planner = name();
    other->steps += steps;
    return *other;
  }
};

}  // namespace

Searched improve_by_search(const LivenessProblem& problem, const Items& items, Layout start, Budget& budget) {
  Searched result{std::move(start), true, false};
  bool one_choice = !items.conservative &&
                    std::all_of(items.list.begin(), items.list.end(), [](const Item& item) { return item.pools.size() == 1; });
  for (uint32_t pool = 0; pool < problem.pools.size(); ++pool) {
    std::vector<Part> parts = parts_of(items.list, result.layout.places, pool);
    std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.peak > b.peak; });
    int64_t highest = 0, proven = 0;
    PartImprover improver(problem, items.list, pool, budget);
    for (Part& part : parts) {
      improver.run(part, highest, result.layout.places);
      highest = std::max(highest, part.peak);
      proven = std::max(proven, part.bound);
    }
    int64_t limit = problem.pools[pool].limit;
    result.infeasible |= one_choice && limit != kUnlimited && proven > limit;
    result.optimal &= highest <= proven;
  }
  result.optimal &= one_choice;
  measure(problem, items.list, result.layout);
  return result;
}

const MemoryPlanner& exact() {
  static const Exact planner;
  return planner;
}

const MemoryPlanner& automatic() {
  static const Auto planner;
  return planner;
}

}  // namespace tenon::plan
