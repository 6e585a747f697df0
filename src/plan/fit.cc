// SPDX-License-Identifier: Apache-2.0
// Lowest fit over a tree of lifetimes, or over one list where most items meet most others.
#include "plan/fit.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace tenon::plan {
namespace {

constexpr size_t kChunk = 256;          // blocks
constexpr uint64_t kStepsPerItem = 16;  // what finding the items that it meets costs

/// How many pairs of items have lifetimes that meet.
uint64_t count_conflicts(const std::vector<Item>& items, const std::vector<uint32_t>& by_begin) {
  std::vector<int64_t> ends;
  for (uint32_t i : by_begin) ends.push_back(items[i].end());
  std::sort(ends.begin(), ends.end());
  uint64_t pairs = 0;
  for (size_t i = 0; i < by_begin.size(); ++i) {
    auto ended = std::upper_bound(ends.begin(), ends.end(), items[by_begin[i]].begin()) - ends.begin();
    pairs += i - static_cast<size_t>(ended);
  }
  return pairs;
}

}  // namespace

Fitter::Fitter(const LivenessProblem& problem, const Items& items) : pools_(problem.pools), items_(items.list) {
  by_begin_.resize(items_.size());
  rank_.resize(items_.size());
  std::iota(by_begin_.begin(), by_begin_.end(), 0u);
  std::sort(by_begin_.begin(), by_begin_.end(),
            [&](uint32_t a, uint32_t b) { return std::tuple(items_[a].begin(), a) < std::tuple(items_[b].begin(), b); });
  for (uint32_t i = 0; i < by_begin_.size(); ++i) rank_[by_begin_[i]] = i;
  while (leaves_ < items_.size()) leaves_ *= 2;
  placed_.resize(items_.size());
  uint64_t count = items_.size();
  dense_ = count_conflicts(items_, by_begin_) > count * count / 64;
}

Fitter::Block Fitter::block_of(uint32_t item, const Place& place) const {
  const Item& i = items_[item];
  return {place.offset, place.offset + i.size, i.begin(), i.end(), item, place.pool, i.pieces.size() > 1};
}

void Fitter::start() {
  blocks_.assign(1, {});
  latest_end_.assign(2 * leaves_, INT64_MIN);
}

Layout Fitter::place(std::span<const uint32_t> order, uint64_t& steps) {
  start();
  Layout layout{.places = std::vector<Place>(items_.size()), .peaks = std::vector<int64_t>(pools_.size())};
  for (uint32_t i = 0; i < items_.size(); ++i)
    if (items_[i].offset) place_one(i, layout, steps);
  for (uint32_t i : order)
    if (!items_[i].offset) place_one(i, layout, steps);
  for (int64_t peak : layout.peaks) layout.total += peak;
  return layout;
}

void Fitter::place_one(uint32_t index, Layout& layout, uint64_t& steps) {
  const Item& item = items_[index];
  steps += kStepsPerItem;
  if (!dense_) {
    blocks_[0].clear();
    auto later =
        std::partition_point(by_begin_.begin(), by_begin_.end(), [&](uint32_t i) { return items_[i].begin() < item.end(); });
    collect(1, 0, leaves_, static_cast<size_t>(later - by_begin_.begin()), item);
    std::sort(blocks_[0].begin(), blocks_[0].end(), [](const Block& a, const Block& b) { return a.offset < b.offset; });
  }
  Place place = choose(index, layout, steps);
  layout.places[index] = placed_[index] = place;
  layout.peaks[place.pool] = std::max(layout.peaks[place.pool], place.offset + item.size);
  Block block = block_of(index, place);
  if (dense_) return insert(block);
  for (size_t node = leaves_ + rank_[index]; node > 0; node /= 2) latest_end_[node] = std::max(latest_end_[node], item.end());
}

void Fitter::insert(const Block& block) {
  auto before = [](const Block& a, const Block& b) { return a.offset < b.offset; };
  auto chunk = std::upper_bound(blocks_.begin(), blocks_.end() - 1, block,
                                [](const Block& a, const std::vector<Block>& c) { return a.offset < c.back().offset; });
  chunk->insert(std::upper_bound(chunk->begin(), chunk->end(), block, before), block);
  if (chunk->size() < kChunk) return;
  std::vector<Block> upper(chunk->begin() + kChunk / 2, chunk->end());
  chunk->erase(chunk->begin() + kChunk / 2, chunk->end());
  blocks_.insert(chunk + 1, std::move(upper));
}

Place Fitter::choose(uint32_t index, Layout& layout, uint64_t& steps) const {
  const Item& item = items_[index];
  std::optional<Place> best;
  int64_t least_missing = 0;
  for (uint32_t pool : item.pools) {
    int64_t offset = lowest_fit(item, pool, steps);
    int64_t limit = pools_[pool].limit;
    int64_t missing = limit == kUnlimited ? 0 : offset + item.size - limit;
    if (missing <= 0) return {pool, offset};
    if (best && missing >= least_missing) continue;
    best = Place{pool, offset};
    least_missing = missing;
  }
  layout.missing += least_missing;
  if (!layout.first) layout.first = Shortfall{index, best->pool, least_missing};
  return *best;
}

/// A pin is taken as it is: the checker says if it collides with another.
int64_t Fitter::lowest_fit(const Item& item, uint32_t pool, uint64_t& steps) const {
  if (item.offset) return *item.offset;
  int64_t alignment = std::max(item.alignment, pools_[pool].alignment), offset = 0;
  int64_t begin = item.begin(), end = item.end();
  bool gaps = item.pieces.size() > 1;
  for (const std::vector<Block>& chunk : blocks_)
    for (const Block& block : chunk) {
      ++steps;
      if (block.begin >= end || block.finish <= begin || block.pool != pool) continue;
      if ((gaps || block.gaps) && !alive_together(item, items_[block.item])) continue;
      if (block.offset - item.size >= offset) return offset;
      offset = std::max(offset, align_up(block.end, alignment));
    }
  return offset;
}

/// Depth is log2 of the number of items.
void Fitter::collect(size_t node, size_t first, size_t last, size_t limit, const Item& with) {
  if (first >= limit || latest_end_[node] <= with.begin()) return;
  if (last - first == 1) {
    uint32_t index = by_begin_[first];
    blocks_[0].push_back(block_of(index, placed_[index]));
    return;
  }
  size_t middle = (first + last) / 2;
  collect(2 * node, first, middle, limit, with);
  collect(2 * node + 1, middle, last, limit, with);
}

}  // namespace tenon::plan
