// SPDX-License-Identifier: Apache-2.0
// Index arithmetic: sums of scaled variables, value ranges, and the simplifications that both make exact.
#pragma once

#include <span>

#include "tir/stmt.h"

namespace tenon::tir {

/// Inclusive bounds of an i64 value.
struct Range {
  int64_t low = 0, high = 0;
};
using Ranges = NameMap<Range>;

/// sum(coefficient * term) + constant. A term is a variable or, where `opaque` says so, any other i64 expression.
struct Affine {
  struct Term {
    Expr expr;
    int64_t coefficient = 0;
  };
  std::vector<Term> terms;  // distinct expressions, no zero coefficients, in order of first appearance
  int64_t constant = 0;

  int64_t coefficient(Name var) const;
  /// Whether a variable occurs inside a term that is not itself a variable.
  bool uses_opaquely(Name var) const;
  Expr expr() const;
};

/// The affine form of an i64 expression; parts that are neither sums nor products with a constant become opaque terms.
Affine affine(const Expr& e);

/// Bounds of an i64 expression from its variables' ranges; nothing if unbounded or if the arithmetic could wrap.
std::optional<Range> range_of(const Expr& e, const Ranges& ranges);

/// Rewrites i64 and bool subexpressions to simpler ones of the same value for all variables in their ranges: affine sums are
/// collected, floordiv, floormod, min, max and comparisons are decided or split where the ranges allow, selects with a
/// decided condition vanish.
Expr simplify(const Expr& e, const Ranges& ranges);
/// The simplified sum of some i64 expressions times their factors, the first one first.
Expr simplify_sum(std::span<const Expr> terms, std::span<const int64_t> factors, const Ranges& ranges);

}  // namespace tenon::tir
