// SPDX-License-Identifier: Apache-2.0
// Shapes of buffers and domains: transform_layout, pad.
#include <fmt/format.h>

#include <algorithm>

#include "schedule/primitives/primitives.h"
#include "tir/text.h"

namespace tenon::schedule::step {

using namespace tir;

namespace {

Expr rewrite_access(const Expr& e, const Buffer& buffer, function_ref<Expr(const Load&)> value) {
  Expr mapped = map_children(e, [&](const Expr& child) { return rewrite_access(child, buffer, value); });
  const Load* l = as<Load>(mapped);
  return l && l->buffer->name == buffer->name ? value(*l) : mapped;
}

/// Reads and writes of a buffer as accesses of another one at other indices.
Stmt rewrite_accesses(const Stmt& s, const Buffer& buffer, const Buffer& to,
                      function_ref<std::vector<Expr>(const std::vector<Expr>&)> indices) {
  auto value = [&](const Load& l) { return load(to, indices(l.indices)); };
  Stmt mapped = map_children(
      s, [&](const Stmt& child) { return rewrite_accesses(child, buffer, to, indices); },
      [&](const Expr& e) { return rewrite_access(e, buffer, value); });
  const Store* n = as<Store>(mapped);
  return n && n->buffer->name == buffer->name ? store(to, indices(n->indices), n->value) : mapped;
}

struct IndexMap {
  std::vector<Extent> vars;
  std::vector<Expr> results;
  std::vector<int64_t> extents;
};

[[noreturn]] void fail_layout(std::string message, std::string expected, std::string_view found) {
  fail_step("schedule-layout", {.message = std::move(message), .expected = std::move(expected), .found = std::string(found)});
}

/// `i, j -> floordiv(i, 4), j, floormod(i, 4)` for a buffer with two axes.
IndexMap read_map(const std::string& text, const Buffer& buffer) {
  TextCursor cursor("layout", text);
  IndexMap out;
  VarMap vars;
  Ranges ranges;
  do {
    std::string name = cursor.expect_name("the name of an index");
    size_t axis = out.vars.size();
    const int64_t* extent = axis < buffer.rank() ? as_int(buffer->shape[axis]) : nullptr;
    if (!extent || !vars.try_emplace(name, var(name)).second)
      fail_layout(fmt::format("the map does not name the axes of `{}`", buffer->name),
                  fmt::format("{} different names, for axes whose extents are numbers", buffer.rank()), text);
    out.vars.push_back({name, *extent});
    ranges[name] = {0, *extent - 1};
  } while (cursor.accept(","));
  if (out.vars.size() != buffer.rank())
    fail_layout(fmt::format("the map does not name the axes of `{}`", buffer->name), fmt::format("{} names", buffer.rank()),
                text);
  cursor.expect("->");
  do {
    Expr e = simplify(parse_expr(cursor, vars), ranges);
    std::optional<Range> range = range_of(e, ranges);
    if (!range || range->low != 0)
      fail_layout(fmt::format("the index {} does not run from 0 to a number", print(e)), "an index over [0, a number)", text);
    out.results.push_back(e);
    out.extents.push_back(range->high + 1);
  } while (cursor.accept(","));
  if (!cursor.at_end()) cursor.fail_unexpected("`,` or the end of the map");
  if (!injective(out.results, {out.vars, {}}))
    fail_layout(fmt::format("two elements of `{}` may get one place", buffer->name),
                "a map that gives each element its own place", text);
  return out;
}

}  // namespace

PrimFunc transform_layout(const PrimFunc& func, std::string_view buffer_name, const std::string& map_text) {
  Program program(func);
  Buffer buffer = program.buffer(buffer_name);
  if (program.is_param(buffer) || as<AllocateConst>(program.declaration(buffer).stmt))
    fail_step("schedule-output", {.message = fmt::format("`{}` is a parameter or a constant", buffer_name),
                                  .expected = "a buffer that the function allocates",
                                  .found = std::string(buffer_name),
                                  .hint = "cache_read or cache_write it, and give the copy another layout"});
  IndexMap map = read_map(map_text, buffer);
  BufferData data = *buffer;
  data.shape.assign(map.extents.begin(), map.extents.end());
  data.strides.clear();
  Buffer to(std::move(data));
  Stmt out = replace(func.body, program.declaration(buffer).stmt, allocate(to));
  for (const BlockPlace& place : program.blocks()) {
    const Block& b = *place.block;
    if (!reads(b, buffer) && !writes(b, buffer)) continue;
    if (holds_block(b.body))
      fail_step("schedule-consumer", {.message = fmt::format("`{}` is used in a block inside `{}`", buffer_name, b.name),
                                      .expected = "blocks without blocks inside",
                                      .found = fmt::format("block `{}`", b.name)});
    Ranges ranges = program.ranges();
    for (const IterVar& iter : b.iters) ranges[std::string(var_name(iter.var))] = {0, int_value(iter.extent) - 1};
    auto indices = [&](const std::vector<Expr>& old) {
      VarMap at;
      for (size_t axis = 0; axis < old.size(); ++axis) at[map.vars[axis].name] = old[axis];
      std::vector<Expr> moved;
      for (const Expr& e : map.results) moved.push_back(simplify(substitute(e, at), ranges));
      return moved;
    };
    Stmt init = b.init ? rewrite_accesses(b.init, buffer, to, indices) : b.init;
    out = replace(out, place.stmt, rebuilt(b, b.iters, init, rewrite_accesses(b.body, buffer, to, indices)));
  }
  return with_body(func, out);
}

namespace {

/// One padded operand or result of a block.
struct Padded {
  Buffer from, to;
  std::vector<Expr> indices;          // where the block reads or writes it
  std::vector<const IterVar*> iters;  // per axis, the padded variable that is its index, or null
  Expr fill;
};

class Padding {
 public:
  Padding(const Program& program, const BlockPlace& place, const std::vector<int64_t>& multiples)
      : program_(program), place_(place), b_(*place.block), names_(program.func()) {
    if (multiples.size() != b_.iters.size()) fail_multiples(multiples.size());
    bool changes = false;
    for (size_t k = 0; k < multiples.size(); ++k) {
      const IterVar& iter = b_.iters[k];
      int64_t extent = int_value(iter.extent);
      if (multiples[k] < 1) fail_multiples(multiples.size());
      int64_t padded = (extent + multiples[k] - 1) / multiples[k] * multiples[k];
      if (padded == extent) continue;
      extents_[std::string(var_name(iter.var))] = padded;
      changes = true;
    }
    if (!changes) fail_multiples(multiples.size());
    require_plain_loops();
  }

