// SPDX-License-Identifier: Apache-2.0
// Loop kinds: vectorize, unroll, parallel, bind.
#include <fmt/format.h>

#include "schedule/primitives/primitives.h"

namespace tenon::schedule {

using namespace tir;

namespace {

/// Refuses a loop over workers in which a buffer's memory is not where its scope says: one for all iterations is global, one
/// for each iteration is not.
void require_scopes(const Program& program, const Stmt& loop, std::string_view step) {
  std::set<std::string> inside;
  auto fail = [&](const Buffer& buffer, std::string_view where, std::string_view wanted) {
    fail_step("schedule-scope",
              {.message = fmt::format("`{}`, declared {} the loop, is {}", buffer->name, where, name(buffer->scope)),
               .expected = fmt::format("scope {} for `{}`", wanted, step),
               .found = std::string(name(buffer->scope)),
               .hint = fmt::format("`set_scope {} {}` first", buffer->name, wanted)});
  };
  visit(loop, [&](const Stmt& s) {
    const Allocate* a = as<Allocate>(s);
    if (!a) return;
    inside.insert(a->buffer->name);
    if (a->buffer->scope == Scope::Global) fail(a->buffer, "inside", "local");
  });
  for (const BlockPlace* place : program.blocks_in(loop))
    for (const auto* list : {&place->block->reads, &place->block->writes})
      for (const Region& r : *list)
        if (!inside.contains(r.buffer->name) && r.buffer->scope != Scope::Global) fail(r.buffer, "outside", "global");
}

/// Refuses registers whose place in the row is not known when compiling.
void require_register_indices(const Program& program, const Buffer& buffer) {
  for (const Access& access : accesses(program, program.func().body, buffer)) {
    std::map<std::string, const For*> around;
    for (const For* l : access.place->loops()) around[std::string(var_name(l->var))] = l;
    for (size_t axis = 0; axis < access.min.size(); ++axis) {
      bool known = access.extent[axis] == 1;
      visit_exprs(access.min[axis], [&](const Expr& x) {
        const Var* v = as<Var>(x);
        if (!v) return;
        auto l = around.find(v->name);
        bool lane = l != around.end() && l->second->loop_kind == ForKind::Vectorized && axis + 1 == access.min.size() &&
                    x.same_as(access.min[axis]) && extent_of(*l->second) == int_value(buffer->shape[axis]);
        known &= lane || (l != around.end() && l->second->loop_kind == ForKind::Unrolled);
      });
      if (!known)
        fail_step("schedule-scope",
                  {.message = fmt::format("`{}` is used at an index that is not known when compiling", buffer->name),
                   .expected = "unrolled loops, and a vectorized one for the whole last axis, in scope reg",
                   .found = fmt::format("block `{}`", access.place->block->name),
                   .hint = "unroll and vectorize the loops around its blocks first"});
    }
  }
}

/// Refuses a loop that would give an axis of the launch grid a second extent, or each of its places several iterations.
void require_axis_free(const Program& program, const Place& loop, ForKind axis) {
  int64_t extent = extent_of(*as<For>(loop.stmt));
  auto fail = [&](const For& other, std::string expected) {
    fail_step("schedule-axis", {.message = fmt::format("loop `{}` of extent {} is over {} already", program.loop_name(other),
                                                       extent_of(other), name(axis)),
                                .expected = std::move(expected),
                                .found = fmt::format("extent {}", extent)});
  };
  for (const Place& place : program.loops()) {
    const For& other = *as<For>(place.stmt);
    if (place.stmt.same_as(loop.stmt) || other.loop_kind != axis) continue;
    if (place.inside(loop.stmt) || loop.inside(place.stmt)) fail(other, "another axis for a loop around or inside it");
    if (extent_of(other) != extent) fail(other, "loops of one extent on one axis");
  }
}

/// Checks each loop kind and scope of a function by itself; what fails comes with its key.
std::map<std::string, CompileError> broken_kinds(const PrimFunc& func) {
  Program program(func);
  std::map<std::string, CompileError> out;
  auto attempt = [&](std::string key, auto&& check) {
    try {
      check();
    } catch (const CompileError& error) {
      out.emplace(std::move(key), error);
    }
  };
  for (const Place& loop : program.loops()) {
    const For& l = *as<For>(loop.stmt);
    std::string key = fmt::format("{} {}", var_name(l.var), name(l.loop_kind));
    if (l.loop_kind == ForKind::Serial || l.loop_kind == ForKind::Unrolled) continue;
    attempt(key, [&] { require_independent(program, loop, name(l.loop_kind)); });
    if (is_block_axis(l.loop_kind) || is_thread_axis(l.loop_kind))
      attempt(key + " axis", [&] { require_axis_free(program, loop, l.loop_kind); });
    if (runs_on_workers(l.loop_kind)) attempt(key + " scopes", [&] { require_scopes(program, loop.stmt, name(l.loop_kind)); });
  }
  visit(func.body, [&](const Stmt& s) {
    const Allocate* a = as<Allocate>(s);
    if (a && a->buffer->scope == Scope::Reg) attempt(a->buffer->name, [&] { require_register_indices(program, a->buffer); });
  });
  return out;
}

}  // namespace

void require_kinds_kept(const PrimFunc& before, const PrimFunc& after) {
  std::map<std::string, CompileError> broken = broken_kinds(after);
  if (broken.empty()) return;
  std::map<std::string, CompileError> already = broken_kinds(before);
  for (const auto& [key, error] : broken)
    if (!already.contains(key)) throw error;
}

namespace step {

namespace {

const Place& serial_loop(const Program& program, std::string_view loop, std::string_view step) {
  const Place& place = program.loop(loop);
  const For& l = *as<For>(place.stmt);
  if (l.loop_kind != ForKind::Serial)
    fail_step("schedule-loop-kind", {.message = fmt::format("loop `{}` is {}", loop, name(l.loop_kind)),
                                     .expected = fmt::format("a serial loop for `{}`", step),
                                     .found = std::string(name(l.loop_kind))});
  return place;
}

PrimFunc with_kind(const PrimFunc& func, const Stmt& loop, ForKind kind) {
  const For& l = *as<For>(loop);
  return with_body(func, replace(func.body, loop, for_loop(l.var, l.min, l.extent, kind, l.body)));
}

}  // namespace

PrimFunc vectorize(const PrimFunc& func, std::string_view loop) {
  Program program(func);
  const Place& place = serial_loop(program, loop, "vectorize");
  require_independent(program, place, "vectorize");
  return with_kind(func, place.stmt, ForKind::Vectorized);
}

PrimFunc unroll(const PrimFunc& func, std::string_view loop) {
  Program program(func);
  return with_kind(func, serial_loop(program, loop, "unroll").stmt, ForKind::Unrolled);
}

PrimFunc parallel(const PrimFunc& func, std::string_view loop) {
  Program program(func);
  const Place& place = serial_loop(program, loop, "parallel");
  require_independent(program, place, "parallel");
  return with_kind(func, place.stmt, ForKind::Parallel);
}

PrimFunc bind(const PrimFunc& func, std::string_view loop, std::string_view axis) {
  Program program(func);
  const Place& place = serial_loop(program, loop, "bind");
  std::string axes;
  for (int k = static_cast<int>(ForKind::BlockX); k < kForKinds; ++k) {
    auto kind = static_cast<ForKind>(k);
    axes += fmt::format("{}{}", axes.empty() ? "" : ", ", name(kind));
    if (name(kind) != axis) continue;
    require_axis_free(program, place, kind);
    require_independent(program, place, "bind");
    return with_kind(func, place.stmt, kind);
  }
  fail_step(
      "schedule-axis",
      {.message = fmt::format("there is no launch axis `{}`", axis), .expected = "one of " + axes, .found = std::string(axis)});
}

}  // namespace step
}  // namespace tenon::schedule
