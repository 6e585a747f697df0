// SPDX-License-Identifier: Apache-2.0
// Facts about blocks.
#include "schedule/primitives/analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tir/text.h"

namespace tenon::schedule {

using namespace tir;

namespace {

bool same_exprs(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Expr& x, const Expr& y) { return structural_equal(x, y); });
}

bool reads_any(const Expr& e, const std::vector<Buffer>& buffers) {
  bool found = false;
  visit_exprs(e, [&](const Expr& x) {
    if (const Load* l = as<Load>(x))
      for (const Buffer& b : buffers) found |= l->buffer->name == b->name;
  });
  return found;
}

/// The stores of a straight-line body with its Lets substituted; false if there is anything else in it.
bool read_stores(const Stmt& body, std::vector<const Store*>& stores, std::vector<Expr>& values) {
  const Seq* list = as<Seq>(body);
  VarMap lets;
  for (const Stmt& s : list ? list->stmts : std::vector<Stmt>{body}) {
    if (const Let* l = as<Let>(s)) {
      lets[std::string(var_name(l->var))] = substitute(l->value, lets);
    } else if (const Store* store = as<Store>(s)) {
      stores.push_back(store);
      values.push_back(substitute(store->value, lets));
    } else {
      return false;
    }
  }
  return !stores.empty();
}

Domain domain_of(const Block& block, std::optional<IterKind> kind = {}) {
  Domain out;
  for (const IterVar& iter : block.iters)
    if (!kind || iter.kind == *kind) out.vars.push_back({std::string(var_name(iter.var)), int_value(iter.extent)});
  return out;
}

bool numeric_extents(const Block& block) {
  return std::all_of(block.iters.begin(), block.iters.end(), [](const IterVar& i) { return as_int(i.extent) != nullptr; });
}

/// Whether each store has its own element for each spatial point, the same at every reduce point.
bool stores_at_own_point(const Block& block, const PointBlock& points) {
  if (!numeric_extents(block)) return false;
  std::set<std::string> reduce;
  for (const Extent& v : domain_of(block, IterKind::Reduce).vars) reduce.insert(v.name);
  for (const std::vector<Expr>& indices : points.indices) {
    for (const Expr& index : indices) {
      bool fixed = true;
      visit_exprs(index, [&](const Expr& x) {
        if (const Var* v = as<Var>(x)) fixed &= !reduce.contains(v->name);
      });
      if (!fixed) return false;
    }
    if (!injective(indices, domain_of(block, IterKind::Spatial))) return false;
  }
  return true;
}

}  // namespace

std::optional<PointBlock> point_block(const Block& block) {
  PointBlock out;
  std::vector<const Store*> stores, inits;
  if (!read_stores(block.body, stores, out.values)) return std::nullopt;
  for (const Store* s : stores) {
    for (const Buffer& b : out.outputs)
      if (b->name == s->buffer->name) return std::nullopt;
    out.outputs.push_back(s->buffer);
    out.indices.push_back(s->indices);
  }
  if (!block.init) return out;
  if (!read_stores(block.init, inits, out.init) || inits.size() != stores.size()) return std::nullopt;
  for (size_t k = 0; k < inits.size(); ++k)
    if (inits[k]->buffer->name != stores[k]->buffer->name || !same_exprs(inits[k]->indices, stores[k]->indices))
      return std::nullopt;
  return out;
}

bool updates(const Block& block) {
  return std::any_of(block.writes.begin(), block.writes.end(), [&](const Region& w) { return reads(block, w.buffer); });
}

bool is_complete(const Block& block) {
  bool spatial =
      std::all_of(block.iters.begin(), block.iters.end(), [](const IterVar& i) { return i.kind == IterKind::Spatial; });
  if (!spatial || block.init || updates(block)) return false;
  std::optional<PointBlock> points = point_block(block);
  return points && stores_at_own_point(block, *points);
}

bool is_reduction(const Block& block) {
  if (!block.init) return false;
  std::optional<PointBlock> points = point_block(block);
  if (!points || !stores_at_own_point(block, *points)) return false;
  // Every load of an output is of the element that is stored.
  bool own = true;
  for (const Expr& value : points->values)
    visit_exprs(value, [&](const Expr& x) {
      const Load* l = as<Load>(x);
      for (size_t k = 0; l && k < points->outputs.size(); ++k)
        if (l->buffer->name == points->outputs[k]->name) own &= same_exprs(l->indices, points->indices[k]);
    });
  for (const Expr& value : points->init) own &= !reads_any(value, points->outputs);
  return own;
}

