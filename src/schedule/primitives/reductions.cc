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

namespace {

/// The loop is around all of the block's reduce loops, and inside it each point runs once.
void require_decomposable(const BlockPlace& place, const Place& loop) {
  const Block& b = *place.block;
  std::set<std::string> reduce = bound_loops(b, IterKind::Reduce);
  bool outside = !place.inside(loop.stmt);
  for (const Stmt& s : loop.around)
    if (const For* l = as<For>(s)) outside |= reduce.contains(std::string(var_name(l->var)));
  std::string_view name = var_name(as<For>(loop.stmt)->var);
  if (outside)
    fail_step("schedule-not-nested", {.message = fmt::format("`{}` is not around all reduce loops of `{}`", name, b.name),
                                      .expected = "a loop around the block, at or outside its outermost reduce loop",
                                      .found = std::string(name)});
  std::vector<Expr> bindings;
  for (const IterVar& iter : b.iters) bindings.push_back(iter.binding);
  if (!injective(bindings, domain_around(place, loop.stmt)))
    fail_step("schedule-binding", {.message = fmt::format("loops inside `{}` run points of `{}` again", name, b.name),
                                   .expected = "loops that run each point once",
                                   .found = "a loop that the block does not follow"});
}

/// The block's `init` as a block of its own, bound to other loops.
Stmt init_block(const Block& b, const VarMap& loops, NameSupply& names) {
  std::vector<IterVar> iters;
  VarMap vars;
  for (const IterVar& iter : b.iters) {
    if (iter.kind == IterKind::Reduce) continue;
    Expr v = vars[std::string(var_name(iter.var))] = var(names.fresh(var_name(iter.var)));
    iters.push_back({v, iter.extent, iter.kind, substitute(iter.binding, loops)});
  }
  Stmt body = substitute(b.init, vars);
  Stmt bare = block(names.fresh(b.name + "_init"), iters, {}, {}, {}, body);
  return rebuilt(*as<Block>(bare), iters, {}, body);
}

}  // namespace

PrimFunc decompose_reduction(const PrimFunc& func, std::string_view block_name, std::string_view loop_name) {
  Program program(func);
  const BlockPlace& place = program.block(block_name);
  const Block& b = *place.block;
  const Place& loop = program.loop(loop_name);
  require_reduction(place, "decompose_reduction");
  require_decomposable(place, loop);
  for (const Region& r : b.writes) require_only_writer(program, place, r.buffer);
  NameSupply names(func);
  VarMap renamed;
  std::vector<const For*> loops = place.loops(loop.stmt);
  std::set<std::string> spatial = bound_loops(b, IterKind::Spatial);
  std::erase_if(loops, [&](const For* l) { return !spatial.contains(std::string(var_name(l->var))); });
  for (const For* l : loops) renamed[std::string(var_name(l->var))] = var(names.fresh(var_name(l->var)));
  Stmt init = init_block(b, renamed, names);
  require_visible(program, *as<Block>(init), loop.around, loop.stmt);
  require_inputs_before(program, *as<Block>(init), loop.stmt, loop.around);
  std::vector<Expr> limits;
  for (const Expr& g : place.guards(loop.stmt))
    if (!mentions(g, bound_loops(b, IterKind::Reduce))) limits.push_back(substitute(g, renamed));
  Expr inside = conjunction(limits);
  if (inside) init = if_then(inside, init);
  for (size_t k = loops.size(); k-- > 0;)
    init = for_loop(renamed.at(std::string(var_name(loops[k]->var))), loops[k]->min, loops[k]->extent, loops[k]->loop_kind, init);
  Stmt update = replace(loop.stmt, place.stmt, rebuilt(b, b.iters, {}, b.body));
  return with_body(func, splice(func.body, loop.stmt, {init, update}));
}

namespace {

/// The rules of rfactor.
void require_factorable(const Program& program, const BlockPlace& place, const Place& loop, int64_t axis) {
  const Block& b = *place.block;
  std::string factored(var_name(as<For>(loop.stmt)->var));
  if (!combiner(b))
    fail_step("schedule-not-commutative", {.message = fmt::format("`{}` depends on the order of its reduce points", b.name),
                                           .expected = "one of + * min max && || & | ^ with a new value for each output",
                                           .found = "another update"});
  std::set<std::string> reduce = bound_loops(b, IterKind::Reduce);
  if (!place.inside(loop.stmt) || !reduce.contains(factored))
    fail_step("schedule-not-nested", {.message = fmt::format("`{}` is no reduce loop of `{}`", factored, b.name),
                                      .expected = "a loop that only reduce variables of the block follow",
                                      .found = factored});
  if (!meets_whole(place, IterKind::Spatial))
    fail_step("schedule-binding", {.message = fmt::format("the loops do not run each point of `{}` once", b.name),
                                   .expected = "block variables that are sums of distinct loops, spatial and reduce apart",
                                   .found = "another binding"});
  for (const Region& r : b.writes)
    if (axis < 0 || axis > static_cast<int64_t>(r.buffer.rank()))
      fail_step("schedule-factor", {.message = fmt::format("`{}` has no place for axis {}", r.buffer->name, axis),
                                    .expected = fmt::format("0 to {}", r.buffer.rank()),
                                    .found = std::to_string(axis)});
  VarMap first;
  for (const std::string& r : reduce)
    if (r != factored) first[r] = Expr(0);
  for (const Expr& g : place.guards())
    if (mentions(g, {factored}) && !as_int(simplify(substitute(g, first), program.ranges())))
      fail_step("schedule-guard", {.message = fmt::format("`{}` leaves a part of `{}` without a point", print(g), factored),
                                   .expected = "a part of the reduction for each iteration",
                                   .found = print(g),
                                   .hint = "split by a factor that divides the extent, or factor the outer loop"});
}

/// One reduction in two: parts over all reduce loops but one, and their combination over that one.
class Factoring {
 public:
  Factoring(const Program& program, const BlockPlace& place, const For& loop, int64_t axis, const std::string& name)
      : program_(program), place_(place), b_(*place.block), loop_(loop), axis_(axis), name_(name), names_(program.func()) {
    names_.reserve(name);
    points_ = *point_block(b_);
    combined_ = *combiner(b_);
    part_ = var(names_.fresh("v_" + std::string(var_name(loop.var))));
    of_part_ = var(names_.fresh(var_name(part_)));
    for (const Buffer& buffer : points_.outputs) {
      BufferData data{points_.outputs.size() == 1 ? name : names_.fresh(buffer->name + "_rf"), buffer->dtype, buffer->shape, {}};
      data.shape.insert(data.shape.begin() + axis, loop.extent);
      parts_.emplace_back(std::move(data));
    }
  }

