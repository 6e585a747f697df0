// SPDX-License-Identifier: Apache-2.0
// Replaces a nest by a user's implementation of what a user's description computes: tensorize.
#include <fmt/format.h>

#include <algorithm>

#include "schedule/primitives/primitives.h"
#include "tir/text.h"

namespace tenon::schedule::step {

using namespace tir;

namespace {

[[noreturn]] void fail_match(std::string message, std::string expected, std::string found) {
  fail_step("schedule-intrinsic", {.message = std::move(message), .expected = std::move(expected), .found = std::move(found)});
}

/// One block with the loops at or inside a statement, its values in terms of loop variables.
struct Computation {
  const BlockPlace* place = nullptr;
  std::vector<const For*> loops;
  PointBlock points;
};

Computation computation_in(const Program& program, const Stmt& s, std::string_view what) {
  std::vector<const BlockPlace*> blocks = program.blocks_in(s);
  std::optional<PointBlock> points = blocks.size() == 1 ? point_block(*blocks[0]->block) : std::nullopt;
  if (!points || !blocks[0]->guards(s).empty())
    fail_match(fmt::format("{} is no nest around one block of plain stores", what),
               "loops without conditions around one such block", fmt::format("{} blocks", blocks.size()));
  Computation out{blocks[0], blocks[0]->loops(s), *points};
  VarMap bindings = blocks[0]->bindings();
  for (std::vector<Expr>& indices : out.points.indices)
    for (Expr& e : indices) e = simplify(substitute(e, bindings), program.ranges());
  for (auto* list : {&out.points.values, &out.points.init})
    for (Expr& e : *list) e = simplify(substitute(e, bindings), program.ranges());
  return out;
}

/// Where a parameter of the description lies: the element of a buffer that stands for its first one.
struct Origin {
  Buffer buffer;
  std::vector<Expr> base;
};

class Matcher {
 public:
  Matcher(const Program& program, const Computation& target, const Computation& description) : ranges_(program.ranges()) {
    bool same = target.loops.size() == description.loops.size();
    for (size_t k = 0; same && k < target.loops.size(); ++k) {
      same = extent_of(*target.loops[k]) == extent_of(*description.loops[k]);
      renamed_[std::string(var_name(description.loops[k]->var))] = target.loops[k]->var;
      inner_.insert(std::string(var_name(target.loops[k]->var)));
    }
    auto extents = [](const Computation& c) {
      std::string out;
      for (const For* l : c.loops) out += (out.empty() ? "" : ", ") + std::to_string(extent_of(*l));
      return out;
    };
    if (!same) fail_match("the loops have other extents", extents(description), extents(target));
    if (target.points.outputs.size() != description.points.outputs.size() ||
        target.points.init.size() != description.points.init.size())
      fail_match("the block stores otherwise than the description", "as many results, and an `init` in both or in neither",
                 fmt::format("block `{}`", target.place->block->name));
    for (size_t k = 0; k < target.points.outputs.size(); ++k) {
      same &= access(target.points.outputs[k], target.points.indices[k], description.points.outputs[k],
                     description.points.indices[k]);
      same &= match(target.points.values[k], description.points.values[k]);
      if (!target.points.init.empty()) same &= match(target.points.init[k], description.points.init[k]);
    }
    if (!same)
      fail_match("the block computes another value", print(substitute(description.points.values[0], renamed_)),
                 print(target.points.values[0]));
  }

  const std::map<std::string, Origin>& origins() const { return origins_; }

 private:
  bool match(const Expr& t, const Expr& d) {
    if (t->kind != d->kind || t->dtype != d->dtype) return false;
    if (const Load* l = as<Load>(t)) return access(l->buffer, l->indices, as<Load>(d)->buffer, as<Load>(d)->indices);
    std::vector<Expr> of_t, of_d;
    for_each_child(t, [&](const Expr& e) { of_t.push_back(e); });
    for_each_child(d, [&](const Expr& e) { of_d.push_back(e); });
    if (of_t.empty()) return structural_equal(t, substitute(d, renamed_));
    const Binary* b = as<Binary>(t);
    const Call* c = as<Call>(t);
    bool same = of_t.size() == of_d.size() && (!b || b->op == as<Binary>(d)->op) && (!c || c->op == as<Call>(d)->op);
    for (size_t k = 0; same && k < of_t.size(); ++k) same = match(of_t[k], of_d[k]);
    return same;
  }

