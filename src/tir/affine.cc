// SPDX-License-Identifier: Apache-2.0
// Affine forms and range-based simplification of index expressions.
#include "tir/affine.h"

#include <algorithm>
#include <limits>

namespace tenon::tir {
namespace {

/// No index in practice comes near; beyond it bounds are given up so that the arithmetic below cannot wrap.
constexpr int64_t kFar = int64_t{1} << 60;

void add_term(Affine& out, const Expr& e, int64_t coefficient) {
  for (auto it = out.terms.begin(); it != out.terms.end(); ++it) {
    if (!structural_equal(it->expr, e)) continue;
    it->coefficient += coefficient;
    if (it->coefficient == 0) out.terms.erase(it);
    return;
  }
  if (out.terms.empty()) out.terms.reserve(4);
  if (coefficient != 0) out.terms.push_back({e, coefficient});
}

void collect(const Expr& e, int64_t scale, Affine& out) {
  if (scale == 0) return;
  if (const int64_t* k = as_int(e)) {
    out.constant += scale * *k;
    return;
  }
  if (const Binary* b = as<Binary>(e)) {
    if (b->op == BinaryOp::Add || b->op == BinaryOp::Sub) {
      collect(b->a, scale, out);
      collect(b->b, b->op == BinaryOp::Add ? scale : -scale, out);
      return;
    }
    if (b->op == BinaryOp::Mul) {
      if (const int64_t* k = as_int(b->b)) return collect(b->a, scale * *k, out);
      if (const int64_t* k = as_int(b->a)) return collect(b->b, scale * *k, out);
    }
  }
  add_term(out, e, scale);
}

std::optional<Range> bounded(int64_t low, int64_t high) {
  if (low < -kFar || high > kFar) return std::nullopt;
  return Range{low, high};
}

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

std::optional<Range> product(Range a, int64_t k) {
  auto times = [&](int64_t x) { return static_cast<__int128>(x) * k; };
  __int128 low = std::min(times(a.low), times(a.high)), high = std::max(times(a.low), times(a.high));
  if (low < -kFar || high > kFar) return std::nullopt;
  return Range{static_cast<int64_t>(low), static_cast<int64_t>(high)};
}

/// Splits an affine form by a divisor: the part whose coefficients it divides (already divided), and the rest.
void split_by(const Affine& sum, int64_t divisor, Affine& quotient, Affine& rest) {
  for (const Affine::Term& t : sum.terms) {
    if (t.coefficient % divisor == 0)
      quotient.terms.push_back({t.expr, t.coefficient / divisor});
    else
      rest.terms.push_back(t);
  }
  quotient.constant = floor_div(sum.constant, divisor);
  rest.constant = sum.constant - quotient.constant * divisor;
}

/// floordiv or floormod by a positive constant.
Expr simplify_division(const Binary& b, const Expr& a, int64_t divisor, const Ranges& ranges) {
  Affine quotient, rest;
  split_by(affine(a), divisor, quotient, rest);
  Expr remainder = rest.expr();
  std::optional<Range> r = range_of(remainder, ranges);
  bool fits = r && floor_div(r->low, divisor) == floor_div(r->high, divisor);
  int64_t whole = fits ? floor_div(r->low, divisor) : 0;
  if (b.op == BinaryOp::FloorDiv) {
    if (fits) return quotient.expr() + Expr(whole);
    if (quotient.terms.empty() && quotient.constant == 0) {
      // (x // m) // n -> x // (m * n)
      const Binary* inner = as<Binary>(a);
      const int64_t* m = inner && inner->op == BinaryOp::FloorDiv ? as_int(inner->b) : nullptr;
      if (m && *m > 0) return simplify(floordiv(inner->a, Expr(*m * divisor)), ranges);
      return floordiv(a, Expr(divisor));
    }
    return quotient.expr() + floordiv(remainder, Expr(divisor));
  }
  if (fits) return remainder - Expr(whole * divisor);
  return floormod(remainder, Expr(divisor));
}

/// floordiv(y, b) * k * b + floormod(y, b) * k -> y * k, until nothing combines: what a reshape leaves behind.
void recombine(Affine& sum, const Ranges& ranges) {
  for (size_t i = 0; i < sum.terms.size(); ++i) {
    const Binary* mod = as<Binary>(sum.terms[i].expr);
    const int64_t* known = mod && mod->op == BinaryOp::FloorMod ? as_int(mod->b) : nullptr;
    if (!known || *known <= 0) continue;
    int64_t divisor = *known;  // the term, and with it `known`, goes away below
    Expr dividend = mod->a;
    Expr quotient = simplify(floordiv(dividend, Expr(divisor)), ranges);
    int64_t coefficient = sum.terms[i].coefficient;
    Affine whole = affine(quotient);
    bool present = whole.constant == 0 && !whole.terms.empty();
    for (const Affine::Term& t : whole.terms) {
      auto found = std::find_if(sum.terms.begin(), sum.terms.end(),
                                [&](const Affine::Term& s) { return structural_equal(s.expr, t.expr); });
      present &= found != sum.terms.end() && found->coefficient == coefficient * divisor * t.coefficient;
    }
    if (!present) continue;
    sum.terms.erase(sum.terms.begin() + static_cast<std::ptrdiff_t>(i));
    for (const Affine::Term& t : whole.terms) add_term(sum, t.expr, -coefficient * divisor * t.coefficient);
    collect(dividend, coefficient, sum);
    i = static_cast<size_t>(-1);
  }
}

std::optional<bool> decide(BinaryOp op, const Expr& a, const Expr& b, const Ranges& ranges) {
  std::optional<Range> d = range_of(affine(a - b).expr(), ranges);
  if (!d) return std::nullopt;
  switch (op) {
    case BinaryOp::Lt:
      if (d->high < 0) return true;
      if (d->low >= 0) return false;
      return std::nullopt;
    case BinaryOp::Le:
      if (d->high <= 0) return true;
      if (d->low > 0) return false;
      return std::nullopt;
    case BinaryOp::Eq:
    case BinaryOp::Ne:
      if (d->low == 0 && d->high == 0) return op == BinaryOp::Eq;
      if (d->low > 0 || d->high < 0) return op == BinaryOp::Ne;
      return std::nullopt;
    default: return std::nullopt;
  }
}

Expr simplify_binary(const Expr& e, const Ranges& ranges) {
  const Binary* b = as<Binary>(e);
  if (b->a->dtype != DType::I64) return e;
  switch (b->op) {
    case BinaryOp::FloorDiv:
    case BinaryOp::FloorMod: {
      const int64_t* k = as_int(b->b);
      return k && *k > 0 ? simplify_division(*b, b->a, *k, ranges) : e;
    }
    case BinaryOp::Min:
    case BinaryOp::Max: {
      std::optional<bool> a_first = decide(BinaryOp::Le, b->a, b->b, ranges);
      std::optional<bool> b_first = decide(BinaryOp::Le, b->b, b->a, ranges);
      bool is_min = b->op == BinaryOp::Min;
      if (a_first && *a_first) return is_min ? b->a : b->b;
      if (b_first && *b_first) return is_min ? b->b : b->a;
      return e;
    }
    case BinaryOp::Lt:
    case BinaryOp::Le:
    case BinaryOp::Eq:
    case BinaryOp::Ne: {
      std::optional<bool> known = decide(b->op, b->a, b->b, ranges);
      return known ? bool_imm(*known) : e;
    }
    case BinaryOp::Mul: {  // of factors that were no numbers before
      Affine sum = affine(e);
      recombine(sum, ranges);
      return sum.expr();
    }
    default: return e;
  }
}

bool is_sum(const Binary& b) {
  bool scaled = b.op == BinaryOp::Mul && (as_int(b.a) || as_int(b.b));
  return b.a->dtype == DType::I64 && (b.op == BinaryOp::Add || b.op == BinaryOp::Sub || scaled);
}

/// As `collect`, of an expression whose terms are simplified on the way.
void collect_simplified(const Expr& e, int64_t scale, const Ranges& ranges, Affine& out) {
  const Binary* b = as<Binary>(e);
  if (!b || !is_sum(*b)) return collect(simplify(e, ranges), scale, out);
  if (b->op == BinaryOp::Mul) {
    const int64_t* k = as_int(b->b);
    return k ? collect_simplified(b->a, scale * *k, ranges, out) : collect_simplified(b->b, scale * *as_int(b->a), ranges, out);
  }
  collect_simplified(b->a, scale, ranges, out);
  collect_simplified(b->b, b->op == BinaryOp::Add ? scale : -scale, ranges, out);
}

}  // namespace

int64_t Affine::coefficient(Name var) const {
  for (const Term& t : terms) {
    const Var* v = as<Var>(t.expr);
    if (v && v->name_hash == var.hash && v->name == var.text) return t.coefficient;
  }
  return 0;
}

bool Affine::uses_opaquely(Name var) const {
  return std::any_of(terms.begin(), terms.end(), [&](const Term& t) { return !as<Var>(t.expr) && uses(t.expr, var); });
}

Expr Affine::expr() const {
  Expr sum;
  for (const Term& t : terms) {
    Expr scaled = t.coefficient == 1 ? t.expr : t.expr * Expr(t.coefficient);
    sum = sum ? sum + scaled : scaled;
  }
  if (!sum) return {constant};
  return constant == 0 ? sum : sum + Expr(constant);
}

Affine affine(const Expr& e) {
  Affine out;
  collect(e, 1, out);
  return out;
}

std::optional<Range> range_of(const Expr& e, const Ranges& ranges) {
  if (e->dtype != DType::I64) return std::nullopt;
  if (const int64_t* k = as_int(e)) return bounded(*k, *k);
  if (const Var* v = as<Var>(e)) {
    auto it = ranges.find(v->key());
    return it == ranges.end() ? std::nullopt : bounded(it->second.low, it->second.high);
  }
  const Binary* b = as<Binary>(e);
  if (!b) {
    const Select* s = as<Select>(e);
    if (!s) return std::nullopt;
    auto x = range_of(s->a, ranges), y = range_of(s->b, ranges);
    if (!x || !y) return std::nullopt;
    return Range{std::min(x->low, y->low), std::max(x->high, y->high)};
  }
  auto x = range_of(b->a, ranges), y = range_of(b->b, ranges);
  const int64_t* k = as_int(b->b);
  if (b->op == BinaryOp::FloorMod && k && *k > 0) {
    if (x && x->low >= 0 && x->high < *k) return x;
    return Range{0, *k - 1};
  }
  if (!x || !y) return std::nullopt;
  switch (b->op) {
    case BinaryOp::Add: return bounded(x->low + y->low, x->high + y->high);
    case BinaryOp::Sub: return bounded(x->low - y->high, x->high - y->low);
    case BinaryOp::Mul:
      if (k) return product(*x, *k);
      if (const int64_t* ka = as_int(b->a)) return product(*y, *ka);
      return std::nullopt;
    case BinaryOp::FloorDiv:
      if (!k || *k <= 0) return std::nullopt;
      return Range{floor_div(x->low, *k), floor_div(x->high, *k)};
    case BinaryOp::Min: return Range{std::min(x->low, y->low), std::min(x->high, y->high)};
    case BinaryOp::Max: return Range{std::max(x->low, y->low), std::max(x->high, y->high)};
    default: return std::nullopt;
  }
}

Expr simplify_sum(std::span<const Expr> terms, std::span<const int64_t> factors, const Ranges& ranges) {
  size_t left = 0, last = 0;
  for (size_t i = 0; i < terms.size(); ++i)
    if (const int64_t* k = as_int(terms[i]); factors[i] != 0 && !(k && *k == 0)) ++left, last = i;
  if (left == 1 && factors[last] == 1) return simplify(terms[last], ranges);
  Affine sum;
  sum.terms.reserve(2 * left);
  for (size_t i = 0; i < terms.size(); ++i) collect_simplified(terms[i], factors[i], ranges, sum);
  recombine(sum, ranges);
  return sum.expr();
}

Expr simplify(const Expr& e, const Ranges& ranges) {
  if (const Var* v = as<Var>(e)) {
    auto it = ranges.find(v->key());
    return e->dtype == DType::I64 && it != ranges.end() && it->second.low == it->second.high ? Expr(it->second.low) : e;
  }
  if (const Binary* b = as<Binary>(e); b && is_sum(*b)) {
    Affine sum;
    collect_simplified(e, 1, ranges, sum);
    recombine(sum, ranges);
    return sum.expr();
  }
  Expr mapped = map_children(e, [&](const Expr& child) { return simplify(child, ranges); });
  return as<Binary>(mapped) ? simplify_binary(mapped, ranges) : mapped;
}

}  // namespace tenon::tir
