// SPDX-License-Identifier: Apache-2.0
// Index expressions as sums of constant multiples, and the values they can take.
//
// Only sums whose interval is bounded, and so do not wrap, are compared or divided here; i64 data keeps its meaning.
#pragma once

#include <vector>

#include "tir/expr.h"

namespace tenon::tir {

/// Both ends included; the ends of i64 mean unbounded.
struct Interval {
  int64_t min = INT64_MIN;
  int64_t max = INT64_MAX;
  bool within(int64_t low, int64_t high) const { return low <= min && max <= high; }
  bool bounded() const { return min != INT64_MIN && max != INT64_MAX; }
};

/// What a variable can be.
using VarIntervals = function_ref<Interval(const Var&)>;

/// `constant + Σ coefficient * atom`. Atoms are distinct expressions that are not sums or constant multiples themselves.
struct Linear {
  struct Term {
    Expr atom;
    int64_t coefficient;
  };
  int64_t constant = 0;
  std::vector<Term> terms;

  void add(const Expr& atom, int64_t coefficient);
  void add(const Linear& other, int64_t scale = 1);
};

/// Splits an i64 expression. Floor divisions and remainders by a constant shed the parts that are multiples of it:
/// `(8*i + j) floordiv 8` is `i` where j is within [0, 8).
Linear linear(const Expr& e, VarIntervals vars);
Expr to_expr(const Linear& sum);

Interval interval_of(const Expr& e, VarIntervals vars);
Interval interval_of(const Linear& sum, VarIntervals vars);

/// The expression with every i64 part rewritten through `linear`, and comparisons that the intervals decide replaced
/// by their answer.
Expr simplify(const Expr& e, VarIntervals vars);

}  // namespace tenon::tir