  /// The description's axes are the last ones of the buffer; the others follow no loop of the nest.
  bool access(const Buffer& buffer, const std::vector<Expr>& indices, const Buffer& param, const std::vector<Expr>& described) {
    if (buffer->dtype != param->dtype || indices.size() < described.size()) return false;
    size_t leading = indices.size() - described.size();
    Origin origin{buffer, {}};
    for (size_t axis = 0; axis < indices.size(); ++axis) {
      Expr base =
          axis < leading ? indices[axis] : simplify(indices[axis] - substitute(described[axis - leading], renamed_), ranges_);
      bool fixed = true;
      visit_exprs(base, [&](const Expr& x) {
        if (const Var* v = as<Var>(x)) fixed &= !inner_.contains(v->name);
        fixed &= !as<Load>(x);
      });
      if (!fixed) return false;
      origin.base.push_back(base);
    }
    auto [it, fresh] = origins_.emplace(param->name, origin);
    return fresh || (it->second.buffer->name == buffer->name &&
                     std::equal(it->second.base.begin(), it->second.base.end(), origin.base.begin(),
                                [](const Expr& x, const Expr& y) { return structural_equal(x, y); }));
  }

  const Ranges& ranges_;
  VarMap renamed_;
  std::set<std::string> inner_;
  std::map<std::string, Origin> origins_;
};

/// The implementation's statements over the buffers it stands for, without blocks, every name fresh.
class Placement {
 public:
  Placement(const std::map<std::string, Origin>& origins, NameSupply& names) : origins_(origins), names_(names) {}

  Stmt statement(const Stmt& s) {
    switch (s->kind) {
      case StmtKind::For: {
        const For& l = *as<For>(s);
        Expr min = expr(l.min), extent = expr(l.extent), v = declare(l.var);
        return for_loop(v, min, extent, l.loop_kind, statement(l.body));
      }
      case StmtKind::Let: {
        Expr value = expr(as<Let>(s)->value);
        return let(declare(as<Let>(s)->var), value);
      }
      case StmtKind::Allocate: {
        BufferData data = *as<Allocate>(s)->buffer;
        std::string old = data.name;
        data.name = names_.fresh(old);
        return allocate(buffers_[old] = Buffer(std::move(data)));
      }
      case StmtKind::AllocateConst: {
        BufferData data = *as<AllocateConst>(s)->buffer;
        std::string old = data.name;
        data.name = names_.fresh(old);
        return allocate_const(buffers_[old] = Buffer(std::move(data)), as<AllocateConst>(s)->data);
      }
      case StmtKind::Store: {
        const Store& n = *as<Store>(s);
        auto [buffer, indices] = element(n.buffer, exprs(n.indices));
        return store(buffer, std::move(indices), expr(n.value));
      }
      case StmtKind::Block: {
        const Block& b = *as<Block>(s);
        Expr first = bool_imm(true);
        for (const IterVar& iter : b.iters) {
          vars_[std::string(var_name(iter.var))] = expr(iter.binding);
          if (iter.kind == IterKind::Reduce) first = logical_and(first, eq(expr(iter.binding), Expr(0)));
        }
        std::vector<Stmt> parts;
        if (b.init) parts.push_back(if_then(first, statement(b.init)));
        parts.push_back(statement(b.body));
        return seq(std::move(parts));
      }
      case StmtKind::Prefetch: {
        const Prefetch& n = *as<Prefetch>(s);
        auto [buffer, indices] = element(n.buffer, exprs(n.indices));
        return prefetch(buffer, std::move(indices));
      }
      case StmtKind::Seq:
      case StmtKind::If: break;
    }
    return map_children(s, [&](const Stmt& child) { return statement(child); }, [&](const Expr& e) { return expr(e); });
  }

 private:
  Expr declare(const Expr& v) { return vars_[std::string(var_name(v))] = var(names_.fresh(var_name(v)), v->dtype); }

  Expr expr(const Expr& e) {
    if (const Var* v = as<Var>(e)) return vars_.at(v->name);
    if (const Load* l = as<Load>(e)) {
      auto [buffer, indices] = element(l->buffer, exprs(l->indices));
      return load(buffer, std::move(indices));
    }
    return map_children(e, [&](const Expr& child) { return expr(child); });
  }
  std::vector<Expr> exprs(const std::vector<Expr>& list) {
    std::vector<Expr> out;
    for (const Expr& e : list) out.push_back(expr(e));
    return out;
  }

  std::pair<Buffer, std::vector<Expr>> element(const Buffer& buffer, std::vector<Expr> indices) const {
    if (auto own = buffers_.find(buffer->name); own != buffers_.end()) return {own->second, std::move(indices)};
    const Origin& origin = origins_.at(buffer->name);
    std::vector<Expr> at = origin.base;
    size_t leading = at.size() - indices.size();
    for (size_t axis = 0; axis < indices.size(); ++axis) at[leading + axis] = at[leading + axis] + indices[axis];
    return {origin.buffer, std::move(at)};
  }

