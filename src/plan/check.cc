// SPDX-License-Identifier: Apache-2.0
// The plan checker and the sweep over live bytes. Shares nothing with the planners, so that it can judge them.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/diagnostic.h"
#include "tenon/plan.h"

namespace tenon::plan {
namespace {

/// Bytes [low, high) of a buffer that hold something during [begin, end).
struct Piece {
  uint32_t buffer;
  int64_t begin, end, low, high;
};

/// What takes memory when: each buffer that is no view, its lifetime stretched over those of its views and cut at its gaps.
std::vector<Piece> pieces_of(const LivenessProblem& problem) {
  std::vector<int64_t> begin, end;
  for (const Buffer& buffer : problem.buffers) {
    begin.push_back(buffer.begin);
    end.push_back(buffer.end);
  }
  for (const Buffer& view : problem.buffers) {
    if (!view.alias || view.begin == view.end) continue;
    uint32_t base = view.alias->buffer;
    bool unused = begin[base] == end[base];
    begin[base] = unused ? view.begin : std::min(begin[base], view.begin);
    end[base] = unused ? view.end : std::max(end[base], view.end);
  }
  std::vector<Piece> pieces;
  auto add = [&](Piece piece) {
    if (piece.begin < piece.end && piece.low < piece.high) pieces.push_back(piece);
  };
  for (uint32_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& buffer = problem.buffers[i];
    if (buffer.alias) continue;
    int64_t from = begin[i];
    for (const Gap& gap : buffer.gaps) {
      add({i, from, gap.begin, 0, buffer.size});
      add({i, gap.begin, gap.end, gap.low, gap.high});
      from = gap.end;
    }
    add({i, from, end[i], 0, buffer.size});
  }
  return pieces;
}

/// Calls `begin` and `end` for each piece in the order of time; at one point all ends come first.
template <class Begin, class End>
void sweep(const std::vector<Piece>& pieces, Begin begin, End end) {
  std::vector<size_t> by_begin(pieces.size());
  std::iota(by_begin.begin(), by_begin.end(), size_t{0});
  std::vector<size_t> by_end = by_begin;
  std::sort(by_begin.begin(), by_begin.end(), [&](size_t a, size_t b) { return pieces[a].begin < pieces[b].begin; });
  std::sort(by_end.begin(), by_end.end(), [&](size_t a, size_t b) { return pieces[a].end < pieces[b].end; });
  size_t ended = 0;
  for (size_t next : by_begin) {
    for (; pieces[by_end[ended]].end <= pieces[next].begin; ++ended) end(pieces[by_end[ended]]);
    begin(pieces[next]);
  }
}

bool allowed(const LivenessProblem& problem, const Buffer& buffer, uint32_t pool) {
  if (!buffer.device.empty() && problem.pools[pool].device != buffer.device) return false;
  return buffer.pools.empty() || std::find(buffer.pools.begin(), buffer.pools.end(), pool) != buffer.pools.end();
}

/// The one pool in which a buffer can lie, or the number of pools if there are several or none.
size_t only_pool(const LivenessProblem& problem, const Buffer& buffer) {
  size_t only = problem.pools.size();
  if (buffer.pin) return buffer.pin->pool;
  for (uint32_t pool = 0; pool < problem.pools.size(); ++pool) {
    if (!allowed(problem, buffer, pool)) continue;
    if (only != problem.pools.size()) return problem.pools.size();
    only = pool;
  }
  return only;
}

/// Buffers that may share memory, directly or through others. At any time such a group takes at least as many bytes as its
/// largest live member.
std::vector<uint32_t> share_groups(const LivenessProblem& problem) {
  std::vector<uint32_t> parent(problem.buffers.size());
  std::iota(parent.begin(), parent.end(), 0u);
  auto root = [&](uint32_t i) {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
  };
  for (uint32_t i = 0; i < problem.buffers.size(); ++i)
    for (uint32_t other : problem.buffers[i].may_share_with) parent[root(i)] = root(other);
  for (uint32_t i = 0; i < parent.size(); ++i) parent[i] = root(i);
  return parent;
}

/// The largest sum of live bytes over time.
class LiveBytes {
 public:
  explicit LiveBytes(std::vector<uint32_t> groups) : groups_(std::move(groups)), sizes_(groups_.size()) {}

