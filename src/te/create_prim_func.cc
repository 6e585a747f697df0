// SPDX-License-Identifier: Apache-2.0
// Tensor expressions to one unscheduled loop function: a serial loop nest and a block per stage.
#include <algorithm>
#include <set>

#include "te/te.h"
#include "tir/memory_attr.h"

namespace tenon::te {
namespace {

using tir::Block;
using tir::Buffer;
using tir::BufferData;
using tir::IterKind;
using tir::IterVar;
using tir::Load;
using tir::Region;
using tir::Stmt;

std::string_view var_name(const Expr& v) { return tir::as<tir::Var>(v)->name; }

/// Linear in the variables with integer factors: an index whose image of a box is again a box.
bool affine(const Expr& e) {
  switch (e->kind) {
    case tir::ExprKind::IntImm:
    case tir::ExprKind::Var: return true;
    case tir::ExprKind::Binary: {
      const auto* n = tir::as<tir::Binary>(e);
      if (n->op == tir::BinaryOp::Add || n->op == tir::BinaryOp::Sub) return affine(n->a) && affine(n->b);
      bool scaled = n->op == tir::BinaryOp::Mul && (tir::as_int(n->a) || tir::as_int(n->b));
      return scaled && affine(n->a) && affine(n->b);
    }
    default: return false;
  }
}

Region full_region(const Buffer& buffer) { return {buffer, std::vector<Expr>(buffer.rank(), Expr(0)), buffer->shape}; }

/// The boxes that the loads in some expressions touch, one per buffer in order of first use. An axis is exact where
/// every load has one affine index, else it spans the buffer.
std::vector<Region> read_regions(std::span<const Expr> exprs) {
  std::vector<Region> regions;
  std::vector<std::vector<bool>> spans;
  auto add = [&](const Load& access) {
    auto same = [&](const Region& r) { return r.buffer->name == access.buffer->name; };
    size_t at = static_cast<size_t>(std::find_if(regions.begin(), regions.end(), same) - regions.begin());
    if (at == regions.size()) {
      regions.push_back({access.buffer, access.indices, std::vector<Expr>(access.indices.size(), Expr(1))});
      spans.emplace_back();
      for (const Expr& index : access.indices) spans.back().push_back(!affine(index));
      return;
    }
    for (size_t k = 0; k < access.indices.size(); ++k)
      if (!tir::structural_equal(regions[at].min[k], access.indices[k])) spans[at][k] = true;
  };
  for (const Expr& e : exprs) tir::visit_loads(e, add);
  for (size_t at = 0; at < regions.size(); ++at)
    for (size_t k = 0; k < spans[at].size(); ++k)
      if (spans[at][k]) {
        regions[at].min[k] = Expr(0);
        regions[at].extent[k] = regions[at].buffer->shape[k];
      }
  return regions;
}

Region point_region(const Buffer& buffer, const std::vector<Expr>& indices) {
  return {buffer, indices, std::vector<Expr>(indices.size(), Expr(1))};
}

/// Whether a reduction has points: known to have some, known to have none, or decided by a symbol.
enum class Points { Some, None, Unknown };

Points reduce_points(const Stage& stage) {
  Points points = Points::Some;
  for (const Axis& axis : stage.reduce_axes) {
    const int64_t* extent = tir::as_int(axis.extent);
    if (extent && *extent <= 0) return Points::None;
    if (!extent) points = Points::Unknown;
  }
  return points;
}

/// Builds one function; names are taken from one supply.
class Converter {
 public:
  Converter(const Graph& graph, std::span<const Tensor> inputs, std::span<const Tensor> outputs, std::string name)
      : graph_(graph), reachable_(graph.reachable(outputs)) {
    function_.name = std::move(name);
    function_.num_inputs = static_cast<int64_t>(inputs.size());
    for (const Tensor& input : inputs) add_input(input);
    reserve_names();
    for (const Tensor& output : outputs) add_output(output);
  }

  tir::PrimFunc run() {
    for (size_t i = 0; i < graph_.stages().size(); ++i)
      if (reachable_[i]) convert(graph_.stages()[i]);
    for (const auto& [from, to] : copies_) convert_copy(from, to);
    add_places();
    std::vector<Stmt> body = std::move(declarations_);
    body.insert(body.end(), nests_.begin(), nests_.end());
    function_.body = tir::seq(std::move(body));
    return std::move(function_);
  }

 private:
  void add_places() {
    std::string places;
    for (size_t i = 0; i < graph_.stages().size(); ++i) {
      const Stage& stage = graph_.stages()[i];
      if (!reachable_[i] || stage.memory.empty()) continue;
      for (const Buffer& b : stage.outputs) places += (places.empty() ? "" : ", ") + b->name + ": " + stage.memory;
    }
    if (!places.empty()) function_.attrs[std::string(tir::kMemoryAttr)] = std::move(places);
  }

  size_t stage_index(const Buffer& buffer) const {
    int index = graph_.stage_of(buffer);
    check(index >= 0, "an output of a tensor-expression function is a tensor of its graph");
    return static_cast<size_t>(index);
  }

