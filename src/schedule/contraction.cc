// SPDX-License-Identifier: Apache-2.0
// What a sum of products becomes: which operand lies in the lanes, what is packed, tiles, blocks and jobs.
#include "schedule/contraction.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "schedule/primitives/place.h"

namespace tenon::schedule {

using namespace tir;

int64_t product(const std::vector<Iter>& iters) {
  int64_t n = 1;
  for (const Iter& i : iters) n *= i.extent;
  return n;
}

Stmt simplify_stmt(const Stmt& s, const Ranges& ranges) {
  return map_children(
      s, [&](const Stmt& child) { return simplify_stmt(child, ranges); }, [&](const Expr& e) { return simplify(e, ranges); });
}

namespace {

/// update = so_far + a * b, in whatever order.
std::optional<Product> product_of(const Expr& update, const std::string& carried) {
  const Binary* add = as<Binary>(update);
  if (!add || add->op != BinaryOp::Add) return std::nullopt;
  for (const auto& [acc, term] : {std::pair(add->a, add->b), std::pair(add->b, add->a)}) {
    const Var* v = as<Var>(acc);
    const Binary* mul = as<Binary>(term);
    if (v && v->name == carried && mul && mul->op == BinaryOp::Mul && !uses(term, carried)) return Product{mul->a, mul->b};
  }
  return std::nullopt;
}

/// Splits axes that the sum uses as floordiv(axis, c), the groups of a grouped convolution; returns the old axes in terms of
/// the new.
VarMap split_groups(Stage& stage, Ranges& ranges, NameSupply& names) {
  VarMap old;
  for (size_t i = 0; i < stage.spatial.size(); ++i) {
    Iter axis = stage.spatial[i];
    int64_t divisor = 0;
    for (const Expr& v : stage.values)
      visit_exprs(v, [&](const Expr& x) {
        const Binary* b = as<Binary>(x);
        const Var* of = b && b->op == BinaryOp::FloorDiv ? as<Var>(b->a) : nullptr;
        const int64_t* k = of && of->name == axis.name ? as_int(b->b) : nullptr;
        if (k && *k > 1 && axis.extent % *k == 0 && *k < axis.extent) divisor = *k;
      });
    if (divisor == 0) continue;
    Iter group{names.fresh(axis.name + "_group"), axis.extent / divisor};
    Iter inside{names.fresh(axis.name + "_inside"), divisor};
    ranges[group.name] = {0, group.extent - 1};
    ranges[inside.name] = {0, inside.extent - 1};
    old[axis.name] = group.var() * Expr(divisor) + inside.var();
    stage.spatial[i] = group;
    stage.spatial.insert(stage.spatial.begin() + static_cast<std::ptrdiff_t>(++i), inside);
  }
  for (auto* list : {&stage.values, &stage.init})
    for (Expr& v : *list) v = simplify(substitute(v, old), ranges);
  return old;
}

constexpr int64_t kLineBytes = 64;
constexpr int64_t kJobs = 8;                       // enough for an even share on a few workers; the same for any worker count
constexpr double kGathered = 1.5, kCopied = 0.25;  // cycles per element of a panel packed at run time
constexpr int64_t kMostInTile = 64;                // rows, vectors or lanes of a given tile
constexpr double kWorthRepeating = 0.1;            // of the products' time, for work that is done again so that it stays in cache

}  // namespace

bool Contraction::applies() const {
  const Stage& reduction = *request_.root.reduction;
  const Stage& output = request_.root.output();
  if (request_.prefix > 0 || reduction.values.size() != 1 || output.outputs.size() != 1) return false;
  if (reduction.points() == 0 || reduction.reduce_points() < 4) return false;
  DType dtype = reduction.outputs[0]->dtype;
  return dtype != DType::Bool && byte_size(dtype) >= 4 && product_of(reduction.values[0], reduction.carried[0]);
}

void Contraction::read() {
  const Stage& reduction = *request_.root.reduction;
  const Stage& output = request_.root.output();
  dtype_ = reduction.outputs[0]->dtype;
  ReductionBody body = reduction_body(request_);
  epilogue_ = body.epilogue;
  carried_ = body.carried[0];
  stage_ = reduction;
  if (&reduction != &output) {
    VarMap rename;
    for (size_t i = 0; i < output.spatial.size(); ++i) rename[reduction.spatial[i].name] = output.spatial[i].var();
    for (Expr& v : stage_.values) v = substitute(v, rename);
    for (Expr& v : stage_.init) v = substitute(v, rename);
  }
  stage_.spatial = output.spatial;
  VarMap split = split_groups(stage_, emission_.ranges, emission_.names);
  for (Stmt& s : epilogue_) s = simplify_stmt(substitute(s, split), emission_.ranges);
  init_ = stage_.init[0];
  if (body.update_stmts.empty() && split.empty()) flat_ = product_of(body.update[0], reduction.carried[0]);
}

bool Contraction::sort_axes(bool windowed) {
  Product product = *product_of(stage_.values[0], request_.root.reduction->carried[0]);
  auto innermost = std::find_if(stage_.spatial.rbegin(), stage_.spatial.rend(), [](const Iter& i) { return i.extent > 1; });
  if (innermost == stage_.spatial.rend()) return false;
  bool in_a = uses(product.a, innermost->name);
  if (in_a == uses(product.b, innermost->name)) return false;
  if (lanes_ == Lanes::AcrossOutput) in_a = !in_a;
  if (flat_) {
    v_.value = in_a ? flat_->a : flat_->b;
    b_.value = in_a ? flat_->b : flat_->a;
  } else {
    Body v_body(emission_), b_body(emission_);
    v_.value = v_body.value(in_a ? product.a : product.b);
    b_.value = b_body.value(in_a ? product.b : product.a);
    v_.lets = v_body.stmts();
    b_.lets = b_body.stmts();
  }
  auto used = [](const Operand& o, const std::string& name) {
    bool found = uses(o.value, name);
    for (const Stmt& s : o.lets) found |= uses(as<Let>(s)->value, name);
    return found;
  };
  for (const Iter& axis : stage_.spatial) {
    bool in_v = used(v_, axis.name), in_b = used(b_, axis.name);
    if (axis.extent == 1 || in_v == in_b)
      outer_.push_back(axis);
    else
      (in_v ? v_ : b_).own.push_back(axis);
  }
  for (const Iter& r : stage_.reduce) {
    if (r.extent == 1) continue;
    if (!used(v_, r.name) || !used(b_, r.name)) return false;
  }
  return !windowed || find_window(v_, in_a ? product.a : product.b) || find_window(b_, in_a ? product.b : product.a);
}

/// Lets an operand that is one load of a stored stage read a window of it.
bool Contraction::find_window(Operand& operand, const Expr& read) {
  const Load* l = as<Load>(read);
  const Stage* stage = l ? emission_.graph.producer(l->buffer) : nullptr;
  bool own_root = std::any_of(emission_.parts.roots.begin(), emission_.parts.roots.end(),
                              [&](const Root& r) { return !r.reduction && r.epilogue == stage; });
  if (!stage || !own_root || stage->outputs.size() != 1 || emission_.graph.is_kept(l->buffer)) return false;
  if (emission_.graph.reads_of(l->buffer) != 1 || operand.own.size() < 2) return false;
  auto outer = [&](const std::string& name) {
    return std::any_of(outer_.begin(), outer_.end(), [&](const Iter& i) { return i.name == name; });
  };
  Window w{.stage = stage, .along = operand.own[0]};
  for (size_t i = 1; i < operand.own.size(); ++i) w.inner *= operand.own[i].extent;
  std::vector<Expr> indices;
  bool found = false;
  w.at.resize(l->indices.size());
  for (size_t i = 0; i < l->indices.size(); ++i) {
    Affine index = affine(simplify(l->indices[i], emission_.ranges));
    bool all_outer = true, some_outer = false;
    visit_exprs(index.expr(), [&](const Expr& x) {
      if (const Var* v = as<Var>(x)) (outer(v->name) ? some_outer : all_outer) = outer(v->name);
    });
    if (all_outer) {
      w.at[i] = index.expr();
      continue;
    }
    int64_t stride = index.coefficient(w.along.name);
    if (some_outer || index.uses_opaquely(w.along.name)) return false;
    if (stride == 0) {
      indices.push_back(index.expr());
      continue;
    }
    Expr taps = simplify(index.expr() - Expr(stride) * w.along.var(), emission_.ranges);
    std::optional<Range> range = range_of(taps, emission_.ranges);
    if (found || stride < 0 || !range || range->low < 0) return false;
    found = true;
    w.axis = i;
    w.stride = stride;
    w.first = range->low;
    w.taps = range->high - range->low + 1;
    w.start = fresh(w.along.name + "_start", w.along.extent);
    indices.insert(indices.begin(), index.expr() - Expr(w.first) - Expr(stride) * w.start);
  }
  if (!found) return false;
  // The rows' number is not known yet, and as it is the outermost extent no index depends on it.
  std::vector<Expr> extents{Expr(1)};
  for (size_t i = 0; i < w.at.size(); ++i)
    if (i != w.axis && !w.at[i]) extents.emplace_back(stage->spatial[i].extent);
  w.rows = Buffer(BufferData{emission_.names.fresh(stage->name + "_rows"), l->buffer->dtype, extents, {}, Scope::Local});
  emission_.layout.add(w.rows, Scope::Local);
  operand.value = load(emission_.layout.flat(w.rows), {emission_.layout.index(w.rows, indices, emission_.ranges)});
  operand.lets.clear();
  window_ = std::move(w);
  window_->of_v = &operand == &v_;
  return true;
}

void Contraction::merge_axes() {
  auto probe = [&](const Operand& o) {
    std::vector<Stmt> stmts = o.lets;
    stmts.push_back(let(var(emission_.names.fresh("probe"), o.value->dtype), o.value));
    return stmts;
  };
  auto joined = [](std::vector<Stmt> a, const std::vector<Stmt>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  std::vector<Stmt> ends = epilogue_;
  ends.push_back(let(var(emission_.names.fresh("probe"), dtype_), init_));
  std::vector<Stmt> of_v = probe(v_), of_b = probe(b_), of_both = joined(of_v, of_b);
  Merged v = merge_iters(v_.own, joined(of_v, ends), emission_);
  // A broadcast is read at any place, which is computed once for each row of a tile.
  Merged b = merge_iters(b_.own, lanes_ == Lanes::AcrossOutput ? ends : joined(of_b, ends), emission_);
  Merged reduce = merge_iters(stage_.reduce, of_both, emission_);
  Merged outer = merge_iters(outer_, joined(of_both, ends), emission_);
  for (const Merged* m : {&v, &b, &reduce, &outer}) {
    for (Operand* o : {&v_, &b_}) {
      const VarMap& old = m == &b && lanes_ == Lanes::AcrossOutput ? m->digits : m->replace;
      o->value = substitute(o->value, old);
      for (Stmt& s : o->lets) s = substitute(s, old);
    }
    for (Stmt& s : epilogue_) s = substitute(s, m->replace);
    init_ = substitute(init_, m->replace);
  }
  if (window_)
    for (Expr& at : window_->at)
      if (at) at = substitute(at, outer.digits);
  auto take = [](Operand& o, std::vector<Iter> iters) {
    if (iters.empty()) return;
    o.axis = iters.back();
    iters.pop_back();
    o.rest = std::move(iters);
  };
  take(v_, v.iters);
  take(b_, b.iters);
  reduce_ = reduce.iters;
  outer_ = outer.iters;
  // Without a window each step touches another cache line for a few elements, for every tile of V.
  panels_first_ = lanes_ == Lanes::AcrossOutput && step_depth() == 1;
}

/// Whether the result could overwrite something that the epilogue reads: then no element may be computed twice.
bool Contraction::could_overwrite() const {
  const std::vector<Buffer>& params = emission_.graph.func->params;
  auto is_input = [&](const Buffer& buffer) {
    for (size_t i = 0; i < static_cast<size_t>(emission_.graph.func->num_inputs); ++i)
      if (params[i]->name == buffer->name) return i >= request_.constant_params.size() || !request_.constant_params[i];
    return false;
  };
  std::vector<Expr> stored;
  for (const Stmt& s : epilogue_)
    if (const Store* st = as<Store>(s)) stored.push_back(st->indices[0]);
  bool found = false;
  for (const Stmt& s : epilogue_)
    visit_exprs(s, [&](const Expr& x) {
      const Load* l = as<Load>(x);
      if (l && is_input(l->buffer))
        for (const Expr& index : stored) found |= structural_equal(index, l->indices[0]);
    });
  return found;
}

void Contraction::choose_tiles() {
  set_tile(choose_register_tile(
      {b_.axis.extent, v_.axis.extent, byte_size(dtype_), v_.param < 0 && !v_.at_run_time, could_overwrite()},
      request_.target.machine));
}

void Contraction::set_tile(const RegisterTile& tile) {
  tile_ = tile;
  v_.width = tile_.vectors * tile_.lanes;
  b_.width = tile_.rows;
  v_.axis_tiles = (v_.axis.extent + v_.width - 1) / v_.width;
  b_.axis_tiles = (b_.axis.extent + b_.width - 1) / b_.width;
}

int64_t Contraction::repackable_param(const Operand& operand) const {
  std::set<std::string> read;
  auto note = [&](const Expr& e) {
    visit_exprs(e, [&](const Expr& x) {
      if (const Load* l = as<Load>(x)) read.insert(l->buffer->name);
    });
  };
  note(operand.value);
  for (const Stmt& s : operand.lets) note(as<Let>(s)->value);
  if (read.size() != 1) return -1;
  const std::vector<Buffer>& params = emission_.graph.func->params;
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i]->name != *read.begin()) continue;
    if (i >= request_.constant_params.size() || !request_.constant_params[i]) return -1;
    return emission_.graph.reads_of(params[i]) == 1 ? static_cast<int64_t>(i) : -1;
  }
  return -1;
}

