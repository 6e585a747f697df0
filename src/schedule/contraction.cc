// SPDX-License-Identifier: Apache-2.0
// Sums of products with reuse on both sides (matrix products, convolutions): a register tile over packed or direct operands.
//
// Spatial axes fall into three groups by the operands that use them: those of V, which is read as vectors; those of B, whose
// elements are broadcast; and outer ones, which index both or neither. V's and B's axes are cut into tiles. One tile of V stays
// in the first cache while the tiles of B, which stay in the second, stream past it.
//
// V is the operand that holds the output's innermost axis, so that vectors are stored whole; or, where that axis is too short
// to fill vectors, the other one, if it is a constant: then lanes are stored apart, and B is read in place at any stride.
//
//   for job: outer point, chunk of B tiles, chunk of V tiles   (parallel)
//     [compute the rows of a stored stage that the job reads: the padded input of a convolution]
//     [pack B]
//     for block of the reduction
//       for V tile of the chunk
//         [pack it]
//         for B tile of the chunk
//           acc[rows, vectors, lanes] = init, or the partial sums so far
//           for reduce point of the block: acc += b[rows] * v[vectors, lanes]
//           store through the epilogue, or keep partial sums
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "schedule/nests.h"
#include "schedule/tile_model.h"

namespace tenon::schedule {

using namespace tir;

namespace {

bool uses(const Expr& e, const std::string& name) {
  bool found = false;
  visit_exprs(e, [&](const Expr& x) {
    const Var* v = as<Var>(x);
    found |= v && v->name == name;
  });
  return found;
}

int64_t product(const std::vector<Iter>& iters) {
  int64_t n = 1;
  for (const Iter& i : iters) n *= i.extent;
  return n;
}

/// One factor of the product, cut into tiles.
struct Operand {
  Expr value;              // over the spatial and reduce variables, reading flat buffers
  std::vector<Stmt> lets;  // what `value` needs computed before
  std::vector<Iter> own;   // spatial axes that only it uses
  Iter axis{"", 1};        // the one that is tiled; extent 1 if it has none
  std::vector<Iter> rest;  // the others
  int64_t width = 1;       // of a tile, in elements of `axis`
  int64_t axis_tiles = 1;
  int64_t param = -1;        // a constant parameter that is repacked for it
  Buffer packed;             // tiles in the order they are read: parameter, scratch, or null when read in place
  bool at_run_time = false;  // `packed` is scratch, filled by this kernel for each V tile
  bool of_job = false;       // `packed` is scratch for the tiles of one job

  int64_t tiles() const { return axis_tiles * product(rest); }
  const Load* plain() const { return lets.empty() ? as<Load>(value) : nullptr; }
};

struct Product {
  Expr a, b;
};

/// A stored stage that an operand reads at rows `stride * along + first + (0 … taps - 1)` of its axis `axis`: each job computes
/// the rows that it reads.
struct Window {
  const Stage* stage = nullptr;
  size_t axis = 0;
  Iter along;         // a spatial axis of the sum
  int64_t inner = 1;  // points of the operand's other axes within a step of it
  int64_t stride = 1, first = 0, taps = 1;
  std::vector<Expr> at;  // per axis of the stage, where the one point of it lies that a job reads; null: a job reads all
  Buffer rows;           // [rows, axes read whole…]
  Expr start;            // the job's first step of `along`
  int64_t steps = 1;     // the most steps of `along` that a job touches

  int64_t row_count() const { return (steps - 1) * stride + taps; }
  int64_t row_elements() const {
    int64_t n = 1;
    for (size_t i = 0; i < at.size(); ++i) n *= i == axis || at[i] ? 1 : stage->spatial[i].extent;
    return n;
  }
};

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

Stmt simplify_stmt(const Stmt& s, const Ranges& ranges) {
  return map_children(
      s, [&](const Stmt& child) { return simplify_stmt(child, ranges); }, [&](const Expr& e) { return simplify(e, ranges); });
}

enum class Lanes {
  AlongOutput,   // V holds the output's innermost axis
  AcrossOutput,  // V is the constant operand, B is read in place
};

constexpr int64_t kLineBytes = 64;
constexpr int64_t kJobs = 8;                       // enough for an even share on a few workers; the same for any worker count
constexpr double kGathered = 1.5, kCopied = 0.25;  // cycles per element of a panel packed at run time
constexpr double kWorthRepeating = 0.1;            // of the products' time, for work that is done again so that it stays in cache

class Contraction {
 public:
  explicit Contraction(const NestRequest& request) : request_(request), emission_(request.emission) {}
  /// Takes the sum of products apart; false for another root.
  bool read();
  /// Decides everything but emits nothing. Estimated cycles, or nothing where this does not apply.
  std::optional<double> plan(Lanes lanes);
  /// As planned, with a window; false, and then unusable, where there is none or it does not pay.
  bool plan_window(Lanes lanes);
  Stmt build();