  void add_input(const Tensor& input) {
    const Stage& stage = graph_.stages()[stage_index(input.buffer)];
    check(stage.kind == StageKind::Placeholder, "an input of a tensor-expression function is a placeholder");
    check(parameters_.insert(input.buffer->name).second, "an input of a tensor-expression function is listed once");
    function_.params.push_back(input.buffer);
  }

  void reserve_names() {
    auto reserve_vars = [&](const Expr& e) {
      if (tir::as<tir::Var>(e)) names_.reserve(std::string(var_name(e)));
    };
    for (const Buffer& buffer : function_.params) names_.reserve(buffer->name);
    for (size_t i = 0; i < reachable_.size(); ++i) {
      if (!reachable_[i]) continue;
      const Stage& stage = graph_.stages()[i];
      for (const Buffer& buffer : stage.outputs) {
        names_.reserve(buffer->name);
        for (const Expr& extent : buffer->shape) tir::visit_exprs(extent, reserve_vars);
      }
      if (stage.body)
        tir::visit(stage.body, [&](const Stmt& s) {
          if (const auto* n = tir::as<tir::For>(s)) reserve_vars(n->var);
          if (const auto* n = tir::as<tir::Let>(s)) reserve_vars(n->var);
          if (const auto* n = tir::as<tir::Allocate>(s)) names_.reserve(n->buffer->name);
          if (const auto* n = tir::as<tir::AllocateConst>(s)) names_.reserve(n->buffer->name);
          if (const auto* n = tir::as<Block>(s)) block_names_.reserve(n->name);
        });
    }
  }

  /// A result that no stage may write in place (an input, a constant, or one listed before) becomes a copy.
  void add_output(const Tensor& output) {
    StageKind kind = graph_.stages()[stage_index(output.buffer)].kind;
    bool written = kind != StageKind::Placeholder && kind != StageKind::Constant;
    if (written && parameters_.insert(output.buffer->name).second) {
      function_.params.push_back(output.buffer);
      return;
    }
    Buffer copy(BufferData{names_.fresh(output.buffer->name + "_copy"), output.dtype(), output.shape(), {}, tir::Scope::Global});
    function_.params.push_back(copy);
    copies_.emplace_back(output.buffer, copy);
  }

  void convert(const Stage& stage) {
    if (stage.kind == StageKind::Placeholder) {
      if (!parameters_.contains(stage.outputs[0]->name))
        fail_internal("placeholder `" + stage.name + "` is read by function `" + function_.name +
                      "` but is not among its inputs");
      return;
    }
    if (stage.kind == StageKind::Constant) {
      declarations_.push_back(tir::allocate_const(stage.outputs[0], stage.constant));
      return;
    }
    for (const Buffer& buffer : stage.outputs)
      if (!parameters_.contains(buffer->name)) declarations_.push_back(tir::allocate(buffer));
    switch (stage.kind) {
      case StageKind::Compute: convert_points(stage, stage.values); return;
      case StageKind::Reduce: convert_reduce(stage); return;
      case StageKind::Extern: convert_extern(stage); return;
      case StageKind::Placeholder:
      case StageKind::Constant: return;
    }
  }

  /// Loops and block variables over some axes; `vars` maps each axis to its block variable.
  struct Nest {
    std::vector<Expr> loops;
    std::vector<IterVar> iters;
    tir::VarMap vars;
    std::vector<Expr> spatial;
  };

  void add_axes(Nest& nest, const std::vector<Axis>& axes, IterKind kind) {
    nest.loops.reserve(nest.loops.size() + axes.size());
    nest.iters.reserve(nest.iters.size() + axes.size());
    if (kind == IterKind::Spatial) nest.spatial.reserve(axes.size());
    for (size_t k = 0; k < axes.size(); ++k) {
      std::string base = (kind == IterKind::Spatial ? "i" : "r") + std::to_string(k);
      Expr loop = tir::var(names_.fresh(base));
      Expr bound = tir::var(names_.fresh("v_" + std::string(var_name(loop))));
      nest.vars.try_emplace(tir::as<tir::Var>(axes[k].var)->key(), bound);
      nest.iters.push_back({bound, axes[k].extent, kind, loop});
      nest.loops.push_back(std::move(loop));
      if (kind == IterKind::Spatial) nest.spatial.push_back(bound);
    }
  }

  void add_nest(const Nest& nest, const std::string& name, std::vector<Region> reads, std::vector<Region> writes,
                const Stmt& init, const Stmt& body) {
    Stmt s = tir::block(name, nest.iters, std::move(reads), std::move(writes), init, body);
    for (size_t k = nest.loops.size(); k-- > 0;)
      s = tir::for_loop(nest.loops[k], Expr(0), nest.iters[k].extent, tir::ForKind::Serial, s);
    nests_.push_back(std::move(s));
  }

  std::vector<Region> writes_at(const Stage& stage, const std::vector<Expr>& indices) {
    std::vector<Region> writes;
    for (const Buffer& buffer : stage.outputs) writes.push_back(point_region(buffer, indices));
    return writes;
  }

