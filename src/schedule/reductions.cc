// SPDX-License-Identifier: Apache-2.0
// Reductions without reuse to exploit on both sides: lanes over outputs, lanes along the reduction, or neither.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "schedule/nests.h"

namespace tenon::schedule {

using namespace tir;

namespace {

std::vector<Iter> after_prefix(const std::vector<Iter>& iters, size_t prefix) {
  return {iters.begin() + static_cast<std::ptrdiff_t>(prefix), iters.end()};
}

std::vector<Stmt> with_values(std::vector<Stmt> stmts, const std::vector<Expr>& values, Emission& emission) {
  for (const Expr& v : values) stmts.push_back(let(var(emission.names.fresh("probe"), v->dtype), v));
  return stmts;
}

std::vector<Stmt> substituted(const std::vector<Stmt>& stmts, const VarMap& vars) {
  std::vector<Stmt> out;
  for (const Stmt& s : stmts) out.push_back(substitute(s, vars));
  return out;
}

int64_t work_of(const ReductionBody& body, const Stage& reduction) {
  return reduction.points() * reduction.reduce_points() * static_cast<int64_t>(1 + body.update_stmts.size());
}

/// How loads step when `iter` does: 1 or 0 everywhere is `unit`.
struct Steps {
  int64_t unit = 0, strided = 0;
};
Steps steps_of(const std::vector<Stmt>& stmts, const Iter& iter) {
  Steps steps;
  std::function<void(const Expr&)> scan = [&](const Expr& e) {
    if (const Load* l = as<Load>(e); l && l->indices.size() == 1) {
      Affine a = affine(l->indices[0]);
      int64_t c = a.coefficient(iter.name);
      if (a.uses_opaquely(iter.name) || (c != 0 && c != 1))
        ++steps.strided;
      else if (c == 1)
        ++steps.unit;
    }
    for_each_child(e, scan);
  };
  for (const Stmt& top : stmts) visit(top, [&](const Stmt& s) { for_each_child(s, [](const Stmt&) {}, scan); });
  return steps;
}

/// The largest divisor of n up to `most`.
int64_t small_divisor(int64_t n, int64_t most) {
  int64_t divisor = std::min(most, n);
  while (n % divisor != 0) --divisor;
  return divisor;
}

constexpr int64_t kUnrolledTaps = 32;  // reduce points up to which a nest is written out

/// Whether the update reads anything that does not move with the vectorised axis but moves with the reduction: then a tile of
/// rows shares those loads.
bool shares_loads(const std::vector<Stmt>& update, const Iter& row, const Iter& inner) {
  bool found = false;
  std::function<void(const Expr&)> scan = [&](const Expr& e) {
    if (const Load* l = as<Load>(e); l && l->indices.size() == 1) {
      Affine a = affine(l->indices[0]);
      found |= a.coefficient(row.name) == 0 && a.coefficient(inner.name) == 0;
    }
    for_each_child(e, scan);
  };
  for (const Stmt& top : update) visit(top, [&](const Stmt& s) { for_each_child(s, [](const Stmt&) {}, scan); });
  return found;
}

}  // namespace

Stmt spatial_reduction_nest(const NestRequest& request) {
  if (!request.root.reduction) return {};
  Emission& emission = request.emission;
  const Stage& reduction = *request.root.reduction;
  ReductionBody body = reduction_body(request);
  std::vector<Stmt> update = with_values(body.update_stmts, body.update, emission);
  std::vector<Stmt> all = update;
  all.insert(all.end(), body.epilogue.begin(), body.epilogue.end());
  Merged spatial = merge_iters(after_prefix(body.spatial, request.prefix), with_values(all, body.init, emission), emission);
  if (spatial.iters.empty()) return {};
  Merged reduce = merge_iters(reduction.reduce, update, emission);
  Iter inner = spatial.iters.back();
  std::vector<Stmt> probe = substituted(substituted(update, spatial.replace), reduce.replace);
  int64_t taps = reduction.reduce_points();
  const auto& [rows, lanes] = shape_of<SpatialReduction>(request, [&] {
    SpatialReduction nest{1, std::min(lanes_for(request.target, probe), inner.extent)};
    if (spatial.iters.size() < 2) return nest;
    const Iter& row = spatial.iters[spatial.iters.size() - 2];
    int64_t chains = std::max<int64_t>(1, 8 / static_cast<int64_t>(body.carried.size()));  // that hide the latency of an addition
    if (taps > kUnrolledTaps || shares_loads(probe, row, inner)) nest.rows = small_divisor(row.extent, chains);
    return nest;
  });
  if (lanes < 2 && !request.given) return {};
  require_size(request.nest.stage, "lanes", lanes, inner.extent);
  require_size(request.nest.stage, "rows", rows, spatial.iters.size() < 2 ? 1 : spatial.iters[spatial.iters.size() - 2].extent);

  std::vector<Loop> loops;
  std::vector<Stmt> declares;
  VarMap place;
  for (size_t i = 0; i + 1 < spatial.iters.size(); ++i) {
    const Iter& it = spatial.iters[i];
    if (rows > 1 && i + 2 == spatial.iters.size()) {
      Tiling t = tile(it, rows, emission);
      loops.push_back(t.loop);
      place[it.name] = t.begin;
      if (t.declare) declares.push_back(t.declare);
    } else {
      loops.push_back(loop_over(it));
    }
  }
  Tiling tiles = tile(inner, lanes, emission);
  loops.push_back(tiles.loop);
  if (tiles.declare) declares.push_back(tiles.declare);

  std::vector<Buffer> accumulators;
  for (const Expr& c : body.carried)
    accumulators.emplace_back(BufferData{emission.names.fresh("acc"), c->dtype, {Expr(rows), Expr(lanes)}, {}, Scope::Reg});

  // Statements for one row of lanes: the carried variables become elements of the accumulators.
  auto at_tile = [&](std::vector<Stmt> stmts) {
    Expr lane = var(emission.names.fresh("lane")), row = var(emission.names.fresh("row"));
    emission.ranges[as<Var>(lane)->name] = {0, lanes - 1};
    emission.ranges[as<Var>(row)->name] = {0, rows - 1};
    VarMap vars = {{inner.name, tiles.begin + lane}};
    if (rows > 1) {
      const std::string& name = spatial.iters[spatial.iters.size() - 2].name;
      vars[name] = place.find(name)->second + row;
    }
    Expr row_index = rows > 1 ? row : Expr(0);
    for (size_t k = 0; k < accumulators.size(); ++k)
      vars[as<Var>(body.carried[k])->name] = load(accumulators[k], {row_index, lane});
    VarMap local = {{"@row", row_index}, {"@lane", lane}};
    std::vector<Stmt> out = substituted(substituted(stmts, vars), local);
    for (Stmt& s : out) s = contract(s, request.target);
    Stmt vector = for_loop(lane, Expr(0), Expr(lanes), ForKind::Vectorized, in_scope(std::move(out)));
    return rows > 1 ? for_loop(row, Expr(0), Expr(rows), ForKind::Unrolled, vector) : vector;
  };
  Expr row_mark = var("@row"), lane_mark = var("@lane");
  auto merged_all = [&](const std::vector<Stmt>& stmts) {
    return substituted(substituted(stmts, spatial.replace), reduce.replace);
  };

  std::vector<Stmt> inits, updates = body.update_stmts, finals = body.epilogue;
  for (size_t k = 0; k < accumulators.size(); ++k) inits.push_back(store(accumulators[k], {row_mark, lane_mark}, body.init[k]));
  std::vector<Expr> next = body.update;
  if (accumulators.size() > 1)  // every new value is computed before any is stored
    for (Expr& v : next) {
      Expr held = var(emission.names.fresh("next"), v->dtype);
      updates.push_back(let(held, v));
      v = held;
    }
  for (size_t k = 0; k < accumulators.size(); ++k) updates.push_back(store(accumulators[k], {row_mark, lane_mark}, next[k]));

  std::vector<Loop> reduce_loops;
  for (const Iter& r : reduce.iters) {
    reduce_loops.push_back(loop_over(r));
    if (taps <= kUnrolledTaps) reduce_loops.back().kind = ForKind::Unrolled;
  }
  std::vector<Stmt> tile_body = declares;
  for (const Buffer& a : accumulators) tile_body.push_back(allocate(a));
  tile_body.push_back(at_tile(merged_all(inits)));
  if (taps > 0) tile_body.push_back(in_loops(reduce_loops, at_tile(merged_all(updates))));
  tile_body.push_back(at_tile(merged_all(finals)));
  parallelise(loops, work_of(body, reduction), request);
  request.explain +=
      fmt::format("{}: reduction of {} points, lanes over outputs: {} rows x {} lanes\n", reduction.name, taps, rows, lanes);
  return in_loops(loops, in_scope(std::move(tile_body)));
}

namespace {

/// The operation of an update `so_far op x`, and x.
struct Combine {
  BinaryOp op;
  Expr operand;
};
std::optional<Combine> combine_of(const Expr& update, const Expr& carried) {
  const Binary* b = as<Binary>(update);
  if (!b) return std::nullopt;
  if (b->op != BinaryOp::Add && b->op != BinaryOp::Mul && b->op != BinaryOp::Min && b->op != BinaryOp::Max) return std::nullopt;
  auto mentions = [&](const Expr& e) {
    bool found = false;
    visit_exprs(e, [&](const Expr& x) { found |= structural_equal(x, carried); });
    return found;
  };
  if (structural_equal(b->a, carried) && !mentions(b->b)) return Combine{b->op, b->b};
  if (structural_equal(b->b, carried) && !mentions(b->a)) return Combine{b->op, b->a};
  return std::nullopt;
}

Expr neutral(BinaryOp op, DType dtype) {
  switch (op) {
    case BinaryOp::Add: return is_float(dtype) ? float_imm(dtype, -0.0) : imm(dtype, 0);
    case BinaryOp::Mul: return imm(dtype, 1);
    case BinaryOp::Min: return highest(dtype);
    default: return lowest(dtype);
  }
}

}  // namespace

Stmt row_reduction_nest(const NestRequest& request) {
  if (!request.root.reduction || request.root.reduction->values.size() != 1) return {};
  Emission& emission = request.emission;
  const Stage& reduction = *request.root.reduction;
  ReductionBody body = reduction_body(request);
  std::optional<Combine> combine = combine_of(body.update[0], body.carried[0]);
  if (!combine || body.carried[0]->dtype == DType::Bool) return {};
  std::vector<Stmt> update = with_values(body.update_stmts, {combine->operand}, emission);
  Merged reduce = merge_iters(reduction.reduce, update, emission);
  if (reduce.iters.empty()) return {};
  Iter inner = reduce.iters.back();
  std::vector<Stmt> probe = substituted(update, reduce.replace);
  Steps steps = steps_of(probe, inner);
  if (steps.unit == 0 || steps.strided > 0) return {};
  const auto& [streams, lanes] = shape_of<RowReduction>(request, [&] {
    int64_t wide = lanes_for(request.target, probe);  // four independent chains hide the latency of the combining operation
    int64_t vectors = 2 * inner.extent < wide ? 0 : std::max<int64_t>(1, inner.extent / wide);
    return RowReduction{std::min<int64_t>(4, vectors), wide};
  });
  if (streams < 1 && !request.given) return {};
  require_size(request.nest.stage, "lanes", lanes, 2 * inner.extent);
  require_size(request.nest.stage, "streams", streams, std::max<int64_t>(1, inner.extent / lanes));

  std::vector<Stmt> all = update;
  all.insert(all.end(), body.epilogue.begin(), body.epilogue.end());
  Merged spatial = merge_iters(after_prefix(body.spatial, request.prefix), with_values(all, body.init, emission), emission);
  auto merged_all = [&](const std::vector<Stmt>& stmts) {
    return substituted(substituted(stmts, spatial.replace), reduce.replace);
  };

  DType dtype = body.carried[0]->dtype;
  int64_t vectors = inner.extent / lanes;
  int64_t groups = vectors / streams;
  Buffer partial(BufferData{emission.names.fresh("partial"), dtype, {Expr(streams), Expr(lanes)}, {}, Scope::Reg});
  Buffer total(BufferData{emission.names.fresh("total"), dtype, {Expr(1)}, {}, Scope::Reg});
  auto combined = [&](const Expr& a, const Expr& b) { return contract(binary(combine->op, a, b), request.target); };

  // One update of an accumulator element at a given position of the innermost reduce axis.
  auto update_at = [&](const Expr& position, const Buffer& buffer, std::vector<Expr> element) {
    std::vector<Stmt> stmts = merged_all(body.update_stmts);
    Expr operand = substitute(substitute(combine->operand, spatial.replace), reduce.replace);
    stmts.push_back(store(buffer, element, binary(combine->op, load(buffer, element), operand)));
    for (Stmt& s : stmts) s = contract(substitute(s, {{inner.name, position}}), request.target);
    return in_scope(std::move(stmts));
  };
  auto lane_var = [&] {
    Expr lane = var(emission.names.fresh("lane"));
    emission.ranges[as<Var>(lane)->name] = {0, lanes - 1};
    return lane;
  };

  std::vector<Stmt> steps_in;
  Expr group = var(emission.names.fresh("group")), stream = var(emission.names.fresh("stream")), lane = lane_var();
  Expr position = (group * Expr(streams) + stream) * Expr(lanes) + lane;
  Stmt vector = for_loop(lane, 0, Expr(lanes), ForKind::Vectorized, update_at(position, partial, {stream, lane}));
  if (groups > 0)
    steps_in.push_back(
        for_loop(group, 0, Expr(groups), ForKind::Serial, for_loop(stream, 0, Expr(streams), ForKind::Unrolled, vector)));
  if (int64_t left = vectors - groups * streams; left > 0) {
    Expr s = var(emission.names.fresh("stream")), l = lane_var();
    Expr p = (Expr(groups * streams) + s) * Expr(lanes) + l;
    Stmt v = for_loop(l, 0, Expr(lanes), ForKind::Vectorized, update_at(p, partial, {s, l}));
    steps_in.push_back(for_loop(s, 0, Expr(left), ForKind::Unrolled, v));
  }
  if (int64_t left = inner.extent - vectors * lanes; left > 0) {
    Expr l = lane_var();
    Stmt rest = if_then(lt(l, Expr(left)), update_at(Expr(vectors * lanes) + l, partial, {Expr(0), l}));
    steps_in.push_back(for_loop(l, 0, Expr(lanes), ForKind::Vectorized, rest));
  }

  std::vector<Loop> outer_reduce;
  for (size_t i = 0; i + 1 < reduce.iters.size(); ++i) outer_reduce.push_back(loop_over(reduce.iters[i]));
  std::vector<Stmt> point = {allocate(partial), allocate(total)};
  Expr s0 = var(emission.names.fresh("stream")), l0 = lane_var();
  point.push_back(
      for_loop(s0, 0, Expr(streams), ForKind::Unrolled,
               for_loop(l0, 0, Expr(lanes), ForKind::Vectorized, store(partial, {s0, l0}, neutral(combine->op, dtype)))));
  point.push_back(store(total, {Expr(0)}, substitute(body.init[0], spatial.replace)));
  point.push_back(in_loops(outer_reduce, seq(std::move(steps_in))));
  if (streams > 1) {
    Expr s = var(emission.names.fresh("stream")), l = lane_var();
    Stmt fold = store(partial, {Expr(0), l}, combined(load(partial, {Expr(0), l}), load(partial, {s + Expr(1), l})));
    point.push_back(for_loop(s, 0, Expr(streams - 1), ForKind::Unrolled, for_loop(l, 0, Expr(lanes), ForKind::Vectorized, fold)));
  }
  Buffer row(partial);
  int64_t width = lanes;
  for (; width > 2 && width % 2 == 0; width /= 2) {  // a chain over the lanes would take the latency of one operation for each
    Buffer half(BufferData{emission.names.fresh("half"), dtype, {Expr(1), Expr(width / 2)}, {}, Scope::Reg});
    Expr l = lane_var();
    Stmt fold = store(half, {Expr(0), l}, combined(load(row, {Expr(0), l}), load(row, {Expr(0), l + Expr(width / 2)})));
    point.push_back(allocate(half));
    point.push_back(for_loop(l, 0, Expr(width / 2), ForKind::Vectorized, fold));
    row = half;
  }
  Expr j = var(emission.names.fresh("lane"));
  point.push_back(for_loop(j, 0, Expr(width), ForKind::Unrolled,
                           store(total, {Expr(0)}, combined(load(total, {Expr(0)}), load(row, {Expr(0), j})))));
  for (const Stmt& s : merged_all(body.epilogue))
    point.push_back(contract(substitute(s, {{as<Var>(body.carried[0])->name, load(total, {Expr(0)})}}), request.target));
  std::vector<Loop> loops;
  for (const Iter& i : spatial.iters) loops.push_back(loop_over(i));
  parallelise(loops, work_of(body, reduction), request);
  request.explain += fmt::format("{}: reduction along memory: {} streams x {} lanes\n", reduction.name, streams, lanes);
  return in_loops(loops, in_scope(std::move(point)));
}

Stmt scalar_reduction_nest(const NestRequest& request) {
  if (!request.root.reduction) return {};
  Emission& emission = request.emission;
  const Stage& reduction = *request.root.reduction;
  ReductionBody body = reduction_body(request);
  std::vector<Stmt> point;
  VarMap vars;
  std::vector<Buffer> accumulators;
  for (size_t k = 0; k < body.carried.size(); ++k) {
    Buffer a(BufferData{emission.names.fresh("acc"), body.carried[k]->dtype, {Expr(1)}, {}, Scope::Reg});
    accumulators.push_back(a);
    point.push_back(allocate(a));
    vars[as<Var>(body.carried[k])->name] = load(a, {Expr(0)});
  }
  for (size_t k = 0; k < accumulators.size(); ++k) point.push_back(store(accumulators[k], {Expr(0)}, body.init[k]));
  std::vector<Stmt> update = body.update_stmts;
  std::vector<Expr> next;
  for (const Expr& v : body.update) {
    Expr held = var(emission.names.fresh("next"), v->dtype);
    update.push_back(let(held, v));
    next.push_back(held);
  }
  for (size_t k = 0; k < accumulators.size(); ++k) update.push_back(store(accumulators[k], {Expr(0)}, next[k]));
  shape_of<ScalarReduction>(request, [] { return ScalarReduction{}; });
  std::vector<Loop> reduce_loops, loops;
  for (const Iter& r : reduction.reduce) reduce_loops.push_back(loop_over(r));
  std::vector<Stmt> update_at = substituted(update, vars);
  for (Stmt& s : update_at) s = contract(s, request.target);
  if (reduction.reduce_points() > 0) point.push_back(in_loops(reduce_loops, in_scope(std::move(update_at))));
  for (const Stmt& s : substituted(body.epilogue, vars)) point.push_back(contract(s, request.target));
  for (const Iter& i : after_prefix(body.spatial, request.prefix)) loops.push_back(loop_over(i));
  parallelise(loops, work_of(body, reduction), request);
  request.explain += fmt::format("{}: reduction of {} points, one output at a time\n", reduction.name, reduction.reduce_points());
  return in_loops(loops, in_scope(std::move(point)));
}

}  // namespace tenon::schedule
