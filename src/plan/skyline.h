// SPDX-License-Identifier: Apache-2.0
// Whether blocks with fixed lifetimes fit under a height: depth-first search over skylines.
//
// Canonical plans only: no block can move down, and blocks are placed in order of offset, so each stands on the skyline of
// those before it and no later one lies below. A node fails when
//   - some block could still end at or below the last offset: the plan would not be canonical;
//   - a section (a point in time at which no more blocks are alive than before and after) cannot hold what is left above the
//     lowest place that any of its blocks may still get;
//   - the same blocks were left over the same skyline before.
// Blocks that share no section with the others left are searched on their own. Orders among equal offsets come from a
// portfolio of rules, tried for a few steps each, and then from random mixtures of them with weights for sections that failed
// often. A rule ranks again what falls apart from the rest, since contention has changed by then.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "plan/budget.h"

namespace tenon::plan {

enum class Outcome { Found, Infeasible, Stopped };

struct SkylineBlock {
  std::vector<std::pair<int64_t, int64_t>> pieces;  // when it is alive, in order
  int64_t size = 0;
  int64_t alignment = 1;
};

/// One set of blocks that are connected in time.
class SkylineSearch {
 public:
  explicit SkylineSearch(std::vector<SkylineBlock> blocks);

  /// Looks for a plan of at most `capacity` bytes until the budget or `max_steps` are spent. A search that went through all
  /// canonical plans proves that there is none.
  Outcome fit(int64_t capacity, Budget& budget, uint64_t max_steps);
  /// The least height above `capacity` under which there is a plan that `capacity` excludes, if there is any.
  int64_t next_height(int64_t capacity) const { return capacity - (capacity + most_padding_) % unit_ + unit_; }
  /// By block; of the last plan found.
  const std::vector<int64_t>& offsets() const { return found_; }

 private:
  struct Range {
    uint32_t first, last;
  };
  struct Raised {
    uint32_t block;
    int64_t lowest;
  };

  void find_sections();
  void find_neighbours();
  void set_units();
  void rank_blocks(int attempt);
  double score(int rule, uint32_t block) const;
  std::vector<double> random_scores();
  void rank_by_rule(std::span<const uint32_t> blocks);
  static uint64_t attempt_steps(int attempt, size_t blocks);

  bool search(size_t first, size_t last, int64_t floor, uint32_t last_rank);
  bool search_parts(size_t first, size_t last, uint32_t placed, int64_t offset);
  bool search_ranked_again(size_t first, size_t last, int64_t floor);
  bool try_candidates(size_t first, size_t last, int64_t floor, uint32_t last_rank, int64_t lowest_end, int64_t limit);
  bool sections_hold(size_t first, size_t last, int64_t floor, uint32_t last_rank, int64_t& limit);
  int64_t earliest(uint32_t block, int64_t floor, uint32_t last_rank) const;
  void place(uint32_t block);
  void undo(size_t placed, size_t raised);

  std::vector<SkylineBlock> blocks_;       // by begin
  std::vector<uint32_t> given_;            // the caller's index of each
  std::vector<std::vector<Range>> spans_;  // sections [first, last) in which each block is alive
  std::vector<std::vector<uint32_t>> neighbours_;
  std::vector<int64_t> live_;  // by section, rounded bytes of all blocks
  std::vector<int64_t> size_;  // rounded up to the smallest alignment
  int64_t unit_ = 1;           // every offset and rounded size is a multiple
  int64_t most_padding_ = 0;   // of a block
  Sequence random_;

  // Of the search that runs.
  int64_t capacity_ = 0;  // for true ends of blocks
  int64_t height_ = 0;    // for rounded ones
  std::vector<uint32_t> rank_;
  std::optional<int> rule_;       // that ranks; none: random scores
  uint64_t ranking_ = 0;          // tells rankings of one search apart
  std::vector<int64_t> lowest_;   // by block: on top of the placed ones that it meets
  std::vector<int64_t> left_;     // by section, rounded bytes of the blocks not placed
  std::vector<int64_t> skyline_;  // by section, scratch of sections_hold
  std::vector<double> failures_;  // by section
  std::vector<char> placed_;
  std::vector<int64_t> offset_, found_;
  std::vector<uint32_t> stack_;  // lists of blocks, the current ones last
  std::vector<uint32_t> placed_order_;
  std::vector<Raised> raised_;
  std::vector<uint64_t> dead_ends_;  // a cache of states without a plan
  uint64_t steps_ = 0, stop_at_ = 0;
  bool stopped_ = false;
};

}  // namespace tenon::plan
