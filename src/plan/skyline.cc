// SPDX-License-Identifier: Apache-2.0
// The search of skyline.h.
#include "plan/skyline.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <tuple>

#include "base/hash.h"

namespace tenon::plan {
namespace {

constexpr uint32_t kNoRank = UINT32_MAX;  // + 1 is 0: before every rank
constexpr int kRules = 8;

/// 1, 1, 2, 1, 1, 2, 4, 1, … (Luby, Sinclair and Zuckerman): restarts for searches of unknown length.
uint64_t luby(uint64_t i) {
  for (uint64_t k = 1;; ++k) {
    uint64_t all = (uint64_t{1} << k) - 1;
    if (i == all) return uint64_t{1} << (k - 1);
    if (i < all) return luby(i - (uint64_t{1} << (k - 1)) + 1);
  }
}

int64_t round_down(int64_t value, int64_t unit) { return value - value % unit; }

}  // namespace

SkylineSearch::SkylineSearch(std::vector<SkylineBlock> blocks) {
  given_.resize(blocks.size());
  std::iota(given_.begin(), given_.end(), 0u);
  auto key = [&](uint32_t i) {
    return std::tuple(blocks[i].pieces.front().first, blocks[i].pieces.back().second, -blocks[i].size, i);
  };
  std::sort(given_.begin(), given_.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  for (uint32_t i : given_) blocks_.push_back(std::move(blocks[i]));
  set_units();
  find_sections();
  find_neighbours();
  lowest_.resize(blocks_.size());
  placed_.resize(blocks_.size());
  offset_.resize(blocks_.size());
  found_.resize(blocks_.size());
  rank_.resize(blocks_.size());
  skyline_.resize(live_.size());
  failures_.resize(live_.size());
  dead_ends_.resize(std::bit_ceil(std::min<size_t>(64 * blocks_.size(), 1 << 16)));
}

void SkylineSearch::set_units() {
  int64_t alignment = INT64_MAX;
  for (const SkylineBlock& block : blocks_) alignment = std::min(alignment, block.alignment);
  unit_ = 0;
  for (const SkylineBlock& block : blocks_) {
    size_.push_back((block.size + alignment - 1) & -alignment);
    most_padding_ = std::max(most_padding_, size_.back() - block.size);
    unit_ = std::gcd(unit_, size_.back());
    if (block.alignment > alignment) unit_ = std::gcd(unit_, block.alignment);
  }
}

/// Sections are where a beginning is followed by an end: at every other point fewer blocks are alive than at one of these.
void SkylineSearch::find_sections() {
  std::vector<std::pair<int64_t, bool>> events;  // ends before beginnings
  for (const SkylineBlock& block : blocks_)
    for (auto [begin, end] : block.pieces) {
      events.emplace_back(begin, true);
      events.emplace_back(end, false);
    }
  std::sort(events.begin(), events.end());
  std::vector<int64_t> points;
  for (size_t i = 0; i + 1 < events.size(); ++i)
    if (events[i].second && !events[i + 1].second) points.push_back(events[i].first);
  auto section = [&](int64_t point) {
    return static_cast<uint32_t>(std::lower_bound(points.begin(), points.end(), point) - points.begin());
  };
  live_.resize(points.size());
  for (size_t i = 0; i < blocks_.size(); ++i) {
    spans_.emplace_back();
    for (auto [begin, end] : blocks_[i].pieces) {
      Range span{section(begin), section(end)};
      if (span.first < span.last) spans_[i].push_back(span);
      for (uint32_t s = span.first; s < span.last; ++s) live_[s] += size_[i];
    }
  }
}

void SkylineSearch::find_neighbours() {
  neighbours_.resize(blocks_.size());
  for (uint32_t i = 0; i < blocks_.size(); ++i)
    for (uint32_t j = i + 1; j < blocks_.size() && spans_[j].front().first < spans_[i].back().last; ++j) {
      bool meet = std::any_of(spans_[i].begin(), spans_[i].end(), [&](const Range& a) {
        return std::any_of(spans_[j].begin(), spans_[j].end(),
                           [&](const Range& b) { return std::max(a.first, b.first) < std::min(a.last, b.last); });
      });
      if (!meet) continue;
      neighbours_[i].push_back(j);
      neighbours_[j].push_back(i);
    }
}

Outcome SkylineSearch::fit(int64_t capacity, Budget& budget, uint64_t max_steps) {
  capacity_ = capacity;
  height_ = round_down(capacity + most_padding_, unit_);
  if (*std::max_element(live_.begin(), live_.end()) > height_) return Outcome::Infeasible;
  uint64_t end = budget.steps + std::min(max_steps, budget.left());
  std::fill(failures_.begin(), failures_.end(), 0.0);
  for (int attempt = 0; !budget.spent() && budget.steps < end; ++attempt) {
    left_ = live_;
    stack_.resize(blocks_.size());
    std::iota(stack_.begin(), stack_.end(), 0u);
    rank_blocks(attempt);
    std::fill(lowest_.begin(), lowest_.end(), 0);
    std::fill(placed_.begin(), placed_.end(), 0);
    std::fill(dead_ends_.begin(), dead_ends_.end(), 0);
    placed_order_.clear();
    raised_.clear();
    steps_ = 0;
    stop_at_ = std::min(attempt_steps(attempt, blocks_.size()), end - budget.steps);
    stopped_ = false;
    bool found = search(0, blocks_.size(), 0, kNoRank);
    budget.steps += steps_;
    if (found) {
      for (size_t i = 0; i < blocks_.size(); ++i) found_[given_[i]] = offset_[i];
      return Outcome::Found;
    }
    if (!stopped_) return Outcome::Infeasible;
  }
  return Outcome::Stopped;
}

uint64_t SkylineSearch::attempt_steps(int attempt, size_t blocks) {
  uint64_t dives = attempt < kRules ? 3000 : 250 * luby(static_cast<uint64_t>(attempt - kRules + 1));
  return dives * blocks / 4 + blocks * blocks;
}

/// The rules: contention first, area first, width first, size first; a width is a number of sections, then a time.
double SkylineSearch::score(int rule, uint32_t block) const {
  double contention = 0, width = 0;
  for (const Range& span : spans_[block]) {
    width += span.last - span.first;
    for (uint32_t s = span.first; s < span.last; ++s) contention = std::max(contention, static_cast<double>(left_[s]));
  }
  if (rule >= kRules / 2) {
    double all = static_cast<double>(blocks_.back().pieces.back().second - blocks_.front().pieces.front().first);
    double time = static_cast<double>(blocks_[block].pieces.back().second - blocks_[block].pieces.front().first);
    width = time / all * static_cast<double>(live_.size());
  }
  double size = static_cast<double>(size_[block]) / static_cast<double>(height_),
         load = contention / static_cast<double>(height_);
  switch (rule % (kRules / 2)) {
    case 0: return load * 1e9 + width * 1e3 + size;
    case 1: return load * 1e9 + width * size * 1e3;
    case 2: return width * 1e6 + size;
    default: return width * size * 1e6 + load;
  }
}

/// Powers of width and size, and of how often the sections of a block have failed.
std::vector<double> SkylineSearch::random_scores() {
  double width_power = random_.unit() * 2, size_power = random_.unit() * 2, failure_power = random_.unit() * 2;
  std::vector<double> scores;
  for (uint32_t i = 0; i < blocks_.size(); ++i) {
    double width = 0, failures = 1;
    for (const Range& span : spans_[i]) {
      width += span.last - span.first;
      for (uint32_t s = span.first; s < span.last; ++s) failures += failures_[s];
    }
    scores.push_back(width_power * std::log(width) + size_power * std::log(static_cast<double>(size_[i])) +
                     failure_power * std::log(failures) + 0.2 * random_.unit());
  }
  for (double& failures : failures_) failures *= 0.9;
  return scores;
}

void SkylineSearch::rank_blocks(int attempt) {
  rule_ = attempt < kRules ? std::optional(attempt) : std::nullopt;
  ranking_ = 0;
  if (rule_) return rank_by_rule(stack_);
  std::vector<double> scores = random_scores();
  std::sort(stack_.begin(), stack_.end(),
            [&](uint32_t a, uint32_t b) { return std::tuple(-scores[a], a) < std::tuple(-scores[b], b); });
  for (uint32_t i = 0; i < stack_.size(); ++i) rank_[stack_[i]] = i;
  std::sort(stack_.begin(), stack_.end());
}

void SkylineSearch::rank_by_rule(std::span<const uint32_t> blocks) {
  std::vector<std::pair<double, uint32_t>> scores;
  for (uint32_t block : blocks) scores.emplace_back(-score(*rule_, block), block);
  std::sort(scores.begin(), scores.end());
  for (uint32_t i = 0; i < scores.size(); ++i) rank_[scores[i].second] = i;
}

/// Places the blocks stack_[first, last), which are connected among each other and with no other block left, at `floor` or
/// above; those at `floor` after the rank `last_rank`.
bool SkylineSearch::search(size_t first, size_t last, int64_t floor, uint32_t last_rank) {
  if (first == last) return true;
  steps_ += last - first;
  if (steps_ > stop_at_) stopped_ = true;
  if (stopped_) return false;
  int64_t lowest_end = INT64_MAX;
  uint64_t state = hash_combine(hash_combine(static_cast<uint64_t>(floor), last_rank), ranking_);
  for (size_t i = first; i < last; ++i) {
    uint32_t block = stack_[i];
    lowest_end = std::min(lowest_end, lowest_[block] + size_[block]);
    state += hash_combine(hash_combine(block + 1, static_cast<uint64_t>(lowest_[block])), 0x5851f42d4c957f2dull);
  }
  if (lowest_end <= floor) return false;
  uint64_t& dead_end = dead_ends_[state & (dead_ends_.size() - 1)];
  if (dead_end == state) return false;
  int64_t limit = INT64_MAX;
  if (sections_hold(first, last, floor, last_rank, limit) && try_candidates(first, last, floor, last_rank, lowest_end, limit))
    return true;
  if (!stopped_) dead_end = state;
  return false;
}

/// The lowest offset that a block may still get. One that could lie lower than the next offset has to be kept up by a block
/// placed later.
int64_t SkylineSearch::earliest(uint32_t block, int64_t floor, uint32_t last_rank) const {
  if (lowest_[block] > floor || (lowest_[block] == floor && rank_[block] + 1 > last_rank + 1)) return lowest_[block];
  int64_t smallest = INT64_MAX - floor;
  for (uint32_t other : neighbours_[block])
    if (!placed_[other]) smallest = std::min(smallest, size_[other]);
  return floor + smallest;
}

/// Whether each section can hold what is left; `limit` becomes the highest next offset with which they all can.
bool SkylineSearch::sections_hold(size_t first, size_t last, int64_t floor, uint32_t last_rank, int64_t& limit) {
  uint32_t low = UINT32_MAX, high = 0;
  for (size_t i = first; i < last; ++i) {
    low = std::min(low, spans_[stack_[i]].front().first);
    high = std::max(high, spans_[stack_[i]].back().last);
  }
  std::fill(skyline_.begin() + low, skyline_.begin() + high, INT64_MAX);
  for (size_t i = first; i < last; ++i) {
    int64_t offset = earliest(stack_[i], floor, last_rank);
    if (offset == INT64_MAX) return false;
    for (const Range& span : spans_[stack_[i]])
      for (uint32_t s = span.first; s < span.last; ++s) skyline_[s] = std::min(skyline_[s], offset);
  }
  for (uint32_t s = low; s < high; ++s) {
    if (left_[s] == 0) continue;
    int64_t room = height_ - left_[s];
    if (skyline_[s] > room) {
      failures_[s] += 1;
      return false;
    }
    limit = std::min(limit, room);
  }
  return true;
}

bool SkylineSearch::try_candidates(size_t first, size_t last, int64_t floor, uint32_t last_rank, int64_t lowest_end,
                                   int64_t limit) {
  size_t begin = stack_.size();
  for (size_t i = first; i < last; ++i) {
    uint32_t block = stack_[i];
    int64_t offset = lowest_[block];
    bool in_order = offset > floor || (offset == floor && rank_[block] + 1 > last_rank + 1);
    if (in_order && offset <= limit && offset < lowest_end && offset + blocks_[block].size <= capacity_) stack_.push_back(block);
  }
  size_t end = stack_.size();
  std::sort(stack_.begin() + static_cast<ptrdiff_t>(begin), stack_.end(),
            [&](uint32_t a, uint32_t b) { return std::tuple(lowest_[a], rank_[a]) < std::tuple(lowest_[b], rank_[b]); });
  size_t placed = placed_order_.size(), raised = raised_.size();
  for (size_t i = begin; i < end && !stopped_; ++i) {
    uint32_t block = stack_[i];
    int64_t offset = lowest_[block];
    place(block);
    bool found = search_parts(first, last, block, offset);
    stack_.resize(end);
    if (found) return true;
    undo(placed, raised);
  }
  stack_.resize(begin);
  return false;
}

/// Searches each connected part of stack_[first, last) without the block just placed, the smallest first.
bool SkylineSearch::search_parts(size_t first, size_t last, uint32_t placed, int64_t offset) {
  size_t begin = stack_.size();
  std::vector<std::pair<size_t, size_t>> parts;
  uint32_t end = 0;
  for (size_t i = first; i < last; ++i) {
    uint32_t block = stack_[i];
    if (block == placed) continue;
    if (parts.empty() || spans_[block].front().first >= end) parts.emplace_back(stack_.size(), stack_.size());
    stack_.push_back(block);
    parts.back().second = stack_.size();
    end = std::max(end, spans_[block].back().last);
  }
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.second - a.first < b.second - b.first; });
  bool found = true, rank_again = parts.size() > 1 && rule_;
  for (size_t i = 0; i < parts.size() && found; ++i)
    found = rank_again ? search_ranked_again(parts[i].first, parts[i].second, offset)
                       : search(parts[i].first, parts[i].second, offset, rank_[placed]);
  stack_.resize(begin);
  return found;
}

