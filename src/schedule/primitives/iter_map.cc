// SPDX-License-Identifier: Apache-2.0
// Digits of loop variables in index expressions.
#include "schedule/primitives/iter_map.h"

#include <algorithm>
#include <map>
#include <optional>

#include "tir/text.h"

namespace tenon::schedule {

using namespace tir;

namespace {

/// (source // lower) % extent
struct Digit {
  std::string source;
  int64_t lower = 1, extent = 1;
  bool operator==(const Digit&) const = default;
};

struct Term {
  int64_t coefficient = 1;
  Digit digit;
};

/// fixed + constant + sum(coefficient * digit), by coefficient from small to large.
struct Sum {
  std::vector<Term> terms;
  bool fixed = false;  // holds variables that are no loop of the domain
  int64_t constant = 0;

  /// Whether the sum is a number of mixed radix without gaps; `total` is one more than its largest value.
  bool compact(int64_t& total) const {
    total = 1;
    for (const Term& t : terms) {
      if (t.coefficient != total) return false;
      total *= t.digit.extent;
    }
    return constant == 0;
  }
  /// Whether each value belongs to one tuple of digits.
  bool unambiguous() const {
    int64_t below = 0;  // the largest sum of the terms so far
    for (const Term& t : terms) {
      int64_t scale = std::abs(t.coefficient);
      if (scale <= below) return false;
      below += scale * (t.digit.extent - 1);
    }
    return true;
  }
};

class DigitReader {
 public:
  explicit DigitReader(const Domain& domain) {
    for (const Extent& v : domain.vars) {
      ranges_[v.name] = {0, v.extent - 1};
      extents_[v.name] = v.extent;
    }
    for (const Expr& g : domain.guards) read_guard(g);
  }

  std::optional<Sum> read(const Expr& e) {
    Affine affine_form = affine(simplify(e, ranges_));
    Sum sum;
    sum.constant = affine_form.constant;
    for (const Affine::Term& t : affine_form.terms) {
      if (!uses_loops(t.expr)) {
        sum.fixed = true;
        continue;
      }
      std::optional<Digit> digit = read_digit(t.expr);
      if (!digit) return std::nullopt;
      if (digit->extent > 1) sum.terms.push_back({t.coefficient, *digit});
    }
    sort(sum);
    return grouped(std::move(sum));
  }

  int64_t extent(const std::string& source) const { return extents_.at(source); }
  const std::map<std::string, Sum>& sums() const { return sums_; }
  /// Whether every guard is one that a value's sum took into account or that always holds.
  bool guards_used() const { return opaque_guards_ == 0 && used_groups_.size() == groups_.size(); }

 private:
  static void sort(Sum& sum) {
    std::sort(sum.terms.begin(), sum.terms.end(), [](const Term& a, const Term& b) {
      return std::tuple(std::abs(a.coefficient), a.digit.source, a.digit.lower) <
             std::tuple(std::abs(b.coefficient), b.digit.source, b.digit.lower);
    });
  }

  bool uses_loops(const Expr& e) const {
    bool found = false;
    visit_exprs(e, [&](const Expr& x) {
      if (const Var* v = as<Var>(x)) found |= ranges_.contains(v->name);
    });
    return found;
  }

  std::optional<Digit> read_digit(const Expr& e) {
    if (const Var* v = as<Var>(e)) return Digit{v->name, 1, extents_.at(v->name)};
    const Binary* b = as<Binary>(e);
    const int64_t* k = b ? as_int(b->b) : nullptr;
    if (!k || *k <= 0 || (b->op != BinaryOp::FloorDiv && b->op != BinaryOp::FloorMod)) return std::nullopt;
    std::optional<Digit> of = read_source(b->a);
    if (!of) return std::nullopt;
    if (b->op == BinaryOp::FloorMod) {
      if (of->extent > *k && of->extent % *k != 0) return std::nullopt;
      return Digit{of->source, of->lower, std::min(of->extent, *k)};
    }
    bool top = of->lower * of->extent >= extents_.at(of->source);
    if (of->extent % *k != 0 && !top) return std::nullopt;
    return Digit{of->source, of->lower * *k, (of->extent + *k - 1) / *k};
  }

  /// What a division divides: one digit, or a whole sum as a source of its own.
  std::optional<Digit> read_source(const Expr& e) {
    std::optional<Sum> sum = read(e);
    int64_t total = 1;
    if (!sum || sum->fixed || !sum->compact(total)) return std::nullopt;
    if (sum->terms.size() == 1) return sum->terms[0].digit;
    return whole(*sum, total);
  }

  Digit whole(const Sum& sum, int64_t extent) {
    std::string key = "sum";
    for (const Term& t : sum.terms)
      key += ' ' + std::to_string(t.coefficient) + '*' + t.digit.source + '/' + std::to_string(t.digit.lower) + '%' +
             std::to_string(t.digit.extent);
    extents_[key] = extent;
    sums_[key] = sum;
    return {key, 1, extent};
  }