std::optional<Combiner> combiner(const Block& block) {
  std::optional<PointBlock> points = point_block(block);
  if (!points) return std::nullopt;
  Combiner out;
  for (size_t k = 0; k < points->outputs.size(); ++k) {
    const Binary* b = as<Binary>(points->values[k]);
    if (!b) return std::nullopt;
    switch (b->op) {
      case BinaryOp::Add:
      case BinaryOp::Mul:
      case BinaryOp::Min:
      case BinaryOp::Max:
      case BinaryOp::And:
      case BinaryOp::Or:
      case BinaryOp::BitAnd:
      case BinaryOp::BitOr:
      case BinaryOp::BitXor: break;
      default: return std::nullopt;
    }
    Expr carried = load(points->outputs[k], points->indices[k]);
    bool first = structural_equal(b->a, carried);
    if (!first && !structural_equal(b->b, carried)) return std::nullopt;
    const Expr& operand = first ? b->b : b->a;
    if (reads_any(operand, points->outputs)) return std::nullopt;
    out.ops.push_back(b->op);
    out.operands.push_back(operand);
  }
  return out;
}

Expr identity(BinaryOp op, DType dtype) {
  switch (op) {
    case BinaryOp::Add:
    case BinaryOp::BitOr:
    case BinaryOp::BitXor: return imm(dtype, 0);
    case BinaryOp::Mul: return imm(dtype, 1);
    case BinaryOp::BitAnd: return dtype == DType::Bool ? bool_imm(true) : int_imm(dtype, -1);
    case BinaryOp::Min: return highest(dtype);
    case BinaryOp::Max: return lowest(dtype);
    case BinaryOp::And: return bool_imm(true);
    case BinaryOp::Or: return bool_imm(false);
    default: return {};
  }
}

std::vector<Access> accesses(const Program& program, const Stmt& s, const Buffer& buffer) {
  std::vector<Access> out;
  for (const BlockPlace* place : program.blocks_in(s)) {
    VarMap bindings = place->bindings();
    for (const auto* list : {&place->block->reads, &place->block->writes})
      for (const Region& r : *list) {
        if (r.buffer->name != buffer->name) continue;
        Access access{place, {}, {}, list == &place->block->writes};
        for (size_t axis = 0; axis < r.min.size(); ++axis) {
          const int64_t *extent = as_int(r.extent[axis]), *whole = as_int(buffer->shape[axis]);
          access.min.push_back(extent ? simplify(substitute(r.min[axis], bindings), program.ranges()) : Expr(0));
          access.extent.push_back(extent ? *extent : whole ? *whole : INT64_MAX / 2);
        }
        out.push_back(std::move(access));
      }
  }
  return out;
}

namespace {

/// The values of an index plus [0, extent), cut to [0, whole).
Interval interval(const Expr& index, int64_t extent, const std::set<std::string>& varying, const Ranges& ranges, int64_t whole) {
  Affine form = affine(simplify(index, ranges)), base;
  base.constant = form.constant;
  for (const Affine::Term& t : form.terms) {
    bool varies = false;
    visit_exprs(t.expr, [&](const Expr& x) {
      if (const Var* v = as<Var>(x)) varies |= varying.contains(v->name);
    });
    if (!varies) {
      base.terms.push_back(t);
      continue;
    }
    std::optional<Range> range = range_of(t.expr * Expr(t.coefficient), ranges);
    if (!range) return {Expr(0), whole};
    base.constant += range->low;
    extent += range->high - range->low;
  }
  if (base.terms.empty()) {
    int64_t low = std::max<int64_t>(base.constant, 0), high = std::min(base.constant + extent, whole);
    return {Expr(low), std::max<int64_t>(high - low, 0)};
  }
  if (extent >= whole) return {Expr(0), whole};
  return {base.expr(), extent};
}

}  // namespace

Interval hull(const Interval& a, const Interval& b, const Ranges& ranges, int64_t whole) {
  Expr distance = simplify(b.base - a.base, ranges);
  const int64_t* d = as_int(distance);
  if (!d) return {Expr(0), whole};
  int64_t low = std::min<int64_t>(*d, 0), high = std::max(a.extent, *d + b.extent);
  if (high - low >= whole) return {Expr(0), whole};
  return {simplify(a.base + Expr(low), ranges), high - low};
}

