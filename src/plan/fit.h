// SPDX-License-Identifier: Apache-2.0
// Lowest fit: items placed one after another, each at the lowest offset where it fits.
#pragma once

#include <span>

#include "plan/items.h"

namespace tenon::plan {

struct Layout {
  std::vector<Place> places;       // by item
  std::vector<int64_t> peaks;      // by pool
  int64_t total = 0;               // sum of the peaks
  int64_t missing = 0;             // bytes by which items pass the limits of their pools, in all
  std::optional<Shortfall> first;  // the first item that did

  /// Less memory is better, but first of all nothing may be missing.
  bool better_than(const Layout& other) const { return missing != other.missing ? missing < other.missing : total < other.total; }
};

/// Places items in a given order. Pinned ones come first, whatever the order; a pool without room is passed over for good;
/// an item that no pool has room for goes past a limit where least is missing.
class Fitter {
 public:
  Fitter(const LivenessProblem& problem, const Items& items);

  /// Adds the number of placed items it looked at, and some for each item, to `steps`.
  Layout place(std::span<const uint32_t> order, uint64_t& steps);

 private:
  /// Placed items by offset, each member one of their properties, so that a look at one touches little memory.
  struct Chunk {
    std::vector<int32_t> begin, finish;  // hull of its lifetime, as ranks among all program points
    std::vector<int64_t> offset, end;    // bytes
    std::vector<uint32_t> item;
    int32_t first_begin = INT32_MAX, last_finish = 0;
    size_t size() const { return item.size(); }
    /// Keeps the memory.
    void clear() {
      begin.clear();
      finish.clear();
      offset.clear();
      end.clear();
      item.clear();
      first_begin = INT32_MAX;
      last_finish = 0;
    }
  };
  void insert_at(Chunk& chunk, size_t at, uint32_t item) const;
  Chunk upper_half(Chunk& chunk) const;
  void insert(uint32_t item);
  void rank_points();
  void start();
  void gather(uint32_t item);
  void place_one(uint32_t item, Layout& layout, uint64_t& steps);
  Place choose(uint32_t item, Layout& layout, uint64_t& steps) const;
  int64_t lowest_fit(uint32_t item, uint32_t pool, uint64_t& steps) const;
  static size_t those_that_meet(const Chunk& chunk, int32_t begin, int32_t finish, std::span<uint32_t> indices);
  void collect(size_t node, size_t first, size_t last, size_t limit, const Item& with);

  const std::vector<Pool>& pools_;
  const std::vector<Item>& items_;
  std::vector<uint32_t> by_begin_, rank_;
  std::vector<int32_t> begin_, finish_;  // by item, ranks among all program points
  // A tree over the items by begin; each node holds the latest end of the placed ones below it.
  std::vector<int64_t> latest_end_;
  size_t leaves_ = 1;
  std::vector<Place> placed_;               // by item
  std::vector<uint32_t> found_;             // items that may meet the next one
  std::vector<std::vector<Chunk>> chunks_;  // by pool, those that may meet the next item, in chunks that are quick to insert into
  bool dense_ = false;                      // chunks_ holds all placed items
  bool gaps_ = false;                       // an item has some
};

}  // namespace tenon::plan