/// Constant operands are stored as panels when compiling; V is packed tile by tile at run time when it is reused and not read
/// well in place.
bool Contraction::choose_storage() {
  v_.param = repackable_param(v_);
  b_.param = repackable_param(b_);
  if (v_.param == b_.param) b_.param = -1;
  if (lanes_ == Lanes::AcrossOutput) return v_.param >= 0 && b_.param < 0 && (b_.plain() || panels_first_) && !b_.own.empty();
  if (b_.own.empty() && v_.param < 0) return false;  // nothing is used twice
  if (v_.param >= 0) return true;
  const Load* plain = v_.plain();
  Affine index = plain ? affine(plain->indices[0]) : Affine{};
  bool unit = plain && index.coefficient(v_.axis.name) == 1 && !index.uses_opaquely(v_.axis.name);
  bool window = step_depth() > 1;  // neighbouring reduce points share cache lines
  constexpr int64_t kReuse = 32;   // rows that pay for copying V once
  v_.at_run_time = b_.axis.extent * product(b_.rest) >= kReuse ? !unit || !window : !plain;
  return true;
}

void Contraction::choose_blocks(int64_t b_parts) {
  const Machine& machine = request_.target.machine;
  int64_t bytes = byte_size(dtype_);
  // A block's panel of V, and the lines that a tile of B touches in place, take at most five eighths of the first cache.
  int64_t step_bytes = v_.width * bytes;
  if (lanes_ == Lanes::AcrossOutput && !panels_first_)
    step_bytes += (kLineBytes + b_.width * bytes) / std::min<int64_t>(step_depth(), 3);
  int64_t deepest = std::max<int64_t>(64, machine.l1_bytes * 5 / 8 / step_bytes);
  int64_t steps = reduce_.empty() ? 1 : reduce_[0].extent;
  block_steps_ = steps;
  if (v_.tiles() > 1 && b_.tiles() > 1 && depth() > deepest * 3 / 2) {
    blocks_ = (steps + std::max<int64_t>(1, deepest / step_depth()) - 1) / std::max<int64_t>(1, deepest / step_depth());
    block_steps_ = (steps + blocks_ - 1) / blocks_;  // even blocks
    blocks_ = (steps + block_steps_ - 1) / block_steps_;
  }
  int64_t b_bytes = std::max<int64_t>(1, block_steps_ * step_depth() * b_.width * bytes);
  b_chunk_ = std::clamp<int64_t>(machine.l2_bytes / 2 / b_bytes, 1, b_.tiles());
  int64_t chunks = (b_.tiles() + b_chunk_ - 1) / b_chunk_;
  b_chunk_ = (b_.tiles() + chunks - 1) / chunks;
  b_chunk_ = std::min(b_chunk_, (b_.tiles() + b_parts - 1) / b_parts);
  if (reads_window(b_)) b_chunk_ = windowed_tiles(b_, b_chunk_);
  int64_t jobs = b_chunks() * product(outer_);
  int64_t cuts = std::clamp<int64_t>((kJobs + jobs - 1) / jobs, 1, v_.tiles());
  v_chunk_ = (v_.tiles() + cuts - 1) / cuts;
  if (reads_window(v_)) v_chunk_ = windowed_tiles(v_, v_chunk_);
}

