// SPDX-License-Identifier: Apache-2.0
// What the nests share: loops, tiles, fma, and the pieces of a reduction.
#include "schedule/nests.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/primitives/place.h"

namespace tenon::schedule {

using namespace tir;

int64_t lanes_for(const Target& target, const std::vector<Stmt>& stmts) {
  int widest = 1;
  auto note = [&](const Expr& e) {
    visit_exprs(e, [&](const Expr& x) {
      if (!as<IntImm>(x) && !(x->dtype == DType::I64 && !as<Load>(x))) widest = std::max(widest, byte_size(x->dtype));
    });
  };
  for (const Stmt& top : stmts)
    visit(top, [&](const Stmt& s) {
      if (const Store* st = as<Store>(s)) {
        widest = std::max(widest, byte_size(st->buffer->dtype));
        note(st->value);
      } else if (const Let* l = as<Let>(s); l && l->value->dtype != DType::I64) {
        note(l->value);
      }
    });
  if (widest < 4) widest = 4;  // narrow types are widened in registers by most of what is done with them
  return target.machine.vector_bytes / widest;
}

Loop loop_over(const Iter& iter) { return {iter.var(), Expr(iter.extent)}; }

Stmt in_scope(std::vector<Stmt> stmts) { return stmts.size() == 1 ? stmts[0] : scoped(std::move(stmts)); }

Stmt in_loops(const std::vector<Loop>& loops, Stmt body) {
  for (size_t i = loops.size(); i-- > 0;) body = for_loop(loops[i].var, Expr(0), loops[i].extent, loops[i].kind, body);
  return body;
}

std::optional<size_t> worker_loop(const std::vector<Loop>& loops, int64_t work) {
  constexpr int64_t kWorthWaking = 1 << 15;
  if (work < kWorthWaking) return std::nullopt;
  for (size_t i = 0; i < loops.size(); ++i) {
    const int64_t* extent = as_int(loops[i].extent);
    if (!extent || *extent >= 4) return i;
  }
  return std::nullopt;
}

void parallelise(std::vector<Loop>& loops, std::optional<size_t> which, std::string_view stage) {
  if (!which) return;
  if (*which >= loops.size())
    fail_step("schedule-nest-size",
              {.message = fmt::format("`{}` has no loop {} to run on workers", stage, *which),
               .expected = loops.empty() ? "no `worker`" : fmt::format("from 0, the outermost, to {}", loops.size() - 1),
               .found = std::to_string(*which)});
  loops[*which].kind = ForKind::Parallel;
}

void parallelise(std::vector<Loop>& loops, int64_t work, const NestRequest& request) {
  std::optional<size_t>& worker = request.nest.worker;
  if (!request.given) worker = request.parallel ? worker_loop(loops, work) : std::nullopt;
  if (worker && !request.parallel)
    fail_step("schedule-nest-size", {.message = fmt::format("`{}` stands in loops over shared axes", request.nest.stage),
                                     .expected = "`worker` at the step `share` only",
                                     .found = std::to_string(*worker)});
  parallelise(loops, worker, request.nest.stage);
}

void require_size(std::string_view stage, std::string_view what, int64_t size, int64_t most) {
  if (size < 1 || size > most)
    fail_step("schedule-nest-size", {.message = fmt::format("`{}` of the nest of `{}` is {}", what, stage, size),
                                     .expected = most > 1 ? fmt::format("from 1 to {}", most) : "1",
                                     .found = std::to_string(size)});
}

Tiling tile(const Iter& iter, int64_t size, Emission& emission) {
  Tiling out;
  out.count = (iter.extent + size - 1) / size;
  Expr index = var(emission.names.fresh(iter.name + "_tile"));
  out.loop = {index, Expr(out.count)};
  emission.ranges[as<Var>(index)->name] = {0, out.count - 1};
  if (out.count == 1) {
    out.begin = Expr(0);
  } else if (iter.extent % size == 0) {
    out.begin = index * Expr(size);
  } else {
    out.begin = var(emission.names.fresh(iter.name + "_begin"));
    emission.ranges[as<Var>(out.begin)->name] = {0, iter.extent - size};
    out.declare = let(out.begin, min(index * Expr(size), Expr(iter.extent - size)));
  }
  return out;
}

namespace {

/// Whether every part is an i64: a sum, product and so on of variables and numbers.
bool is_index(const Expr& e) {
  bool others = contains(e, ExprKind::Load) || contains(e, ExprKind::Cast) || contains(e, ExprKind::Call);
  return e->dtype == DType::I64 && !others && !contains(e, ExprKind::Select);
}

}  // namespace

Expr contract(const Expr& e, const Target& target) {
  if (is_index(e)) return e;
  Expr mapped = map_children(e, [&](const Expr& child) { return contract(child, target); });
  const Binary* add = as<Binary>(mapped);
  if (!target.machine.fma || !add || add->op != BinaryOp::Add || (e->dtype != DType::F32 && e->dtype != DType::F64))
    return mapped;
  const Binary* left = as<Binary>(add->a);
  const Binary* right = as<Binary>(add->b);
  if (right && right->op == BinaryOp::Mul) return call(Intrinsic::Fma, {right->a, right->b, add->a});
  if (left && left->op == BinaryOp::Mul) return call(Intrinsic::Fma, {left->a, left->b, add->b});
  return mapped;
}

Stmt contract(const Stmt& s, const Target& target) {
  return map_children(
      s, [&](const Stmt& child) { return contract(child, target); }, [&](const Expr& e) { return contract(e, target); });
}

ReductionBody reduction_body(const NestRequest& request) {
  Emission& emission = request.emission;
  const Stage& reduction = *request.root.reduction;
  const Stage& output = request.root.output();
  ReductionBody out;
  out.spatial = output.spatial;
  VarMap rename;
  for (size_t i = 0; i < reduction.spatial.size(); ++i)
    if (&reduction != &output) rename[reduction.spatial[i].name] = output.spatial[i].var();
  Body update(emission), epilogue(emission);
  for (size_t k = 0; k < reduction.values.size(); ++k) {
    Expr carried = var(reduction.carried[k], reduction.outputs[k]->dtype);
    out.carried.push_back(carried);
    out.init.push_back(substitute(reduction.init[k], rename));
    out.update.push_back(update.value(substitute(reduction.values[k], rename)));
    epilogue.bind(reduction.outputs[k], carried);
  }
  out.update_stmts = update.stmts();
  std::vector<Expr> at;
  for (const Iter& i : output.spatial) at.push_back(i.var());
  for (size_t k = 0; k < output.outputs.size(); ++k) {
    Expr value = request.root.epilogue ? epilogue.value(output.values[k]) : out.carried[k];
    epilogue.store(output.outputs[k], at, value);
  }
  out.epilogue = epilogue.stmts();
  return out;
}

}  // namespace tenon::schedule