 private:
  bool sort_axes(bool windowed = false);
  bool find_window(Operand& operand, const Expr& read);
  bool place_window();
  Stmt fill_window();
  void merge_axes();
  bool could_overwrite() const;
  void choose_tiles();
  bool choose_storage();
  void choose_blocks(int64_t b_parts = 1);
  int64_t windowed_tiles(const Operand& operand, int64_t tiles);
  Expr window_start(const Expr& part, int64_t tiles) const;
  double product_cycles() const;
  bool choose_blocks_of_jobs();
  double repeated_cycles() const;
  double cycles() const;
  int64_t repackable_param(const Operand& operand) const;
  std::vector<Iter> outer_axes(const Operand& operand) const;
  Buffer panels(const Operand& operand, const std::string& name) const;
  Stmt fill_tile(const Operand& operand, const Buffer& result, VarMap place, const Expr& tile, const Expr& slot);
  Stmt fill_panels(const Operand& operand, const Buffer& result);
  void repack(Operand& operand);
  Stmt pack_tile(const Operand& operand, const Expr& tile);
  Stmt tile_body(const Expr& v_tile, const Expr& v_slot, const Expr& b_tile, const Expr& b_slot);
  Stmt products(const VarMap& place, const Expr& v_tile, const Expr& b_tile);
  std::vector<Stmt> place_tile(const Operand& operand, const Expr& tile, VarMap& place);
  Expr element(const Operand& operand, const Expr& slot, const Expr& offset) const;
  Stmt over_accumulator(const std::function<Stmt(const Expr& row, const Expr& vector, const Expr& lane)>& body,
                        bool vectors_first);
  Expr outer_index(const Operand& operand) const;

  Expr fresh(std::string_view base, int64_t extent) {
    Expr v = var(emission_.names.fresh(base));
    emission_.ranges[as<Var>(v)->name] = {0, std::max<int64_t>(0, extent - 1)};
    return v;
  }
  int64_t depth() const { return product(reduce_); }
  int64_t b_chunks() const { return (b_.tiles() + b_chunk_ - 1) / b_chunk_; }
  int64_t v_cuts() const { return (v_.tiles() + v_chunk_ - 1) / v_chunk_; }
  /// Reduce points of one step of the outermost reduce axis.
  int64_t step_depth() const { return reduce_.empty() ? 1 : depth() / reduce_[0].extent; }

