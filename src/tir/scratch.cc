// SPDX-License-Identifier: Apache-2.0
// A walk counts accesses; what is touched inside a statement of the sequence that declares a block keeps the block from that
// statement's first access to its last, or all through the loop that runs on workers around it. Points are then what is left of
// the count.
#include "tir/scratch.h"

#include <algorithm>
#include <unordered_map>

namespace tenon::tir {
namespace {

constexpr int64_t kAlignment = 64;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

class Walk {
 public:
  explicit Walk(const PrimFunc& function) : function_(function) {}

  Scratch run() {
    if (!allocates()) return {};
    stmt(function_.body);
    number_points();
    out_.shared_bytes = place(out_.shared);
    out_.worker_bytes = place(out_.worker);
    return std::move(out_);
  }

 private:
  /// An allocation whose sequence is being walked. Until points are numbered, lifetimes are counts of accesses.
  struct Open {
    bool worker;
    size_t index;
    bool touched = false;  // by the sequence's statement at hand
  };

  /// Whether there is anything to look for. Most functions need no scratch, and accesses are many.
  bool allocates() const {
    bool found = false;
    if (!function_.body) return found;
    visit(function_.body, [&](const Stmt& s) {
      const auto* allocation = as<Allocate>(s);
      if (!allocation) return;
      check_constant(*allocation->buffer);
      found |= allocation->buffer->scope != Scope::Reg;
    });
    return found;
  }

  ScratchBlock& block(const Open& open) { return (open.worker ? out_.worker : out_.shared)[open.index]; }

  void touch(std::string_view buffer) {
    auto open = open_.find(buffer);
    if (open != open_.end()) open->second.touched = true;
    ++count_;
  }

  void expr(const Expr& e) {
    visit_loads(e, [&](const Load& load) { touch(load.buffer->name); });
  }

  void stmt(const Stmt& s) {
    if (const auto* seq = as<Seq>(s)) return sequence(*seq);
    if (const auto* allocation = as<Allocate>(s)) return alone(*allocation->buffer);
    if (const auto* store = as<Store>(s)) touch(store->buffer->name);
    const auto* loop = as<For>(s);
    bool on_workers = loop && runs_on_workers(*loop);
    size_t declared = out_.shared.size();
    int64_t first = count_;
    on_workers_ += on_workers;
    for_each_child(s, [&](const Stmt& child) { stmt(child); }, [&](const Expr& e) { expr(e); });
    on_workers_ -= on_workers;
    if (on_workers && on_workers_ == 0) keep_throughout(declared, first);
  }

  /// While one worker is in one iteration, others are anywhere in theirs: what all of them share, they share all the time.
  void keep_throughout(size_t declared, int64_t first) {
    for (auto b = out_.shared.begin() + static_cast<std::ptrdiff_t>(declared); b != out_.shared.end(); ++b)
      if (b->begin < b->end) b->begin = first, b->end = count_;
  }

  /// An allocation for the rest of no sequence.
  void alone(const BufferData& buffer) {
    if (declare(buffer)) open_.erase(buffer.name);
  }

  void sequence(const Seq& seq) {
    std::vector<std::string_view> declared;
    for (const Stmt& s : seq.stmts) {
      if (const auto* allocation = as<Allocate>(s)) {
        if (declare(*allocation->buffer)) declared.push_back(allocation->buffer->name);
        continue;
      }
      int64_t first = count_;
      stmt(s);
      for (std::string_view name : declared) extend(open_.at(name), first);
    }
    for (std::string_view name : declared) open_.erase(name);
  }

  /// Whether it needs memory.
  bool declare(const BufferData& buffer) {
    if (buffer.scope == Scope::Reg) return false;
    bool worker = buffer.scope == Scope::Local && on_workers_ > 0;
    std::vector<ScratchBlock>& blocks = worker ? out_.worker : out_.shared;
    open_[buffer.name] = {worker, blocks.size()};
    blocks.push_back({.name = buffer.name, .bytes = aligned(bytes_of(buffer))});
    return true;
  }

  /// A statement that began at `first` has ended.
  void extend(Open& open, int64_t first) {
    if (!std::exchange(open.touched, false)) return;
    ScratchBlock& b = block(open);
    if (b.end == 0) b.begin = first;
    b.end = count_;
  }

