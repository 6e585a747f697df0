// SPDX-License-Identifier: Apache-2.0
// Sums of products with reuse on both sides (matrix products, convolutions): a register tile over packed or direct operands.
//
// Spatial axes fall into three groups by the operands that use them: those of V, the operand that holds the output's
// innermost axis and is read as vectors; those of B, whose elements are broadcast; and outer ones, which index both or
// neither. V's and B's axes are cut into tiles; one side's tiles are resident (they stay in the second cache), the other's
// are streamed past them.
//
//   for job: outer point, chunk of resident tiles, chunk of streamed tiles   (parallel)
//     for block of the reduction
//       [pack the resident V tiles]
//       for streamed tile
//         [pack the streamed V tile]
//         for resident tile
//           acc[rows, vectors, lanes] = init, or the partial sums so far
//           for reduce point of the block: acc += b[rows] * v[vectors, lanes]
//           store through the epilogue, or keep partial sums
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "schedule/nests.h"
#include "schedule/tile_model.h"

namespace tenon::schedule {

using namespace tir;

namespace {

constexpr int64_t kDepth = 320;            // reduce points of one block: a panel of each operand stays in the first cache
constexpr int64_t kDirectRowBytes = 4096;  // rows further apart than this are packed when reused: each is a page of its own

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
  bool at_run_time = false;  // `packed` is scratch, filled by this kernel

  int64_t tiles() const { return axis_tiles * product(rest); }
  const Load* plain() const { return lets.empty() ? as<Load>(value) : nullptr; }
};

struct Product {
  Expr a, b;
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

class Contraction {
 public:
  explicit Contraction(const NestRequest& request) : request_(request), emission_(request.emission) {}
  Stmt build();

 private:
  bool read();
  bool sort_axes();
  void merge_axes();
  void choose_tiles();
  void choose_storage();
  int64_t repackable_param(const Operand& operand) const;
  void repack(Operand& operand, std::string_view name);
  Stmt pack_tile(const Operand& operand, const Expr& slot, const Expr& tile);
  Stmt tile_body(const Expr& v_tile, const Expr& v_slot, const Expr& b_tile, const Expr& b_slot);
  Stmt products(const VarMap& place, const Expr& v_tile, const Expr& v_slot, const Expr& b_tile);
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
  /// Reduce points of one step of the outermost reduce axis.
  int64_t step_depth() const { return reduce_.empty() ? 1 : depth() / reduce_[0].extent; }