  int64_t most(const LivenessProblem& problem, const std::vector<Piece>& pieces) {
    int64_t alive = 0, most = 0;
    auto largest = [](const std::multiset<int64_t>& sizes) { return sizes.empty() ? 0 : *sizes.rbegin(); };
    auto change = [&](const Piece& piece, bool begins) {
      std::multiset<int64_t>& sizes = sizes_[groups_[piece.buffer]];
      alive -= largest(sizes);
      if (begins)
        sizes.insert(piece.high - piece.low);
      else
        sizes.erase(sizes.find(piece.high - piece.low));
      if (largest(sizes) > (int64_t{1} << 62) - alive)
        throw CompileError(Diagnostic{.kind = ErrorKind::Limit,
                                      .code = "memory-too-large",
                                      .message = "the buffers alive at one time take more than 2^62 bytes",
                                      .input = problem.buffers[piece.buffer].id,
                                      .expected = "at most 2^62 bytes",
                                      .found = fmt::format("{} bytes and {} more", alive, largest(sizes)),
                                      .hint = "check the shapes given"});
      alive += largest(sizes);
      most = std::max(most, alive);
    };
    sweep(pieces, [&](const Piece& piece) { change(piece, true); }, [&](const Piece& piece) { change(piece, false); });
    for (const Piece& piece : pieces) sizes_[groups_[piece.buffer]].clear();
    return most;
  }

 private:
  std::vector<uint32_t> groups_;
  std::vector<std::multiset<int64_t>> sizes_;
};

class Checker {
 public:
  Checker(const LivenessProblem& problem, const MemoryPlan& plan) : problem_(problem), plan_(plan) {}

  void run() {
    check_shape();
    for (uint32_t i = 0; i < problem_.buffers.size(); ++i) check_place(i);
    for (const StorageSlot& slot : plan_.slots) check_slot(slot);
    faults_.throw_any();
    check_overlaps();
    check_peaks();
    faults_.throw_any();
  }

 private:
  void fault(std::string code, const std::string& id, std::string message, std::string expected = "", std::string found = "") {
    faults_.add(Diagnostic{.kind = ErrorKind::CheckFailed,
                           .code = std::move(code),
                           .message = std::move(message),
                           .input = id,
                           .expected = std::move(expected),
                           .found = std::move(found),
                           .hint = plan_.planner.empty() ? "" : "the plan is of the planner `" + plan_.planner + "`"});
  }

  const std::string& id(uint32_t buffer) const { return problem_.buffers[buffer].id; }

  bool needs_memory(const Buffer& buffer) const { return buffer.size > 0 && (buffer.begin < buffer.end || buffer.alias); }

  std::string describe(uint32_t buffer) const {
    const Buffer& b = problem_.buffers[buffer];
    int64_t offset = plan_.offset_of(buffer);
    return fmt::format("`{}` (bytes [{}, {}), alive [{}, {}))", b.id, offset, offset + b.size, b.begin, b.end);
  }

  /// Sizes of the tables and indices in them: what the other checks rely on.
  void check_shape() {
    if (plan_.pools.size() != problem_.pools.size())
      fault("plan-missing", "", "the plan and the problem differ in pools", fmt::format("{} pools", problem_.pools.size()),
            fmt::format("{} pools", plan_.pools.size()));
    for (uint32_t i = 0; i < problem_.buffers.size(); ++i)
      if (i >= plan_.assignment.size() || plan_.assignment[i].slot >= plan_.slots.size())
        fault("plan-missing", id(i), fmt::format("`{}` has no place in the plan", id(i)), "a slot", "none");
    if (plan_.assignment.size() > problem_.buffers.size())
      fault("plan-missing", "", "the plan places buffers that the problem does not have",
            fmt::format("{} buffers", problem_.buffers.size()), fmt::format("{} buffers", plan_.assignment.size()));
    for (const StorageSlot& slot : plan_.slots) {
      if (slot.pool >= problem_.pools.size())
        fault("plan-pool", "", fmt::format("slot {} is in pool {}", slot.id, slot.pool),
              fmt::format("a pool below {}", problem_.pools.size()), std::to_string(slot.pool));
      for (uint32_t tenant : slot.tenants)
        if (tenant >= problem_.buffers.size() || tenant >= plan_.assignment.size() ||
            &plan_.slots[plan_.assignment[tenant].slot] != &slot)
          fault("plan-missing", "", fmt::format("slot {} lists the tenant {}, which does not lie in it", slot.id, tenant),
                "the buffers assigned to it", std::to_string(tenant));
    }
    faults_.throw_any();
  }

