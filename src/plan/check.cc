// SPDX-License-Identifier: Apache-2.0
// The plan checker and the live-bytes sweep. Shares nothing with the planners, so that it can judge them.
#include <algorithm>
#include <map>

#include "base/diagnostic.h"
#include "plan/plan.h"

namespace tenon::plan {
namespace {

bool needs_memory(const Buffer& buffer) { return buffer.size > 0 && buffer.begin < buffer.end; }

/// Indices of the buffers that need memory, by begin and by end. A sweep handles the ends at a time before the begins.
struct Events {
  std::vector<size_t> by_begin, by_end;
};

Events events_of(const LivenessProblem& problem) {
  Events events;
  for (size_t i = 0; i < problem.buffers.size(); ++i)
    if (needs_memory(problem.buffers[i])) events.by_begin.push_back(i);
  events.by_end = events.by_begin;
  const auto& buffers = problem.buffers;
  std::sort(events.by_begin.begin(), events.by_begin.end(),
            [&](size_t a, size_t b) { return buffers[a].begin < buffers[b].begin; });
  std::sort(events.by_end.begin(), events.by_end.end(), [&](size_t a, size_t b) { return buffers[a].end < buffers[b].end; });
  return events;
}

std::string describe(const Buffer& buffer, int64_t offset) {
  return "`" + buffer.id + "` (bytes [" + std::to_string(offset) + ", " + std::to_string(offset + buffer.size) + "), alive [" +
         std::to_string(buffer.begin) + ", " + std::to_string(buffer.end) + "))";
}

void check_place(const Buffer& buffer, int64_t offset, int64_t pool) {
  check(buffer.alignment > 0 && (buffer.alignment & (buffer.alignment - 1)) == 0, "a buffer's alignment is a power of two");
  check(buffer.size >= 0, "a buffer's size is not negative");
  if (!needs_memory(buffer)) return;
  if (offset < 0 || buffer.size > pool || offset > pool - buffer.size)
    fail_internal("memory plan: " + describe(buffer, offset) + " lies outside the pool of " + std::to_string(pool) + " bytes");
  if (offset % buffer.alignment != 0)
    fail_internal("memory plan: " + describe(buffer, offset) + " is not aligned to " + std::to_string(buffer.alignment));
}

/// Buffers alive at one time, by offset. They are disjoint, so a new one can only collide with its neighbours.
class AliveSet {
 public:
  AliveSet(const LivenessProblem& problem, const MemoryPlan& plan) : problem_(problem), plan_(plan) {}

  void insert(size_t index) {
    auto next = alive_.lower_bound(plan_.offsets[index]);
    if (next != alive_.end()) check_disjoint(index, next->second);
    if (next != alive_.begin()) check_disjoint(std::prev(next)->second, index);
    alive_.emplace_hint(next, plan_.offsets[index], index);
  }
  void erase(size_t index) { alive_.erase(plan_.offsets[index]); }

 private:
  void check_disjoint(size_t low, size_t high) const {
    if (plan_.offsets[low] + problem_.buffers[low].size > plan_.offsets[high])
      fail_internal("memory plan: " + describe(problem_.buffers[low], plan_.offsets[low]) + " overlaps " +
                    describe(problem_.buffers[high], plan_.offsets[high]));
  }
  const LivenessProblem& problem_;
  const MemoryPlan& plan_;
  std::map<int64_t, size_t> alive_;
};

}  // namespace

int64_t live_lower_bound(const LivenessProblem& problem) {
  Events events = events_of(problem);
  int64_t alive = 0, most = 0;
  size_t ended = 0;
  for (size_t index : events.by_begin) {
    const Buffer& buffer = problem.buffers[index];
    for (; problem.buffers[events.by_end[ended]].end <= buffer.begin; ++ended)
      alive -= problem.buffers[events.by_end[ended]].size;
    if (__builtin_add_overflow(alive, buffer.size, &alive))
      throw CompileError(Diagnostic{.kind = ErrorKind::Limit,
                                    .code = "memory-too-large",
                                    .message = "the buffers alive at one time take more than 2^63 bytes",
                                    .input = buffer.id});
    most = std::max(most, alive);
  }
  return most;
}

void check_plan(const LivenessProblem& problem, const MemoryPlan& plan) {
  check(plan.offsets.size() == problem.buffers.size(), "a memory plan has one offset for each buffer");
  for (size_t i = 0; i < problem.buffers.size(); ++i) check_place(problem.buffers[i], plan.offsets[i], plan.peak_bytes);
  check(plan.lower_bound_bytes == live_lower_bound(problem), "a memory plan's lower bound is the largest sum alive at one time");
  Events events = events_of(problem);
  AliveSet alive(problem, plan);
  size_t ended = 0;
  for (size_t index : events.by_begin) {
    for (; problem.buffers[events.by_end[ended]].end <= problem.buffers[index].begin; ++ended) alive.erase(events.by_end[ended]);
    alive.insert(index);
  }
}

}  // namespace tenon::plan