  PrimFunc run(const Stmt& at) {
    PointBlock points = *point_block(b_);
    std::optional<Combiner> combined = combiner(b_);
    bool reduce_padded = std::any_of(b_.iters.begin(), b_.iters.end(), [&](const IterVar& i) {
      return i.kind == IterKind::Reduce && padded_extent(i) != int_value(i.extent);
    });
    if (reduce_padded && !combined) fail_neutral("its update has no neutral value");
    for (size_t k = 0; k < points.outputs.size(); ++k) {
      for (const Expr& e : points.init.empty() ? std::vector<Expr>{} : std::vector{points.init[k]}) add_operands(e, {});
      if (reduce_padded) require_neutral(combined->ops[k], combined->operands[k]);
      Expr fill =
          reduce_padded && as<Load>(combined->operands[k]) ? identity(combined->ops[k], combined->operands[k]->dtype) : Expr();
      add_operands(reduce_padded ? combined->operands[k] : points.values[k], fill);
    }
    std::vector<Stmt> before, after;
    Stmt init = b_.init, body = b_.body;
    for (const Padded& operand : operands_) {
      if (writes(b_, operand.from)) continue;
      before.push_back(allocate(operand.to));
      before.push_back(pad_nest(operand));
      redirect(operand, init, body);
    }
    for (size_t k = 0; k < points.outputs.size(); ++k) {
      AxisVars vars = require_plain_indices(b_, points.outputs[k], points.indices[k]);
      Padded result = padded_like(points.outputs[k], points.indices[k], {vars.begin(), vars.end()}, {});
      if (!result.to) continue;
      before.push_back(allocate(result.to));
      after.push_back(crop_nest(result));
      redirect(result, init, body);
    }
    std::vector<IterVar> iters = b_.iters;
    for (IterVar& iter : iters) iter.extent = Expr(padded_extent(iter));
    Stmt nest = rebuilt(b_, iters, init, body);
    std::vector<const For*> loops = place_.loops();
    for (size_t k = loops.size(); k-- > 0;) {
      auto iter =
          std::find_if(iters.begin(), iters.end(), [&](const IterVar& i) { return structural_equal(i.binding, loops[k]->var); });
      nest = for_loop(loops[k]->var, loops[k]->min, iter->extent, loops[k]->loop_kind, nest);
    }
    before.push_back(nest);
    before.insert(before.end(), after.begin(), after.end());
    return with_body(program_.func(), splice(program_.func().body, at, before));
  }

