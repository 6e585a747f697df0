// SPDX-License-Identifier: Apache-2.0
// The planners: no sharing, and largest first.
#include <algorithm>
#include <tuple>

#include "base/diagnostic.h"
#include "plan/plan.h"

namespace tenon::plan {
namespace {

bool needs_memory(const Buffer& buffer) { return buffer.size > 0 && buffer.begin < buffer.end; }

int64_t align_up(int64_t offset, int64_t alignment) { return (offset + alignment - 1) & -alignment; }

int64_t end_of(int64_t offset, const Buffer& buffer) {
  int64_t end = 0;
  if (__builtin_add_overflow(offset, buffer.size, &end) || end > (int64_t{1} << 62))
    throw CompileError(Diagnostic{.kind = ErrorKind::Limit,
                                  .code = "memory-too-large",
                                  .message = "the memory plan takes more than 2^62 bytes",
                                  .input = buffer.id});
  return end;
}

/// A placed buffer.
struct Block {
  int64_t offset, end;  // bytes
  size_t buffer;
};

/// Placed buffers that are alive with a given one, found in time proportional to their number: a tree over the buffers
/// sorted by begin, each node holding the latest end of the placed ones below it.
class PlacedByTime {
 public:
  PlacedByTime(const std::vector<Buffer>& buffers, std::vector<size_t> by_begin)
      : buffers_(buffers), order_(std::move(by_begin)) {
    rank_.resize(buffers.size());
    for (size_t i = 0; i < order_.size(); ++i) rank_[order_[i]] = i;
    while (leaves_ < order_.size()) leaves_ *= 2;
    latest_end_.assign(2 * leaves_, INT64_MIN);
    offsets_.resize(order_.size());
  }

  void place(size_t buffer, int64_t offset) {
    offsets_[rank_[buffer]] = offset;
    for (size_t node = leaves_ + rank_[buffer]; node > 0; node /= 2)
      latest_end_[node] = std::max(latest_end_[node], buffers_[buffer].end);
  }

  void collect(const Buffer& with, std::vector<Block>& out) const {
    auto later = std::partition_point(order_.begin(), order_.end(), [&](size_t i) { return buffers_[i].begin < with.end; });
    collect(1, 0, leaves_, static_cast<size_t>(later - order_.begin()), with.begin, out);
  }

 private:
  /// Depth is log2 of the number of buffers.
  void collect(size_t node, size_t first, size_t last, size_t limit, int64_t after, std::vector<Block>& out) const {
    if (first >= limit || latest_end_[node] <= after) return;
    if (last - first == 1) {
      size_t buffer = order_[first];
      out.push_back({offsets_[first], offsets_[first] + buffers_[buffer].size, buffer});
      return;
    }
    size_t middle = (first + last) / 2;
    collect(2 * node, first, middle, limit, after, out);
    collect(2 * node + 1, middle, last, limit, after, out);
  }

  const std::vector<Buffer>& buffers_;
  std::vector<size_t> order_, rank_;
  std::vector<int64_t> offsets_, latest_end_;
  size_t leaves_ = 1;
};

/// The lowest offset at which `buffer` fits beside the blocks of `by_offset` that are alive with it.
int64_t lowest_fit(const std::vector<Buffer>& buffers, const Buffer& buffer, const std::vector<Block>& by_offset) {
  int64_t offset = 0;
  for (const Block& block : by_offset) {
    const Buffer& other = buffers[block.buffer];
    if (other.begin >= buffer.end || other.end <= buffer.begin) continue;
    if (block.offset - buffer.size >= offset) break;
    offset = std::max(offset, align_up(block.end, buffer.alignment));
  }
  return offset;
}

bool before(const Block& a, const Block& b) { return a.offset < b.offset; }

/// How many pairs of buffers are alive together.
int64_t count_conflicts(const std::vector<Buffer>& buffers, const std::vector<size_t>& by_begin) {
  std::vector<int64_t> ends;
  for (size_t i : by_begin) ends.push_back(buffers[i].end);
  std::sort(ends.begin(), ends.end());
  int64_t pairs = 0;
  for (size_t i = 0; i < by_begin.size(); ++i) {
    auto ended = std::upper_bound(ends.begin(), ends.end(), buffers[by_begin[i]].begin) - ends.begin();
    pairs += static_cast<int64_t>(i) - ended;
  }
  return pairs;
}

}  // namespace

MemoryPlan plan_naive(const LivenessProblem& problem) {
  MemoryPlan plan;
  for (const Buffer& buffer : problem.buffers) {
    if (!needs_memory(buffer)) {
      plan.offsets.push_back(0);
      continue;
    }
    plan.offsets.push_back(align_up(plan.peak_bytes, buffer.alignment));
    plan.peak_bytes = end_of(plan.offsets.back(), buffer);
  }
  plan.lower_bound_bytes = live_lower_bound(problem);
  return plan;
}

MemoryPlan plan_greedy_by_size(const LivenessProblem& problem) {
  const std::vector<Buffer>& buffers = problem.buffers;
  std::vector<size_t> by_begin;
  for (size_t i = 0; i < buffers.size(); ++i)
    if (needs_memory(buffers[i])) by_begin.push_back(i);
  auto earlier = [&](size_t a, size_t b) { return std::tie(buffers[a].begin, a) < std::tie(buffers[b].begin, b); };
  std::sort(by_begin.begin(), by_begin.end(), earlier);
  std::vector<size_t> order = by_begin;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tie(buffers[b].size, buffers[a].begin, a) < std::tie(buffers[a].size, buffers[b].begin, b);
  });

  // Where most buffers meet most others, one list by offset is quicker than collecting and sorting the few that meet.
  auto count = static_cast<int64_t>(order.size());
  bool dense = count_conflicts(buffers, by_begin) > count * count / 64;
  PlacedByTime placed(buffers, std::move(by_begin));
  std::vector<Block> blocks;
  MemoryPlan plan;
  plan.offsets.resize(buffers.size());
  for (size_t index : order) {
    const Buffer& buffer = buffers[index];
    if (!dense) {
      blocks.clear();
      placed.collect(buffer, blocks);
      std::sort(blocks.begin(), blocks.end(), before);
    }
    int64_t offset = lowest_fit(buffers, buffer, blocks);
    Block block{offset, end_of(offset, buffer), index};
    plan.offsets[index] = offset;
    plan.peak_bytes = std::max(plan.peak_bytes, block.end);
    if (dense)
      blocks.insert(std::upper_bound(blocks.begin(), blocks.end(), block, before), block);
    else
      placed.place(index, offset);
  }
  plan.lower_bound_bytes = live_lower_bound(problem);
  return plan;
}

}  // namespace tenon::plan
