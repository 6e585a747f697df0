// SPDX-License-Identifier: Apache-2.0
// Every kind of loop-IR statement, and the function that holds them.
//
// `Let`, `Allocate` and `AllocateConst` declare a name for the rest of the `Seq` they stand in, so a long chain of
// them is a flat list: nothing nests deeper than the loops do.
#pragma once

#include <map>
#include <optional>
#include <variant>

#include "base/array.h"
#include "tir/expr.h"

namespace tenon::tir {

enum class StmtKind : uint8_t { Seq, For, Block, Store, Prefetch, Let, If, Allocate, AllocateConst };

class Stmt;
struct StmtNode {
  StmtKind kind;
  mutable std::atomic<uint32_t> refs = 1;
};

/// A shared handle to an immutable statement, or null.
class Stmt {
 public:
  Stmt() noexcept = default;
  /// Takes over a node that nobody holds yet.
  static Stmt adopt(const StmtNode* node) noexcept { return Stmt(node); }
  Stmt(const Stmt& other) noexcept : node_(other.node_) { retain(); }
  Stmt(Stmt&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  Stmt& operator=(Stmt other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~Stmt() {
    if (node_ && release(node_->refs)) destroy(node_);
  }
  const StmtNode* get() const { return node_; }
  const StmtNode* operator->() const { return node_; }
  explicit operator bool() const { return node_ != nullptr; }
  bool same_as(const Stmt& other) const { return node_ == other.node_; }

 private:
  explicit Stmt(const StmtNode* node) noexcept : node_(node) {}
  void retain() noexcept {
    if (node_) node_->refs.fetch_add(1, std::memory_order_relaxed);
  }
  static void destroy(const StmtNode* node);
  const StmtNode* node_ = nullptr;
};

/// Runs its statements in order. Empty: does nothing.
struct Seq : StmtNode {
  static constexpr auto kKind = StmtKind::Seq;
  std::vector<Stmt> stmts;
};

enum class ForKind : uint8_t {
  Serial,
  Parallel,    // iterations are independent and may run on any worker
  Vectorized,  // iterations are independent; one per lane; the extent is a constant
  Unrolled,    // the extent is a constant
  // One iteration on each place of an axis of a device's launch grid; independent; the extent is a constant. The CPU runs blocks
  // as Parallel and threads in order.
  BlockX,
  BlockY,
  BlockZ,
  ThreadX,
  ThreadY,
  ThreadZ,
};
inline constexpr int kForKinds = 10;

bool is_block_axis(ForKind kind);
bool is_thread_axis(ForKind kind);

/// `for var in [min, min + extent)`. The variable is i64; an extent <= 0 runs nothing.
struct For : StmtNode {
  static constexpr auto kKind = StmtKind::For;
  Expr var;  // a Var
  Expr min, extent;
  ForKind loop_kind;
  Stmt body;
};

enum class IterKind : uint8_t { Spatial, Reduce };

/// A block's own variable: it ranges over [0, extent) and is bound to `binding`, an expression of the loop variables
/// around the block.
struct IterVar {
  Expr var;
  Expr extent;
  IterKind kind;
  Expr binding;
};

/// A box of a buffer: [min, min + extent) on each axis.
struct Region {
  Buffer buffer;
  std::vector<Expr> min, extent;
};

/// A unit of computation with its iteration domain. `init`, if any, runs instead of nothing before `body` at the first
/// point of the reduce domain (all Reduce variables 0); Spatial points are independent of each other. `reads` and
/// `writes` are boxes of the block's variables that cover what the body touches.
struct Block : StmtNode {
  static constexpr auto kKind = StmtKind::Block;
  std::string name;
  std::vector<IterVar> iters;
  std::vector<Region> reads, writes;
  Stmt init;  // null if none
  Stmt body;
};

struct Store : StmtNode {
  static constexpr auto kKind = StmtKind::Store;
  Buffer buffer;
  std::vector<Expr> indices;
  Expr value;
};

/// Brings the memory around an element near. It changes nothing, and the element may lie outside of the buffer.
struct Prefetch : StmtNode {
  static constexpr auto kKind = StmtKind::Prefetch;
  Buffer buffer;
  std::vector<Expr> indices;
};

/// Names a value for the rest of the enclosing Seq.
struct Let : StmtNode {
  static constexpr auto kKind = StmtKind::Let;
  Expr var;
  Expr value;
};

struct If : StmtNode {
  static constexpr auto kKind = StmtKind::If;
  Expr condition;
  Stmt then_case;
  Stmt else_case;  // null if none
};

/// Declares a buffer, uninitialised, for the rest of the enclosing Seq.
struct Allocate : StmtNode {
  static constexpr auto kKind = StmtKind::Allocate;
  Buffer buffer;
};

/// Declares a read-only buffer holding `data` for the rest of the enclosing Seq.
struct AllocateConst : StmtNode {
  static constexpr auto kKind = StmtKind::AllocateConst;
  Buffer buffer;
  Array data;
};

template <class T>
const T* as(const Stmt& s) {
  return s && s->kind == T::kKind ? static_cast<const T*>(s.get()) : nullptr;
}

// Builders; `seq` flattens nested Seqs that declare nothing and returns a lone statement as itself.
Stmt seq(std::vector<Stmt> stmts);
/// A Seq as it is, a scope of its own.
Stmt scoped(std::vector<Stmt> stmts);
Stmt for_loop(const Expr& var, const Expr& min, const Expr& extent, ForKind kind, const Stmt& body);
Stmt block(std::string name, std::vector<IterVar> iters, std::vector<Region> reads, std::vector<Region> writes, const Stmt& init,
           const Stmt& body);
Stmt store(const Buffer& buffer, std::vector<Expr> indices, const Expr& value);
Stmt prefetch(const Buffer& buffer, std::vector<Expr> indices);
Stmt let(const Expr& var, const Expr& value);
Stmt if_then(const Expr& condition, const Stmt& then_case, const Stmt& else_case = {});
Stmt allocate(const Buffer& buffer);
Stmt allocate_const(const Buffer& buffer, Array data);

using AttrValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>>;
using Attrs = std::map<std::string, AttrValue, std::less<>>;

/// A loop function. Parameters are buffers of scope Global: the first `num_inputs` are read, the rest are written.
/// They never overlap in memory, but an output may be an input's memory where link/in_place.h proves it safe. Attributes in
/// use: `target` (text), `scheduled` (bool).
struct PrimFunc {
  std::string name;
  std::vector<Buffer> params;
  int64_t num_inputs = 0;
  Attrs attrs;
  Stmt body;

  bool scheduled() const;
};

std::string_view name(ForKind kind);
std::string_view name(IterKind kind);

bool structural_equal(const Stmt& a, const Stmt& b);
bool structural_equal(const PrimFunc& a, const PrimFunc& b);

/// Calls the functions on each direct child statement and expression (bindings, extents, indices, values included).
void for_each_child(const Stmt& s, function_ref<void(const Stmt&)> on_stmt, function_ref<void(const Expr&)> on_expr);
/// Rebuilds `s` with its direct children mapped; returns `s` itself if none changed.
Stmt map_children(const Stmt& s, function_ref<Stmt(const Stmt&)> on_stmt, function_ref<Expr(const Expr&)> on_expr);

/// Every statement below and including `s`, parents first.
void visit(const Stmt& s, function_ref<void(const Stmt&)> f);
/// Every expression of a statement tree, or of an expression, parents first.
void visit_exprs(const Stmt& s, function_ref<void(const Expr&)> f);
void visit_exprs(const Expr& e, function_ref<void(const Expr&)> f);
/// Every load of an expression, parents first.
void visit_loads(const Expr& e, function_ref<void(const Load&)> f);

using VarMap = NameMap<Expr>;
using BufferMap = NameMap<Buffer>;
/// Replaces variables by name. Declarations are not renamed, so the map may not name a variable declared inside.
Expr substitute(const Expr& e, const VarMap& vars);
Stmt substitute(const Stmt& s, const VarMap& vars);
/// Replaces buffers by name wherever they are declared, read, written or listed in a region.
Expr replace_buffers(const Expr& e, const BufferMap& buffers);
Stmt replace_buffers(const Stmt& s, const BufferMap& buffers);

/// Hands out names that are unused in one function: `i`, `i_1`, `i_2`, …
class NameSupply {
 public:
  NameSupply() = default;
  /// Reserves every variable, buffer and block name of `function`.
  explicit NameSupply(const PrimFunc& function);
  void reserve(Name name) { used_.try_emplace(name, 0); }
  /// Characters outside [A-Za-z0-9_] become `_`.
  std::string fresh(std::string_view base);

 private:
  NameMap<int> used_;  // with the last number that was appended
};

}  // namespace tenon::tir