/// Ranks a part by what is left in its sections now. Ranks of before say nothing about it then, so that all of its blocks may
/// come next at the offset of the last one.
bool SkylineSearch::search_ranked_again(size_t first, size_t last, int64_t floor) {
  std::vector<uint32_t> part(stack_.begin() + static_cast<ptrdiff_t>(first), stack_.begin() + static_cast<ptrdiff_t>(last));
  std::vector<uint32_t> ranks;
  for (uint32_t block : part) ranks.push_back(rank_[block]);
  uint64_t ranking = ranking_;
  ranking_ = part.size();
  for (uint32_t block : part) ranking_ += hash_combine(block + 1, 0x2545f4914f6cdd1dull);
  rank_by_rule(part);
  bool found = search(first, last, floor, kNoRank);
  for (size_t i = 0; i < part.size(); ++i) rank_[part[i]] = ranks[i];
  ranking_ = ranking;
  return found;
}

void SkylineSearch::place(uint32_t block) {
  offset_[block] = lowest_[block];
  placed_[block] = 1;
  placed_order_.push_back(block);
  int64_t end = offset_[block] + size_[block];
  for (const Range& span : spans_[block])
    for (uint32_t s = span.first; s < span.last; ++s) left_[s] -= size_[block];
  for (uint32_t other : neighbours_[block]) {
    if (placed_[other]) continue;
    int64_t lowest = (end + blocks_[other].alignment - 1) & -blocks_[other].alignment;
    if (lowest <= lowest_[other]) continue;
    raised_.push_back({other, lowest_[other]});
    lowest_[other] = lowest;
  }
}

/// Takes back what came after the first `placed` and `raised` entries of the two records.
void SkylineSearch::undo(size_t placed, size_t raised) {
  for (; raised_.size() > raised; raised_.pop_back()) lowest_[raised_.back().block] = raised_.back().lowest;
  for (; placed_order_.size() > placed; placed_order_.pop_back()) {
    uint32_t block = placed_order_.back();
    placed_[block] = 0;
    for (const Range& span : spans_[block])
      for (uint32_t s = span.first; s < span.last; ++s) left_[s] += size_[block];
  }
}

}  // namespace tenon::plan