 private:
  [[noreturn]] void fail_multiples(size_t count) const {
    fail_step("schedule-factor",
              {.message = fmt::format("`{}` is not padded by these multiples", b_.name),
               .expected = fmt::format("{} positive numbers, one for each block variable, not all of which divide its extent",
                                       b_.iters.size()),
               .found = fmt::format("{} numbers", count)});
  }
  [[noreturn]] void fail_neutral(std::string why) const {
    fail_step("schedule-neutral",
              {.message = fmt::format("`{}` cannot be padded: {}", b_.name, why),
               .expected = "padded variables that are an index of their own of each operand, and for reduce ones a product "
                           "of operands that follow them or one such operand",
               .found = why});
  }

  /// The block's loops as `lower` makes them: one for each variable, as long as it.
  void require_plain_loops() const {
    std::vector<const For*> loops = place_.loops();
    bool plain = place_.guards().empty() && loops.size() == b_.iters.size();
    for (const IterVar& iter : b_.iters)
      plain &= std::count_if(loops.begin(), loops.end(), [&](const For* l) {
                 return structural_equal(l->var, iter.binding) && structural_equal(l->extent, iter.extent);
               }) == 1;
    if (!plain)
      fail_step("schedule-binding", {.message = fmt::format("the loops of `{}` are not its variables", b_.name),
                                     .expected = "one loop for each variable, of its extent",
                                     .found = "split, fused or shared loops",
                                     .hint = "pad before the loops change their shape"});
  }

  int64_t padded_extent(const IterVar& iter) const {
    auto it = extents_.find(std::string(var_name(iter.var)));
    return it == extents_.end() ? int_value(iter.extent) : it->second;
  }

  bool mentions_padded(const Expr& e) const {
    bool found = false;
    visit_exprs(e, [&](const Expr& x) {
      if (const Var* v = as<Var>(x)) found |= extents_.contains(v->name);
    });
    return found;
  }

  /// Nothing in `to` if no axis follows a padded variable.
  Padded padded_like(const Buffer& buffer, const std::vector<Expr>& indices, std::vector<const IterVar*> iters,
                     const Expr& fill) {
    BufferData data{buffer->name, buffer->dtype, buffer->shape, {}, Scope::Global};
    bool changes = false;
    for (size_t axis = 0; axis < iters.size(); ++axis) {
      if (!iters[axis] || padded_extent(*iters[axis]) == int_value(iters[axis]->extent)) {
        iters[axis] = nullptr;
        continue;
      }
      data.shape[axis] = Expr(padded_extent(*iters[axis]));
      changes = true;
    }
    if (!changes) return {buffer, {}, indices, iters, fill};
    data.name = names_.fresh(buffer->name + "_pad");
    return {buffer, Buffer(std::move(data)), indices, iters, fill};
  }

  void add_operands(const Expr& e, const Expr& fill) {
    visit_exprs(e, [&](const Expr& x) {
      const Load* l = as<Load>(x);
      if (!l || writes(b_, l->buffer)) return;
      std::vector<const IterVar*> iters;
      for (const Expr& index : l->indices) {
        auto iter =
            std::find_if(b_.iters.begin(), b_.iters.end(), [&](const IterVar& i) { return structural_equal(i.var, index); });
        bool found = iter != b_.iters.end() && std::find(iters.begin(), iters.end(), &*iter) == iters.end();
        if (!found && mentions_padded(index)) fail_neutral(fmt::format("`{}` is read at {}", l->buffer->name, print(index)));
        iters.push_back(found ? &*iter : nullptr);
      }
      Padded operand = padded_like(l->buffer, l->indices, std::move(iters), fill ? fill : imm(l->buffer->dtype, 0));
      if (!operand.to) return;
      for (const Padded& known : operands_) {
        if (known.from->name != operand.from->name) continue;
        bool same = std::equal(known.indices.begin(), known.indices.end(), operand.indices.begin(),
                               [](const Expr& p, const Expr& q) { return structural_equal(p, q); });
        if (!same || !structural_equal(known.fill, operand.fill))
          fail_neutral(fmt::format("`{}` is read in two ways", l->buffer->name));
        return;
      }
      operands_.push_back(std::move(operand));
    });
  }