/// Cuts the work into jobs where each computes a part of B, or of what an operand reads, for itself; false if that takes much
/// more than to compute the whole before.
bool Contraction::choose_blocks_of_jobs() {
  double least = std::numeric_limits<double>::infinity();
  int64_t best = 1;
  for (int64_t parts = 1; parts <= (reads_window(v_) ? 1 : kJobs); parts *= 2) {
    choose_blocks(parts);
    if (double cycles = repeated_cycles(); cycles < least) least = cycles, best = parts;
  }
  choose_blocks(best);
  return least < product_cycles() * kWorthRepeating;
}

/// What it takes more: to do the work for several cuts of V or chunks of B, and to read V once for each chunk of B. A stage that
/// does not stay in the second cache takes a pass of its own.
double Contraction::repeated_cycles() const {
  double read = static_cast<double>(product(outer_) * (b_chunks() - 1) * v_.tiles() * v_.width * depth()) * kCopied;
  if (!window_) return read + static_cast<double>(product(outer_) * b_.tiles() * b_.width * depth() * (v_cuts() - 1)) * kGathered;
  double computed = static_cast<double>(product(outer_) * b_chunks() * v_cuts() * window_->row_count() * window_->row_elements());
  int64_t whole = window_->stage->points();
  bool leaves = whole * byte_size(window_->rows->dtype) > request_.target.machine.l2_bytes / 2;
  return read + (computed - static_cast<double>(whole * (leaves ? 2 : 1))) * kCopied;
}