  const NestRequest& request_;
  Emission& emission_;
  Lanes lanes_ = Lanes::AlongOutput;
  Stage stage_;  // the reduction over the output's variables, groups split
  std::vector<Iter> outer_, reduce_;
  Operand v_, b_;
  std::vector<Stmt> epilogue_;
  Expr init_, carried_;
  RegisterTile tile_;
  DType dtype_ = DType::F32;
  int64_t block_steps_ = 1;  // steps of the outermost reduce axis in one block
  int64_t blocks_ = 1;
  int64_t b_chunk_ = 1;        // B tiles of one job
  int64_t v_chunk_ = 1;        // V tiles of one job
  bool panels_first_ = false;  // B is stored as panels before it is used: by each job, or before all
  std::optional<Window> window_;
  Operand* windowed_ = nullptr;  // the operand that reads it
  Buffer acc_, partial_;
  Expr block_;  // index of the reduction's block
};

bool Contraction::read() {
  const Stage& reduction = *request_.root.reduction;
  const Stage& output = request_.root.output();
  if (request_.prefix > 0 || reduction.values.size() != 1 || output.outputs.size() != 1) return false;
  if (reduction.points() == 0 || reduction.reduce_points() < 4) return false;
  dtype_ = reduction.outputs[0]->dtype;
  if (dtype_ == DType::Bool || byte_size(dtype_) < 4) return false;
  if (!product_of(reduction.values[0], reduction.carried[0])) return false;
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
  return true;
}

bool Contraction::sort_axes(bool windowed) {
  Product product = *product_of(stage_.values[0], request_.root.reduction->carried[0]);
  auto innermost = std::find_if(stage_.spatial.rbegin(), stage_.spatial.rend(), [](const Iter& i) { return i.extent > 1; });
  if (innermost == stage_.spatial.rend()) return false;
  bool in_a = uses(product.a, innermost->name);
  if (in_a == uses(product.b, innermost->name)) return false;
  if (lanes_ == Lanes::AcrossOutput) in_a = !in_a;
  Body v_body(emission_), b_body(emission_);
  v_.value = v_body.value(in_a ? product.a : product.b);
  b_.value = b_body.value(in_a ? product.b : product.a);
  v_.lets = v_body.stmts();
  b_.lets = b_body.stmts();
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
  if (!stage || !own_root || stage->outputs.size() != 1 || emission_.graph.is_param(l->buffer)) return false;
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
  windowed_ = &operand;
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
  Merged v = merge_iters(v_.own, joined(probe(v_), ends), emission_);
  // A broadcast is read at any place, which is computed once for each row of a tile.
  Merged b = merge_iters(b_.own, lanes_ == Lanes::AcrossOutput ? ends : joined(probe(b_), ends), emission_);
  Merged reduce = merge_iters(stage_.reduce, joined(probe(v_), probe(b_)), emission_);
  Merged outer = merge_iters(outer_, joined(joined(probe(v_), probe(b_)), ends), emission_);
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
  tile_ = choose_register_tile(
      {b_.axis.extent, v_.axis.extent, byte_size(dtype_), v_.param < 0 && !v_.at_run_time, could_overwrite()},
      request_.target.machine);
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
  parallelise(loops, int_value(result->shape[0]));
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
  if (windowed_ == &b_) b_chunk_ = windowed_tiles(b_, b_chunk_);
  int64_t jobs = b_chunks() * product(outer_);
  int64_t cuts = std::clamp<int64_t>((kJobs + jobs - 1) / jobs, 1, v_.tiles());
  v_chunk_ = (v_.tiles() + cuts - 1) / cuts;
  if (windowed_ == &v_) v_chunk_ = windowed_tiles(v_, v_chunk_);
}

/// Cuts the work into jobs where each computes a part of B, or of what an operand reads, for itself; false if that takes much
/// more than to compute the whole before.
bool Contraction::choose_blocks_of_jobs() {
  double least = std::numeric_limits<double>::infinity();
  int64_t best = 1;
  for (int64_t parts = 1; parts <= (windowed_ == &v_ ? 1 : kJobs); parts *= 2) {
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
  if (!operand.rest.empty()) {
    w.steps = even(w.along.extent, std::min(most, std::max<int64_t>(1, tiles / operand.axis_tiles)));
    return w.steps * operand.axis_tiles;
  }
  int64_t fitting = std::max<int64_t>(1, (most - 1) * w.inner / operand.width);
  tiles = even(operand.axis_tiles, std::min(tiles, fitting));
  w.steps = std::min(w.along.extent, (tiles * operand.width + w.inner - 2) / w.inner + 1);
  return tiles;
}

/// The first step of the window's axis that a job touches.
Expr Contraction::window_start(const Expr& part, int64_t tiles) const {
  const Operand& o = *windowed_;
  Expr first = part * Expr(tiles);
  if (!o.rest.empty()) return simplify(floordiv(first, Expr(o.axis_tiles)), emission_.ranges);
  Expr point = min(first * Expr(o.width), Expr(o.axis.extent - o.width));  // a last tile is moved back
  return simplify(floordiv(point, Expr(window_->inner)), emission_.ranges);
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

/// Loops over the accumulator's elements; `vectors_first` walks the vectors outside, so that the broadcasts stay in registers.
Stmt Contraction::over_accumulator(const std::function<Stmt(const Expr&, const Expr&, const Expr&)>& body, bool vectors_first) {
  Expr row = fresh("row", tile_.rows), vector = fresh("vec", tile_.vectors), lane = fresh("lane", tile_.lanes);
  Loop rows{row, Expr(tile_.rows), ForKind::Unrolled}, vectors{vector, Expr(tile_.vectors), ForKind::Unrolled};
  Loop lanes{lane, Expr(tile_.lanes), ForKind::Vectorized};
  std::vector<Loop> loops = vectors_first ? std::vector<Loop>{vectors, rows, lanes} : std::vector<Loop>{rows, vectors, lanes};
  return in_loops(loops, body(row, vector, lane));
}

/// acc += b * v over the reduce points of one block.
Stmt Contraction::products(const VarMap& place, const Expr& v_tile, const Expr& b_tile) {
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
    Expr b = operand_at(b_, b_tile, row, stmts);
    Expr v = operand_at(v_, v_.at_run_time ? Expr(0) : v_tile, vector * Expr(tile_.lanes) + lane, stmts);
    Expr sum = load(acc_, {row, vector, lane}) + b * v;
    stmts.push_back(store(acc_, {row, vector, lane}, contract(sum, request_.target)));
    return in_scope(std::move(stmts));
  };
  return in_loops(loops, over_accumulator(step, tile_.vectors > tile_.rows));
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
  out.push_back(products(place, v_tile, b_.of_job ? b_slot : b_tile));
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
  bool apart = windowed_->rest.size() == 1 && windowed_->rest[0].name == window_->along.name;
  bool merged = windowed_->rest.empty() && windowed_->axis.extent == window_->along.extent * window_->inner;
  if (!(apart || merged) || !choose_storage()) return false;
  choose_tiles();
  return choose_blocks_of_jobs() && place_window();
}

/// Gives the rows their extent; false if they do not stay in the second cache.
bool Contraction::place_window() {
  Window& w = *window_;
  int64_t elements = w.row_count() * w.row_elements();
  if (elements * byte_size(w.rows->dtype) > request_.target.machine.l2_bytes / 2) return false;
  BufferData data = *w.rows;
  data.shape[0] = Expr(w.row_count());
  w.rows = Buffer(std::move(data));
  windowed_->value = replace_buffers(windowed_->value, {{w.rows->name, emission_.layout.add(w.rows, Scope::Local)}});
  return true;
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
  NestRequest fill{emission_,        root, 1, request_.target, false, request_.constant_params, request_.packed, request_.explain,
                   request_.absorbed};
  Expr left = Expr(w.stage->spatial[w.axis].extent) - first;
  return for_loop(row, 0, simplify(min(Expr(w.row_count()), left), emission_.ranges), ForKind::Serial, elementwise_nest(fill));
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
  int64_t jobs = product(outer_) * chunks * cuts;
  acc_ = Buffer(BufferData{
      emission_.names.fresh("acc"), dtype_, {Expr(tile_.rows), Expr(tile_.vectors), Expr(tile_.lanes)}, {}, Scope::Reg});
  block_ = fresh("block", blocks_);

  // A job is an outer point and a chunk of each side: the digits of its number.
  Expr job = fresh("job", jobs);
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
    request_.absorbed.insert(window_->stage->name);
    Expr start = windowed_ == &v_ ? window_start(cut, v_chunk_) : window_start(chunk, b_chunk_);
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
  std::vector<Loop> loops = {{job, Expr(jobs)}};
  if (request_.parallel && jobs > 1 && stage_.points() * depth() > (1 << 15)) loops[0].kind = ForKind::Parallel;
  auto storage = [](const Operand& o) { return o.param >= 0 ? "constant panels" : o.packed ? "packed panels" : "in place"; };
  request_.explain += fmt::format(
      "{}: sum of products, tile {} rows x {} vectors of {} lanes {} the output; vectors {}, broadcasts {}; {} blocks of {} "
      "steps; {} jobs{}\n",
      stage_.name, tile_.rows, tile_.vectors, tile_.lanes, lanes_ == Lanes::AlongOutput ? "along" : "across", storage(v_),
      storage(b_), blocks_, block_steps_ * step_depth(), jobs,
      window_ ? fmt::format(", each with {} rows of {}", window_->row_count(), window_->stage->name) : "");
  first.push_back(in_loops(loops, in_scope(std::move(body))));
  return in_scope(std::move(first));
}

}  // namespace

Stmt contraction_nest(const NestRequest& request) {
  if (!request.root.reduction) return {};
  Contraction along(request);
  if (!along.read()) return {};
  Contraction across = along;
  Contraction windowed = along;
  std::optional<double> cycles = along.plan(Lanes::AlongOutput);
  if (!cycles) return {};
  std::optional<double> other = across.plan(Lanes::AcrossOutput);
  if (windowed.plan_window(other && *other < *cycles ? Lanes::AcrossOutput : Lanes::AlongOutput)) return windowed.build();
  return other && *other < *cycles ? across.build() : along.build();
}

}  // namespace tenon::schedule