  void check_slot(const StorageSlot& slot) {
    const Pool& pool = problem_.pools[slot.pool];
    int64_t end = 0;
    if (slot.size == 0) return;
    if (slot.offset < 0 || slot.size < 0 || __builtin_add_overflow(slot.offset, slot.size, &end)) {
      fault("plan-pool-limit", pool.name, fmt::format("slot {} lies at {} and has {} bytes", slot.id, slot.offset, slot.size),
            "a range of 64-bit offsets from 0 on");
      return;
    }
    if (pool.limit != kUnlimited && end > pool.limit)
      fault("plan-pool-limit", pool.name,
            fmt::format("slot {} with {} ends {} bytes past the limit of pool `{}`", slot.id, tenants(slot), end - pool.limit,
                        pool.name),
            fmt::format("at most {}", pool.limit), std::to_string(end));
  }

  std::string tenants(const StorageSlot& slot) const {
    if (slot.tenants.empty()) return "no tenant";
    return "`" + id(slot.tenants[0]) + "`" + (slot.tenants.size() > 1 ? " and others" : "");
  }

  void check_place(uint32_t index) {
    const Buffer& buffer = problem_.buffers[index];
    const Assignment& assignment = plan_.assignment[index];
    const StorageSlot& slot = plan_.slots[assignment.slot];
    if (buffer.alias) return check_view(index);
    if (buffer.pin && buffer.pin->pool != slot.pool)
      fault("plan-pin", buffer.id, fmt::format("`{}` does not lie in the pool that it is pinned to", buffer.id),
            problem_.pools[buffer.pin->pool].name, problem_.pools[slot.pool].name);
    else if (!buffer.pin && !allowed(problem_, buffer, slot.pool))
      fault("plan-pool", buffer.id, fmt::format("`{}` lies in a pool that it may not use", buffer.id), "one of its pools",
            problem_.pools[slot.pool].name);
    if (!needs_memory(buffer)) return;
    if (assignment.offset < 0 || buffer.size > slot.size || assignment.offset > slot.size - buffer.size)
      return fault("plan-size", buffer.id, fmt::format("`{}` does not fit into slot {}", buffer.id, slot.id),
                   fmt::format("{} bytes at {} of the slot", buffer.size, assignment.offset),
                   fmt::format("a slot of {} bytes", slot.size));
    int64_t offset = plan_.offset_of(index), alignment = std::max(buffer.alignment, problem_.pools[slot.pool].alignment);
    if (offset % alignment != 0)
      fault("plan-alignment", buffer.id, fmt::format("`{}` in slot {} is not aligned", buffer.id, slot.id),
            fmt::format("a multiple of {}", alignment), fmt::format("offset {}", offset));
    if (buffer.pin && buffer.pin->offset && *buffer.pin->offset != offset)
      fault("plan-pin", buffer.id, fmt::format("`{}` does not lie at the offset that it is pinned to", buffer.id),
            std::to_string(*buffer.pin->offset), std::to_string(offset));
  }

  void check_view(uint32_t index) {
    const Buffer& view = problem_.buffers[index];
    uint32_t base = view.alias->buffer;
    int64_t expected = plan_.offset_of(base) + view.alias->offset;
    if (plan_.assignment[index].slot != plan_.assignment[base].slot || plan_.offset_of(index) != expected)
      fault("plan-alias", view.id, fmt::format("`{}` does not lie where `{}`, of which it is a view, does", view.id, id(base)),
            fmt::format("offset {}", expected), fmt::format("offset {}", plan_.offset_of(index)));
  }

  /// Sorted pairs of buffers that may lie at one offset.
  std::set<std::pair<uint32_t, uint32_t>> sharing_pairs() const {
    std::set<std::pair<uint32_t, uint32_t>> pairs;
    for (uint32_t i = 0; i < problem_.buffers.size(); ++i)
      for (uint32_t other : problem_.buffers[i].may_share_with) pairs.insert(std::minmax(i, other));
    return pairs;
  }

