// SPDX-License-Identifier: Apache-2.0
// From buffers to items and from places to a plan.
#include "plan/items.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include "base/diagnostic.h"

namespace tenon::plan {
namespace {

std::vector<uint32_t> allowed_pools(const LivenessProblem& problem, const Buffer& buffer) {
  if (buffer.pin) return {buffer.pin->pool};
  std::vector<uint32_t> pools = buffer.pools;
  if (pools.empty()) {
    pools.resize(problem.pools.size());
    std::iota(pools.begin(), pools.end(), 0u);
  }
  if (!buffer.device.empty()) std::erase_if(pools, [&](uint32_t p) { return problem.pools[p].device != buffer.device; });
  if (pools.empty())
    throw CompileError(Diagnostic{.kind = ErrorKind::Limit,
                                  .code = "memory-limit",
                                  .message = fmt::format("no pool may hold `{}`", buffer.id),
                                  .input = buffer.id,
                                  .expected = fmt::format("a pool of device `{}`", buffer.device),
                                  .found = "none",
                                  .hint = "declare a pool for it"});
  return pools;
}

/// Adds [begin, end) to pieces that may touch or overlap it.
void add_piece(std::vector<std::pair<int64_t, int64_t>>& pieces, int64_t begin, int64_t end) {
  if (begin >= end) return;
  pieces.emplace_back(begin, end);
  std::sort(pieces.begin(), pieces.end());
  size_t last = 0;
  for (size_t i = 1; i < pieces.size(); ++i) {
    if (pieces[i].first <= pieces[last].second)
      pieces[last].second = std::max(pieces[last].second, pieces[i].second);
    else
      pieces[++last] = pieces[i];
  }
  pieces.resize(last + 1);
}

class Resolver {
 public:
  Resolver(const LivenessProblem& problem, Merge merge) : problem_(problem), merge_(merge) {}

  Items run() {
    validate(problem_);
    items_.item_of.assign(problem_.buffers.size(), Items::kNone);
    std::vector<std::pair<int64_t, int64_t>> hulls = hulls_with_views();
    for (uint32_t i = 0; i < problem_.buffers.size(); ++i)
      if (!problem_.buffers[i].alias) add_buffer(i, hulls[i].first, hulls[i].second);
    if (merge_ == Merge::InPlacePartners) merge_partners();
    check_sum();
    check_pins();
    return std::move(items_);
  }

 private:
  std::vector<std::pair<int64_t, int64_t>> hulls_with_views() const {
    std::vector<std::pair<int64_t, int64_t>> hulls;
    for (const Buffer& buffer : problem_.buffers) hulls.emplace_back(buffer.begin, buffer.end);
    for (const Buffer& view : problem_.buffers) {
      if (!view.alias || view.begin == view.end) continue;
      auto& [begin, end] = hulls[view.alias->buffer];
      bool unused = begin == end;
      begin = unused ? view.begin : std::min(begin, view.begin);
      end = unused ? view.end : std::max(end, view.end);
    }
    return hulls;
  }

  void add_buffer(uint32_t index, int64_t begin, int64_t end) {
    const Buffer& buffer = problem_.buffers[index];
    if (buffer.size == 0 || begin == end) return;
    Item item{.size = buffer.size, .alignment = buffer.alignment, .buffer = index, .kind = buffer.kind};
    int64_t from = begin;
    for (const Gap& gap : buffer.gaps) {
      items_.conservative |= gap.low < gap.high;
      if (gap.low < gap.high) continue;
      add_piece(item.pieces, from, gap.begin);
      from = gap.end;
    }
    add_piece(item.pieces, from, end);
    if (item.pieces.empty()) return;
    items_.conservative |= !buffer.may_share_with.empty();
    item.pools = allowed_pools(problem_, buffer);
    if (buffer.pin) item.offset = buffer.pin->offset;
    items_.item_of[index] = static_cast<uint32_t>(items_.list.size());
    items_.list.push_back(std::move(item));
  }