  PrimFunc run(const Stmt& at) {
    std::vector<Stmt> out;
    for (const Buffer& buffer : parts_) out.push_back(allocate(buffer));
    out.push_back(replace(at, place_.stmt, partial()));
    Stmt whole = combination();
    out.push_back(nest_over(*as<Block>(whole), {}, names_, program_.ranges()));
    return with_body(program_.func(), splice(program_.func().body, at, out));
  }

 private:
  std::vector<Expr> element(std::vector<Expr> indices, const Expr& part) const {
    indices.insert(indices.begin() + axis_, part);
    return indices;
  }

  /// The loop is spatial, and every other reduce loop a reduce variable of its own.
  Stmt partial() {
    std::vector<IterVar> iters{{part_, loop_.extent, IterKind::Spatial, loop_.var}};
    VarMap inner{{std::string(var_name(loop_.var)), part_}}, vars;
    for (const IterVar& iter : b_.iters)
      if (iter.kind == IterKind::Spatial) iters.push_back(iter);
    std::set<std::string> reduce = bound_loops(b_, IterKind::Reduce);
    for (const For* other : place_.loops()) {
      std::string of(var_name(other->var));
      if (other == &loop_ || !reduce.contains(of)) continue;
      Expr v = inner[of] = var(names_.fresh("v_" + of));
      iters.push_back({v, other->extent, IterKind::Reduce, other->var});
    }
    for (const IterVar& iter : b_.iters)
      if (iter.kind == IterKind::Reduce) vars[std::string(var_name(iter.var))] = substitute(iter.binding, inner);
    std::vector<Stmt> init, body;
    for (size_t k = 0; k < parts_.size(); ++k) {
      std::vector<Expr> at = element(points_.indices[k], part_);
      init.push_back(store(parts_[k], at, identity(combined_.ops[k], parts_[k]->dtype)));
      Expr next = binary(combined_.ops[k], load(parts_[k], at), substitute(combined_.operands[k], vars));
      body.push_back(store(parts_[k], at, next));
    }
    Stmt bare = block(name_, iters, {}, {}, {}, seq(body));
    return rebuilt(*as<Block>(bare), iters, seq(init), seq(body));
  }

  /// The same spatial points over new variables; the parts are the reduce points.
  Stmt combination() {
    VarMap renamed;
    std::vector<IterVar> iters;
    for (const IterVar& iter : b_.iters) {
      if (iter.kind == IterKind::Reduce) continue;
      Expr v = renamed[std::string(var_name(iter.var))] = var(names_.fresh(var_name(iter.var)));
      iters.push_back({v, iter.extent, IterKind::Spatial, iter.binding});
    }
    iters.push_back({of_part_, loop_.extent, IterKind::Reduce, loop_.var});
    std::vector<Stmt> body;
    for (size_t k = 0; k < parts_.size(); ++k) {
      std::vector<Expr> at = points_.indices[k];
      for (Expr& e : at) e = substitute(e, renamed);
      Expr so_far = load(points_.outputs[k], at), more = load(parts_[k], element(at, of_part_));
      body.push_back(store(points_.outputs[k], at, binary(combined_.ops[k], so_far, more)));
    }
    return rebuilt(b_, iters, substitute(b_.init, renamed), seq(body));
  }

  const Program& program_;
  const BlockPlace& place_;
  const Block& b_;
  const For& loop_;
  int64_t axis_;
  std::string name_;
  NameSupply names_;
  PointBlock points_;
  Combiner combined_;
  Expr part_, of_part_;        // the part's variable in either block
  std::vector<Buffer> parts_;  // one for each output
};

}  // namespace

PrimFunc rfactor(const PrimFunc& func, std::string_view block, std::string_view loop_name, int64_t axis,
                 const std::string& name) {
  Program program(func);
  const BlockPlace& place = program.block(block);
  const Place& loop = program.loop(loop_name);
  require_reduction(place, "rfactor");
  Stmt at = require_own_nest(place, "rfactor");
  require_factorable(program, place, loop, axis);
  return Factoring(program, place, *as<For>(loop.stmt), axis, name).run(at);
}

}  // namespace tenon::schedule::step
