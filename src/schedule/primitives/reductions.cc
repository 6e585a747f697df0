// SPDX-License-Identifier: Apache-2.0
// Reductions in parts: decompose_reduction, rfactor.
#include <fmt/format.h>

#include <algorithm>

#include "schedule/primitives/primitives.h"
#include "tir/text.h"

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

PrimFunc rfactor(const PrimFunc& func, std::string_view block_name, std::string_view loop_name, int64_t axis,
                 const std::string& name) {
  Program program(func);
  const BlockPlace& place = program.block(block_name);
  const Block& b = *place.block;
  const Place& loop = program.loop(loop_name);
  const For& l = *as<For>(loop.stmt);
  std::string factored(var_name(l.var));
  require_reduction(place, "rfactor");
  Stmt at = require_own_nest(place, "rfactor");
  std::optional<Combiner> combined = combiner(b);
  if (!combined)
    fail_step("schedule-not-commutative", {.message = fmt::format("`{}` depends on the order of its reduce points", block_name),
                                           .expected = "one of + * min max && || & | ^ with a new value for each output",
                                           .found = "another update"});
  std::set<std::string> reduce = bound_loops(b, IterKind::Reduce);
  if (!place.inside(loop.stmt) || !reduce.contains(factored))
    fail_step("schedule-not-nested", {.message = fmt::format("`{}` is no reduce loop of `{}`", loop_name, block_name),
                                      .expected = "a loop that only reduce variables of the block follow",
                                      .found = std::string(loop_name)});
  if (!meets_whole(place, IterKind::Spatial))
    fail_step("schedule-binding", {.message = fmt::format("the loops do not run each point of `{}` once", block_name),
                                   .expected = "block variables that are sums of distinct loops, spatial and reduce apart",
                                   .found = "another binding"});
  PointBlock points = *point_block(b);
  for (const Buffer& buffer : points.outputs)
    if (axis < 0 || axis > static_cast<int64_t>(buffer.rank()))
      fail_step("schedule-factor", {.message = fmt::format("`{}` has no place for axis {}", buffer->name, axis),
                                    .expected = fmt::format("0 to {}", buffer.rank()),
                                    .found = std::to_string(axis)});
  VarMap first;
  for (const std::string& r : reduce)
    if (r != factored) first[r] = Expr(0);
  for (const Expr& g : place.guards())
    if (mentions(g, {factored}) && !as_int(simplify(substitute(g, first), program.ranges())))
      fail_step("schedule-guard", {.message = fmt::format("`{}` leaves a part of `{}` without a point", print(g), loop_name),
                                   .expected = "a part of the reduction for each iteration",
                                   .found = print(g),
                                   .hint = "split by a factor that divides the extent, or factor the outer loop"});

  // The partial results: the loop is spatial, every other reduce loop is a variable of its own.
  NameSupply names(func);
  names.reserve(name);
  Expr part = var(names.fresh("v_" + factored));
  std::vector<IterVar> iters{{part, Expr(extent_of(l)), IterKind::Spatial, l.var}};
  VarMap inner{{factored, part}}, vars;
  for (const IterVar& iter : b.iters)
    if (iter.kind == IterKind::Spatial) iters.push_back(iter);
  for (const For* other : place.loops()) {
    std::string of(var_name(other->var));
    if (of == factored || !reduce.contains(of)) continue;
    Expr v = inner[of] = var(names.fresh("v_" + of));
    iters.push_back({v, other->extent, IterKind::Reduce, other->var});
  }
  for (const IterVar& iter : b.iters)
    if (iter.kind == IterKind::Reduce) vars[std::string(var_name(iter.var))] = substitute(iter.binding, inner);

  // The result: the same points over new variables, with the parts as reduce points.
  VarMap renamed;
  std::vector<IterVar> final_iters;
  for (const IterVar& iter : b.iters) {
    if (iter.kind == IterKind::Reduce) continue;
    Expr v = renamed[std::string(var_name(iter.var))] = var(names.fresh(var_name(iter.var)));
    final_iters.push_back({v, iter.extent, IterKind::Spatial, iter.binding});
  }
  Expr of_part = var(names.fresh(var_name(part)));
  final_iters.push_back({of_part, Expr(extent_of(l)), IterKind::Reduce, l.var});

  std::vector<Stmt> allocations, part_init, part_body, body;
  for (size_t k = 0; k < points.outputs.size(); ++k) {
    const Buffer& buffer = points.outputs[k];
    std::string of_parts = points.outputs.size() == 1 ? name : names.fresh(buffer->name + "_rf");
    BufferData data{of_parts, buffer->dtype, buffer->shape, {}, Scope::Global};
    data.shape.insert(data.shape.begin() + axis, Expr(extent_of(l)));
    Buffer parts(std::move(data));
    allocations.push_back(allocate(parts));
    std::vector<Expr> element = points.indices[k], own = points.indices[k];
    element.insert(element.begin() + axis, part);
    part_init.push_back(store(parts, element, identity(combined->ops[k], buffer->dtype)));
    part_body.push_back(
        store(parts, element, binary(combined->ops[k], load(parts, element), substitute(combined->operands[k], vars))));
    for (Expr& e : own) e = substitute(e, renamed);
    element = own;
    element.insert(element.begin() + axis, of_part);
    body.push_back(store(buffer, own, binary(combined->ops[k], load(buffer, own), load(parts, element))));
  }
  Stmt bare = block(name, iters, {}, {}, {}, seq(part_body));
  Stmt partial = rebuilt(*as<Block>(bare), iters, seq(part_init), seq(part_body));
  Stmt whole = rebuilt(b, final_iters, substitute(b.init, renamed), seq(body));
  allocations.push_back(replace(at, place.stmt, partial));
  allocations.push_back(nest_over(*as<Block>(whole), {}, names, program.ranges()));
  return with_body(func, splice(func.body, at, allocations));
}

}  // namespace tenon::schedule::step