  /// Joins the items of two partners of one size when every two of their buffers that are alive together are partners.
  void merge_partners() {
    members_.resize(items_.list.size());
    for (uint32_t i = 0; i < items_.item_of.size(); ++i)
      if (items_.item_of[i] != Items::kNone) members_[items_.item_of[i]].push_back(i);
    for (uint32_t i = 0; i < problem_.buffers.size(); ++i)
      for (uint32_t other : problem_.buffers[i].may_share_with) {
        uint32_t a = items_.item_of[i], b = items_.item_of[other];
        if (a != b && a != Items::kNone && b != Items::kNone && can_merge(a, b)) merge(std::min(a, b), std::max(a, b));
      }
    drop_merged();
  }

  bool partners(uint32_t i, uint32_t j) const {
    auto lists = [&](uint32_t a, uint32_t b) {
      const std::vector<uint32_t>& with = problem_.buffers[a].may_share_with;
      return std::find(with.begin(), with.end(), b) != with.end();
    };
    return lists(i, j) || lists(j, i);
  }

  bool can_merge(uint32_t a, uint32_t b) const {
    const Item &x = items_.list[a], &y = items_.list[b];
    if (x.size != y.size || x.pools != y.pools || (x.offset && y.offset && *x.offset != *y.offset)) return false;
    for (uint32_t i : members_[a])
      for (uint32_t j : members_[b]) {
        const Buffer &p = problem_.buffers[i], &q = problem_.buffers[j];
        if (std::max(p.begin, q.begin) < std::min(p.end, q.end) && !partners(i, j)) return false;
      }
    return !has_views(a) && !has_views(b);
  }

  /// A view lengthens the lifetime of its buffer, so that `can_merge` would have to look at views too.
  bool has_views(uint32_t item) const {
    const Buffer& first = problem_.buffers[items_.list[item].buffer];
    return members_[item].size() == 1 && (items_.list[item].begin() != first.begin || items_.list[item].end() != first.end);
  }

  void merge(uint32_t into, uint32_t from) {
    Item &item = items_.list[into], &other = items_.list[from];
    for (auto [begin, end] : other.pieces) add_piece(item.pieces, begin, end);
    item.alignment = std::max(item.alignment, other.alignment);
    if (!item.offset) item.offset = other.offset;
    other.pieces.clear();
    for (uint32_t i : members_[from]) items_.item_of[i] = into;
    members_[into].insert(members_[into].end(), members_[from].begin(), members_[from].end());
    members_[from].clear();
  }

  void drop_merged() {
    std::vector<uint32_t> renumbered(items_.list.size(), Items::kNone);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < items_.list.size(); ++i) {
      if (items_.list[i].pieces.empty()) continue;
      renumbered[i] = kept;
      if (kept != i) items_.list[kept] = std::move(items_.list[i]);
      ++kept;
    }
    items_.list.resize(kept);
    for (uint32_t& item : items_.item_of)
      if (item != Items::kNone) item = renumbered[item];
  }

  void check_sum() const {
    int64_t sum = 0;
    for (const Item& item : items_.list) {
      int64_t most = item.size + std::max<int64_t>(item.alignment, item.offset.value_or(0));
      if (most < 0 || __builtin_add_overflow(sum, most, &sum) || sum > (int64_t{1} << 62))
        throw CompileError(Diagnostic{.kind = ErrorKind::Limit,
                                      .code = "memory-too-large",
                                      .message = "the buffers take more than 2^62 bytes",
                                      .input = problem_.buffers[item.buffer].id,
                                      .expected = "at most 2^62 bytes in all",
                                      .found = fmt::format("{} bytes", item.size),
                                      .hint = "check the shapes given"});
    }
  }