  /// Live pieces by pool and first byte. Pieces at one place are a group that shares it; groups are disjoint, so a new piece
  /// can only collide with its own group and its neighbours.
  void check_overlaps() {
    using Key = std::pair<uint32_t, int64_t>;
    std::map<Key, std::vector<Piece>> alive;
    auto sharing = sharing_pairs();
    auto key = [&](const Piece& p) { return Key{plan_.pool_of(p.buffer), plan_.offset_of(p.buffer) + p.low}; };
    auto overlap = [&](const Piece& a, const Piece& b) {
      fault("plan-overlap", id(a.buffer), fmt::format("{} overlaps {}", describe(a.buffer), describe(b.buffer)),
            "bytes of their own");
    };
    auto collides = [&](const std::pair<const Key, std::vector<Piece>>& low, const Key& high) {
      for (const Piece& piece : low.second)
        if (low.first.first == high.first && plan_.offset_of(piece.buffer) + piece.high > high.second) return &piece;
      return static_cast<const Piece*>(nullptr);
    };
    auto begin = [&](const Piece& piece) {
      Key place = key(piece);
      auto [it, inserted] = alive.try_emplace(place);
      for (const Piece& tenant : it->second)
        if (!sharing.contains(std::minmax(tenant.buffer, piece.buffer))) return overlap(tenant, piece);
      it->second.push_back(piece);
      if (it != alive.begin())
        if (const Piece* low = collides(*std::prev(it), place)) overlap(*low, piece);
      if (auto next = std::next(it); next != alive.end() && collides({place, {piece}}, next->first))
        overlap(piece, next->second.front());
    };
    auto end = [&](const Piece& piece) {
      auto it = alive.find(key(piece));
      if (it == alive.end()) return;
      std::erase_if(it->second, [&](const Piece& p) { return p.buffer == piece.buffer && p.begin == piece.begin; });
      if (it->second.empty()) alive.erase(it);
    };
    sweep(pieces_of(problem_), begin, end);
  }

  void check_peaks() {
    std::vector<int64_t> peaks(problem_.pools.size());
    for (const StorageSlot& slot : plan_.slots)
      if (slot.size > 0) peaks[slot.pool] = std::max(peaks[slot.pool], slot.offset + slot.size);
    LowerBound bound = lower_bound(problem_);
    for (size_t i = 0; i < peaks.size(); ++i) {
      expect_number("peak of pool `" + problem_.pools[i].name + "`", peaks[i], plan_.pools[i].peak_bytes);
      expect_number("lower bound of pool `" + problem_.pools[i].name + "`", bound.pools[i], plan_.pools[i].lower_bound_bytes);
    }
    expect_number("sum of the peaks", std::accumulate(peaks.begin(), peaks.end(), int64_t{0}), plan_.peak_bytes);
    expect_number("lower bound", bound.total, plan_.lower_bound_bytes);
  }

  void expect_number(const std::string& what, int64_t expected, int64_t found) {
    if (expected != found)
      fault("plan-peak", "", "the " + what + " is not as the plan says", std::to_string(expected), std::to_string(found));
  }

  const LivenessProblem& problem_;
  const MemoryPlan& plan_;
  ErrorList faults_;
};

}  // namespace

LowerBound lower_bound(const LivenessProblem& problem) {
  LiveBytes live(share_groups(problem));
  std::vector<Piece> all = pieces_of(problem);
  std::vector<std::vector<Piece>> captive(problem.pools.size());
  LowerBound bound{std::vector<int64_t>(problem.pools.size()), live.most(problem, all)};
  for (const Piece& piece : all) {
    const Buffer& buffer = problem.buffers[piece.buffer];
    size_t pool = only_pool(problem, buffer);
    if (pool == problem.pools.size()) continue;
    captive[pool].push_back(piece);
    if (buffer.pin && buffer.pin->offset) bound.pools[pool] = std::max(bound.pools[pool], *buffer.pin->offset + buffer.size);
  }
  for (size_t i = 0; i < captive.size(); ++i) bound.pools[i] = std::max(bound.pools[i], live.most(problem, captive[i]));
  bound.total = std::max(bound.total, std::accumulate(bound.pools.begin(), bound.pools.end(), int64_t{0}));
  return bound;
}

void check_plan(const LivenessProblem& problem, const MemoryPlan& plan) { Checker(problem, plan).run(); }

}  // namespace tenon::plan
