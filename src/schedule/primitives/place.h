// SPDX-License-Identifier: Apache-2.0
// Where the loops, blocks and buffers of a function stand, how they are found by name, and how a step is refused.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tir/affine.h"
#include "tir/stmt.h"

namespace tenon::schedule {

using tir::Buffer;
using tir::Expr;
using tir::PrimFunc;
using tir::Stmt;

/// What a refused step saw and what it needs; the caller adds the function and the line.
struct Refusal {
  std::string message, expected, found, hint;
};
/// Throws CompileError: the step is not legal here.
[[noreturn]] void fail_step(std::string code, Refusal refusal);

/// Refuses a name that none of the blocks has (`schedule-no-block`).
[[noreturn]] void fail_no_block(std::string_view name, std::span<const std::string_view> blocks);

std::string_view var_name(const Expr& variable);

/// A statement with the statements around it, outermost first.
struct Place {
  Stmt stmt;
  std::vector<Stmt> around;

  bool inside(const Stmt& s) const;
  /// The loops around it, outermost first; with `within`, only those at or inside that statement.
  std::vector<const tir::For*> loops(const Stmt& within = {}) const;
  /// The conditions around it, split at `&&`; with `within`, only those inside that statement.
  std::vector<Expr> guards(const Stmt& within = {}) const;
};

struct BlockPlace : Place {
  const tir::Block* block = nullptr;
  /// The block's variables in terms of the loops around it.
  tir::VarMap bindings() const;
};

/// An index of a function's body. Statements are identified by their node, so it is valid for this function only.
class Program {
 public:
  /// Refuses a function with stores outside blocks, or with loops that do not start at 0 or have no positive number as
  /// extent: steps would not see what it does.
  explicit Program(const PrimFunc& func);

  const PrimFunc& func() const { return func_; }
  /// Outermost blocks in order of execution.
  const std::vector<BlockPlace>& blocks() const { return blocks_; }
  const BlockPlace& block(std::string_view name) const;
  /// Loops outside blocks, in order of execution.
  const std::vector<Place>& loops() const { return loops_; }
  /// `i` where only one loop has that variable, or `conv.i`: the one around block `conv`.
  const Place& loop(std::string_view name) const;
  /// The shortest name that finds this loop.
  std::string loop_name(const tir::For& loop) const;
  Buffer buffer(std::string_view name) const;
  bool is_param(const Buffer& buffer) const;
  /// The declaration of a buffer that is no parameter.
  const Place& declaration(const Buffer& buffer) const;
  std::vector<const BlockPlace*> writers(const Buffer& buffer) const;
  std::vector<const BlockPlace*> readers(const Buffer& buffer) const;
  std::vector<const BlockPlace*> blocks_in(const Stmt& s) const;
  /// The position of a statement outside blocks in a walk of the body, parents first.
  size_t order(const Stmt& s) const { return orders_.at(s.get()); }
  /// The ranges of every loop variable.
  const tir::Ranges& ranges() const { return ranges_; }

 private:
  void index(const Stmt& s, std::vector<Stmt>& around);
  const PrimFunc& func_;
  std::vector<BlockPlace> blocks_;
  std::vector<Place> loops_, declarations_;
  tir::Ranges ranges_;
  std::unordered_map<const tir::StmtNode*, size_t> orders_;
};

int64_t extent_of(const tir::For& loop);
/// Whether iterations run on several workers at once, each with local memory of its own.
bool runs_on_workers(tir::ForKind kind);
bool writes(const tir::Block& block, const Buffer& buffer);
bool reads(const tir::Block& block, const Buffer& buffer);
/// The buffers that are written under a statement and declared outside it, by name.
std::vector<Buffer> shared_written(const Program& program, const Stmt& s);

/// `root` with one statement replaced; a null replacement removes it with the loops and branches it leaves empty.
Stmt replace(const Stmt& root, const Stmt& old, const Stmt& with);
/// `root` with one statement replaced by several, in its Seq if it stands in one, else in a new one.
Stmt splice(const Stmt& root, const Stmt& old, const std::vector<Stmt>& with);
/// The loops `vars` with these extents around a body, outermost first.
struct Axis {
  Expr var;
  int64_t extent = 1;
};
Stmt nest(const std::vector<Axis>& axes, Stmt body);
/// All of the conditions; null for none.
Expr conjunction(const std::vector<Expr>& conditions);
/// Puts a condition around every block of a statement, inside its loops, so that these stay directly nested.
Stmt guard(const Expr& condition, const Stmt& s);
/// The function with another body.
PrimFunc with_body(const PrimFunc& func, Stmt body);
/// The given name if it is free, or a fresh one like `base` if it is empty.
std::string new_name(const PrimFunc& func, std::string_view wanted, std::string_view base);

}  // namespace tenon::schedule
