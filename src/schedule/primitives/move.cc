// SPDX-License-Identifier: Apache-2.0
// Where a block runs: compute_at, reverse_compute_at.
#include <fmt/format.h>

#include <algorithm>

#include "schedule/primitives/primitives.h"

namespace tenon::schedule {

using namespace tir;

Stmt nest_over(const Block& b, const std::map<std::string, Interval>& part, NameSupply& names, const Ranges& ranges) {
  std::vector<IterVar> iters = b.iters;
  std::vector<Axis> axes;
  Ranges all = ranges;
  std::vector<Expr> limits;
  for (IterVar& iter : iters) {
    int64_t extent = int_value(iter.extent);
    auto known = part.find(std::string(var_name(iter.var)));
    Interval run = known == part.end() ? Interval{Expr(0), extent} : known->second;
    const Var* old = as<Var>(iter.binding);
    std::string name(old ? old->name : var_name(iter.var));
    iter.binding = run.base;
    if (run.extent > 1) {
      axes.push_back({var(names.fresh(name)), run.extent});
      all[std::string(var_name(axes.back().var))] = {0, run.extent - 1};
      iter.binding = simplify(run.base + axes.back().var, all);
    }
    for (const Expr& limit : {le(Expr(0), iter.binding), lt(iter.binding, Expr(extent))})
      if (Expr simple = simplify(limit, all); !as_int(simple)) limits.push_back(simple);
  }
  Stmt s = block(b.name, std::move(iters), b.reads, b.writes, b.init, b.body);
  Expr inside = conjunction(limits);
  return nest(axes, inside ? if_then(inside, s) : s);
}

namespace step {
namespace {

/// The names that are free once a block is taken out of its place.
NameSupply names_without(const PrimFunc& func, const BlockPlace& place) {
  NameSupply names(with_body(func, replace(func.body, place.stmt, {})));
  names.reserve(place.block->name);
  for (const IterVar& iter : place.block->iters) names.reserve(std::string(var_name(iter.var)));
  return names;
}

std::vector<Stmt> statements(const Stmt& s) {
  const Seq* list = as<Seq>(s);
  return list ? list->stmts : std::vector<Stmt>{s};
}

Stmt loop_with(const For& loop, std::vector<Stmt> body) {
  return for_loop(loop.var, loop.min, loop.extent, loop.loop_kind, body.size() == 1 ? body[0] : scoped(std::move(body)));
}

bool on_workers(const Place& loop) {
  std::vector<Stmt> all = loop.around;
  all.push_back(loop.stmt);
  return std::any_of(all.begin(), all.end(), [](const Stmt& s) {
    const For* l = as<For>(s);
    return l && runs_on_workers(l->loop_kind);
  });
}

[[noreturn]] void fail_consumer(const Block& block, std::string found, std::string expected) {
  fail_step("schedule-consumer",
            {.message = fmt::format("the readers of `{}` do not stand where it is to be computed", block.name),
             .expected = std::move(expected),
             .found = std::move(found)});
}

/// The part of each of a block's variables that readers under the loop need for one of its iterations.
std::map<std::string, Interval> needed_part(const Program& program, const BlockPlace& place, const PointBlock& points,
                                            const Place& loop) {
  std::map<std::string, Interval> out;
  for (size_t k = 0; k < points.outputs.size(); ++k) {
    AxisVars vars = require_plain_indices(*place.block, points.outputs[k], points.indices[k]);
    std::vector<Access> list = accesses(program, loop.stmt, points.outputs[k]);
    if (list.empty()) continue;
    Box box = box_of(program, list, points.outputs[k], as<For>(loop.stmt)->body);
    for (size_t axis = 0; axis < box.size(); ++axis) {
      if (!vars[axis]) continue;
      int64_t extent = int_value(vars[axis]->extent);
      Interval need = box[axis];
      if (const int64_t* base = as_int(need.base)) need.extent = std::clamp<int64_t>(extent - *base, 0, need.extent);
      if (need.extent >= extent || need.extent == 0) need = {Expr(0), extent};
      auto [it, fresh] = out.emplace(var_name(vars[axis]->var), need);
      if (!fresh) it->second = hull(it->second, need, program.ranges(), extent);
    }
  }
  return out;
}

}  // namespace

namespace {

/// The rules of compute_at.
void require_movable(const Program& program, const BlockPlace& place, const PointBlock& points, const Place& loop) {
  const Block& b = *place.block;
  std::string_view name = var_name(as<For>(loop.stmt)->var);
  if (place.inside(loop.stmt))
    fail_consumer(b, fmt::format("`{}` in loop `{}`", b.name, name), "a loop that the block does not stand in");
  bool read = false;
  std::set<std::string> own;
  for (const Buffer& buffer : points.outputs) {
    own.insert(buffer->name);
    require_only_writer(program, place, buffer);
    if (program.is_param(buffer))
      fail_step("schedule-output", {.message = fmt::format("`{}` writes the output `{}`", b.name, buffer->name),
                                    .expected = "a block that writes buffers declared in the function",
                                    .found = "an output",
                                    .hint = "move the blocks that it reads, or use reverse_compute_at"});
    for (const BlockPlace* reader : program.readers(buffer)) {
      if (reader->block == &b) continue;
      read = true;
      if (!reader->inside(loop.stmt))
        fail_consumer(b, fmt::format("block `{}` outside loop `{}`", reader->block->name, name), "every reader inside the loop");
    }
  }
  if (!read) fail_consumer(b, "no reader", fmt::format("a reader inside loop `{}`", name));
  require_inputs_before(program, b, place.stmt, place.around);  // nothing overwrites them on the way
  require_inputs_before(program, b, loop.stmt, loop.around);
  require_visible(program, b, loop.around, loop.stmt, own);
}

/// The statements of a loop with a nest before the first that reads one of the buffers.
std::vector<Stmt> before_readers(const Program& program, const Stmt& body, const Stmt& nest, const std::vector<Buffer>& buffers) {
  std::vector<Stmt> out = statements(body);
  auto first = std::find_if(out.begin(), out.end(), [&](const Stmt& s) {
    std::vector<const BlockPlace*> inside = program.blocks_in(s);
    return std::any_of(inside.begin(), inside.end(), [&](const BlockPlace* p) {
      return std::any_of(buffers.begin(), buffers.end(), [&](const Buffer& buffer) { return reads(*p->block, buffer); });
    });
  });
  out.insert(first, nest);
  return out;
}

}  // namespace

PrimFunc compute_at(const PrimFunc& func, std::string_view block_name, std::string_view loop_name) {
  Program program(func);
  const BlockPlace& place = program.block(block_name);
  const Place& loop = program.loop(loop_name);
  PointBlock points = require_repeatable(place, "compute_at");
  require_movable(program, place, points, loop);
  std::map<std::string, Interval> part = needed_part(program, place, points, loop);
  NameSupply names = names_without(func, place);
  Stmt computed = nest_over(*place.block, part, names, program.ranges());
  const For& l = *as<For>(loop.stmt);
  std::vector<Stmt> body = before_readers(program, l.body, computed, points.outputs);
  Stmt out = replace(func.body, place.stmt, {});
  BufferMap rescoped;
  std::vector<Stmt> declared;
  for (const Buffer& buffer : points.outputs) {
    BufferData data = *buffer;
    if (on_workers(loop) && data.scope == Scope::Global) data.scope = Scope::Local;
    rescoped[buffer->name] = Buffer(std::move(data));
    declared.push_back(allocate(buffer));
    out = replace(out, program.declaration(buffer).stmt, {});
  }
  body.insert(body.begin(), declared.begin(), declared.end());
  return with_body(func, replace_buffers(replace(out, loop.stmt, loop_with(l, std::move(body))), rescoped));
}

namespace {

/// The part of a reader's variables for which one iteration of the loop has all that it reads of a buffer written there.
void available_part(const Program& program, const BlockPlace& place, const Place& loop, const Buffer& buffer,
                    std::map<std::string, Interval>& part) {
  const Block& b = *place.block;
  auto fail = [&](std::string message, std::string expected, std::string found) {
    fail_step("schedule-region", {.message = std::move(message), .expected = std::move(expected), .found = std::move(found)});
  };
  const Stmt& within = as<For>(loop.stmt)->body;
  std::vector<Access> written = accesses(program, loop.stmt, buffer);
  std::erase_if(written, [](const Access& a) { return !a.write; });
  Box box = box_of(program, written, buffer, within);
  std::vector<int64_t> domain(buffer.rank(), INT64_MAX);  // of the writers, on each axis
  for (const Access& w : written) {
    if (!fills(w, box, within) || !meets_whole(*w.place, IterKind::Spatial))
      fail(fmt::format("an iteration of `{}` does not fill a box of `{}`", var_name(as<For>(loop.stmt)->var), buffer->name),
           "each element written in one box of an iteration", fmt::format("block `{}`", w.place->block->name));
    for (const Region& r : w.place->block->writes) {
      if (r.buffer->name != buffer->name) continue;
      AxisVars vars = require_plain_indices(*w.place->block, buffer, r.min);
      for (size_t axis = 0; axis < vars.size(); ++axis)
        domain[axis] = vars[axis] ? std::min(domain[axis], int_value(vars[axis]->extent)) : 1;
    }
  }
  for (const Region& r : b.reads) {
    if (r.buffer->name != buffer->name) continue;
    for (size_t axis = 0; axis < box.size(); ++axis) {
      const int64_t* base = as_int(box[axis].base);
      if (base && *base == 0 && box[axis].extent >= domain[axis]) continue;
      const Var* v = as<Var>(r.min[axis]);
      auto iter = std::find_if(b.iters.begin(), b.iters.end(), [&](const IterVar& i) { return v && var_name(i.var) == v->name; });
      const int64_t* one = as_int(r.extent[axis]);
      if (iter == b.iters.end() || iter->kind != IterKind::Spatial || !one || *one != 1 || int_value(iter->extent) > domain[axis])
        fail(fmt::format("`{}` reads `{}` beyond what an iteration of the loop writes", b.name, buffer->name),
             "a spatial variable as index of each axis of which an iteration writes a part", "another index");
      auto [it, fresh] = part.emplace(v->name, box[axis]);
      if (!fresh && (!structural_equal(it->second.base, box[axis].base) || it->second.extent != box[axis].extent))
        fail(fmt::format("`{}` reads at `{}` what different iterations write", b.name, v->name),
             "the same part of each buffer that the loop writes", fmt::format("another part of `{}`", buffer->name));
    }
  }
}

/// Keeps the block at the iteration of the loops that it shares with the new place: what else it reads there may hold no more.
void keep_shared_loops(const BlockPlace& place, const Place& loop, std::map<std::string, Interval>& part) {
  std::set<std::string> shared;
  for (const Stmt& s : loop.around)
    if (const For* l = as<For>(s); l && place.inside(s)) shared.emplace(var_name(l->var));
  for (const IterVar& iter : place.block->iters) {
    std::string follows, own;
    visit_exprs(iter.binding, [&](const Expr& x) {
      if (const Var* v = as<Var>(x)) (shared.contains(v->name) ? follows : own) = v->name;
    });
    std::string variable(var_name(iter.var));
    if (follows.empty() || part.contains(variable)) continue;
    if (!own.empty() || iter.kind == IterKind::Reduce)
      fail_step("schedule-region", {.message = fmt::format("`{}` of `{}` follows loop `{}`, which stands around both places",
                                                           variable, place.block->name, follows),
                                    .expected = "a spatial variable bound to such loops alone, or none",
                                    .found = own.empty() ? "a reduce variable" : fmt::format("loop `{}` too", own)});
    part.emplace(variable, Interval{iter.binding, 1});
  }
}

}  // namespace

PrimFunc reverse_compute_at(const PrimFunc& func, std::string_view block_name, std::string_view loop_name) {
  Program program(func);
  const BlockPlace& place = program.block(block_name);
  const Block& b = *place.block;
  const Place& loop = program.loop(loop_name);
  PointBlock points = require_repeatable(place, "reverse_compute_at");
  auto fail = [&](std::string expected, std::string found) {
    fail_step("schedule-producer", {.message = fmt::format("`{}` cannot run in loop `{}`", b.name, loop_name),
                                    .expected = std::move(expected),
                                    .found = std::move(found)});
  };
  if (place.inside(loop.stmt) || program.order(place.stmt) < program.order(loop.stmt))
    fail("a loop that ends before the block", "a loop around the block or after it");
  for (const Buffer& buffer : points.outputs) {
    require_only_writer(program, place, buffer);
    for (const BlockPlace* reader : program.readers(buffer))
      if (program.order(reader->stmt) < program.order(place.stmt))
        fail("readers of its results after it", fmt::format("block `{}` before it", reader->block->name));
  }
  std::set<std::string> written;
  std::map<std::string, Interval> part;
  std::vector<Stmt> inside = loop.around;
  inside.push_back(loop.stmt);
  for (const Region& r : b.reads) {
    if (writes(b, r.buffer) || !written.insert(r.buffer->name).second) continue;
    std::vector<const BlockPlace*> writers = program.writers(r.buffer);
    size_t in_loop = static_cast<size_t>(
        std::count_if(writers.begin(), writers.end(), [&](const BlockPlace* w) { return w->inside(loop.stmt); }));
    if (in_loop == 0) {
      written.erase(r.buffer->name);
      continue;
    }
    for (const BlockPlace* w : writers) {
      std::set<std::string> reduce = bound_loops(*w->block, IterKind::Reduce);
      for (const Stmt& s : inside)
        if (const For* l = as<For>(s); l && w->inside(s) && reduce.contains(std::string(var_name(l->var))))
          fail("reduce loops inside the loop",
               fmt::format("the reduce loop `{}` of `{}` around it", var_name(l->var), w->block->name));
    }
    if (in_loop != writers.size())
      fail("every writer of what it reads in the loop", fmt::format("`{}` written outside", r.buffer->name));
    available_part(program, place, loop, r.buffer, part);
  }
  if (written.empty())
    fail("a loop in which something that the block reads is computed", "a loop that computes nothing it reads");
  require_inputs_before(program, b, loop.stmt, loop.around, written);
  require_visible(program, b, loop.around, loop.stmt);
  keep_shared_loops(place, loop, part);

  NameSupply names = names_without(func, place);
  const For& l = *as<For>(loop.stmt);
  std::vector<Stmt> body = statements(l.body);
  body.push_back(nest_over(b, part, names, program.ranges()));
  Stmt out = replace(func.body, loop.stmt, loop_with(l, std::move(body)));
  return with_body(func, replace(out, place.stmt, {}));
}

}  // namespace step
}  // namespace tenon::schedule