  void read_guard(const Expr& guard) {
    Expr simple = simplify(guard, ranges_);
    if (const int64_t* known = as_int(simple); known && *known) return;
    const Binary* b = as<Binary>(simple);
    const int64_t* limit = b ? as_int(b->b) : nullptr;
    bool upper = limit && (b->op == BinaryOp::Lt || b->op == BinaryOp::Le);
    std::optional<Sum> sum = upper ? read(b->a) : std::nullopt;
    int64_t total = 1, extent = upper ? *limit + (b->op == BinaryOp::Le) : 0;
    if (!sum || sum->fixed || !sum->compact(total) || extent < 1 || extent > total) {
      ++opaque_guards_;
      return;
    }
    groups_.emplace_back(*sum, whole(*sum, extent));
  }

  /// A sum with the terms of a guarded sum, all scaled alike, replaced by it.
  Sum grouped(Sum sum) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      const auto& [parts, digit] = groups_[g];
      auto find = [&](const Digit& d) {
        return std::find_if(sum.terms.begin(), sum.terms.end(), [&](const Term& t) { return t.digit == d; });
      };
      auto first = find(parts.terms[0].digit);
      if (first == sum.terms.end()) continue;
      int64_t scale = first->coefficient;
      bool all = std::all_of(parts.terms.begin(), parts.terms.end(), [&](const Term& p) {
        auto t = find(p.digit);
        return t != sum.terms.end() && t->coefficient == scale * p.coefficient;
      });
      if (!all) continue;
      for (const Term& p : parts.terms) sum.terms.erase(find(p.digit));
      sum.terms.push_back({scale, digit});
      sort(sum);
      used_groups_.insert(g);
    }
    return sum;
  }

  Ranges ranges_;
  std::map<std::string, int64_t> extents_;  // of loop variables and of sums
  std::map<std::string, Sum> sums_;         // sources that are sums
  std::vector<std::pair<Sum, Digit>> groups_;
  std::set<size_t> used_groups_;
  int opaque_guards_ = 0;
};

/// The digits known of each source.
using Known = std::map<std::string, std::vector<Digit>>;

/// Whether the digits together give the source's value; with `exactly`, no part of it twice.
bool covers(std::vector<Digit> digits, int64_t extent, bool exactly) {
  std::sort(digits.begin(), digits.end(), [](const Digit& a, const Digit& b) { return a.lower < b.lower; });
  int64_t known = 1;
  for (const Digit& d : digits) {
    if (exactly ? d.lower != known : d.lower > known) return false;
    known = std::max(known, d.lower * d.extent);
  }
  return known >= extent;
}

/// Adds what the sources that are sums tell once they are known, until nothing new comes. Returns the known sources.
std::set<std::string> close(Known& known, const DigitReader& reader, bool exactly) {
  std::set<std::string> done;
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [source, digits] : Known(known)) {
      if (done.contains(source) || !covers(digits, reader.extent(source), exactly)) continue;
      done.insert(source);
      changed = true;
      if (auto sum = reader.sums().find(source); sum != reader.sums().end())
        for (const Term& t : sum->second.terms) known[t.digit.source].push_back(t.digit);
    }
  }
  return done;
}

}  // namespace

Domain domain_around(const BlockPlace& place, const Stmt& within) {
  Domain out;
  for (const For* loop : place.loops(within)) out.vars.push_back({std::string(var_name(loop->var)), extent_of(*loop)});
  out.guards = place.guards(within);
  return out;
}

std::set<std::string> determined(const std::vector<Expr>& values, const Domain& domain) {
  DigitReader reader(domain);
  Known known;
  for (const Expr& e : values) {
    std::optional<Sum> sum = reader.read(e);
    if (!sum || !sum->unambiguous()) continue;
    for (const Term& t : sum->terms) known[t.digit.source].push_back(t.digit);
  }
  std::set<std::string> out = close(known, reader, false);
  for (const Extent& v : domain.vars)
    if (v.extent == 1) out.insert(v.name);
  return out;
}

bool injective(const std::vector<Expr>& values, const Domain& domain) {
  std::set<std::string> known = determined(values, domain);
  return std::all_of(domain.vars.begin(), domain.vars.end(), [&](const Extent& v) { return known.contains(v.name); });
}

bool bijective(const std::vector<Expr>& values, const std::vector<int64_t>& extents, const Domain& domain) {
  DigitReader reader(domain);
  Known known;
  for (size_t i = 0; i < values.size(); ++i) {
    std::optional<Sum> sum = reader.read(values[i]);
    int64_t total = 1;
    if (!sum || sum->fixed || !sum->compact(total) || total != extents[i]) return false;
    for (const Term& t : sum->terms) known[t.digit.source].push_back(t.digit);
  }
  std::set<std::string> done = close(known, reader, true);
  for (const auto& [source, digits] : known)
    if (!done.contains(source) || !covers(digits, reader.extent(source), true)) return false;
  for (const Extent& v : domain.vars)
    if (v.extent != 1 && !done.contains(v.name)) return false;
  return reader.guards_used();
}

bool dense(const std::vector<Expr>& values, const std::vector<int64_t>& extents, const Domain& domain) {
  DigitReader reader(domain);
  std::set<std::string> sources;
  for (size_t i = 0; i < values.size(); ++i) {
    std::optional<Sum> sum = reader.read(values[i]);
    if (!sum) return false;
    sum->constant = 0;
    int64_t total = 1;
    if (!sum->compact(total) || total != extents[i]) return false;
    for (const Term& t : sum->terms)
      if (!sources.insert(t.digit.source).second) return false;
  }
  return reader.guards_used();
}

}  // namespace tenon::schedule