  const std::map<std::string, Origin>& origins_;
  NameSupply& names_;
  VarMap vars_;
  BufferMap buffers_;
};

/// Refuses an implementation that is not called as the description is.
void require_signature(const PrimFunc& description, const PrimFunc& implementation) {
  bool same = description.num_inputs == implementation.num_inputs && description.params.size() == implementation.params.size();
  for (size_t k = 0; same && k < description.params.size(); ++k) {
    const Buffer &d = description.params[k], &i = implementation.params[k];
    same = d->name == i->name && structural_equal(d, i);
  }
  if (!same)
    fail_match(fmt::format("`{}` is not called as `{}` is", implementation.name, description.name),
               "the same parameters, by name and type", fmt::format("those of `{}`", implementation.name));
}

bool loads(const Stmt& s, const Buffer& buffer) {
  bool found = false;
  visit_exprs(s, [&](const Expr& e) {
    if (const Load* l = as<Load>(e)) found |= l->buffer->name == buffer->name;
  });
  return found;
}

/// Refuses buffers that stand for an output and another parameter: parameters never overlap.
void require_apart(const PrimFunc& description, const std::map<std::string, Origin>& origins) {
  for (size_t k = static_cast<size_t>(description.num_inputs); k < description.params.size(); ++k)
    for (size_t j = 0; j < k; ++j) {
      const Buffer& buffer = origins.at(description.params[k]->name).buffer;
      if (buffer->name == origins.at(description.params[j]->name).buffer->name)
        fail_match(fmt::format("`{}` stands for two parameters", buffer->name), "a buffer of its own for each output",
                   fmt::format("`{}` and `{}`", description.params[j]->name, description.params[k]->name));
    }
}

}  // namespace

PrimFunc tensorize(const PrimFunc& func, std::string_view loop_name, const PrimFunc& description,
                   const PrimFunc& implementation) {
  require_signature(description, implementation);
  Program program(func), described(description);
  const Place& loop = program.loop(loop_name);
  Computation target = computation_in(program, loop.stmt, fmt::format("loop `{}`", loop_name));
  Computation wanted = computation_in(described, description.body, fmt::format("`{}`", description.name));
  const Block& b = *target.place->block;
  std::set<std::string> reduce = bound_loops(b, IterKind::Reduce);
  for (const For* l : target.place->loops())
    if (b.init && reduce.contains(std::string(var_name(l->var))) &&
        std::find(target.loops.begin(), target.loops.end(), l) == target.loops.end())
      fail_step("schedule-intrinsic", {.message = fmt::format("`{}` starts its sum outside the loop", b.name),
                                       .expected = "every reduce loop of a block with `init` inside",
                                       .found = fmt::format("the reduce loop `{}` around it", var_name(l->var)),
                                       .hint = "decompose_reduction first"});
  std::map<std::string, Origin> origins = Matcher(program, target, wanted).origins();
  for (const Buffer& param : description.params)
    if (!origins.contains(param->name))
      fail_match(fmt::format("`{}` does not use its parameter `{}`", description.name, param->name), "each parameter used",
                 "one unused");
  require_apart(description, origins);

  NameSupply names(func);
  std::vector<IterVar> iters;
  VarMap vars;
  for (const Stmt& s : loop.around) {
    const For* l = as<For>(s);
    if (!l) continue;
    std::string of(var_name(l->var));
    Expr v = vars[of] = var(names.fresh("v_" + of));
    iters.push_back({v, l->extent, reduce.contains(of) ? IterKind::Reduce : IterKind::Spatial, l->var});
  }
  for (auto& [name, origin] : origins)
    for (Expr& e : origin.base) e = substitute(e, vars);
  std::vector<Region> reads, writes;
  for (size_t k = 0; k < description.params.size(); ++k) {
    const Origin& origin = origins.at(description.params[k]->name);
    Region region{origin.buffer, origin.base, {}};
    size_t leading = origin.base.size() - description.params[k].rank();
    for (size_t axis = 0; axis < origin.base.size(); ++axis)
      region.extent.push_back(axis < leading ? Expr(1) : description.params[k]->shape[axis - leading]);
    bool output = static_cast<int64_t>(k) >= description.num_inputs;
    if (output) writes.push_back(region);
    if (!output || loads(implementation.body, description.params[k])) reads.push_back(std::move(region));
  }
  Stmt body = Placement(origins, names).statement(implementation.body);
  return with_body(func,
                   replace(func.body, loop.stmt, block(b.name, std::move(iters), std::move(reads), std::move(writes), {}, body)));
}

}  // namespace tenon::schedule::step