  /// A padded reduce point adds 0, or is the operation's identity itself.
  void require_neutral(BinaryOp op, const Expr& operand) const {
    auto follows_all = [&](const Load& l) {
      return std::all_of(b_.iters.begin(), b_.iters.end(), [&](const IterVar& i) {
        if (i.kind == IterKind::Spatial || padded_extent(i) == int_value(i.extent)) return true;
        return std::any_of(l.indices.begin(), l.indices.end(), [&](const Expr& e) { return structural_equal(e, i.var); });
      });
    };
    if (const Load* l = as<Load>(operand)) {
      if (!follows_all(*l)) fail_neutral(fmt::format("`{}` does not follow each padded variable", l->buffer->name));
      return;
    }
    if (op != BinaryOp::Add || !product_of(operand, follows_all)) fail_neutral("its operand is no product of padded values");
  }
  static bool product_of(const Expr& e, function_ref<bool(const Load&)> follows) {
    if (const Load* l = as<Load>(e)) return follows(*l);
    if (const Cast* c = as<Cast>(e)) return product_of(c->value, follows);
    const Binary* b = as<Binary>(e);
    return b && b->op == BinaryOp::Mul && product_of(b->a, follows) && product_of(b->b, follows);
  }

  void redirect(const Padded& padded, Stmt& init, Stmt& body) {
    BufferMap map{{padded.from->name, padded.to}};
    if (init) init = replace_buffers(init, map);
    body = replace_buffers(body, map);
  }

  /// Variables over a buffer's axes with their loops, and the indices that they are.
  std::vector<IterVar> axes_of(const std::vector<Expr>& shape, std::vector<Expr>& indices) {
    std::vector<IterVar> iters;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      Expr v = var(names_.fresh(fmt::format("v_ax{}", axis)));
      iters.push_back({v, shape[axis], IterKind::Spatial, var(fmt::format("ax{}", axis))});
      indices.push_back(v);
    }
    return iters;
  }
  Stmt block_nest(const std::string& name, std::vector<IterVar> iters, const Stmt& body) {
    Stmt bare = block(name, iters, {}, {}, {}, body);
    return nest_over(*as<Block>(rebuilt(*as<Block>(bare), iters, {}, body)), {}, names_, program_.ranges());
  }

  Stmt pad_nest(const Padded& operand) {
    std::vector<Expr> at;
    std::vector<IterVar> iters = axes_of(operand.to->shape, at);
    std::vector<Expr> limits;
    for (size_t axis = 0; axis < at.size(); ++axis) {
      if (!operand.iters[axis]) continue;
      int64_t known = std::min(int_value(operand.iters[axis]->extent), int_value(operand.from->shape[axis]));
      limits.push_back(lt(at[axis], Expr(known)));
    }
    Expr inside = conjunction(limits);
    return block_nest(operand.to->name, iters, store(operand.to, at, select(inside, load(operand.from, at), operand.fill)));
  }

  Stmt crop_nest(const Padded& result) {
    std::vector<Expr> at, shape = result.from->shape;
    for (size_t axis = 0; axis < shape.size(); ++axis)
      if (result.iters[axis]) shape[axis] = result.iters[axis]->extent;
    std::vector<IterVar> iters = axes_of(shape, at);
    return block_nest(names_.fresh(result.from->name + "_crop"), iters, store(result.from, at, load(result.to, at)));
  }

  const Program& program_;
  const BlockPlace& place_;
  const Block& b_;
  NameSupply names_;
  std::map<std::string, int64_t> extents_;  // of padded variables
  std::vector<Padded> operands_;
};

}  // namespace

PrimFunc pad(const PrimFunc& func, std::string_view block_name, const std::vector<int64_t>& multiples) {
  Program program(func);
  const BlockPlace& place = program.block(block_name);
  PointBlock points = require_repeatable(place, "pad");
  for (const Buffer& buffer : points.outputs) require_only_writer(program, place, buffer);
  Stmt at = require_own_nest(place, "pad");
  return Padding(program, place, multiples).run(at);
}

}  // namespace tenon::schedule::step
