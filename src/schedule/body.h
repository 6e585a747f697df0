// SPDX-License-Identifier: Apache-2.0
// Turns stage values into straight-line statements over flat buffers, computing each inlined stage once for each index.
#pragma once

#include <unordered_map>

#include "schedule/stages.h"

namespace tenon::schedule {

/// Where the elements of each buffer lie: a rank-1 buffer in row-major order. A buffer that is local to one point of a
/// shared outer loop nest has its first `dropped` axes left out.
class Layout {
 public:
  /// Declares the flat form of a buffer; it keeps the name.
  Buffer add(const Buffer& buffer, tir::Scope scope, size_t dropped = 0);
  /// Gives a buffer another flat form (a packed parameter).
  void replace(const Buffer& buffer, const Buffer& flat) { entries_[buffer->name] = {flat, 0}; }
  Buffer flat(const Buffer& buffer) const;
  /// The index into the flat form.
  Expr index(const Buffer& buffer, const std::vector<Expr>& indices, const tir::Ranges& ranges) const;

 private:
  struct Entry {
    Buffer flat;
    size_t dropped = 0;
  };
  NameMap<Entry> entries_;
};

/// What every nest of one function shares while it is emitted.
struct Emission {
  const StageGraph& graph;
  const Decomposition& parts;
  Layout& layout;
  tir::NameSupply& names;
  tir::Ranges& ranges;  // of iteration variables and of the loop variables made so far
};

/// The statements that compute some values at one point.
class Body {
 public:
  explicit Body(Emission& emission) : emission_(emission) {}
  /// Values to use in place of a buffer's elements (a reduction's result held in a register).
  void bind(const Buffer& buffer, const Expr& value) { bound_[buffer->name] = value; }
  /// The value of a stage expression whose iteration variables stand as they are: loads of inlined stages become their
  /// values, other loads read flat buffers.
  Expr value(const Expr& e) { return expand(e, false); }
  /// The value of a stage's output at the given indices.
  Expr value_at(const Stage& stage, size_t output, const std::vector<Expr>& indices);
  void store(const Buffer& buffer, const std::vector<Expr>& indices, const Expr& value);
  std::vector<Stmt>& stmts() { return stmts_; }

 private:
  Expr expand(const Expr& e, bool guarded);
  Expr expand_load(const tir::Load& load, bool guarded);
  Emission& emission_;
  NameMap<Expr> bound_;
  std::unordered_map<Expr, Expr, tir::ExprHash, tir::ExprEqual> known_;
  std::vector<Stmt> stmts_;
};

/// Adjacent loops that walk memory as one: variables that every index uses only as coefficient * var, each outer one's
/// coefficient being the inner one's times its extent.
struct Merged {
  std::vector<Iter> iters;  // outermost first
  tir::VarMap replace;      // in those flat indices: an old variable as a new one, or 0 where its neighbour stands for both
  tir::VarMap digits;       // anywhere: an old variable as a digit of the new
};
/// Merges neighbours of `iters` for the flat indices in `stmts`; new variables get names and ranges.
Merged merge_iters(const std::vector<Iter>& iters, const std::vector<Stmt>& stmts, Emission& emission);

}  // namespace tenon::schedule