/// About as many tiles for a job, whose rows stay in the second cache: whole steps of the window's axis where it is apart.
int64_t Contraction::windowed_tiles(const Operand& operand, int64_t tiles) {
  Window& w = *window_;
  int64_t rows = request_.target.machine.l2_bytes / 2 / (w.row_elements() * byte_size(w.rows->dtype));
  int64_t most = std::max<int64_t>(1, (rows - w.taps) / w.stride + 1);  // steps
  auto even = [](int64_t all, int64_t part) {
    int64_t parts = (all + part - 1) / part;
    return (all + parts - 1) / parts;
  };
  if (operand.rest.empty()) {
    int64_t fitting = std::max<int64_t>(1, (most - 1) * w.inner / operand.width);
    tiles = even(operand.axis_tiles, std::min(tiles, fitting));
  } else {
    tiles = even(w.along.extent, std::min(most, std::max<int64_t>(1, tiles / operand.axis_tiles))) * operand.axis_tiles;
  }
  w.steps = window_steps(tiles);
  return tiles;
}

/// The most steps of the window's axis that this many tiles touch.
int64_t Contraction::window_steps(int64_t tiles) const {
  const Operand& o = windowed();
  if (!o.rest.empty()) return tiles / o.axis_tiles;
  return std::min(window_->along.extent, (tiles * o.width + window_->inner - 2) / window_->inner + 1);
}

