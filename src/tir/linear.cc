// SPDX-License-Identifier: Apache-2.0
// Splitting index expressions into terms, and interval arithmetic on them.
#include "tir/linear.h"

#include <algorithm>

namespace tenon::tir {
namespace {

int64_t clamp(__int128 value) {
  return static_cast<int64_t>(std::clamp(value, static_cast<__int128>(INT64_MIN), static_cast<__int128>(INT64_MAX)));
}

/// An end of an interval times a factor; an unbounded end stays unbounded.
int64_t scaled_end(int64_t end, int64_t factor) {
  if (factor == 0) return 0;
  return clamp(static_cast<__int128>(end) * factor);
}

/// Sum of two lower (or two upper) ends: unbounded if either is.
int64_t sum_of_ends(int64_t a, int64_t b, int64_t unbounded) {
  return a == unbounded || b == unbounded ? unbounded : clamp(static_cast<__int128>(a) + b);
}

Interval sum(Interval a, Interval b) { return {sum_of_ends(a.min, b.min, INT64_MIN), sum_of_ends(a.max, b.max, INT64_MAX)}; }

Interval scaled(Interval a, int64_t factor) {
  Interval out{scaled_end(a.min, factor), scaled_end(a.max, factor)};
  if (factor >= 0) return out;
  // A saturated end times -1 lands one short of the other end of i64.
  return {a.max == INT64_MAX ? INT64_MIN : out.max, a.min == INT64_MIN ? INT64_MAX : out.min};
}

Interval product(Interval a, Interval b) {
  int64_t ends[] = {scaled_end(a.min, b.min), scaled_end(a.min, b.max), scaled_end(a.max, b.min), scaled_end(a.max, b.max)};
  return {*std::ranges::min_element(ends), *std::ranges::max_element(ends)};
}

int64_t floor_quotient(int64_t a, int64_t positive) {
  int64_t q = a / positive;
  return q * positive > a ? q - 1 : q;
}

Interval divided(Interval a, int64_t divisor) {
  return {a.min == INT64_MIN ? INT64_MIN : floor_quotient(a.min, divisor),
          a.max == INT64_MAX ? INT64_MAX : floor_quotient(a.max, divisor)};
}

Interval interval_of_binary(const Binary& n, VarIntervals vars) {
  Interval a = interval_of(n.a, vars), b = interval_of(n.b, vars);
  const int64_t* k = as_int(n.b);
  bool floor_like = k && *k > 0 && (n.op == BinaryOp::FloorDiv || n.op == BinaryOp::FloorMod || a.min >= 0);
  switch (n.op) {
    case BinaryOp::Add: return sum(a, b);
    case BinaryOp::Sub: return sum(a, scaled(b, -1));
    case BinaryOp::Mul:
      if (k) return scaled(a, *k);
      return a.bounded() && b.bounded() ? product(a, b) : Interval{};
    case BinaryOp::Div:
    case BinaryOp::FloorDiv: return floor_like ? divided(a, *k) : Interval{};
    case BinaryOp::TruncMod:
    case BinaryOp::FloorMod:
      if (!floor_like) return {};
      return a.within(0, *k - 1) ? a : Interval{0, *k - 1};
    case BinaryOp::Min: return {std::min(a.min, b.min), std::min(a.max, b.max)};
    case BinaryOp::Max: return {std::max(a.min, b.min), std::max(a.max, b.max)};
    default: return {};
  }
}

Interval of_dtype(DType dtype) {
  if (dtype == DType::Bool) return {0, 1};
  if (!is_integer(dtype) || bit_width(dtype) > 32) return {};
  int bits = bit_width(dtype);
  return is_signed_integer(dtype) ? Interval{-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1}
                                  : Interval{0, (int64_t{1} << bits) - 1};
}

/// A division or remainder by a positive constant, parted: what the divisor divides, and the rest.
struct Parts {
  Linear quotient, rest;
};
Parts parts(const Linear& dividend, int64_t divisor) {
  Parts out;
  out.quotient.constant = floor_quotient(dividend.constant, divisor);
  out.rest.constant = dividend.constant - out.quotient.constant * divisor;
  for (const Linear::Term& t : dividend.terms) {
    if (t.coefficient % divisor == 0)
      out.quotient.terms.push_back({t.atom, t.coefficient / divisor});
    else
      out.rest.terms.push_back(t);
  }
  return out;
}

Linear atom(const Expr& e) {
  Linear out;
  out.add(e, 1);
  return out;
}

/// Of a - b; unbounded if either side is.
Interval interval_of_difference(const Linear& a, const Linear& b, VarIntervals vars) {
  if (!interval_of(a, vars).bounded() || !interval_of(b, vars).bounded()) return {};
  Linear difference = a;
  difference.add(b, -1);
  return interval_of(difference, vars);
}

Linear linear_of_division(BinaryOp op, const Linear& dividend, int64_t divisor, VarIntervals vars) {
  Parts split = parts(dividend, divisor);
  bool small = interval_of(split.rest, vars).within(0, divisor - 1);
  if (op == BinaryOp::FloorMod) {
    if (small) return split.rest;
    return atom(floormod(to_expr(split.rest), Expr(divisor)));
  }
  if (!small) split.quotient.add(floordiv(to_expr(split.rest), Expr(divisor)), 1);
  return split.quotient;
}

Linear linear_of_binary(const Expr& e, const Binary& n, VarIntervals vars) {
  switch (n.op) {
    case BinaryOp::Add:
    case BinaryOp::Sub: {
      Linear out = linear(n.a, vars);
      out.add(linear(n.b, vars), n.op == BinaryOp::Add ? 1 : -1);
      return out;
    }
    case BinaryOp::Mul: {
      Linear a = linear(n.a, vars), b = linear(n.b, vars);
      if (a.terms.empty()) std::swap(a, b);
      if (!b.terms.empty()) return atom(to_expr(a) * to_expr(b));
      Linear out;
      out.add(a, b.constant);
      return out;
    }
    case BinaryOp::Div:
    case BinaryOp::TruncMod:
    case BinaryOp::FloorDiv:
    case BinaryOp::FloorMod: {
      Linear a = linear(n.a, vars), b = linear(n.b, vars);
      Interval dividend = interval_of(a, vars);
      bool floor = n.op == BinaryOp::FloorDiv || n.op == BinaryOp::FloorMod || dividend.min >= 0;
      if (b.terms.empty() && b.constant > 0 && floor && dividend.bounded()) {
        bool quotient = n.op == BinaryOp::FloorDiv || n.op == BinaryOp::Div;
        return linear_of_division(quotient ? BinaryOp::FloorDiv : BinaryOp::FloorMod, a, b.constant, vars);
      }
      Expr rebuilt = binary(n.op, to_expr(a), to_expr(b));
      if (const int64_t* k = as_int(rebuilt)) return Linear{*k, {}};
      return atom(rebuilt);
    }
    case BinaryOp::Min:
    case BinaryOp::Max: {
      Linear a = linear(n.a, vars), b = linear(n.b, vars);
      Interval d = interval_of_difference(a, b, vars);
      if (d.max <= 0) return n.op == BinaryOp::Min ? a : b;
      if (d.min >= 0) return n.op == BinaryOp::Min ? b : a;
      return atom(binary(n.op, to_expr(a), to_expr(b)));
    }
    default: return atom(map_children(e, [&](const Expr& child) { return simplify(child, vars); }));
  }
}

/// 1 or 0 if the intervals decide a comparison of i64 values, else -1.
int decided(BinaryOp op, Interval d) {
  switch (op) {
    case BinaryOp::Lt: return d.max < 0 ? 1 : d.min >= 0 ? 0 : -1;
    case BinaryOp::Le: return d.max <= 0 ? 1 : d.min > 0 ? 0 : -1;
    case BinaryOp::Eq: return d.min == 0 && d.max == 0 ? 1 : d.min > 0 || d.max < 0 ? 0 : -1;
    case BinaryOp::Ne: return d.min == 0 && d.max == 0 ? 0 : d.min > 0 || d.max < 0 ? 1 : -1;
    default: return -1;
  }
}

}  // namespace

void Linear::add(const Expr& atom, int64_t coefficient) {
  if (coefficient == 0) return;
  auto it = std::ranges::find_if(terms, [&](const Term& t) { return structural_equal(t.atom, atom); });
  if (it == terms.end()) {
    terms.push_back({atom, coefficient});
    return;
  }
  it->coefficient += coefficient;
  if (it->coefficient == 0) terms.erase(it);
}

void Linear::add(const Linear& other, int64_t scale) {
  constant += other.constant * scale;
  for (const Term& t : other.terms) add(t.atom, t.coefficient * scale);
}

Linear linear(const Expr& e, VarIntervals vars) {
  check(e->dtype == DType::I64, "only i64 expressions are split into terms");
  if (const int64_t* k = as_int(e)) return Linear{*k, {}};
  if (const auto* n = as<Binary>(e)) return linear_of_binary(e, *n, vars);
  if (as<Var>(e)) return atom(e);
  Expr simple = map_children(e, [&](const Expr& child) { return simplify(child, vars); });
  if (!simple.same_as(e) && simple->kind != e->kind) return linear(simple, vars);
  return atom(simple);
}

Expr to_expr(const Linear& sum) {
  Expr out;
  for (const Linear::Term& t : sum.terms) {
    Expr term = t.atom * Expr(t.coefficient);
    out = out ? out + term : term;
  }
  if (!out) return Expr(sum.constant);
  return out + Expr(sum.constant);
}

Interval interval_of(const Linear& sum_of_terms, VarIntervals vars) {
  Interval out{sum_of_terms.constant, sum_of_terms.constant};
  for (const Linear::Term& t : sum_of_terms.terms) out = sum(out, scaled(interval_of(t.atom, vars), t.coefficient));
  return out;
}

Interval interval_of(const Expr& e, VarIntervals vars) {
  if (const int64_t* k = as_int(e)) return {*k, *k};
  if (const auto* n = as<Var>(e)) return vars(*n);
  if (e->dtype == DType::I64) {
    if (const auto* n = as<Binary>(e)) return interval_of_binary(*n, vars);
    if (const auto* n = as<Cast>(e); n && is_integer(n->value->dtype) && n->value->dtype != DType::U64)
      return interval_of(n->value, vars);
    if (const auto* n = as<Select>(e)) {
      Interval a = interval_of(n->a, vars), b = interval_of(n->b, vars);
      return {std::min(a.min, b.min), std::max(a.max, b.max)};
    }
  }
  return of_dtype(e->dtype);
}

Expr simplify(const Expr& e, VarIntervals vars) {
  const auto* n = as<Binary>(e);
  if (n && gives_bool(n->op) && n->a->dtype == DType::I64) {
    Linear a = linear(n->a, vars), b = linear(n->b, vars);
    int answer = decided(n->op, interval_of_difference(a, b, vars));
    return answer >= 0 ? bool_imm(answer == 1) : binary(n->op, to_expr(a), to_expr(b));
  }
  if (e->dtype == DType::I64) return to_expr(linear(e, vars));
  return map_children(e, [&](const Expr& child) { return simplify(child, vars); });
}

}  // namespace tenon::tir
