// SPDX-License-Identifier: Apache-2.0
// Reductions in parts: decompose_reduction.
#include <fmt/format.h>

#include <algorithm>

#include "schedule/primitives/primitives.h"

namespace tenon::schedule::step {

using namespace tir;

namespace {

void require_reduction(const BlockPlace& place, std::string_view step) {
  if (is_reduction(*place.block) && meets_whole(place, IterKind::Reduce)) return;
  fail_step("schedule-not-reduction", {.message = fmt::format("block `{}` is no whole reduction", place.block->name),
                                       .expected = fmt::format("a block with `init` over all its reduce points for `{}`", step),
                                       .found = place.block->init ? "another use of its loops" : "a block without `init`"});
}

bool mentions(const Expr& e, const std::set<std::string>& names) {
  bool found = false;
  visit_exprs(e, [&](const Expr& x) {
    if (const Var* v = as<Var>(x)) found |= names.contains(v->name);
  });
  return found;
}

}  // namespace

PrimFunc decompose_reduction(const PrimFunc& func, std::string_view block_name, std::string_view loop_name) {
  Program program(func);
  const BlockPlace& place = program.block(block_name);
  const Block& b = *place.block;
  const Place& loop = program.loop(loop_name);
  require_reduction(place, "decompose_reduction");
  std::set<std::string> reduce = bound_loops(b, IterKind::Reduce);
  bool outside = !place.inside(loop.stmt);
  for (const Stmt& s : loop.around)
    if (const For* l = as<For>(s)) outside |= reduce.contains(std::string(var_name(l->var)));
  if (outside)
    fail_step("schedule-not-nested",
              {.message = fmt::format("`{}` is not around all reduce loops of `{}`", loop_name, block_name),
               .expected = "a loop around the block, at or outside its outermost reduce loop",
               .found = std::string(loop_name)});
  std::vector<Expr> bindings;
  for (const IterVar& iter : b.iters) bindings.push_back(iter.binding);
  if (!injective(bindings, domain_around(place, loop.stmt)))
    fail_step("schedule-binding", {.message = fmt::format("loops inside `{}` run points of `{}` again", loop_name, block_name),
                                   .expected = "loops that run each point once",
                                   .found = "a loop that the block does not follow"});
  NameSupply names(func);
  VarMap renamed;
  std::vector<const For*> loops = place.loops(loop.stmt);
  std::erase_if(loops, [&](const For* l) { return !bound_loops(b, IterKind::Spatial).contains(std::string(var_name(l->var))); });
  for (const For* l : loops) renamed[std::string(var_name(l->var))] = var(names.fresh(var_name(l->var)));
  std::vector<IterVar> iters;
  VarMap vars;
  for (const IterVar& iter : b.iters) {
    if (iter.kind == IterKind::Reduce) continue;
    Expr v = var(names.fresh(var_name(iter.var)));
    vars[std::string(var_name(iter.var))] = v;
    iters.push_back({v, iter.extent, iter.kind, substitute(iter.binding, renamed)});
  }
  Stmt body = substitute(b.init, vars);
  Stmt bare = block(names.fresh(b.name + "_init"), iters, {}, {}, {}, body);
  Stmt init = rebuilt(*as<Block>(bare), iters, {}, body);
  require_visible(program, *as<Block>(init), loop.around, loop.stmt);
  require_inputs_before(program, *as<Block>(init), loop.stmt, loop.around);
  Expr inside;
  for (const Expr& g : place.guards(loop.stmt)) {
    if (mentions(g, reduce)) continue;
    Expr condition = substitute(g, renamed);
    inside = inside ? logical_and(inside, condition) : condition;
  }
  if (inside) init = if_then(inside, init);
  for (size_t k = loops.size(); k-- > 0;)
    init = for_loop(renamed.at(std::string(var_name(loops[k]->var))), loops[k]->min, loops[k]->extent, loops[k]->loop_kind, init);
  Stmt update = replace(loop.stmt, place.stmt, rebuilt(b, b.iters, {}, b.body));
  return with_body(func, splice(func.body, loop.stmt, {init, update}));
}

}  // namespace tenon::schedule::step
