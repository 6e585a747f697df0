// SPDX-License-Identifier: Apache-2.0
// Copies between buffers, and where buffers live: cache_read, cache_write, set_scope.
#include <fmt/format.h>

#include <algorithm>

#include "schedule/primitives/primitives.h"
#include "tir/text.h"

namespace tenon::schedule::step {

using namespace tir;

namespace {

Scope scope_of(std::string_view text) {
  for (Scope scope : {Scope::Global, Scope::Local, Scope::Reg})
    if (name(scope) == text) return scope;
  fail_step(
      "schedule-arguments",
      {.message = fmt::format("`{}` is no scope", text), .expected = "`global`, `local` or `reg`", .found = std::string(text)});
}

Buffer like(const Buffer& buffer, const std::string& name, Scope scope) {
  return Buffer(BufferData{name, buffer->dtype, buffer->shape, {}, scope});
}

/// The nest that copies a box of one buffer to another of its shape.
Stmt copy_nest(const Buffer& from, const Buffer& to, const std::string& block_name, const Box& box, NameSupply& names,
               const Ranges& ranges) {
  std::vector<IterVar> iters;
  std::vector<Expr> indices;
  std::map<std::string, Interval> part;
  for (size_t axis = 0; axis < box.size(); ++axis) {
    Expr v = var(names.fresh(fmt::format("v_ax{}", axis)));
    iters.push_back({v, to->shape[axis], IterKind::Spatial, var(fmt::format("ax{}", axis))});
    indices.push_back(v);
    part.emplace(var_name(v), box[axis]);
  }
  Stmt body = store(to, indices, load(from, indices));
  Stmt bare = block(block_name, iters, {}, {}, {}, body);
  return nest_over(*as<Block>(rebuilt(*as<Block>(bare), iters, {}, body)), part, names, ranges);
}

/// The outermost statement around a block before which all of a buffer's writers are done.
size_t copy_depth(const Program& program, const std::vector<Stmt>& path, const Buffer& buffer) {
  for (size_t depth = 0; depth < path.size(); ++depth) {
    const Stmt& at = path[depth];
    std::vector<Stmt> around(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(depth));
    bool ready = true;
    if (!program.is_param(buffer)) {
      const Place& declared = program.declaration(buffer);
      ready = program.order(declared.stmt) < program.order(at) && !declared.stmt.same_as(at) &&
              std::any_of(around.begin(), around.end(), [&](const Stmt& s) { return s.same_as(declared.around.back()); });
    }
    for (const BlockPlace* w : program.writers(buffer)) {
      std::set<std::string> reduce = bound_loops(*w->block, IterKind::Reduce);
      ready &= !w->stmt.same_as(at) && !w->inside(at) && program.order(w->stmt) < program.order(at);
      for (const Stmt& s : around)
        if (const For* l = as<For>(s); l && w->inside(s)) ready &= !reduce.contains(std::string(var_name(l->var)));
    }
    if (ready) return depth;
  }
  fail_step("schedule-order",
            {.message = fmt::format("`{}` is not complete before `{}`", buffer->name, as<Block>(path.back())->name),
             .expected = "every writer before the block, with its reduce loops to itself",
             .found = "a writer after it or around it"});
}

void require_numbers(const Buffer& buffer) {
  for (const Expr& extent : buffer->shape)
    if (!as_int(extent))
      fail_step("schedule-bounds", {.message = fmt::format("`{}` has an extent that is no number", buffer->name),
                                    .expected = "a buffer whose extents are numbers",
                                    .found = print(extent)});
}

}  // namespace

PrimFunc cache_read(const PrimFunc& func, std::string_view block_name, std::string_view buffer_name, std::string_view scope,
                    const std::string& name) {
  Program program(func);
  const BlockPlace& place = program.block(block_name);
  const Block& b = *place.block;
  Buffer buffer = program.buffer(buffer_name);
  require_numbers(buffer);
  if (!reads(b, buffer) || writes(b, buffer))
    fail_step("schedule-consumer", {.message = fmt::format("block `{}` does not only read `{}`", block_name, buffer_name),
                                    .expected = "a buffer that the block reads and does not write",
                                    .found = std::string(buffer_name)});
  std::vector<Stmt> path = place.around;
  path.push_back(place.stmt);
  size_t depth = copy_depth(program, path, buffer);
  const Stmt& at = path[depth];
  std::vector<Access> list = accesses(program, place.stmt, buffer);
  Box box = box_of(program, list, buffer, at);
  NameSupply names(func);
  Buffer cache = like(buffer, name, scope_of(scope));
  names.reserve(name);
  Stmt copy = copy_nest(buffer, cache, name, box, names, program.ranges());
  Stmt reader = replace_buffers(place.stmt, {{buffer->name, cache}});
  Stmt rest = replace(at, place.stmt, reader);
  return with_body(func, splice(func.body, at, {allocate(cache), copy, rest}));
}

PrimFunc cache_write(const PrimFunc& func, std::string_view block_name, std::string_view buffer_name, std::string_view scope,
                     const std::string& name) {
  Program program(func);
  const BlockPlace& place = program.block(block_name);
  const Block& b = *place.block;
  Buffer buffer = program.buffer(buffer_name);
  require_numbers(buffer);
  if (!writes(b, buffer))
    fail_step("schedule-consumer", {.message = fmt::format("block `{}` does not write `{}`", block_name, buffer_name),
                                    .expected = "a buffer that the block writes",
                                    .found = std::string(buffer_name)});
  require_repeatable(place, "cache_write");
  require_only_writer(program, place, buffer);
  // The loops and conditions that hold this block alone.
  size_t depth = place.around.size();
  while (depth > 0 && !as<Seq>(place.around[depth - 1])) --depth;
  std::vector<Stmt> path = place.around;
  path.push_back(place.stmt);
  const Stmt& at = path[depth];
  std::set<std::string> reduce = bound_loops(b, IterKind::Reduce);
  bool shared = false;
  for (size_t k = 0; k < depth; ++k) {
    const For* l = as<For>(path[k]);
    shared |= l != nullptr;
    if (l && reduce.contains(std::string(var_name(l->var))))
      fail_step("schedule-order",
                {.message = fmt::format("`{}` is not complete after one iteration of `{}`", buffer_name, var_name(l->var)),
                 .expected = "the block's reduce loops to itself",
                 .found = fmt::format("the reduce loop `{}` around other statements", var_name(l->var))});
  }
  std::vector<Access> list = accesses(program, place.stmt, buffer);
  std::erase_if(list, [](const Access& a) { return !a.write; });
  Box box = box_of(program, list, buffer, at);
  if (shared && (list.size() != 1 || !fills(list[0], box, at)))
    fail_step("schedule-region",
              {.message = fmt::format("`{}` does not fill a box of `{}` in its own loops", block_name, buffer_name),
               .expected = "loops of the block alone that write a whole box",
               .found = "other elements between those it writes"});
  NameSupply names(func);
  Buffer cache = like(buffer, name, scope_of(scope));
  names.reserve(name);
  Stmt copy = copy_nest(cache, buffer, names.fresh(std::string(buffer_name) + "_store"), box, names, program.ranges());
  Stmt writer = replace(at, place.stmt, replace_buffers(place.stmt, {{buffer->name, cache}}));
  return with_body(func, splice(func.body, at, {allocate(cache), writer, copy}));
}

PrimFunc set_scope(const PrimFunc& func, std::string_view buffer_name, std::string_view scope) {
  Program program(func);
  Buffer buffer = program.buffer(buffer_name);
  if (program.is_param(buffer) || as<AllocateConst>(program.declaration(buffer).stmt))
    fail_step("schedule-output", {.message = fmt::format("`{}` is a parameter or a constant", buffer_name),
                                  .expected = "a buffer that the function allocates",
                                  .found = std::string(buffer_name),
                                  .hint = "cache_read or cache_write it, and give the copy a scope"});
  BufferData data = *buffer;
  data.scope = scope_of(scope);
  return with_body(func, replace_buffers(func.body, {{buffer->name, Buffer(std::move(data))}}));
}

}  // namespace tenon::schedule::step