double Contraction::product_cycles() const {
  return tile_.cycles * static_cast<double>(product(outer_) * product(v_.rest) * product(b_.rest)) * static_cast<double>(depth());
}

/// An estimate that tells the two ways to lay lanes apart.
double Contraction::cycles() const {
  constexpr double kScattered = 2.5, kStored = 0.25;  // per element of the result
  double results = static_cast<double>(stage_.points());
  double copied = static_cast<double>(product(outer_axes(b_)) * b_.tiles() * b_.width * depth());
  double total = product_cycles();
  total += results * (lanes_ == Lanes::AcrossOutput ? kScattered : kStored);
  if (panels_first_) total += copied * kGathered;
  if (!v_.at_run_time) return total;
  const Load* plain = v_.plain();
  bool unit = plain && affine(plain->indices[0]).coefficient(v_.axis.name) == 1;
  double packed = static_cast<double>(product(outer_) * b_chunks() * v_.tiles() * v_.width * depth());
  return total + packed * (unit ? kCopied : kGathered);
}

std::optional<double> Contraction::plan(Lanes lanes) {
  lanes_ = lanes;
  if (!sort_axes()) return std::nullopt;
  merge_axes();
  if (!choose_storage()) return std::nullopt;
  choose_tiles();
  b_.of_job = panels_first_ && choose_blocks_of_jobs();
  if (!b_.of_job) choose_blocks();
  return cycles();
}

