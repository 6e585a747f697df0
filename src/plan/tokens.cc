// SPDX-License-Identifier: Apache-2.0
// `best_fit_tokens`: the storage ids of the reference system's graph planner, for interchange with its graph JSON. A block is
// reused whole, by one buffer at a time, if its size is within a factor of 16; it grows to the largest buffer it ever holds.
#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "plan/planners.h"

namespace tenon::plan {
namespace {

constexpr int64_t kMatchRange = 16;

class TokenAllocator {
 public:
  explicit TokenAllocator(const Items& items) : items_(items.list), block_of_(items_.size()) {
    for (uint32_t i = 0; i < items_.size(); ++i) by_begin_.push_back(i);
    by_end_ = by_begin_;
    auto begin_key = [&](uint32_t i) { return std::tuple(!lives_apart(items_[i]), items_[i].begin(), i); };
    std::sort(by_begin_.begin(), by_begin_.end(), [&](uint32_t a, uint32_t b) { return begin_key(a) < begin_key(b); });
    // At one end, results that nobody reads are freed before operands.
    auto end_key = [&](uint32_t i) { return std::tuple(items_[i].end(), items_[i].begin() + 1 != items_[i].end(), i); };
    std::sort(by_end_.begin(), by_end_.end(), [&](uint32_t a, uint32_t b) { return end_key(a) < end_key(b); });
  }

  void run() {
    size_t ended = 0;
    for (uint32_t i : by_begin_) {
      for (; !lives_apart(items_[i]) && items_[by_end_[ended]].end() <= items_[i].begin(); ++ended) release(by_end_[ended]);
      request(i);
    }
  }

  /// Blocks in order of their ids, each alive all the time.
  const std::vector<Item>& blocks() const { return blocks_; }
  const std::vector<uint32_t>& block_of() const { return block_of_; }

 private:
  using FreeList = std::multimap<int64_t, uint32_t>;  // blocks by size

  /// Parameters, constants and what the user placed keep a block to themselves.
  static bool lives_apart(const Item& item) {
    return item.kind == BufferKind::Input || item.kind == BufferKind::Constant || item.offset;
  }

  void request(uint32_t index) {
    const Item& item = items_[index];
    FreeList& free = free_[item.pools];
    auto found = lives_apart(item) ? free.end() : best_fit(free, item.size);
    if (found == free.end()) {
      block_of_[index] = static_cast<uint32_t>(blocks_.size());
      blocks_.push_back(item);
      blocks_.back().pieces = {{INT64_MIN, INT64_MAX}};
      return;
    }
    block_of_[index] = found->second;
    free.erase(found);
    Item& block = blocks_[block_of_[index]];
    block.size = std::max(block.size, item.size);
    block.alignment = std::max(block.alignment, item.alignment);
  }

  static FreeList::iterator best_fit(FreeList& free, int64_t size) {
    auto at = free.lower_bound(size);
    if (at != free.end() && (at->first - 1) / kMatchRange < size) return at;  // no more than 16 times as large
    if (at == free.begin()) return free.end();
    --at;
    return at->first >= size / kMatchRange ? at : free.end();
  }

  void release(uint32_t index) {
    if (lives_apart(items_[index])) return;
    const Item& block = blocks_[block_of_[index]];
    free_[block.pools].emplace(block.size, block_of_[index]);
  }

  const std::vector<Item>& items_;
  std::vector<uint32_t> by_begin_, by_end_, block_of_;
  std::vector<Item> blocks_;
  std::map<std::vector<uint32_t>, FreeList> free_;  // by the pools that a block may lie in
};

/// Numbers the slots as the blocks are numbered; what needs no memory comes last.
void number_slots(MemoryPlan& plan, const Items& items, const std::vector<uint32_t>& block_of) {
  std::vector<uint32_t> key(plan.slots.size(), UINT32_MAX);
  for (uint32_t i = 0; i < items.item_of.size(); ++i) {
    if (items.item_of[i] == Items::kNone) continue;
    uint32_t& block = key[plan.assignment[i].slot];
    block = std::min(block, block_of[items.item_of[i]]);
  }
  std::vector<uint32_t> order(plan.slots.size()), number(plan.slots.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return std::tuple(key[a], a) < std::tuple(key[b], b); });
  std::vector<StorageSlot> slots;
  for (uint32_t old : order) {
    number[old] = static_cast<uint32_t>(slots.size());
    slots.push_back(std::move(plan.slots[old]));
    slots.back().id = number[old];
  }
  plan.slots = std::move(slots);
  for (Assignment& assignment : plan.assignment) assignment.slot = number[assignment.slot];
}

class BestFitTokens : public MemoryPlanner {
 public:
  std::string_view name() const override { return "best_fit_tokens"; }

  MemoryPlan plan(const LivenessProblem& problem, const PlannerOptions& options) const override {
    Items items = resolve(problem, Merge::ViewsOnly);
    TokenAllocator allocator(items);
    allocator.run();
    Items blocks{allocator.blocks(), {}};
    Fitter fitter(problem, blocks);
    std::vector<uint32_t> order(blocks.list.size());
    std::iota(order.begin(), order.end(), 0u);
    uint64_t steps = 0;
    Layout layout = fitter.place(order, steps);
    if (layout.missing > 0) fail_for_want_of_memory(problem, blocks, *layout.first, name(), false);
    std::vector<Place> places;
    for (uint32_t block : allocator.block_of()) places.push_back(layout.places[block]);
    layout.places = std::move(places);
    MemoryPlan plan = finish(problem, items, {std::move(layout)}, name(), options, steps);
    number_slots(plan, items, allocator.block_of());
    return plan;
  }
};

}  // namespace

const MemoryPlanner& best_fit_tokens() {
  static const BestFitTokens planner;
  return planner;
}

}  // namespace tenon::plan
