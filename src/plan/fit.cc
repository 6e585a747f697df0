// SPDX-License-Identifier: Apache-2.0
// Lowest fit over a tree of lifetimes, or over one list where most items meet most others.
#include "plan/fit.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

namespace tenon::plan {
namespace {

constexpr size_t kChunk = 256;          // items
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
  rank_points();
  gaps_ = std::any_of(items_.begin(), items_.end(), [](const Item& i) { return i.pieces.size() > 1; });
  uint64_t count = items_.size();
  dense_ = count_conflicts(items_, by_begin_) > count * count / 64;
}

void Fitter::rank_points() {
  std::vector<int64_t> points;
  for (const Item& item : items_) {
    points.push_back(item.begin());
    points.push_back(item.end());
  }
  std::sort(points.begin(), points.end());
  points.erase(std::unique(points.begin(), points.end()), points.end());
  auto rank = [&](int64_t point) {
    return static_cast<int32_t>(std::lower_bound(points.begin(), points.end(), point) - points.begin());
  };
  for (const Item& item : items_) {
    begin_.push_back(rank(item.begin()));
    finish_.push_back(rank(item.end()));
  }
}

void Fitter::start() {
  chunks_.assign(pools_.size(), std::vector<Chunk>(1));
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
  if (!dense_) gather(index);
  Place place = choose(index, layout, steps);
  layout.places[index] = placed_[index] = place;
  layout.peaks[place.pool] = std::max(layout.peaks[place.pool], place.offset + item.size);
  if (dense_) return insert(index);
  for (size_t node = leaves_ + rank_[index]; node > 0; node /= 2) latest_end_[node] = std::max(latest_end_[node], item.end());
}

/// Fills the chunks with the placed items that `index` may meet.
void Fitter::gather(uint32_t index) {
  const Item& item = items_[index];
  found_.clear();
  auto later =
      std::partition_point(by_begin_.begin(), by_begin_.end(), [&](uint32_t i) { return items_[i].begin() < item.end(); });
  collect(1, 0, leaves_, static_cast<size_t>(later - by_begin_.begin()), item);
  std::sort(found_.begin(), found_.end(), [&](uint32_t a, uint32_t b) { return placed_[a].offset < placed_[b].offset; });
  for (std::vector<Chunk>& chunks : chunks_) {
    chunks.resize(1);
    chunks[0].clear();
  }
  for (uint32_t i : found_) {
    std::vector<Chunk>& chunks = chunks_[placed_[i].pool];
    if (chunks.back().size() == kChunk) chunks.emplace_back();
    insert_at(chunks.back(), chunks.back().size(), i);
  }
}

void Fitter::insert_at(Chunk& chunk, size_t at, uint32_t item) const {
  auto put = [&](auto& column, auto value) { column.insert(column.begin() + static_cast<std::ptrdiff_t>(at), value); };
  put(chunk.begin, begin_[item]);
  put(chunk.finish, finish_[item]);
  put(chunk.offset, placed_[item].offset);
  put(chunk.end, placed_[item].offset + items_[item].size);
  put(chunk.item, item);
  chunk.first_begin = std::min(chunk.first_begin, begin_[item]);
  chunk.last_finish = std::max(chunk.last_finish, finish_[item]);
}

Fitter::Chunk Fitter::upper_half(Chunk& chunk) const {
  Chunk lower, upper;
  for (size_t i = 0; i < chunk.size(); ++i) {
    Chunk& half = i < chunk.size() / 2 ? lower : upper;
    insert_at(half, half.size(), chunk.item[i]);
  }
  chunk = std::move(lower);
  return upper;
}

void Fitter::insert(uint32_t item) {
  int64_t offset = placed_[item].offset;
  std::vector<Chunk>& chunks = chunks_[placed_[item].pool];
  auto chunk = std::upper_bound(chunks.begin(), chunks.end() - 1, offset,
                                [](int64_t value, const Chunk& c) { return value < c.offset.back(); });
  auto at = std::upper_bound(chunk->offset.begin(), chunk->offset.end(), offset) - chunk->offset.begin();
  insert_at(*chunk, static_cast<size_t>(at), item);
  if (chunk->size() < kChunk) return;
  Chunk upper = upper_half(*chunk);
  chunks.insert(chunk + 1, std::move(upper));
}

Place Fitter::choose(uint32_t index, Layout& layout, uint64_t& steps) const {
  const Item& item = items_[index];
  std::optional<Place> best;
  int64_t least_missing = 0;
  for (uint32_t pool : item.pools) {
    int64_t offset = lowest_fit(index, pool, steps);
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

/// The indices of the items whose lifetimes meet [begin, finish), in order; without branches, which would often go wrong.
size_t Fitter::those_that_meet(const Chunk& chunk, int32_t begin, int32_t finish, std::span<uint32_t> indices) {
  std::array<uint32_t, kChunk> meets;
  size_t count = chunk.size(), found = 0;
  const int32_t *begins = chunk.begin.data(), *finishes = chunk.finish.data();
  for (size_t i = 0; i < count; ++i)
    meets[i] = static_cast<uint32_t>(begins[i] < finish) & static_cast<uint32_t>(finishes[i] > begin);
  for (size_t i = 0; i < count; ++i) {
    indices[found] = static_cast<uint32_t>(i);
    found += meets[i];
  }
  return found;
}

/// A pin is taken as it is: the checker says if it collides with another.
int64_t Fitter::lowest_fit(uint32_t index, uint32_t pool, uint64_t& steps) const {
  const Item& item = items_[index];
  if (item.offset) return *item.offset;
  int64_t alignment = std::max(item.alignment, pools_[pool].alignment), size = item.size, offset = 0;
  int32_t begin = begin_[index], finish = finish_[index];
  std::array<uint32_t, kChunk> meet;
  for (const Chunk& chunk : chunks_[pool]) {
    if (chunk.first_begin >= finish || chunk.last_finish <= begin) {
      steps += chunk.size() > 0;
      continue;
    }
    size_t count = those_that_meet(chunk, begin, finish, meet);
    for (size_t k = 0; k < count; ++k) {
      uint32_t i = meet[k];
      if (gaps_ && !alive_together(item, items_[chunk.item[i]])) continue;
      if (chunk.offset[i] - size >= offset) {
        steps += i + 1;
        return offset;
      }
      offset = std::max(offset, align_up(chunk.end[i], alignment));
    }
    steps += chunk.size();
  }
  return offset;
}

/// Depth is log2 of the number of items.
void Fitter::collect(size_t node, size_t first, size_t last, size_t limit, const Item& with) {
  if (first >= limit || latest_end_[node] <= with.begin()) return;
  if (last - first == 1) {
    found_.push_back(by_begin_[first]);
    return;
  }
  size_t middle = (first + last) / 2;
  collect(2 * node, first, middle, limit, with);
  collect(2 * node + 1, middle, last, limit, with);
}

}  // namespace tenon::plan