bool Contraction::plan_window(Lanes lanes) {
  lanes_ = lanes;
  if (!sort_axes(true)) return false;
  merge_axes();
  if (!window_fits() || !choose_storage()) return false;
  choose_tiles();
  if (!choose_blocks_of_jobs()) return false;
  const Window& w = *window_;
  if (w.row_count() * w.row_elements() * byte_size(w.rows->dtype) > request_.target.machine.l2_bytes / 2) return false;
  place_window();
  return true;
}

/// The axis of the window is the operand's only axis beside the tiled one, or the outer part of that.
bool Contraction::window_fits() const {
  const Operand& o = windowed();
  if (panels_first_) return false;
  return o.rest.empty() ? o.axis.extent == window_->along.extent * window_->inner
                        : o.rest.size() == 1 && o.rest[0].name == window_->along.name;
}

bool Contraction::follow(const ContractionNest& nest) {
  lanes_ = nest.lanes_lie;
  if (!sort_axes(!nest.window.empty())) return false;
  merge_axes();
  if (!nest.window.empty() && (window_->stage->name != nest.window || !window_fits())) return false;
  if (!take_storage(nest)) return false;
  require_size(request_.nest.stage, "rows", nest.rows, std::min(b_.axis.extent, kMostInTile));
  require_size(request_.nest.stage, "lanes", nest.lanes, std::min(v_.axis.extent, kMostInTile));
  require_size(request_.nest.stage, "vectors", nest.vectors, std::min(v_.axis.extent / nest.lanes, kMostInTile));
  set_tile({nest.rows, nest.vectors, nest.lanes});
  take_blocks(nest);
  if (window_) place_window();
  return true;
}

/// Storage that the nest is emitted for; false for any other.
bool Contraction::take_storage(const ContractionNest& nest) {
  v_.param = nest.v == Storage::Constant ? repackable_param(v_) : -1;
  b_.param = nest.b == Storage::Constant ? repackable_param(b_) : -1;
  v_.at_run_time = nest.v == Storage::PerTile;
  b_.of_job = nest.b == Storage::PerJob;
  bool packs_b = nest.b == Storage::PerJob || nest.b == Storage::BeforeAll;
  if ((nest.v == Storage::Constant && v_.param < 0) || (nest.b == Storage::Constant && b_.param < 0)) return false;
  if (v_.param >= 0 && v_.param == b_.param) return false;
  if (nest.v == Storage::PerJob || nest.v == Storage::BeforeAll || nest.b == Storage::PerTile) return false;
  if (lanes_ == Lanes::AlongOutput) return !packs_b && (!b_.own.empty() || v_.param >= 0);
  return v_.param >= 0 && packs_b == panels_first_ && b_.param < 0 && (b_.plain() || packs_b) && !b_.own.empty();
}

void Contraction::take_blocks(const ContractionNest& nest) {
  int64_t steps = reduce_.empty() ? 1 : reduce_[0].extent;
  require_size(request_.nest.stage, "block", nest.block, steps);
  require_size(request_.nest.stage, "b_tiles", nest.b_tiles, b_.tiles());
  require_size(request_.nest.stage, "v_tiles", nest.v_tiles, v_.tiles());
  block_steps_ = nest.block;
  blocks_ = (steps + block_steps_ - 1) / block_steps_;
  b_chunk_ = nest.b_tiles;
  v_chunk_ = nest.v_tiles;
  if (!window_) return;
  int64_t tiles = reads_window(v_) ? v_chunk_ : b_chunk_;
  if (!windowed().rest.empty() && tiles % windowed().axis_tiles != 0)
    fail_step("schedule-nest-size",
              {.message = fmt::format("a job has {} tiles of the operand that reads `{}`", tiles, nest.window),
               .expected = fmt::format("a multiple of {}, the tiles of one step", windowed().axis_tiles),
               .found = std::to_string(tiles)});
  window_->steps = window_steps(tiles);
}

