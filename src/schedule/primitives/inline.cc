// SPDX-License-Identifier: Apache-2.0
// Blocks that vanish into others: compute_inline, reverse_compute_inline.
#include <fmt/format.h>

#include <algorithm>

#include "schedule/primitives/primitives.h"

namespace tenon::schedule::step {

using namespace tir;

namespace {

/// Far more than a fused group of operators needs, and small enough for what reads the function next.
constexpr int64_t kMostNodes = 20000;

void require_size(const Stmt& s, std::string_view block) {
  int64_t nodes = 0;
  visit_exprs(s, [&](const Expr&) { ++nodes; });
  if (nodes > kMostNodes)
    fail_step("schedule-too-large", {.message = fmt::format("block `{}` would hold {} expressions", block, nodes),
                                     .expected = fmt::format("at most {}", kMostNodes),
                                     .found = std::to_string(nodes)});
}

void require_complete(const Block& b, std::string_view step) {
  std::optional<PointBlock> points = point_block(b);
  if (!is_complete(b) || points->outputs.size() != 1)
    fail_step("schedule-not-complete", {.message = fmt::format("block `{}` is no function of other buffers' elements", b.name),
                                        .expected = fmt::format("a complete block with one store for `{}`", step),
                                        .found = b.init ? "a reduction" : "several stores, or an update",
                                        .hint = "compute the block at a loop instead"});
}

/// The block's variables as the indices of an element of what it stores.
VarMap vars_at(const Block& b, const AxisVars& axes, const std::vector<Expr>& indices) {
  VarMap out;
  for (const IterVar& iter : b.iters) out[std::string(var_name(iter.var))] = Expr(0);
  for (size_t axis = 0; axis < axes.size(); ++axis)
    if (axes[axis]) out[std::string(var_name(axes[axis]->var))] = indices[axis];
  return out;
}

Ranges ranges_of(const Block& b, const Ranges& loops) {
  Ranges out = loops;
  for (const IterVar& iter : b.iters) out[std::string(var_name(iter.var))] = {0, int_value(iter.extent) - 1};
  return out;
}

/// Every load of a buffer as what `value` gives for its indices.
Expr with_loads(const Expr& e, const Buffer& buffer, function_ref<Expr(const std::vector<Expr>&)> value) {
  Expr mapped = map_children(e, [&](const Expr& child) { return with_loads(child, buffer, value); });
  const Load* l = as<Load>(mapped);
  return l && l->buffer->name == buffer->name ? value(l->indices) : mapped;
}

Stmt with_loads(const Stmt& s, const Buffer& buffer, function_ref<Expr(const std::vector<Expr>&)> value) {
  return map_children(
      s, [&](const Stmt& child) { return with_loads(child, buffer, value); },
      [&](const Expr& e) { return with_loads(e, buffer, value); });
}

/// A reader with the values of the inlined block in place of its loads.
Stmt reader_with_values(const Block& reader, const Block& b, const PointBlock& points, const AxisVars& axes,
                        const Ranges& loops) {
  if (holds_block(reader.body))
    fail_step("schedule-consumer", {.message = fmt::format("`{}` is read in a block inside `{}`", b.name, reader.name),
                                    .expected = "readers without blocks inside",
                                    .found = fmt::format("block `{}`", reader.name)});
  Ranges ranges = ranges_of(reader, loops);
  auto value = [&](const std::vector<Expr>& indices) {
    return simplify(substitute(points.values[0], vars_at(b, axes, indices)), ranges);
  };
  Stmt init = reader.init ? with_loads(reader.init, points.outputs[0], value) : reader.init;
  Stmt out = rebuilt(reader, reader.iters, init, with_loads(reader.body, points.outputs[0], value));
  require_size(out, reader.name);
  return out;
}

/// Refuses inputs that are declared anew in each iteration of a loop which the block's own buffer outlasts: a later iteration may
/// read an element whose inputs are gone.
void require_lasting(const Program& program, const Block& b, const Place& declared) {
  for (const Region& r : b.reads) {
    if (program.is_param(r.buffer)) continue;
    for (const Stmt& s : program.declaration(r.buffer).around)
      if (as<For>(s) && !declared.inside(s))
        fail_step("schedule-visibility",
                  {.message = fmt::format("`{}` ends with each iteration of `{}`", r.buffer->name, var_name(as<For>(s)->var)),
                   .expected = fmt::format("inputs that last as long as the result of `{}`", b.name),
                   .found = fmt::format("`{}` declared inside the loop", r.buffer->name)});
  }
}

}  // namespace

PrimFunc compute_inline(const PrimFunc& func, std::string_view block_name) {
  Program program(func);
  const BlockPlace& place = program.block(block_name);
  const Block& b = *place.block;
  require_complete(b, "compute_inline");
  PointBlock points = *point_block(b);
  const Buffer& buffer = points.outputs[0];
  if (program.is_param(buffer))
    fail_step("schedule-output", {.message = fmt::format("`{}` writes the output `{}`", b.name, buffer->name),
                                  .expected = "a block that writes a buffer declared in the function",
                                  .found = "an output",
                                  .hint = "use reverse_compute_inline"});
  require_only_writer(program, place, buffer);
  AxisVars axes = require_plain_indices(b, buffer, points.indices[0]);
  require_inputs_before(program, b, place.stmt, place.around);
  Stmt out = func.body;
  const Place& declared = program.declaration(buffer);
  require_lasting(program, b, declared);
  for (const BlockPlace* reader : program.readers(buffer)) {
    require_visible(program, b, reader->around, reader->stmt, {buffer->name});
    out = replace(out, reader->stmt, reader_with_values(*reader->block, b, points, axes, program.ranges()));
  }
  out = replace(out, place.stmt, {});
  return with_body(func, replace(out, declared.stmt, {}));
}

namespace {

/// The block and its buffer that a reader can be computed in: the reader is the only one, and reads each element at a point of
/// its own.
struct Producer {
  const BlockPlace* place = nullptr;
  Buffer buffer;
  AxisVars axes;   // the producer's variables
  VarMap readers;  // the reader's variables in terms of them
};

std::optional<Producer> producer_of(const Program& program, const BlockPlace& reader) {
  for (const Region& r : reader.block->reads) {
    std::vector<const BlockPlace*> writers = program.writers(r.buffer);
    auto same = [&](const Region& other) { return other.buffer->name == r.buffer->name; };
    bool once = std::count_if(reader.block->reads.begin(), reader.block->reads.end(), same) == 1;
    if (writers.size() != 1 || program.readers(r.buffer).size() != 1 || program.is_param(r.buffer) || !once) continue;
    const Block& p = *writers[0]->block;
    std::optional<PointBlock> points = point_block(p);
    if (!is_complete(p) || points->outputs.size() != 1) continue;
    std::optional<AxisVars> axes = plain_indices(p, r.buffer, points->indices[0]),
                            own = plain_indices(*reader.block, r.buffer, r.min);
    if (!axes || !own) continue;
    Producer out{writers[0], r.buffer, *axes, {}};
    bool matches = true;
    for (const IterVar& iter : reader.block->iters) out.readers[std::string(var_name(iter.var))] = Expr(0);
    int64_t shared = 1, domain = 1;
    for (const IterVar& iter : reader.block->iters) domain *= int_value(iter.extent);
    for (size_t axis = 0; axis < own->size(); ++axis) {
      int64_t written = out.axes[axis] ? int_value(out.axes[axis]->extent) : 1,
              read = (*own)[axis] ? int_value((*own)[axis]->extent) : 1;
      matches &= written == read;
      shared *= read;
      if ((*own)[axis]) out.readers[std::string(var_name((*own)[axis]->var))] = out.axes[axis] ? out.axes[axis]->var : Expr(0);
    }
    if (matches && shared == domain) return out;
  }
  return std::nullopt;
}

}  // namespace

PrimFunc reverse_compute_inline(const PrimFunc& func, std::string_view block_name) {
  Program program(func);
  const BlockPlace& place = program.block(block_name);
  const Block& b = *place.block;
  require_complete(b, "reverse_compute_inline");
  PointBlock points = *point_block(b);
  require_only_writer(program, place, points.outputs[0]);
  std::optional<Producer> producer = producer_of(program, place);
  if (!producer)
    fail_step("schedule-producer", {.message = fmt::format("no block can compute `{}`", b.name),
                                    .expected = "a complete block whose one result only this block reads, element by element",
                                    .found = "a reduction, several readers, or other indices",
                                    .hint = "use reverse_compute_at"});
  const BlockPlace& into = *producer->place;
  require_inputs_before(program, b, into.stmt, into.around, {producer->buffer->name});
  require_visible(program, b, into.around, into.stmt, {producer->buffer->name});
  PointBlock made = *point_block(*into.block);
  Ranges ranges = ranges_of(*into.block, program.ranges());
  std::vector<Expr> indices = points.indices[0];
  for (Expr& e : indices) e = simplify(substitute(e, producer->readers), ranges);
  Expr value = with_loads(substitute(points.values[0], producer->readers), producer->buffer,
                          [&](const std::vector<Expr>&) { return made.values[0]; });
  Stmt body = store(points.outputs[0], indices, simplify(value, ranges));
  Stmt merged = rebuilt(*into.block, into.block->iters, {}, body);
  require_size(merged, into.block->name);
  Stmt out = replace(replace(func.body, place.stmt, {}), into.stmt, merged);
  return with_body(func, replace(out, program.declaration(producer->buffer).stmt, {}));
}

}  // namespace tenon::schedule::step
