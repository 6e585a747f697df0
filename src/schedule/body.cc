// SPDX-License-Identifier: Apache-2.0
// Inlining with one computation for each index, flat addressing, and the merging of adjacent loops.
#include "schedule/body.h"

#include <algorithm>
#include <functional>

namespace tenon::schedule {

using namespace tir;

Buffer Layout::add(const Buffer& buffer, Scope scope, size_t dropped) {
  int64_t elements = 1;
  for (size_t i = dropped; i < buffer.rank(); ++i) elements *= int_value(buffer->shape[i]);
  Buffer flat(BufferData{buffer->name, buffer->dtype, {Expr(elements)}, {}, scope});
  entries_[buffer->name] = {flat, dropped};
  return flat;
}

Buffer Layout::flat(const Buffer& buffer) const {
  auto it = entries_.find(buffer->name);
  check(it != entries_.end(), "every buffer that a schedule touches has a flat form");
  return it->second.flat;
}

Expr Layout::index(const Buffer& buffer, const std::vector<Expr>& indices, const Ranges& ranges) const {
  auto it = entries_.find(buffer->name);
  check(it != entries_.end(), "every buffer that a schedule touches has a flat form");
  size_t first = it->second.dropped;
  std::vector<int64_t> strides(indices.size() - first, 1);
  for (size_t i = strides.size(); i-- > 1;) strides[i - 1] = strides[i] * int_value(buffer->shape[first + i]);
  return simplify_sum(std::span(indices).subspan(first), strides, ranges);
}

Expr Body::expand_load(const Load& load, bool guarded) {
  auto bound = bound_.find(load.buffer->name);
  if (bound != bound_.end()) return bound->second;
  std::vector<Expr> indices;
  indices.reserve(load.indices.size());
  for (const Expr& i : load.indices) indices.push_back(simplify(expand(i, guarded), emission_.ranges));
  size_t output = 0;
  const Stage* stage = emission_.graph.producer(load.buffer, &output);
  if (!stage || !emission_.parts.inlined.contains(stage->name))
    return tir::load(emission_.layout.flat(load.buffer), {emission_.layout.index(load.buffer, indices, emission_.ranges)});
  Expr key = tir::load(load.buffer, indices);
  auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  VarMap at;
  for (size_t i = 0; i < indices.size(); ++i) at[stage->spatial[i].name] = indices[i];
  Expr value = expand(substitute(stage->values[output], at), guarded);
  if (guarded) return value;
  if (!as<IntImm>(value) && !as<FloatImm>(value) && !as<Var>(value)) {
    Expr name = var(emission_.names.fresh(load.buffer->name + "_at"), value->dtype);
    stmts_.push_back(let(name, value));
    value = name;
  }
  known_[key] = value;
  return value;
}

Expr Body::expand(const Expr& e, bool guarded) {
  if (!contains(e, ExprKind::Load) && !contains(e, ExprKind::Select)) return e;
  if (const Load* l = as<Load>(e)) return expand_load(*l, guarded);
  if (const Select* s = as<Select>(e)) {
    Expr condition = simplify(expand(s->condition, guarded), emission_.ranges);
    if (const int64_t* known = as_int(condition)) return expand(*known ? s->a : s->b, guarded);
    return select(condition, expand(s->a, true), expand(s->b, true));
  }
  return map_children(e, [&](const Expr& child) { return expand(child, guarded); });
}

Expr Body::value_at(const Stage& stage, size_t output, const std::vector<Expr>& indices) {
  VarMap at;
  for (size_t i = 0; i < indices.size(); ++i) at[stage.spatial[i].name] = indices[i];
  return expand(substitute(stage.values[output], at), false);
}

void Body::store(const Buffer& buffer, const std::vector<Expr>& indices, const Expr& value) {
  stmts_.push_back(tir::store(emission_.layout.flat(buffer), {emission_.layout.index(buffer, indices, emission_.ranges)}, value));
}

namespace {

/// How each flat index uses each variable; `opaque` where one is used in any other way.
struct Walks {
  std::vector<std::vector<int64_t>> coefficients;  // per index expression, per variable
  std::vector<bool> opaque;                        // per variable
};

Walks walks_of(const std::vector<Iter>& iters, const std::vector<Stmt>& stmts) {
  Walks walks;
  walks.opaque.resize(iters.size());
  std::vector<Name> names(iters.size(), Name("", 0));
  uint64_t bits = 0;
  for (size_t i = 0; i < iters.size(); ++i) {
    names[i] = Name(iters[i].name);
    bits |= name_bit(names[i].hash);
  }
  auto add_index = [&](const Expr& index) {
    if ((index->names & bits) == 0) {
      walks.coefficients.emplace_back(iters.size());
      return;
    }
    Affine sum = affine(index);
    std::vector<int64_t> row(iters.size());
    for (size_t i = 0; i < iters.size(); ++i) {
      row[i] = sum.coefficient(names[i]);
      if (sum.uses_opaquely(names[i])) walks.opaque[i] = true;
    }
    walks.coefficients.push_back(std::move(row));
  };
  std::function<void(const Expr&)> scan = [&](const Expr& e) {
    if (const Load* l = as<Load>(e)) {
      for (const Expr& index : l->indices) {
        add_index(index);
        if (contains(index, ExprKind::Load))
          visit_exprs(index, [&](const Expr& x) {
            if (as<Load>(x)) scan(x);
          });
      }
      return;
    }
    if (!contains(e, ExprKind::Load) && (e->names & bits) == 0) return;
    if (const Var* v = as<Var>(e))
      for (size_t i = 0; i < iters.size(); ++i)
        if (iters[i].name == v->name) walks.opaque[i] = true;
    for_each_child(e, [&](const Expr& child) { scan(child); });
  };
  for (const Stmt& top : stmts)
    visit(top, [&](const Stmt& s) {
      if (const Store* st = as<Store>(s)) {
        for (const Expr& index : st->indices) add_index(index);
        scan(st->value);
      } else {
        for_each_child(s, [](const Stmt&) {}, [&](const Expr& e) { scan(e); });
      }
    });
  return walks;
}

}  // namespace

Merged merge_iters(const std::vector<Iter>& iters, const std::vector<Stmt>& stmts, Emission& emission) {
  bool several = std::count_if(iters.begin(), iters.end(), [](const Iter& i) { return i.extent != 1; }) > 1;
  Walks walks = several ? walks_of(iters, stmts) : Walks{};
  auto can_merge = [&](size_t outer, size_t inner, int64_t inner_extent) {
    if (walks.opaque[outer] || walks.opaque[inner]) return false;
    return std::all_of(walks.coefficients.begin(), walks.coefficients.end(),
                       [&](const auto& row) { return row[outer] == row[inner] * inner_extent; });
  };
  Merged out;
  for (size_t i = 0; i < iters.size();) {
    if (iters[i].extent == 1) {
      out.replace[iters[i].name] = out.digits[iters[i].name] = Expr(0);
      ++i;
      continue;
    }
    // Find the run [i, end] that merges with its last member as the innermost; unit axes in between do not matter.
    size_t last = i;
    int64_t extent = iters[i].extent;
    std::vector<size_t> run = {i};
    for (size_t j = i + 1; j < iters.size(); ++j) {
      if (iters[j].extent == 1) continue;
      if (!can_merge(last, j, iters[j].extent)) break;
      extent *= iters[j].extent;
      run.push_back(j);
      last = j;
    }
    Iter merged{iters[i].name, extent};
    if (run.size() > 1) {
      merged.name = emission.names.fresh(iters[i].name + "_" + iters[last].name);
      for (size_t j : run) out.replace[iters[j].name] = Expr(0);
      out.replace[iters[last].name] = merged.var();
    }
    Expr rest = merged.var();
    for (size_t k = run.size(); k-- > 0;) {
      const Iter& member = iters[run[k]];
      out.digits[member.name] = k == 0 ? rest : floormod(rest, Expr(member.extent));
      if (k > 0) rest = floordiv(rest, Expr(member.extent));
    }
    emission.ranges[merged.name] = {0, extent - 1};
    out.iters.push_back(merged);
    for (size_t j = i + 1; j < last; ++j)
      if (iters[j].extent == 1) out.replace[iters[j].name] = out.digits[iters[j].name] = Expr(0);
    i = last + 1;
  }
  return out;
}

}  // namespace tenon::schedule