/// A model's weights seldom stay in a cache from one run to the next, and then the first use of a panel waits for memory; where
/// there are many uses that does not matter.
bool Contraction::worth_prefetching() const {
  constexpr int64_t kLarge = 256 << 10, kMostUses = 64;
  const Operand* o = constant_operand();
  int64_t uses = o == &v_ ? b_chunk_ : v_chunk_;
  if (!o || uses > kMostUses || (o == &v_ && uses == 1)) return false;  // a panel of V that is used once is one long stream
  return product(outer_axes(*o)) * o->tiles() * depth() * o->width * byte_size(o->value->dtype) >= kLarge;
}

void Contraction::note_decisions() const {
  ContractionNest shape{.lanes_lie = lanes_,
                        .rows = tile_.rows,
                        .vectors = tile_.vectors,
                        .lanes = tile_.lanes,
                        .block = block_steps_,
                        .v_tiles = v_chunk_,
                        .b_tiles = b_chunk_,
                        .prefetch = worth_prefetching()};
  shape.v = v_.param >= 0 ? Storage::Constant : v_.at_run_time ? Storage::PerTile : Storage::InPlace;
  shape.b = b_.param >= 0   ? Storage::Constant
            : b_.of_job     ? Storage::PerJob
            : panels_first_ ? Storage::BeforeAll
                            : Storage::InPlace;
  if (window_) shape.window = window_->stage->name;
  if (window_) shape.window_lanes = 0;  // decided by the nest that computes the rows
  request_.nest.shape = std::move(shape);
  if (request_.parallel && jobs() > 1 && stage_.points() * depth() > (1 << 15)) request_.nest.worker = 0;
}

/// Gives the rows their extent.
void Contraction::place_window() {
  Window& w = *window_;
  BufferData data = *w.rows;
  data.shape[0] = Expr(w.row_count());
  w.rows = Buffer(std::move(data));
  windowed().value = replace_buffers(windowed().value, {{w.rows->name, emission_.layout.add(w.rows, Scope::Local)}});
}

namespace {

/// The names taken so far and the ranges of those that are loops: what is only considered takes none.
struct Taken {
  tir::NameSupply names;
  Ranges ranges;

  static Taken of(const Emission& emission) { return {emission.names, emission.ranges}; }
  /// What was taken since; from here on these are again all.
  Taken exchange(Emission& emission) const {
    Taken since{std::move(emission.names), std::move(emission.ranges)};
    emission.names = names;
    emission.ranges = ranges;
    return since;
  }
  void restore(Emission& emission) && {
    emission.names = std::move(names);
    emission.ranges = std::move(ranges);
  }
};

std::optional<Contraction> given_plan(const NestRequest& request, Contraction contraction) {
  if (!contraction.follow(std::get<ContractionNest>(request.nest.shape))) return std::nullopt;
  return contraction;
}

/// The best of all plans, or nothing.
std::optional<Contraction> best_plan(const NestRequest& request, Contraction along) {
  Contraction across = along, windowed = along;
  const Taken before = Taken::of(request.emission);
  std::optional<double> cycles = along.plan(Lanes::AlongOutput);
  if (!cycles) return std::nullopt;
  Taken by_along = before.exchange(request.emission);
  std::optional<double> other = across.plan(Lanes::AcrossOutput);
  Taken by_across = before.exchange(request.emission);
  bool lie_across = other && *other < *cycles;
  bool with_window = windowed.plan_window(lie_across ? Lanes::AcrossOutput : Lanes::AlongOutput);
  if (!with_window) std::move(lie_across ? by_across : by_along).restore(request.emission);
  Contraction& best = with_window ? windowed : lie_across ? across : along;
  best.note_decisions();
  return std::move(best);
}

}  // namespace

std::function<Stmt()> plan_contraction(const NestRequest& request) {
  if (!request.root.reduction) return {};
  Contraction contraction(request);
  if (!contraction.applies()) return {};
  Taken before = Taken::of(request.emission);
  contraction.read();
  std::optional<Contraction> planned =
      request.given ? given_plan(request, std::move(contraction)) : best_plan(request, std::move(contraction));
  if (planned) return [contraction = std::move(*planned)]() mutable { return contraction.build(); };
  std::move(before).restore(request.emission);
  return {};
}

}  // namespace tenon::schedule
