// SPDX-License-Identifier: Apache-2.0
// Emits the nest that a contraction was planned to be.
#include <fmt/format.h>

#include <algorithm>

#include "schedule/contraction.h"

namespace tenon::schedule {

using namespace tir;

/// The place of an operand's outer point among the ones it uses.
Expr Contraction::outer_index(const Operand& operand) const {
  Expr index(0);
  for (const Iter& o : outer_axes(operand)) index = index * Expr(o.extent) + o.var();
  return index;
}

/// Where a packed operand's element lies: `offset` counts reduce points times the width, plus the place in the tile.
Expr Contraction::element(const Operand& operand, const Expr& slot, const Expr& offset) const {
  int64_t tile_elements = (operand.at_run_time ? block_steps_ * step_depth() : depth()) * operand.width;
  Expr at = operand.at_run_time || operand.of_job ? slot : outer_index(operand) * Expr(operand.tiles()) + slot;
  return simplify(at * Expr(tile_elements) + offset, emission_.ranges);
}

/// Declares where a tile begins and the values of its operand's other axes.
std::vector<Stmt> Contraction::place_tile(const Operand& operand, const Expr& tile, VarMap& place) {
  std::vector<Stmt> out;
  Expr index = tile;
  auto bind = [&](const std::string& base, const Expr& value, int64_t extent) {
    Expr simple = simplify(value, emission_.ranges);
    if (as_int(simple) || as<Var>(simple)) return simple;
    Expr name = fresh(base, extent);
    out.push_back(let(name, simple));
    return name;
  };
  Expr axis_tile = operand.rest.empty() ? index : floormod(index, Expr(operand.axis_tiles));
  index = floordiv(index, Expr(operand.axis_tiles));
  Expr begin = axis_tile * Expr(operand.width);
  int64_t last = operand.axis.extent - operand.width;
  if (operand.axis.extent % operand.width != 0) begin = min(begin, Expr(last));
  if (!operand.axis.name.empty()) place[operand.axis.name] = bind(operand.axis.name + "_begin", begin, last + 1);
  for (size_t i = operand.rest.size(); i-- > 0;) {
    const Iter& axis = operand.rest[i];
    Expr value = i == 0 ? index : floormod(index, Expr(axis.extent));
    place[axis.name] = bind(axis.name + "_at", value, axis.extent);
    index = floordiv(index, Expr(axis.extent));
  }
  return out;
}

/// The outer axes that an operand uses.
std::vector<Iter> Contraction::outer_axes(const Operand& operand) const {
  std::vector<Iter> out;
  for (const Iter& o : outer_) {
    bool used = uses(operand.value, o.name);
    for (const Stmt& s : operand.lets) used |= uses(as<Let>(s)->value, o.name);
    if (used) out.push_back(o);
  }
  return out;
}

/// A buffer for all tiles of an operand.
Buffer Contraction::panels(const Operand& operand, const std::string& name) const {
  int64_t elements = product(outer_axes(operand)) * operand.tiles() * depth() * operand.width;
  return Buffer(BufferData{name, operand.value->dtype, {Expr(elements)}, {}, Scope::Global});
}

/// Stores a tile of an operand in the order in which it is read.
Stmt Contraction::fill_tile(const Operand& operand, const Buffer& result, VarMap place, const Expr& tile, const Expr& slot) {
  std::vector<Stmt> body = place_tile(operand, tile, place);
  Expr k(0);
  std::vector<Loop> inner;
  for (const Iter& r : reduce_) {
    place[r.name] = fresh(r.name, r.extent);
    k = k * Expr(r.extent) + place[r.name];
    inner.push_back({place[r.name], Expr(r.extent)});
  }
  Expr j = fresh("place", operand.width);
  inner.push_back({j, Expr(operand.width), ForKind::Unrolled});
  if (!operand.axis.name.empty()) place[operand.axis.name] = place[operand.axis.name] + j;
  std::vector<Stmt> point;
  for (const Stmt& s : operand.lets) point.push_back(substitute(s, place));
  Expr at = (slot * Expr(depth()) + k) * Expr(operand.width) + j;
  point.push_back(store(result, {simplify(at, emission_.ranges)}, simplify(substitute(operand.value, place), emission_.ranges)));
  body.push_back(in_loops(inner, in_scope(std::move(point))));
  return in_scope(std::move(body));
}

/// Stores all tiles of an operand.
Stmt Contraction::fill_panels(const Operand& operand, const Buffer& result) {
  VarMap place;
  std::vector<Loop> loops;
  Expr slot(0);
  for (const Iter& o : outer_axes(operand)) {
    place[o.name] = fresh(o.name, o.extent);
    loops.push_back({place[o.name], Expr(o.extent)});
    slot = slot * Expr(o.extent) + place[o.name];
  }
  Expr tile = fresh("tile", operand.tiles());
  loops.push_back({tile, Expr(operand.tiles())});
  slot = slot * Expr(operand.tiles()) + tile;
  parallelise(loops, worker_loop(loops, int_value(result->shape[0])), request_.nest.stage);
  return in_loops(loops, fill_tile(operand, result, std::move(place), tile, slot));
}

/// Lets a constant parameter be stored as panels when compiling.
void Contraction::repack(Operand& operand) {
  const Buffer& param = emission_.graph.func->params[static_cast<size_t>(operand.param)];
  Buffer original = emission_.layout.flat(param);
  operand.packed = panels(operand, param->name);
  Buffer result = panels(operand, "packed");
  PrimFunc pack{
      emission_.names.fresh("pack_" + param->name), {original, result}, 1, {{"scheduled", true}}, fill_panels(operand, result)};
  request_.packed.push_back({static_cast<size_t>(operand.param), std::move(pack)});
  emission_.layout.replace(param, operand.packed);
}

/// The first step of the window's axis that a job touches.
Expr Contraction::window_start(const Expr& part, int64_t tiles) const {
  const Operand& o = windowed();
  Expr first = part * Expr(tiles);
  if (!o.rest.empty()) return simplify(floordiv(first, Expr(o.axis_tiles)), emission_.ranges);
  Expr point = min(first * Expr(o.width), Expr(o.axis.extent - o.width));  // a last tile is moved back
  return simplify(floordiv(point, Expr(window_->inner)), emission_.ranges);
}

/// Loops over the accumulator's elements; `vectors_first` walks the vectors outside, so that the broadcasts stay in registers.
Stmt Contraction::over_accumulator(const std::function<Stmt(const Expr&, const Expr&, const Expr&)>& body, bool vectors_first) {
  Expr row = fresh("row", tile_.rows), vector = fresh("vec", tile_.vectors), lane = fresh("lane", tile_.lanes);
  Loop rows{row, Expr(tile_.rows), ForKind::Unrolled}, vectors{vector, Expr(tile_.vectors), ForKind::Unrolled};
  Loop lanes{lane, Expr(tile_.lanes), ForKind::Vectorized};
  std::vector<Loop> loops = vectors_first ? std::vector<Loop>{vectors, rows, lanes} : std::vector<Loop>{rows, vectors, lanes};
  return in_loops(loops, body(row, vector, lane));
}

/// Brings the next panel of the constant operand near. One of V is used by all tiles of B in turn, so that each step of each
/// brings a part; one of B is left after one tile.
std::vector<Stmt> Contraction::prefetch_panel(const Expr& step, const Expr& v_tile, const Expr& b_tile, const Expr& b_slot) {
  std::vector<Stmt> out;
  const Operand* o = constant_operand();
  if (!o || !std::get<ContractionNest>(request_.nest.shape).prefetch) return out;
  int64_t steps = block_steps_ * step_depth(), line = 64 / byte_size(o->value->dtype);
  int64_t part = o == &v_ ? (o->width + b_chunk_ - 1) / b_chunk_ : o->width;
  auto [tile, use] = o == &v_ ? std::pair(v_tile, b_slot) : std::pair(b_tile, Expr(0));
  Expr next = (block_ + Expr(1)) * Expr(steps * o->width);
  for (int64_t i = 0; i < part; i += line)
    out.push_back(prefetch(o->packed, {element(*o, tile, next + (use * Expr(steps) + step) * Expr(part) + Expr(i))}));
  return out;
}

/// acc += b * v over the reduce points of one block.
Stmt Contraction::products(const VarMap& place, const Expr& v_tile, const Expr& b_tile, const Expr& b_slot) {
  std::vector<Loop> loops;
  VarMap at = place;
  Expr whole(0), local(0);
  constexpr int64_t kMostUnrolled = 9;
  bool unrolled = lanes_ == Lanes::AcrossOutput && step_depth() <= kMostUnrolled;
  for (size_t i = 0; i < reduce_.size(); ++i) {
    Expr step = fresh(reduce_[i].name + "_step", reduce_[i].extent);
    Expr extent(reduce_[i].extent);
    Expr position = step;
    if (i == 0 && blocks_ > 1) {
      emission_.ranges[as<Var>(step)->name] = {0, block_steps_ - 1};
      extent = min(Expr(block_steps_), Expr(reduce_[0].extent) - block_ * Expr(block_steps_));
      position = block_ * Expr(block_steps_) + step;
    }
    loops.push_back({step, extent, i > 0 && unrolled ? ForKind::Unrolled : ForKind::Serial});
    at[reduce_[i].name] = position;
    whole = whole * Expr(reduce_[i].extent) + position;
    local = local * Expr(reduce_[i].extent) + step;
  }
  auto operand_at = [&](const Operand& o, const Expr& slot, const Expr& offset, std::vector<Stmt>& stmts) {
    if (o.packed) {
      Expr k = o.at_run_time ? local : whole;
      return load(o.packed, {element(o, slot, k * Expr(o.width) + offset)});
    }
    VarMap here = at;
    if (!o.axis.name.empty()) here[o.axis.name] = place.find(o.axis.name)->second + offset;
    VarMap renamed;
    for (const Stmt& s : o.lets) {
      const Let* l = as<Let>(s);
      Expr name = var(emission_.names.fresh(as<Var>(l->var)->name), l->var->dtype);
      stmts.push_back(let(name, simplify(substitute(l->value, here), emission_.ranges)));
      here[as<Var>(l->var)->name] = name;
    }
    return simplify(substitute(o.value, here), emission_.ranges);
  };
  auto step = [&](const Expr& row, const Expr& vector, const Expr& lane) {
    std::vector<Stmt> stmts;
    Expr b = operand_at(b_, b_.of_job ? b_slot : b_tile, row, stmts);
    Expr v = operand_at(v_, v_.at_run_time ? Expr(0) : v_tile, vector * Expr(tile_.lanes) + lane, stmts);
    Expr sum = load(acc_, {row, vector, lane}) + b * v;
    stmts.push_back(store(acc_, {row, vector, lane}, contract(sum, request_.target)));
    return in_scope(std::move(stmts));
  };
  std::vector<Stmt> body = prefetch_panel(local, v_tile, b_tile, b_slot);
  body.push_back(over_accumulator(step, tile_.vectors > tile_.rows));
  return in_loops(loops, seq(std::move(body)));
}

Stmt Contraction::tile_body(const Expr& v_tile, const Expr& v_slot, const Expr& b_tile, const Expr& b_slot) {
  VarMap place;
  std::vector<Stmt> out = place_tile(v_, v_tile, place);
  for (Stmt& s : place_tile(b_, b_tile, place)) out.push_back(s);
  out.push_back(allocate(acc_));
  auto position = [&](const Expr& row, const Expr& vector, const Expr& lane) {
    VarMap at = place;
    if (!v_.axis.name.empty()) at[v_.axis.name] = place[v_.axis.name] + vector * Expr(tile_.lanes) + lane;
    if (!b_.axis.name.empty()) at[b_.axis.name] = place[b_.axis.name] + row;
    return at;
  };
  int64_t tile_elements = tile_.rows * v_.width;
  auto partial_at = [&](const Expr& row, const Expr& vector, const Expr& lane) {
    Expr slot = v_slot * Expr(b_chunk_) + b_slot;
    return std::vector<Expr>{slot * Expr(tile_elements) + row * Expr(v_.width) + vector * Expr(tile_.lanes) + lane};
  };
  Stmt start = over_accumulator(
      [&](const Expr& r, const Expr& v, const Expr& l) {
        return store(acc_, {r, v, l}, simplify(substitute(init_, position(r, v, l)), emission_.ranges));
      },
      false);
  Stmt finish = over_accumulator(
      [&](const Expr& r, const Expr& v, const Expr& l) {
        VarMap at = position(r, v, l);
        at[as<Var>(carried_)->name] = load(acc_, {r, v, l});
        std::vector<Stmt> stmts;
        for (const Stmt& s : epilogue_)
          stmts.push_back(contract(simplify_stmt(substitute(s, at), emission_.ranges), request_.target));
        return in_scope(std::move(stmts));
      },
      false);
  if (blocks_ > 1) {
    Stmt resume = over_accumulator(
        [&](const Expr& r, const Expr& v, const Expr& l) { return store(acc_, {r, v, l}, load(partial_, partial_at(r, v, l))); },
        false);
    Stmt keep = over_accumulator(
        [&](const Expr& r, const Expr& v, const Expr& l) { return store(partial_, partial_at(r, v, l), load(acc_, {r, v, l})); },
        false);
    start = if_then(eq(block_, Expr(0)), start, resume);
    finish = if_then(eq(block_, Expr(blocks_ - 1)), finish, keep);
  }
  out.push_back(start);
  out.push_back(products(place, v_tile, b_tile, b_slot));
  out.push_back(finish);
  return in_scope(std::move(out));
}

/// Copies one block of one V tile to scratch, in the order in which the tile reads it.
Stmt Contraction::pack_tile(const Operand& operand, const Expr& tile) {
  VarMap place;
  std::vector<Stmt> out = place_tile(operand, tile, place);
  std::vector<Loop> loops;
  Expr local(0);
  for (size_t i = 0; i < reduce_.size(); ++i) {
    Expr step = fresh(reduce_[i].name + "_pack", reduce_[i].extent);
    Expr extent(reduce_[i].extent), position = step;
    if (i == 0 && blocks_ > 1) {
      emission_.ranges[as<Var>(step)->name] = {0, block_steps_ - 1};
      extent = min(Expr(block_steps_), Expr(reduce_[0].extent) - block_ * Expr(block_steps_));
      position = block_ * Expr(block_steps_) + step;
    }
    loops.push_back({step, extent});
    place[reduce_[i].name] = position;
    local = local * Expr(reduce_[i].extent) + step;
  }
  Expr vector = fresh("vec", tile_.vectors), lane = fresh("lane", tile_.lanes);
  loops.push_back({vector, Expr(tile_.vectors), ForKind::Unrolled});
  loops.push_back({lane, Expr(tile_.lanes), ForKind::Vectorized});
  Expr offset = vector * Expr(tile_.lanes) + lane;
  if (!operand.axis.name.empty()) place[operand.axis.name] = place[operand.axis.name] + offset;
  std::vector<Stmt> point;
  VarMap here = place;
  for (const Stmt& s : operand.lets) {
    const Let* l = as<Let>(s);
    Expr name = var(emission_.names.fresh(as<Var>(l->var)->name), l->var->dtype);
    point.push_back(let(name, simplify(substitute(l->value, here), emission_.ranges)));
    here[as<Var>(l->var)->name] = name;
  }
  point.push_back(store(operand.packed, {element(operand, Expr(0), local * Expr(operand.width) + offset)},
                        simplify(substitute(operand.value, here), emission_.ranges)));
  out.push_back(in_loops(loops, in_scope(std::move(point))));
  return in_scope(std::move(out));
}

/// Computes the rows of a job.
Stmt Contraction::fill_window() {
  const Window& w = *window_;
  Expr row = fresh("row", w.row_count());
  Expr first = simplify(Expr(w.stride) * w.start + Expr(w.first), emission_.ranges);
  Stage rows = *w.stage;
  rows.outputs = {w.rows};
  rows.spatial = {{as<Var>(row)->name, w.row_count()}};
  VarMap at;
  for (size_t i = 0; i < w.at.size(); ++i) {
    const Iter& axis = w.stage->spatial[i];
    if (i == w.axis)
      at[axis.name] = first + row;
    else if (w.at[i])
      at[axis.name] = w.at[i];
    else
      rows.spatial.push_back(axis);
  }
  rows.values = {simplify(substitute(w.stage->values[0], at), emission_.ranges)};
  Root root{nullptr, &rows};
  ContractionNest& own = std::get<ContractionNest>(request_.nest.shape);
  Nest nest{.stage = w.stage->name, .shape = ElementwiseNest{own.window_lanes}};
  NestRequest fill{
      emission_,           root, 1, request_.target, false, request_.constant_params, request_.packed, request_.explain, nest,
      own.window_lanes > 0};
  Stmt filled = elementwise_nest(fill);
  own.window_lanes = std::get<ElementwiseNest>(nest.shape).lanes;
  Expr left = Expr(w.stage->spatial[w.axis].extent) - first;
  return for_loop(row, 0, simplify(min(Expr(w.row_count()), left), emission_.ranges), ForKind::Serial, filled);
}

Stmt Contraction::build() {
  for (Operand* o : {&v_, &b_})
    if (o->param >= 0) repack(*o);
  std::vector<Stmt> first;
  if (panels_first_ && !b_.of_job) {
    b_.packed = panels(b_, emission_.names.fresh("panels"));
    first = {allocate(b_.packed), fill_panels(b_, b_.packed)};
  }

  int64_t chunks = b_chunks(), cuts = v_cuts();
  acc_ = Buffer(BufferData{
      emission_.names.fresh("acc"), dtype_, {Expr(tile_.rows), Expr(tile_.vectors), Expr(tile_.lanes)}, {}, Scope::Reg});
  block_ = fresh("block", blocks_);

  // A job is an outer point and a chunk of each side: the digits of its number.
  Expr job = fresh("job", jobs());
  std::vector<Stmt> body;
  Expr rest = job;
  auto digit = [&](const Expr& name, int64_t extent) {
    Expr value = simplify(floormod(rest, Expr(extent)), emission_.ranges);
    rest = simplify(floordiv(rest, Expr(extent)), emission_.ranges);
    if (as_int(value)) return value;
    body.push_back(let(name, value));
    return name;
  };
  Expr cut = digit(fresh("cut", cuts), cuts);
  Expr chunk = digit(fresh("chunk", chunks), chunks);
  for (size_t i = outer_.size(); i-- > 0;) digit(outer_[i].var(), outer_[i].extent);

  auto extent_of = [&](const Expr& part, int64_t size, int64_t tiles) {
    return tiles % size == 0 ? Expr(size) : min(Expr(size), Expr(tiles) - part * Expr(size));
  };
  // Names the tile at a slot of a chunk.
  auto tile_at = [&](const Expr& part, int64_t size, const Expr& slot, int64_t tiles, std::vector<Stmt>& stmts) {
    Expr t = simplify(part * Expr(size) + slot, emission_.ranges);
    if (as_int(t) || as<Var>(t)) return t;
    Expr name = fresh("tile", tiles);
    stmts.push_back(let(name, t));
    return name;
  };
  if (window_) {
    Expr start = reads_window(v_) ? window_start(cut, v_chunk_) : window_start(chunk, b_chunk_);
    body.push_back(let(window_->start, start));
    body.push_back(allocate(emission_.layout.flat(window_->rows)));
    body.push_back(fill_window());
  }
  if (b_.of_job) {
    int64_t elements = b_chunk_ * depth() * b_.width;
    b_.packed = Buffer(BufferData{emission_.names.fresh("panels"), b_.value->dtype, {Expr(elements)}, {}, Scope::Local});
    body.push_back(allocate(b_.packed));
    Expr slot = fresh("slot", b_chunk_);
    std::vector<Stmt> fill;
    Expr tile = tile_at(chunk, b_chunk_, slot, b_.tiles(), fill);
    fill.push_back(fill_tile(b_, b_.packed, {}, tile, slot));
    body.push_back(for_loop(slot, 0, extent_of(chunk, b_chunk_, b_.tiles()), ForKind::Serial, in_scope(std::move(fill))));
  }
  if (blocks_ > 1) {
    int64_t elements = v_chunk_ * b_chunk_ * tile_.rows * v_.width;
    partial_ = Buffer(BufferData{emission_.names.fresh("partial"), dtype_, {Expr(elements)}, {}, Scope::Local});
    body.push_back(allocate(partial_));
  }
  if (v_.at_run_time) {
    int64_t elements = block_steps_ * step_depth() * v_.width;
    v_.packed = Buffer(BufferData{emission_.names.fresh("panel"), v_.value->dtype, {Expr(elements)}, {}, Scope::Local});
    body.push_back(allocate(v_.packed));
  }
  Expr v_slot = fresh("v_slot", v_chunk_), b_slot = fresh("b_slot", b_chunk_);
  std::vector<Stmt> around;
  Expr v_tile = tile_at(cut, v_chunk_, v_slot, v_.tiles(), around);
  if (v_.at_run_time) around.push_back(pack_tile(v_, v_tile));
  std::vector<Stmt> inner;
  Expr b_tile = tile_at(chunk, b_chunk_, b_slot, b_.tiles(), inner);
  inner.push_back(tile_body(v_tile, v_slot, b_tile, b_slot));
  around.push_back(for_loop(b_slot, 0, extent_of(chunk, b_chunk_, b_.tiles()), ForKind::Serial, seq(std::move(inner))));
  Stmt block = for_loop(v_slot, 0, extent_of(cut, v_chunk_, v_.tiles()), ForKind::Serial, in_scope(std::move(around)));
  if (blocks_ > 1)
    block = for_loop(block_, 0, Expr(blocks_), ForKind::Serial, block);
  else
    block = substitute(block, {{as<Var>(block_)->name, Expr(0)}});
  body.push_back(block);
  std::vector<Loop> loops = {{job, Expr(jobs())}};
  parallelise(loops, request_.nest.worker, request_.nest.stage);
  auto storage = [](const Operand& o) { return o.param >= 0 ? "constant panels" : o.packed ? "packed panels" : "in place"; };
  request_.explain += fmt::format(
      "{}: sum of products, tile {} rows x {} vectors of {} lanes {} the output; vectors {}, broadcasts {}; {} blocks of {} "
      "steps; {} jobs{}\n",
      stage_.name, tile_.rows, tile_.vectors, tile_.lanes, lanes_ == Lanes::AlongOutput ? "along" : "across", storage(v_),
      storage(b_), blocks_, block_steps_ * step_depth(), jobs(),
      window_ ? fmt::format(", each with {} rows of {}", window_->row_count(), window_->stage->name) : "");
  first.push_back(in_loops(loops, in_scope(std::move(body))));
  return in_scope(std::move(first));
}

}  // namespace tenon::schedule