Box box_of(const Program& program, const std::vector<Access>& accesses, const Buffer& buffer, const Stmt& within) {
  Box out;
  for (size_t axis = 0; axis < buffer.rank(); ++axis) {
    const int64_t* known = as_int(buffer->shape[axis]);
    int64_t whole = known ? *known : INT64_MAX / 2;
    std::optional<Interval> all;
    for (const Access& a : accesses) {
      std::set<std::string> varying;
      for (const For* loop : a.place->loops(within)) varying.insert(std::string(var_name(loop->var)));
      Interval one = interval(a.min[axis], a.extent[axis], varying, program.ranges(), whole);
      all = all ? hull(*all, one, program.ranges(), whole) : one;
    }
    out.push_back(all ? *all : Interval{Expr(0), whole});
  }
  return out;
}

bool fills(const Access& access, const Box& box, const Stmt& within) {
  if (std::any_of(access.extent.begin(), access.extent.end(), [](int64_t e) { return e != 1; })) return false;
  std::vector<int64_t> extents;
  for (const Interval& i : box) extents.push_back(i.extent);
  Domain domain = domain_around(*access.place, within), inside = domain;
  std::erase_if(inside.guards, [&](const Expr& g) {
    const Binary* b = as<Binary>(g);
    return b && b->op == BinaryOp::Lt &&
           std::any_of(access.place->block->iters.begin(), access.place->block->iters.end(), [&](const IterVar& iter) {
             return structural_equal(b->a, iter.binding) && structural_equal(b->b, iter.extent);
           });
  });
  return dense(access.min, extents, domain) || dense(access.min, extents, inside);
}

void refresh_regions(const Block& block, std::vector<Region>& reads, std::vector<Region>& writes) {
  std::set<std::string> inner, own;
  for (const Stmt& part : {block.init, block.body}) {
    if (!part) continue;
    visit(part, [&](const Stmt& s) {
      if (const For* n = as<For>(s)) inner.insert(std::string(var_name(n->var)));
      if (const Let* n = as<Let>(s)) inner.insert(std::string(var_name(n->var)));
      if (const Allocate* n = as<Allocate>(s)) own.insert(n->buffer->name);
      if (const AllocateConst* n = as<AllocateConst>(s)) own.insert(n->buffer->name);
      if (const Block* n = as<Block>(s))
        for (const IterVar& i : n->iters) inner.insert(std::string(var_name(i.var)));
    });
  }
  auto add = [&](std::vector<Region>& list, const Buffer& buffer, const std::vector<Expr>& indices) {
    if (own.contains(buffer->name)) return;
    Region region{buffer, {}, {}};
    for (size_t axis = 0; axis < indices.size(); ++axis) {
      bool follows = true;
      visit_exprs(indices[axis], [&](const Expr& x) {
        if (const Var* v = as<Var>(x)) follows &= !inner.contains(v->name);
        follows &= !as<Load>(x);
      });
      region.min.push_back(follows ? indices[axis] : Expr(0));
      region.extent.push_back(follows ? Expr(1) : buffer->shape[axis]);
    }
    bool known = std::any_of(list.begin(), list.end(), [&](const Region& r) {
      return r.buffer->name == buffer->name && same_exprs(r.min, region.min) && same_exprs(r.extent, region.extent);
    });
    if (!known) list.push_back(std::move(region));
  };
  for (const Stmt& part : {block.body, block.init}) {
    if (!part) continue;
    visit(part, [&](const Stmt& s) {
      if (const Store* n = as<Store>(s)) add(writes, n->buffer, n->indices);
    });
    visit_exprs(part, [&](const Expr& e) {
      if (const Load* n = as<Load>(e)) add(reads, n->buffer, n->indices);
    });
  }
}

bool holds_block(const Stmt& s) {
  bool found = false;
  visit(s, [&](const Stmt& part) { found |= part->kind == StmtKind::Block; });
  return found;
}

Stmt rebuilt(const Block& old, std::vector<IterVar> iters, const Stmt& init, const Stmt& body) {
  Stmt bare = block(old.name, std::move(iters), {}, {}, init, body);
  const Block& b = *as<Block>(bare);
  std::vector<Region> reads, writes;
  refresh_regions(b, reads, writes);
  return block(b.name, b.iters, std::move(reads), std::move(writes), b.init, b.body);
}

