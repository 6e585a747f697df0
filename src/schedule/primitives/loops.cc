// SPDX-License-Identifier: Apache-2.0
// Loop shapes: split, fuse, reorder, tile.
#include <fmt/format.h>

#include <algorithm>

#include "schedule/primitives/primitives.h"

namespace tenon::schedule::step {

using namespace tir;

namespace {

void require_serial(const For& loop, std::string_view step) {
  if (loop.loop_kind == ForKind::Serial) return;
  fail_step("schedule-loop-kind", {.message = fmt::format("loop `{}` is {}", var_name(loop.var), name(loop.loop_kind)),
                                   .expected = fmt::format("a serial loop for `{}`", step),
                                   .found = std::string(name(loop.loop_kind)),
                                   .hint = "change the shape of loops before their kind"});
}

/// Substitutes loop variables in a nest, and simplifies the bindings and conditions around its blocks.
Stmt rebind(const Stmt& s, const VarMap& vars, const Ranges& ranges) {
  if (const Block* b = as<Block>(s)) {
    std::vector<IterVar> iters = b->iters;
    for (IterVar& iter : iters) iter.binding = simplify(substitute(iter.binding, vars), ranges);
    auto regions = [&](std::vector<Region> list) {
      for (Region& r : list)
        for (Expr& e : r.min) e = substitute(e, vars);
      return list;
    };
    Stmt init = b->init ? substitute(b->init, vars) : b->init;
    return block(b->name, std::move(iters), regions(b->reads), regions(b->writes), init, substitute(b->body, vars));
  }
  return map_children(
      s, [&](const Stmt& child) { return rebind(child, vars, ranges); },
      [&](const Expr& e) { return simplify(substitute(e, vars), ranges); });
}

}  // namespace

PrimFunc split(const PrimFunc& func, std::string_view loop, int64_t factor, const std::string& outer, const std::string& inner) {
  Program program(func);
  const Stmt& old = program.loop(loop).stmt;
  const For& l = *as<For>(old);
  require_serial(l, "split");
  int64_t extent = extent_of(l);
  if (factor < 1 || factor > extent)
    fail_step("schedule-factor", {.message = fmt::format("loop `{}` cannot be split by {}", loop, factor),
                                  .expected = fmt::format("a factor from 1 to its extent, {}", extent),
                                  .found = std::to_string(factor)});
  int64_t count = (extent + factor - 1) / factor;
  Expr o = var(outer), i = var(inner), index = o * Expr(factor) + i;
  Ranges ranges = program.ranges();
  ranges[outer] = {0, count - 1};
  ranges[inner] = {0, factor - 1};
  Stmt body = rebind(l.body, {{std::string(var_name(l.var)), index}}, ranges);
  if (extent % factor != 0) body = guard(lt(index, Expr(extent)), body);
  return with_body(func, replace(func.body, old, nest({{o, count}, {i, factor}}, body)));
}

PrimFunc fuse(const PrimFunc& func, std::string_view outer, std::string_view inner, const std::string& into) {
  Program program(func);
  const Stmt& old = program.loop(outer).stmt;
  const For &o = *as<For>(old), &i = *as<For>(program.loop(inner).stmt);
  if (as<For>(o.body) != &i)
    fail_step("schedule-not-nested", {.message = fmt::format("`{}` is not the one statement in loop `{}`", inner, outer),
                                      .expected = "loops directly inside each other",
                                      .found = fmt::format("`{}` and `{}`", outer, inner),
                                      .hint = "reorder the loops first"});
  require_serial(o, "fuse");
  require_serial(i, "fuse");
  int64_t width = extent_of(i), extent = extent_of(o) * width;
  Expr f = var(into);
  Ranges ranges = program.ranges();
  ranges[into] = {0, extent - 1};
  VarMap vars{{std::string(var_name(o.var)), floordiv(f, Expr(width))}, {std::string(var_name(i.var)), floormod(f, Expr(width))}};
  return with_body(func, replace(func.body, old, nest({{f, extent}}, rebind(i.body, vars, ranges))));
}

namespace {

/// The directly nested loops from the outermost to the innermost of those named.
std::vector<const For*> chain_of(const Program& program, const std::vector<const Place*>& loops) {
  const Place* first = *std::min_element(loops.begin(), loops.end(), [&](const Place* a, const Place* b) {
    return program.order(a->stmt) < program.order(b->stmt);
  });
  std::vector<const For*> chain;
  size_t found = 0;
  for (const For* l = as<For>(first->stmt); l; l = as<For>(l->body)) {
    chain.push_back(l);
    found += std::any_of(loops.begin(), loops.end(), [&](const Place* p) { return as<For>(p->stmt) == l; });
    if (found == loops.size()) return chain;
  }
  fail_step("schedule-not-nested", {.message = "the loops are not directly inside each other",
                                    .expected = "a chain of loops with nothing between them",
                                    .found = fmt::format("`{}` at the outside", var_name(as<For>(first->stmt)->var)),
                                    .hint = "reorder before a block is computed inside these loops"});
}

/// Whether the loops of one kind keep their order.
bool keeps_order(const std::vector<const For*>& before, const std::vector<const For*>& after, const std::set<std::string>& of) {
  auto filtered = [&](std::vector<const For*> list) {
    std::erase_if(list, [&](const For* l) { return !of.contains(std::string(var_name(l->var))); });
    return list;
  };
  return filtered(before) == filtered(after);
}

/// Refuses an order in which an updating block would not meet the points of each of its elements as before.
void require_update_order(const BlockPlace& place, const Stmt& outermost, const std::vector<const For*>& before,
                          const std::vector<const For*>& after) {
  const Block& b = *place.block;
  std::set<std::string> reduce = bound_loops(b, IterKind::Reduce);
  std::vector<Expr> bindings;
  for (const IterVar& iter : b.iters) bindings.push_back(iter.binding);
  Domain domain = domain_around(place, outermost);
  bool whole = !b.init || meets_whole(place, IterKind::Reduce);
  if (!whole || !injective(bindings, domain))
    fail_step("schedule-binding", {.message = fmt::format("the loops do not run each point of `{}` once", b.name),
                                   .expected = "block variables that are sums of distinct loops, spatial and reduce apart",
                                   .found = "another binding, or a loop that the block does not follow"});
  if (keeps_order(before, after, reduce) || combiner(b)) return;
  fail_step("schedule-not-commutative",
            {.message = fmt::format("`{}` depends on the order of its reduce points", b.name),
             .expected = "one of + * min max && || & | ^ with a new value for each output, or reduce loops that keep their order",
             .found = "another update"});
}

}  // namespace

PrimFunc reorder(const PrimFunc& func, const Names& names) {
  Program program(func);
  std::vector<const Place*> loops;
  for (const std::string& name : names) {
    loops.push_back(&program.loop(name));
    if (std::count(loops.begin(), loops.end(), loops.back()) > 1)
      fail_step("schedule-not-nested",
                {.message = fmt::format("loop `{}` is given twice", name), .expected = "different loops", .found = name});
  }
  std::vector<const For*> before = chain_of(program, loops), after = before;
  auto next = loops.begin();
  for (const For*& l : after)
    if (std::any_of(loops.begin(), loops.end(), [&](const Place* p) { return as<For>(p->stmt) == l; }))
      l = as<For>((*next++)->stmt);
  const Place& first = **std::find_if(loops.begin(), loops.end(), [&](const Place* p) { return as<For>(p->stmt) == before[0]; });
  Stmt outermost = first.stmt;
  for (const Buffer& buffer : shared_written(program, outermost)) {
    std::vector<Access> list = accesses(program, outermost, buffer);
    bool one_block = std::all_of(list.begin(), list.end(), [&](const Access& a) { return a.place == list[0].place; });
    if (one_block && is_complete(*list[0].place->block)) continue;
    if (one_block && (is_reduction(*list[0].place->block) || combiner(*list[0].place->block))) {
      require_update_order(*list[0].place, outermost, before, after);
      continue;
    }
    for (size_t k = 0; k < before.size(); ++k)
      if (before[k] != after[k]) require_independent(program, program.loop(program.loop_name(*before[k])), "reorder");
  }
  Stmt s = before.back()->body;
  for (size_t k = after.size(); k-- > 0;) s = for_loop(after[k]->var, after[k]->min, after[k]->extent, after[k]->loop_kind, s);
  return with_body(func, replace(func.body, outermost, s));
}

PrimFunc tile(const PrimFunc& func, const Names& loops, const std::vector<int64_t>& factors) {
  PrimFunc out = func;
  Names outer, inner;
  for (size_t k = 0; k < loops.size(); ++k) {
    std::string variable(var_name(as<For>(Program(out).loop(loops[k]).stmt)->var));
    outer.push_back(new_name(out, "", variable + "_o"));
    inner.push_back(new_name(out, "", variable + "_i"));
    out = split(out, loops[k], factors[k], outer.back(), inner.back());
  }
  outer.insert(outer.end(), inner.begin(), inner.end());
  return reorder(out, outer);
}

}  // namespace tenon::schedule::step