  void check_constant(const BufferData& buffer) const {
    if (std::all_of(buffer.shape.begin(), buffer.shape.end(), [](const Expr& extent) { return as_int(extent) != nullptr; }))
      return;
    throw CompileError({.kind = ErrorKind::Unsupported,
                        .code = "dynamic-allocation",
                        .message = "buffer `" + buffer.name + "` has a shape that is not constant",
                        .expected = "constant extents",
                        .function = function_.name});
  }

  static int64_t bytes_of(const BufferData& buffer) {
    Shape shape;
    for (const Expr& extent : buffer.shape) shape.push_back(int_value(extent));
    return element_count(shape) * byte_size(buffer.dtype);
  }

  /// A point begins where a block does and some block of the point before has ended.
  void number_points() {
    std::vector<ScratchBlock*> blocks;
    for (auto* list : {&out_.shared, &out_.worker})
      for (ScratchBlock& b : *list)
        if (b.begin < b.end) blocks.push_back(&b);
    std::sort(blocks.begin(), blocks.end(), [](auto* a, auto* b) { return a->begin < b->begin; });
    std::vector<int64_t> points;  // where each begins
    int64_t first_end = 0;        // of what the last point holds
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (points.empty() || blocks[i]->begin >= first_end) {
        points.push_back(blocks[i]->begin);
        first_end = blocks[i]->end;
        for (size_t k = 0; k < i; ++k)
          if (blocks[k]->end > points.back()) first_end = std::min(first_end, blocks[k]->end);
      }
      first_end = std::min(first_end, blocks[i]->end);
    }
    auto point_of = [&](int64_t count) { return std::upper_bound(points.begin(), points.end(), count) - points.begin() - 1; };
    for (ScratchBlock* b : blocks) *b = {b->name, b->bytes, point_of(b->begin), point_of(b->end - 1) + 1, 0};
    out_.points = std::max<int64_t>(1, static_cast<int64_t>(points.size()));
  }

  /// Each block at the lowest offset that is free all the time; returns the bytes of all.
  static int64_t place(std::vector<ScratchBlock>& blocks) {
    int64_t all = 0;
    for (size_t i = 0; i < blocks.size(); ++i) {
      ScratchBlock& b = blocks[i];
      std::vector<std::pair<int64_t, int64_t>> taken;
      for (size_t k = 0; k < i; ++k)
        if (blocks[k].begin < b.end && b.begin < blocks[k].end) taken.emplace_back(blocks[k].offset, blocks[k].bytes);
      std::sort(taken.begin(), taken.end());
      for (auto [offset, bytes] : taken) {
        if (b.offset + b.bytes <= offset) break;
        b.offset = std::max(b.offset, offset + bytes);
      }
      if (b.begin < b.end) all = std::max(all, b.offset + b.bytes);
    }
    return all;
  }

  const PrimFunc& function_;
  Scratch out_;
  std::unordered_map<std::string_view, Open> open_;
  int64_t count_ = 0;   // of accesses
  int on_workers_ = 0;  // loops around that run on workers
};

}  // namespace

bool runs_on_workers(const For& loop) {
  switch (loop.loop_kind) {
    case ForKind::Parallel:
    case ForKind::BlockX:
    case ForKind::BlockY:
    case ForKind::BlockZ: break;
    default: return false;
  }
  const int64_t* extent = as_int(loop.extent);
  return !extent || *extent > 1;
}

const ScratchBlock* Scratch::worker_block(std::string_view buffer) const {
  auto found = std::find_if(worker.begin(), worker.end(), [&](const ScratchBlock& b) { return b.name == buffer; });
  return found == worker.end() ? nullptr : &*found;
}

size_t Scratch::shared_index(std::string_view buffer) const {
  auto found = std::find_if(shared.begin(), shared.end(), [&](const ScratchBlock& b) { return b.name == buffer; });
  check(found != shared.end(), "an allocation that is no worker's is shared");
  return static_cast<size_t>(found - shared.begin());
}

Scratch scratch_of(const PrimFunc& function) { return Walk(function).run(); }

Scratch opaque_scratch(int64_t shared_bytes, int64_t worker_bytes) {
  Scratch scratch{.shared_bytes = aligned(shared_bytes), .worker_bytes = aligned(worker_bytes)};
  if (shared_bytes > 0) scratch.shared.push_back({.name = "scratch", .bytes = scratch.shared_bytes, .end = 1});
  return scratch;
}

}  // namespace tenon::tir