namespace {

/// The loop that a single access's own element tells apart.
bool element_tells(const Access& access, const Stmt& loop) {
  if (std::any_of(access.extent.begin(), access.extent.end(), [](int64_t e) { return e != 1; })) return false;
  return determined(access.min, domain_around(*access.place, loop)).contains(std::string(var_name(as<For>(loop)->var)));
}

/// Whether boxes of different iterations are apart: on some axes each box stays in a strip of its own.
bool strips_tell(const Program& program, const std::vector<Access>& list, const Buffer& buffer, const Place& loop) {
  const For& l = *as<For>(loop.stmt);
  std::string name(var_name(l.var));
  Box box = box_of(program, list, buffer, l.body);
  std::vector<Expr> apart;
  for (const Interval& strip : box) {
    int64_t step = 0;
    for (const Affine::Term& t : affine(strip.base).terms) {
      bool moves = false;
      visit_exprs(t.expr, [&](const Expr& x) {
        if (const Var* v = as<Var>(x)) moves |= v->name == name;
      });
      if (moves) step = std::gcd(step, t.coefficient);
    }
    if (step >= strip.extent) apart.push_back(strip.base);
  }
  return determined(apart, {{{name, extent_of(l)}}, {}}).contains(name);
}

}  // namespace

std::optional<std::string> conflict(const Program& program, const Place& loop, const Buffer& buffer) {
  std::vector<Access> list = accesses(program, loop.stmt, buffer);
  bool written = std::any_of(list.begin(), list.end(), [](const Access& a) { return a.write; });
  if (!written || extent_of(*as<For>(loop.stmt)) == 1) return std::nullopt;
  bool one = std::all_of(list.begin(), list.end(), [&](const Access& a) {
    return a.place == list[0].place && same_exprs(a.min, list[0].min) && a.extent == list[0].extent;
  });
  if ((one && element_tells(list[0], loop.stmt)) || strips_tell(program, list, buffer, loop)) return std::nullopt;
  return fmt::format("iterations of `{}` may touch the same element of `{}`", var_name(as<For>(loop.stmt)->var), buffer->name);
}

void require_independent(const Program& program, const Place& loop, std::string_view step) {
  for (const Buffer& buffer : shared_written(program, loop.stmt))
    if (std::optional<std::string> why = conflict(program, loop, buffer))
      fail_step("schedule-dependence",
                {.message = *why,
                 .expected = fmt::format("independent iterations for `{}`", step),
                 .found = fmt::format("a write of `{}`", buffer->name),
                 .hint = "take a loop over the block's spatial variables, or `rfactor` the reduction first"});
}

std::set<std::string> bound_loops(const Block& block, IterKind kind) {
  std::set<std::string> out;
  for (const IterVar& iter : block.iters) {
    if (iter.kind != kind) continue;
    visit_exprs(iter.binding, [&](const Expr& x) {
      if (const Var* v = as<Var>(x)) out.insert(v->name);
    });
  }
  return out;
}

bool meets_whole(const BlockPlace& place, IterKind kind) {
  IterKind other = kind == IterKind::Reduce ? IterKind::Spatial : IterKind::Reduce;
  std::set<std::string> followed = bound_loops(*place.block, kind), others = bound_loops(*place.block, other);
  Domain all = domain_around(place), own;
  for (const Extent& v : all.vars) {
    if (!followed.contains(v.name)) continue;
    if (others.contains(v.name)) return false;
    own.vars.push_back(v);
  }
  for (const Expr& g : all.guards) {
    bool of_followed = false, of_others = false;
    visit_exprs(g, [&](const Expr& x) {
      if (const Var* v = as<Var>(x)) (followed.contains(v->name) ? of_followed : of_others) = true;
    });
    if (of_followed && of_others) return false;
    if (of_followed) own.guards.push_back(g);
  }
  std::vector<Expr> bindings;
  std::vector<int64_t> extents;
  for (const IterVar& iter : place.block->iters) {
    if (iter.kind != kind) continue;
    bindings.push_back(iter.binding);
    extents.push_back(int_value(iter.extent));
  }
  return bijective(bindings, extents, own);
}

PointBlock require_repeatable(const BlockPlace& place, std::string_view step) {
  const Block& b = *place.block;
  if (!is_complete(b) && !(is_reduction(b) && meets_whole(place, IterKind::Reduce)))
    fail_step("schedule-not-complete",
              {.message = fmt::format("block `{}` cannot be run again for a part of its points", b.name),
               .expected = fmt::format("a complete block or a whole reduction for `{}`", step),
               .found = updates(b) ? "a block that updates what was stored before" : "stores that its points share, or none",
               .hint = b.init ? "" : "take the step before `decompose_reduction`, `tensorize` and `transform_layout`"});
  return *point_block(b);
}

