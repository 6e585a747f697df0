// SPDX-License-Identifier: Apache-2.0
// Memory planning: which bytes of which pool each buffer gets. Knows no IR (design.md 5).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::plan {

/// Alive on the half-open interval [begin, end) of abstract time; an empty interval needs no memory.
struct Buffer {
  std::string id;
  int64_t begin = 0, end = 0;
  int64_t size = 0;        // bytes
  int64_t alignment = 64;  // a power of two
};

struct LivenessProblem {
  std::vector<Buffer> buffers;
};

struct MemoryPlan {
  std::vector<int64_t> offsets;   // one per buffer, bytes from the start of the pool
  int64_t peak_bytes = 0;         // the pool's size
  int64_t lower_bound_bytes = 0;  // largest sum of sizes alive at one time
};

/// Every buffer on its own bytes.
MemoryPlan plan_naive(const LivenessProblem& problem);
/// Largest first, each at the lowest offset where it fits (Pisarchyk and Lee, arXiv 2001.03288). O(n^2 log n) at worst,
/// near linear on chains; ties by begin, then by index.
MemoryPlan plan_greedy_by_size(const LivenessProblem& problem);

/// Independent of every planner: throws InternalError naming two buffers that overlap in time and space, an offset that is
/// not aligned, or a buffer outside the pool; throws it too when a claimed bound is not the sweep's own.
void check_plan(const LivenessProblem& problem, const MemoryPlan& plan);

/// The largest sum of sizes of buffers alive at one time, by a sweep.
int64_t live_lower_bound(const LivenessProblem& problem);

}  // namespace tenon::plan
