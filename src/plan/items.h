// SPDX-License-Identifier: Apache-2.0
// What planners place: buffers with their views and in-place partners merged, and the plan built from chosen places.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "tenon/plan.h"

namespace tenon::plan {

/// One thing to place. Its pieces are the program points at which it is alive, in order, disjoint and not empty; only a gap
/// without bytes separates two of them, since a gap with bytes counts as alive for planners.
struct Item {
  std::vector<std::pair<int64_t, int64_t>> pieces;  // at least one
  int64_t size = 0;                                 // above 0
  int64_t alignment = 1;
  std::vector<uint32_t> pools;    // where it may lie, the preferred one first; not empty
  std::optional<int64_t> offset;  // a pin; `pools` then holds one pool
  uint32_t buffer = 0;            // the first of its buffers, for its id
  BufferKind kind = BufferKind::Intermediate;

  int64_t begin() const { return pieces.front().first; }
  int64_t end() const { return pieces.back().second; }
};

bool alive_together(const Item& a, const Item& b);

/// Items and where each buffer lies in them; buffers that need no memory have no item.
struct Items {
  static constexpr uint32_t kNone = UINT32_MAX;
  std::vector<Item> list;
  std::vector<uint32_t> item_of;  // by buffer
  bool conservative = false;      // some plans are no placement of the items: those that share or use gaps otherwise
};

/// How far the planners go in merging.
enum class Merge { InPlacePartners, ViewsOnly };

/// Validates the problem. Throws CompileError (limit): `memory-limit` naming a buffer that no pool may hold, `memory-pin`
/// naming a pin that no plan can keep, `memory-too-large` if all sizes together pass 2^62, so that no planner need look out
/// for overflow.
Items resolve(const LivenessProblem& problem, Merge merge);

/// The plan in which each item lies at its place.
MemoryPlan plan_from_items(const LivenessProblem& problem, const Items& items, const std::vector<Place>& places,
                           std::string planner);

/// `item` finds no room: `missing` bytes more than the limit of `pool` would be needed.
struct Shortfall {
  uint32_t item = 0, pool = 0;
  int64_t missing = 0;
};
/// The error for it. `proven` says that no plan exists at all.
[[noreturn]] void fail_for_want_of_memory(const LivenessProblem& problem, const Items& items, const Shortfall& shortfall,
                                          std::string_view planner, bool proven);

inline int64_t align_up(int64_t offset, int64_t alignment) { return (offset + alignment - 1) & -alignment; }

}  // namespace tenon::plan