  /// Pins that no plan can keep: misaligned, or two on the same bytes at the same time. Those past a limit are for planners.
  void check_pins() const {
    std::vector<const Item*> pinned;
    for (const Item& item : items_.list) {
      if (!item.offset) continue;
      int64_t alignment = std::max(item.alignment, problem_.pools[item.pools[0]].alignment);
      if (*item.offset % alignment != 0)
        fail_pin(item, fmt::format("the offset {}, which is not aligned", *item.offset),
                 fmt::format("a multiple of {}", alignment));
      pinned.push_back(&item);
    }
    std::sort(pinned.begin(), pinned.end(), [](const Item* a, const Item* b) {
      return std::tuple(a->pools[0], *a->offset, a->buffer) < std::tuple(b->pools[0], *b->offset, b->buffer);
    });
    for (size_t i = 0; i < pinned.size(); ++i)
      for (size_t j = i + 1; j < pinned.size() && pinned[j]->pools == pinned[i]->pools; ++j) {
        int64_t shared = *pinned[i]->offset + pinned[i]->size - *pinned[j]->offset;
        if (shared <= 0) break;
        if (alive_together(*pinned[i], *pinned[j]))
          fail_pin(*pinned[j],
                   fmt::format("the offset {}, which lacks {} bytes: `{}` is pinned to the same bytes", *pinned[j]->offset,
                               shared, problem_.buffers[pinned[i]->buffer].id),
                   fmt::format("offset {} or above", *pinned[i]->offset + pinned[i]->size));
      }
  }

  [[noreturn]] void fail_pin(const Item& item, const std::string& why, std::string expected) const {
    const std::string& id = problem_.buffers[item.buffer].id;
    throw CompileError(Diagnostic{.kind = ErrorKind::Limit,
                                  .code = "memory-pin",
                                  .message = fmt::format("`{}` is pinned to {}", id, why),
                                  .input = id,
                                  .expected = std::move(expected),
                                  .found = fmt::format("offset {}", *item.offset),
                                  .hint = "move the pin, or pin to the pool alone"});
  }

  const LivenessProblem& problem_;
  Merge merge_;
  Items items_;
  std::vector<std::vector<uint32_t>> members_;  // buffers by item
};

/// Slots in order of pool and offset, the buffers at one place being the tenants of one slot.
void make_slots(const LivenessProblem& problem, const std::vector<Place>& places, MemoryPlan& plan) {
  std::map<std::pair<uint32_t, int64_t>, std::vector<uint32_t>> tenants;
  for (uint32_t i = 0; i < places.size(); ++i)
    if (!problem.buffers[i].alias) tenants[{places[i].pool, places[i].offset}].push_back(i);
  plan.assignment.resize(places.size());
  for (auto& [place, buffers] : tenants) {
    for (uint32_t i : buffers) plan.assignment[i] = {static_cast<uint32_t>(plan.slots.size()), 0};
    plan.slots.push_back({.id = static_cast<uint32_t>(plan.slots.size()), .pool = place.first, .offset = place.second});
    plan.slots.back().tenants = std::move(buffers);
  }
  for (uint32_t i = 0; i < places.size(); ++i) {
    const Buffer& view = problem.buffers[i];
    if (!view.alias) continue;
    plan.assignment[i] = {plan.assignment[view.alias->buffer].slot, view.alias->offset};
    plan.slots[plan.assignment[i].slot].tenants.push_back(i);
  }
}

/// What follows from a slot's tenants.
void describe_slot(const LivenessProblem& problem, const std::vector<bool>& needed, StorageSlot& slot) {
  std::sort(slot.tenants.begin(), slot.tenants.end(), [&](uint32_t a, uint32_t b) {
    return std::tie(problem.buffers[a].begin, a) < std::tie(problem.buffers[b].begin, b);
  });
  const Buffer& first = problem.buffers[slot.tenants.front()];
  slot.kind = first.kind;
  slot.first_tenant_size = first.size;
  slot.first_def = first.begin;
  slot.last_use = first.end;
  slot.alignment = problem.pools[slot.pool].alignment;
  for (uint32_t i : slot.tenants) {
    const Buffer& buffer = problem.buffers[i];
    slot.alignment = std::max(slot.alignment, buffer.alignment);
    slot.last_use = std::max(slot.last_use, buffer.end);
    slot.pinned |= buffer.pin.has_value();
    if (needed[i]) slot.size = std::max(slot.size, buffer.size);
  }
}

/// Buffers that take memory: with bytes, and alive themselves or through a view.
std::vector<bool> needed_buffers(const LivenessProblem& problem) {
  std::vector<bool> needed;
  for (const Buffer& buffer : problem.buffers) needed.push_back(buffer.size > 0 && buffer.begin < buffer.end);
  for (size_t i = 0; i < needed.size(); ++i)
    if (needed[i] && problem.buffers[i].alias) needed[problem.buffers[i].alias->buffer] = true;
  for (size_t i = 0; i < needed.size(); ++i)
    if (problem.buffers[i].alias) needed[i] = false;
  return needed;
}

}  // namespace