void require_only_writer(const Program& program, const BlockPlace& place, const Buffer& buffer) {
  for (const BlockPlace* writer : program.writers(buffer))
    if (writer->block != place.block)
      fail_step("schedule-writers", {.message = fmt::format("`{}` is written by `{}` too", buffer->name, writer->block->name),
                                     .expected = fmt::format("`{}` as its only writer", place.block->name),
                                     .found = fmt::format("block `{}`", writer->block->name)});
}

Stmt require_own_nest(const BlockPlace& place, std::string_view step) {
  size_t depth = place.around.size();
  while (depth > 0 && !as<Seq>(place.around[depth - 1])) --depth;
  for (size_t k = 0; k < depth; ++k)
    if (const For* l = as<For>(place.around[k]))
      fail_step("schedule-not-nested", {.message = fmt::format("`{}` shares loop `{}`", place.block->name, var_name(l->var)),
                                        .expected = fmt::format("loops that hold the block alone for `{}`", step),
                                        .found = fmt::format("other statements in loop `{}`", var_name(l->var)),
                                        .hint = "take the step before blocks are moved into its loops"});
  return depth < place.around.size() ? place.around[depth] : place.stmt;
}

std::optional<AxisVars> plain_indices(const Block& block, const Buffer& buffer, const std::vector<Expr>& indices) {
  AxisVars out;
  for (size_t axis = 0; axis < indices.size(); ++axis) {
    const Var* v = as<Var>(indices[axis]);
    auto iter = std::find_if(block.iters.begin(), block.iters.end(),
                             [&](const IterVar& i) { return v && var_name(i.var) == v->name && i.kind == IterKind::Spatial; });
    const int64_t *constant = as_int(indices[axis]), *extent = as_int(buffer->shape[axis]);
    bool unit = constant && *constant == 0 && extent && *extent == 1;
    bool found = iter != block.iters.end() && std::find(out.begin(), out.end(), &*iter) == out.end();
    if (!unit && !found) return std::nullopt;
    out.push_back(unit ? nullptr : &*iter);
  }
  return out;
}

AxisVars require_plain_indices(const Block& block, const Buffer& buffer, const std::vector<Expr>& indices) {
  std::optional<AxisVars> out = plain_indices(block, buffer, indices);
  if (out) return *out;
  std::string found;
  for (const Expr& e : indices) found += (found.empty() ? "" : ", ") + print(e);
  fail_step("schedule-not-complete", {.message = fmt::format("`{}` stores at `{}[{}]`", block.name, buffer->name, found),
                                      .expected = "a spatial variable of its own as each index",
                                      .found = found,
                                      .hint = "take the step before `transform_layout`"});
}

void require_inputs_before(const Program& program, const Block& block, const Stmt& at, const std::vector<Stmt>& around_at,
                           const std::set<std::string>& except) {
  for (const Region& r : block.reads) {
    if (except.contains(r.buffer->name) || writes(block, r.buffer)) continue;
    for (const BlockPlace* writer : program.writers(r.buffer)) {
      std::set<std::string> reduce = bound_loops(*writer->block, IterKind::Reduce);
      bool done = !writer->stmt.same_as(at) && !writer->inside(at) && program.order(writer->stmt) < program.order(at);
      for (const Stmt& s : around_at)
        if (const For* loop = as<For>(s); loop && writer->inside(s)) done &= !reduce.contains(std::string(var_name(loop->var)));
      if (!done)
        fail_step("schedule-order",
                  {.message = fmt::format("`{}` is not complete where `{}` would run", r.buffer->name, block.name),
                   .expected = "the blocks that write what it reads before it",
                   .found = fmt::format("block `{}` writes `{}`", writer->block->name, r.buffer->name),
                   .hint = fmt::format("move block `{}` first, or choose a loop after it", writer->block->name)});
    }
  }
}

void require_visible(const Program& program, const Block& block, const std::vector<Stmt>& around, const Stmt& at,
                     const std::set<std::string>& except) {
  for (const auto* list : {&block.reads, &block.writes})
    for (const Region& r : *list) {
      if (except.contains(r.buffer->name) || program.is_param(r.buffer)) continue;
      const Place& declared = program.declaration(r.buffer);
      bool visible = program.order(declared.stmt) < program.order(at) &&
                     std::any_of(around.begin(), around.end(), [&](const Stmt& s) { return s.same_as(declared.around.back()); });
      if (!visible)
        fail_step("schedule-visibility",
                  {.message = fmt::format("`{}` is not declared where `{}` would run", r.buffer->name, block.name),
                   .expected = "the buffers of the block declared around that place",
                   .found = fmt::format("`{}` is declared inside a loop", r.buffer->name)});
    }
}

}  // namespace tenon::schedule