  const NestRequest& request_;
  Emission& emission_;
  Stage stage_;  // the reduction over the output's variables, groups split
  std::vector<Iter> outer_, reduce_;
  Operand v_, b_;
  std::vector<Stmt> epilogue_;
  Expr init_, carried_;
  RegisterTile tile_;
  DType dtype_ = DType::F32;
  bool stream_v_ = false;    // V's tiles are streamed, B's are resident
  int64_t block_steps_ = 1;  // steps of the outermost reduce axis in one block
  int64_t blocks_ = 1;
  int64_t resident_ = 1;  // resident tiles of one job
  int64_t streamed_ = 1;  // streamed tiles of one job
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

bool Contraction::sort_axes() {
  Product product = *product_of(stage_.values[0], request_.root.reduction->carried[0]);
  auto innermost = std::find_if(stage_.spatial.rbegin(), stage_.spatial.rend(), [](const Iter& i) { return i.extent > 1; });
  if (innermost == stage_.spatial.rend()) return false;
  bool in_a = uses(product.a, innermost->name);
  if (in_a == uses(product.b, innermost->name)) return false;
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
  Merged b = merge_iters(b_.own, joined(probe(b_), ends), emission_);
  Merged reduce = merge_iters(stage_.reduce, joined(probe(v_), probe(b_)), emission_);
  Merged outer = merge_iters(outer_, joined(joined(probe(v_), probe(b_)), ends), emission_);
  for (const Merged* m : {&v, &b, &reduce, &outer}) {
    for (Operand* o : {&v_, &b_}) {
      o->value = substitute(o->value, m->replace);
      for (Stmt& s : o->lets) s = substitute(s, m->replace);
    }
    for (Stmt& s : epilogue_) s = substitute(s, m->replace);
    init_ = substitute(init_, m->replace);
  }
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
}

void Contraction::choose_tiles() {
  tile_ = choose_register_tile(b_.axis.extent, v_.axis.extent, byte_size(dtype_), request_.target.machine);
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
    int64_t reads = 0;
    for (const Stage& s : emission_.graph.stages)
      for (const auto* list : {&s.values, &s.init})
        for (const Expr& e : *list)
          visit_exprs(e, [&](const Expr& x) {
            const Load* l = as<Load>(x);
            reads += l && l->buffer->name == params[i]->name;
          });
    return reads == 1 ? static_cast<int64_t>(i) : -1;
  }
  return -1;
}

/// The place of an operand's outer point among the ones it uses.
Expr Contraction::outer_index(const Operand& operand) const {
  Expr index(0);
  for (const Iter& o : outer_) {
    bool used = uses(operand.value, o.name);
    for (const Stmt& s : operand.lets) used |= uses(as<Let>(s)->value, o.name);
    if (used) index = index * Expr(o.extent) + o.var();
  }
  return index;
}

/// Where a packed operand's element lies: `offset` counts reduce points times the width, plus the place in the tile.
Expr Contraction::element(const Operand& operand, const Expr& slot, const Expr& offset) const {
  int64_t tile_elements = (operand.at_run_time ? block_steps_ * step_depth() : depth()) * operand.width;
  Expr at = operand.at_run_time ? slot : outer_index(operand) * Expr(operand.tiles()) + slot;
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

/// The pack function of a constant parameter: run once when compiling.
void Contraction::repack(Operand& operand, std::string_view name) {
  const Buffer& param = emission_.graph.func->params[static_cast<size_t>(operand.param)];
  int64_t copies = 1;
  std::vector<Loop> loops;
  for (const Iter& o : outer_) {
    bool used = uses(operand.value, o.name);
    for (const Stmt& s : operand.lets) used |= uses(as<Let>(s)->value, o.name);
    if (!used) continue;
    copies *= o.extent;
    loops.push_back(loop_over(o));
  }
  Buffer original = emission_.layout.flat(param);
  int64_t elements = copies * operand.tiles() * depth() * operand.width;
  operand.packed = Buffer(BufferData{param->name, operand.value->dtype, {Expr(elements)}, {}, Scope::Global});
  Buffer result(BufferData{"packed", operand.value->dtype, {Expr(elements)}, {}, Scope::Global});
  Expr tile = fresh("tile", operand.tiles());
  loops.push_back({tile, Expr(operand.tiles())});
  VarMap place;
  std::vector<Stmt> body = place_tile(operand, tile, place);
  Expr k(0);
  std::vector<Loop> inner;
  for (const Iter& r : reduce_) {
    k = k * Expr(r.extent) + r.var();
    inner.push_back(loop_over(r));
  }
  Expr j = fresh("place", operand.width);
  inner.push_back({j, Expr(operand.width)});
  if (!operand.axis.name.empty()) place[operand.axis.name] = place[operand.axis.name] + j;
  std::vector<Stmt> point;
  for (const Stmt& s : operand.lets) point.push_back(substitute(s, place));
  Expr at = element(operand, tile, k * Expr(operand.width) + j);
  point.push_back(tir::store(result, {at}, simplify(substitute(operand.value, place), emission_.ranges)));
  body.push_back(in_loops(inner, in_scope(std::move(point))));
  parallelise(loops, elements);
  PrimFunc pack{std::string(name), {original, result}, 1, {{"scheduled", true}}, in_loops(loops, in_scope(std::move(body)))};
  request_.packed.push_back({static_cast<size_t>(operand.param), std::move(pack)});
  emission_.layout.replace(param, operand.packed);
}

void Contraction::choose_storage() {
  const Machine& machine = request_.target.machine;
  int64_t bytes = byte_size(dtype_);
  v_.param = repackable_param(v_);
  b_.param = repackable_param(b_);
  if (v_.param == b_.param) b_.param = -1;
  // The constant side streams past the other one: it is read once for each resident chunk.
  stream_v_ = v_.param >= 0 || (b_.param < 0 && v_.tiles() >= b_.tiles());
  if (v_.param < 0) {
    const Load* plain = v_.plain();
    Affine index = plain ? affine(plain->indices[0]) : Affine{};
    bool unit = plain && index.coefficient(v_.axis.name) == 1 && !index.uses_opaquely(v_.axis.name);
    bool taps = step_depth() > 1;  // neighbouring reduce points share cache lines
    int64_t row = plain && !reduce_.empty() ? std::abs(index.coefficient(reduce_[0].name)) * byte_size(v_.value->dtype) : 0;
    bool far = !taps && row >= kDirectRowBytes;
    v_.at_run_time = b_.tiles() >= 4 ? !unit || far : !plain;
  }
  bool reused = v_.tiles() > 1 && b_.tiles() > 1;
  if (!reduce_.empty() && reused && depth() > kDepth * 3 / 2) {
    block_steps_ = std::max<int64_t>(1, kDepth / step_depth());
    blocks_ = (reduce_[0].extent + block_steps_ - 1) / block_steps_;
    block_steps_ = (reduce_[0].extent + blocks_ - 1) / blocks_;  // even blocks
  } else {
    block_steps_ = reduce_.empty() ? 1 : reduce_[0].extent;
  }
  const Operand& resident = stream_v_ ? b_ : v_;
  const Operand& streamed = stream_v_ ? v_ : b_;
  int64_t tile_bytes = std::max<int64_t>(1, block_steps_ * step_depth() * resident.width * bytes);
  resident_ = std::clamp<int64_t>(machine.l2_bytes / 2 / tile_bytes, 1, resident.tiles());
  int64_t chunks = (resident.tiles() + resident_ - 1) / resident_;
  resident_ = (resident.tiles() + chunks - 1) / chunks;
  int64_t jobs = chunks * product(outer_);
  constexpr int64_t kJobs = 8;  // enough for an even share on a few workers; the same for any worker count
  int64_t cuts = jobs >= kJobs - 2 ? 1 : (kJobs + jobs - 1) / jobs;
  int64_t fewest = v_.at_run_time && !stream_v_ ? 8 : 1;  // streamed tiles that pay for packing the resident ones again
  cuts = std::clamp<int64_t>(cuts, 1, std::max<int64_t>(1, streamed.tiles() / fewest));
  streamed_ = (streamed.tiles() + cuts - 1) / cuts;
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
Stmt Contraction::products(const VarMap& place, const Expr& v_tile, const Expr& v_slot, const Expr& b_tile) {
  std::vector<Loop> loops;
  VarMap at = place;
  Expr whole(0), local(0);
  for (size_t i = 0; i < reduce_.size(); ++i) {
    Expr step = fresh(reduce_[i].name + "_step", reduce_[i].extent);
    Expr extent(reduce_[i].extent);
    Expr position = step;
    if (i == 0 && blocks_ > 1) {
      emission_.ranges[as<Var>(step)->name] = {0, block_steps_ - 1};
      extent = min(Expr(block_steps_), Expr(reduce_[0].extent) - block_ * Expr(block_steps_));
      position = block_ * Expr(block_steps_) + step;
    }
    loops.push_back({step, extent});
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
    Expr v = operand_at(v_, !v_.at_run_time ? v_tile : stream_v_ ? Expr(0) : v_slot, vector * Expr(tile_.lanes) + lane, stmts);
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
  const Expr& inner_slot = stream_v_ ? b_slot : v_slot;
  const Expr& outer_slot = stream_v_ ? v_slot : b_slot;
  auto partial_at = [&](const Expr& row, const Expr& vector, const Expr& lane) {
    Expr slot = outer_slot * Expr(resident_) + inner_slot;
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
  out.push_back(products(place, v_tile, v_slot, b_tile));
  out.push_back(finish);
  return in_scope(std::move(out));
}

/// Copies one block of one V tile to scratch, in the order in which the tile reads it.
Stmt Contraction::pack_tile(const Operand& operand, const Expr& slot, const Expr& tile) {
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
  point.push_back(store(operand.packed, {element(operand, slot, local * Expr(operand.width) + offset)},
                        simplify(substitute(operand.value, here), emission_.ranges)));
  out.push_back(in_loops(loops, in_scope(std::move(point))));
  return in_scope(std::move(out));
}

Stmt Contraction::build() {
  if (!read() || !sort_axes()) return {};
  merge_axes();
  choose_tiles();
  choose_storage();
  for (Operand* o : {&v_, &b_})
    if (o->param >= 0)
      repack(*o, emission_.names.fresh("pack_" + emission_.graph.func->params[static_cast<size_t>(o->param)]->name));

  const Operand& resident = stream_v_ ? b_ : v_;
  const Operand& streamed = stream_v_ ? v_ : b_;
  int64_t chunks = (resident.tiles() + resident_ - 1) / resident_, cuts = (streamed.tiles() + streamed_ - 1) / streamed_;
  int64_t jobs = product(outer_) * chunks * cuts;
  acc_ = Buffer(BufferData{
      emission_.names.fresh("acc"), dtype_, {Expr(tile_.rows), Expr(tile_.vectors), Expr(tile_.lanes)}, {}, Scope::Reg});
  block_ = fresh("block", blocks_);

  // A job: its outer point and its two chunks.
  Expr job = fresh("job", jobs);
  std::vector<Stmt> body;
  Expr index = job;
  auto digit = [&](std::string_view base, int64_t extent, bool last) {
    if (extent == 1) return Expr(0);
    Expr value = simplify(last ? index : floormod(index, Expr(extent)), emission_.ranges);
    index = floordiv(index, Expr(extent));
    if (as<Var>(value)) return value;
    Expr name = fresh(base, extent);
    body.push_back(let(name, value));
    return name;
  };
  Expr cut = digit("cut", cuts, chunks == 1 && outer_.empty());
  Expr chunk = digit("chunk", chunks, outer_.empty());
  for (size_t i = outer_.size(); i-- > 0;) {
    Expr value = simplify(i == 0 ? index : floormod(index, Expr(outer_[i].extent)), emission_.ranges);
    index = floordiv(index, Expr(outer_[i].extent));
    body.push_back(let(outer_[i].var(), value));
  }

  Expr r_slot = fresh("resident", resident_), s_slot = fresh("streamed", streamed_);
  auto tile_of = [&](const Expr& part, int64_t size, const Expr& slot, int64_t tiles) {
    Expr t = simplify(part * Expr(size) + slot, emission_.ranges);
    if (as<Var>(t)) return std::pair(t, Stmt{});
    Expr name = fresh("tile", tiles);
    return std::pair(name, let(name, t));
  };
  auto [r_tile, r_let] = tile_of(chunk, resident_, r_slot, resident.tiles());
  auto [s_tile, s_let] = tile_of(cut, streamed_, s_slot, streamed.tiles());
  auto extent_of = [&](const Expr& part, int64_t size, int64_t tiles) {
    return tiles % size == 0 ? Expr(size) : min(Expr(size), Expr(tiles) - part * Expr(size));
  };
  const Expr& v_tile = stream_v_ ? s_tile : r_tile;
  const Expr& b_tile = stream_v_ ? r_tile : s_tile;
  // Partial sums are kept for each streamed and resident slot; a run-time packed V uses its slot, or the one buffer when
  // streamed.
  if (blocks_ > 1) {
    int64_t elements = streamed_ * resident_ * tile_.rows * v_.width;
    partial_ = Buffer(BufferData{emission_.names.fresh("partial"), dtype_, {Expr(elements)}, {}, Scope::Local});
    body.push_back(allocate(partial_));
  }
  if (v_.at_run_time) {
    int64_t slots = stream_v_ ? 1 : resident_;
    int64_t elements = slots * block_steps_ * step_depth() * v_.width;
    v_.packed = Buffer(BufferData{emission_.names.fresh("panel"), v_.value->dtype, {Expr(elements)}, {}, Scope::Local});
    body.push_back(allocate(v_.packed));
  }
  std::vector<Stmt> inner;
  if (r_let) inner.push_back(r_let);
  inner.push_back(tile_body(v_tile, stream_v_ ? s_slot : r_slot, b_tile, stream_v_ ? r_slot : s_slot));
  Stmt resident_loop =
      for_loop(r_slot, 0, extent_of(chunk, resident_, resident.tiles()), ForKind::Serial, in_scope(std::move(inner)));
  std::vector<Stmt> around;
  if (s_let) around.push_back(s_let);
  if (v_.at_run_time && stream_v_) around.push_back(pack_tile(v_, Expr(0), v_tile));
  around.push_back(resident_loop);
  Stmt streamed_loop =
      for_loop(s_slot, 0, extent_of(cut, streamed_, streamed.tiles()), ForKind::Serial, in_scope(std::move(around)));
  std::vector<Stmt> block;
  if (v_.at_run_time && !stream_v_) {
    Expr p_slot = fresh("panel_slot", resident_);
    auto [p_tile, p_let] = tile_of(chunk, resident_, p_slot, resident.tiles());
    std::vector<Stmt> one;
    if (p_let) one.push_back(p_let);
    one.push_back(pack_tile(v_, p_slot, p_tile));
    block.push_back(
        for_loop(p_slot, 0, extent_of(chunk, resident_, resident.tiles()), ForKind::Serial, in_scope(std::move(one))));
  }
  block.push_back(streamed_loop);
  Stmt blocks = in_scope(std::move(block));
  if (blocks_ > 1)
    blocks = for_loop(block_, 0, Expr(blocks_), ForKind::Serial, blocks);
  else
    blocks = substitute(blocks, {{as<Var>(block_)->name, Expr(0)}});
  body.push_back(blocks);
  std::vector<Loop> loops = {{job, Expr(jobs)}};
  if (request_.parallel && jobs > 1 && stage_.points() * depth() > (1 << 15)) loops[0].kind = ForKind::Parallel;
  auto storage = [](const Operand& o) { return o.param >= 0 ? "constant panels" : o.at_run_time ? "packed panels" : "in place"; };
  request_.explain += fmt::format(
      "{}: sum of products, tile {} rows x {} vectors of {} lanes; vectors {}, broadcasts {}; {} blocks of {} steps; {} jobs\n",
      stage_.name, tile_.rows, tile_.vectors, tile_.lanes, storage(v_), storage(b_), blocks_, block_steps_ * step_depth(), jobs);
  return in_loops(loops, in_scope(std::move(body)));
}

}  // namespace

Stmt contraction_nest(const NestRequest& request) {
  if (!request.root.reduction) return {};
  return Contraction(request).build();
}

}  // namespace tenon::schedule