bool alive_together(const Item& a, const Item& b) {
  if (a.end() <= b.begin() || b.end() <= a.begin()) return false;
  for (size_t i = 0, j = 0; i < a.pieces.size() && j < b.pieces.size();) {
    if (std::max(a.pieces[i].first, b.pieces[j].first) < std::min(a.pieces[i].second, b.pieces[j].second)) return true;
    a.pieces[i].second < b.pieces[j].second ? ++i : ++j;
  }
  return false;
}

Items resolve(const LivenessProblem& problem, Merge merge) { return Resolver(problem, merge).run(); }

/// A place that somebody else chose may end beyond any memory; the checker says so.
static int64_t sum_or_most(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

MemoryPlan plan_from_places(const LivenessProblem& problem, const std::vector<Place>& places, std::string planner) {
  check(places.size() == problem.buffers.size(), "a plan is built from one place for each buffer");
  MemoryPlan plan;
  plan.planner = std::move(planner);
  make_slots(problem, places, plan);
  std::vector<bool> needed = needed_buffers(problem);
  LowerBound bound = lower_bound(problem);
  for (int64_t bytes : bound.pools) plan.pools.push_back({0, bytes});
  for (StorageSlot& slot : plan.slots) {
    describe_slot(problem, needed, slot);
    if (slot.size == 0 || slot.pool >= plan.pools.size()) continue;
    int64_t& peak = plan.pools[slot.pool].peak_bytes;
    peak = std::max(peak, sum_or_most(slot.offset, slot.size));
  }
  for (const PoolUse& pool : plan.pools) plan.peak_bytes = sum_or_most(plan.peak_bytes, pool.peak_bytes);
  plan.lower_bound_bytes = bound.total;
  plan.optimal = plan.peak_bytes == plan.lower_bound_bytes;
  return plan;
}

MemoryPlan plan_from_items(const LivenessProblem& problem, const Items& items, const std::vector<Place>& places,
                           std::string planner) {
  std::vector<Place> by_buffer(problem.buffers.size());
  for (uint32_t i = 0; i < by_buffer.size(); ++i) {
    const Buffer& buffer = problem.buffers[i];
    if (items.item_of[i] != Items::kNone)
      by_buffer[i] = places[items.item_of[i]];
    else if (!buffer.alias)
      by_buffer[i] = {allowed_pools(problem, buffer).front(), 0};
  }
  return plan_from_places(problem, by_buffer, std::move(planner));
}

void fail_for_want_of_memory(const LivenessProblem& problem, const Items& items, const Shortfall& shortfall,
                             std::string_view planner, bool proven) {
  const Buffer& buffer = problem.buffers[items.list[shortfall.item].buffer];
  const Pool& pool = problem.pools[shortfall.pool];
  throw CompileError(Diagnostic{
      .kind = ErrorKind::Limit,
      .code = "memory-limit",
      .message = fmt::format("`{}` ({} bytes) finds no room: pool `{}` would need {} bytes more than its limit{}", buffer.id,
                             buffer.size, pool.name, shortfall.missing, proven ? ", whatever the plan" : ""),
      .input = buffer.id,
      .expected = fmt::format("at most {} bytes", pool.limit),
      .found = fmt::format("{} bytes with the planner `{}`", pool.limit + shortfall.missing, planner),
      .hint = proven ? "raise the limit, or let buffers lie in another pool"
                     : "raise the limit, let buffers lie in another pool, or try the planner `exact`"});
}

}  // namespace tenon::plan