  static std::vector<Expr> substitute_all(std::vector<Expr> exprs, const tir::VarMap& vars) {
    for (Expr& e : exprs) e = tir::substitute(e, vars);
    return exprs;
  }

  static Stmt store_all(const Stage& stage, const std::vector<Expr>& indices, const std::vector<Expr>& values) {
    std::vector<Stmt> stores;
    for (size_t k = 0; k < values.size(); ++k) stores.push_back(tir::store(stage.outputs[k], indices, values[k]));
    return tir::seq(std::move(stores));
  }

  /// Every output element from `values`, functions of the data axes alone.
  void convert_points(const Stage& stage, const std::vector<Expr>& values) {
    Nest nest;
    add_axes(nest, stage.axes, IterKind::Spatial);
    std::vector<Expr> bound = substitute_all(values, nest.vars);
    add_nest(nest, block_names_.fresh(stage.name), read_regions(bound), writes_at(stage, nest.spatial), {},
             store_all(stage, nest.spatial, bound));
  }

  void convert_reduce(const Stage& stage) {
    if (stage.reduce_axes.empty()) {  // one point: the next values of the initial ones
      tir::VarMap carried;
      for (size_t k = 0; k < stage.carried.size(); ++k) carried.try_emplace(var_name(stage.carried[k]), stage.init[k]);
      convert_points(stage, substitute_all(stage.values, carried));
      return;
    }
    Points points = reduce_points(stage);
    if (points != Points::Some) convert_points(stage, stage.init);
    if (points == Points::None) return;
    Nest nest;
    add_axes(nest, stage.axes, IterKind::Spatial);
    add_axes(nest, stage.reduce_axes, IterKind::Reduce);
    std::vector<Expr> init = substitute_all(stage.init, nest.vars);
    for (size_t k = 0; k < stage.carried.size(); ++k)
      nest.vars.try_emplace(var_name(stage.carried[k]), tir::load(stage.outputs[k], nest.spatial));
    std::vector<Expr> next = substitute_all(stage.values, nest.vars);
    std::vector<Expr> touched = next;
    if (points == Points::Some) touched.insert(touched.end(), init.begin(), init.end());
    std::vector<Region> reads = read_regions(touched);
    Stmt body = next.size() == 1 ? store_all(stage, nest.spatial, next) : update_together(stage, nest.spatial, next);
    add_nest(nest, block_names_.fresh(stage.name), std::move(reads), writes_at(stage, nest.spatial),
             points == Points::Some ? store_all(stage, nest.spatial, init) : Stmt{}, body);
  }

  /// All next values are taken before the first is stored, since each may read every carried one.
  Stmt update_together(const Stage& stage, const std::vector<Expr>& indices, const std::vector<Expr>& next) {
    std::vector<Stmt> stmts;
    std::vector<Expr> values;
    for (size_t k = 0; k < next.size(); ++k) {
      values.push_back(tir::var(names_.fresh("next_" + stage.outputs[k]->name), next[k]->dtype));
      stmts.push_back(tir::let(values[k], next[k]));
    }
    for (size_t k = 0; k < next.size(); ++k) stmts.push_back(tir::store(stage.outputs[k], indices, values[k]));
    return tir::scoped(std::move(stmts));
  }

  void convert_extern(const Stage& stage) {
    std::set<std::string_view> seen;
    std::vector<Region> reads, writes;
    for (const Buffer& buffer : stage.outputs) writes.push_back(full_region(buffer));
    tir::visit_exprs(stage.body, [&](const Expr& e) {
      const auto* access = tir::as<Load>(e);
      if (!access || graph_.stage_of(access->buffer) < 0 || !seen.insert(access->buffer->name).second) return;
      reads.push_back(full_region(access->buffer));
    });
    nests_.push_back(tir::block(block_names_.fresh(stage.name), {}, std::move(reads), std::move(writes), {}, stage.body));
  }

  void convert_copy(const Buffer& from, const Buffer& to) {
    Stage stage;
    stage.name = to->name;
    stage.outputs = {to};
    std::vector<Expr> indices;
    for (size_t k = 0; k < to.rank(); ++k) {
      stage.axes.push_back({tir::var("axis" + std::to_string(k)), to->shape[k]});
      indices.push_back(stage.axes[k].var);
    }
    convert_points(stage, {tir::load(from, indices)});
  }

  const Graph& graph_;
  tir::PrimFunc function_;
  std::vector<bool> reachable_;                    // per stage
  std::set<std::string> parameters_;               // buffers that need no allocation
  std::vector<std::pair<Buffer, Buffer>> copies_;  // from, to
  tir::NameSupply names_, block_names_;
  std::vector<Stmt> declarations_, nests_;
};

}  // namespace

tir::PrimFunc create_prim_func(const Graph& graph, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                               std::string name) {
  return Converter(graph, inputs, outputs, std::move(name)).run();
}

}  // namespace tenon::te
