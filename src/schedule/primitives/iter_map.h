// SPDX-License-Identifier: Apache-2.0
// Which loop variables the values of index expressions give away: the test behind every claim that iterations are distinct.
//
// Expressions are sums of scaled digits, as in a number of mixed radix. A digit is `(source // lower) % extent` of a loop
// variable or of a sum that is itself such a number. A guard `x < n` on a sum makes that sum a source of extent n. This is
// the quasi-affine iteration map of TensorIR (Feng et al., ASPLOS 2023, section 3.3).
#pragma once

#include <set>
#include <string>
#include <vector>

#include "schedule/primitives/place.h"

namespace tenon::schedule {

/// A variable over [0, extent).
struct Extent {
  std::string name;
  int64_t extent = 1;
};
/// The variables that vary and the conditions that hold. Other variables are fixed.
struct Domain {
  std::vector<Extent> vars;
  std::vector<Expr> guards;
};
/// The loops around a block at or inside a statement (all of them without one).
Domain domain_around(const BlockPlace& place, const Stmt& within = {});

/// The variables that have one value for each tuple of the expressions' values (those of extent 1 included).
/// Sound but not complete: a variable may be missing because an expression is no such sum.
std::set<std::string> determined(const std::vector<Expr>& values, const Domain& domain);
/// Whether distinct points of the domain give distinct tuples.
bool injective(const std::vector<Expr>& values, const Domain& domain);
/// Whether the domain's points give each tuple of [0, extents) exactly once.
bool bijective(const std::vector<Expr>& values, const std::vector<int64_t>& extents, const Domain& domain);
/// Whether the tuples are a whole box, [base, base + extent) on each axis, for each value of the other variables.
bool dense(const std::vector<Expr>& values, const std::vector<int64_t>& extents, const Domain& domain);

}  // namespace tenon::schedule
