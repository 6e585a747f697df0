// SPDX-License-Identifier: Apache-2.0
// Chooses a nest for each root of a function and puts them together.
#include "schedule/schedule.h"

#include <limits>

#include "passes/tir/passes.h"
#include "schedule/nests.h"

namespace tenon::schedule {

using namespace tir;

namespace {

using NestFn = Stmt (*)(const NestRequest&);

/// In the order they are asked; each declines what is not of its shape.
constexpr NestFn kNests[] = {elementwise_nest, contraction_nest, row_reduction_nest, spatial_reduction_nest,
                             scalar_reduction_nest};

/// Emits every root of a function; `shared` leading axes are looped over around all of them.
class Assembly {
 public:
  Assembly(const Request& request, StageGraph graph, size_t shared)
      : request_(request), graph_(std::move(graph)), names_(request.func), shared_(shared) {
    outer_ = unify_axes(graph_, shared, names_);
    parts_ = decompose(graph_);
    ranges_ = graph_.ranges;
  }

  Scheduled build() {
    Scheduled out;
    std::vector<Stmt> stmts;
    for (const Buffer& p : request_.func.params) layout_.add(p, Scope::Global);
    for (const auto& [buffer, data] : graph_.constants) {
      Array flat = data;
      flat.shape = {data.elements()};
      stmts.push_back(allocate_const(layout_.add(buffer, Scope::Global), std::move(flat)));
    }
    std::vector<EmittedRoot> emitted;
    for (const Root& root : parts_.roots) emitted.push_back(emit(root, out));
    std::vector<Stmt> roots;
    for (EmittedRoot& root : emitted) {
      if (absorbed_.contains(root.stage)) continue;
      roots.insert(roots.end(), root.stmts.begin(), root.stmts.end());
      out.explain += root.explain;
    }
    if (shared_) roots = {around(std::move(roots))};
    stmts.insert(stmts.end(), roots.begin(), roots.end());
    out.func = request_.func;
    for (Buffer& p : out.func.params) p = layout_.flat(p);
    out.func.body = scoped(std::move(stmts));
    return out;
  }

  bool has_contraction() const { return has_contraction_; }
  const Decomposition& parts() const { return parts_; }

 private:
  struct EmittedRoot {
    std::string stage, explain;
    std::vector<Stmt> stmts;
  };

  EmittedRoot emit(const Root& root, Scheduled& out) {
    EmittedRoot result{root.output().name, {}, {}};
    for (const Buffer& b : root.output().outputs) {
      if (graph_.is_param(b)) continue;
      result.stmts.push_back(allocate(shared_ ? layout_.add(b, Scope::Local, shared_) : layout_.add(b, Scope::Global)));
    }
    if (root.output().points() == 0) return result;
    Emission emission{graph_, parts_, layout_, names_, ranges_};
    NestRequest nest{emission,   root,           shared_,  request_.target, shared_ == 0, request_.constant_params,
                     out.packed, result.explain, absorbed_};
    Stmt emitted;
    for (NestFn f : kNests) {
      if (!(emitted = f(nest))) continue;
      has_contraction_ |= f == contraction_nest;
      break;
    }
    check(bool{emitted}, "the scalar reduction takes any reduction and the element-wise nest anything else");
    result.stmts.push_back(emitted);
    return result;
  }

  Stmt around(std::vector<Stmt> roots) {
    std::vector<Loop> loops;
    for (const Iter& i : outer_)
      if (i.extent > 1) loops.push_back(loop_over(i));
    int64_t work = 0;
    for (const Root& r : parts_.roots) work += r.output().points() * (r.reduction ? r.reduction->reduce_points() : 1);
    parallelise(loops, work);
    VarMap units;
    for (const Iter& i : outer_)
      if (i.extent == 1) units[i.name] = Expr(0);
    return in_loops(loops, substitute(in_scope(std::move(roots)), units));
  }

  const Request& request_;
  StageGraph graph_;
  NameSupply names_;
  size_t shared_;
  std::vector<Iter> outer_;
  Decomposition parts_;
  Layout layout_;
  Ranges ranges_;
  std::set<std::string> absorbed_;
  bool has_contraction_ = false;
};

/// How many shared axes to loop over around all stages, so that what passes between them stays in cache; 0 for none.
size_t worthwhile_shared_axes(const StageGraph& graph, const Decomposition& parts, const Machine& machine) {
  if (parts.roots.size() < 2) return 0;
  size_t shared = shared_axes(graph);
  for (; shared > 0; --shared) {
    int64_t outer = 1, row_bytes = 0, narrowest = std::numeric_limits<int64_t>::max();
    for (size_t k = 0; k < shared; ++k) outer *= graph.stages[0].spatial[k].extent;
    for (const Root& r : parts.roots) {
      int64_t row = outer ? r.output().points() / outer : 0;
      for (const Buffer& b : r.output().outputs) row_bytes += row * byte_size(b->dtype);
      if (!r.reduction) narrowest = std::min(narrowest, row);
    }
    if (outer < 2 || row_bytes > machine.l2_bytes / 2) return 0;
    if (narrowest >= machine.vector_bytes / 4) return shared;
  }
  return 0;
}

std::optional<Scheduled> by_nests(const Request& request) {
  std::optional<StageGraph> graph = read_stages(request.func);
  if (!graph) return std::nullopt;
  Assembly apart(request, *graph, 0);
  Scheduled out = apart.build();
  if (apart.has_contraction()) return out;
  size_t shared = worthwhile_shared_axes(*graph, apart.parts(), request.target.machine);
  return shared ? Assembly(request, *graph, shared).build() : out;
}

}  // namespace

const std::vector<NamedProvider>& providers() {
  static const std::vector<NamedProvider> list = {
      {"nests", by_nests},
      {"naive", [](const Request& request) -> std::optional<Scheduled> { return naive(request); }},
  };
  return list;
}

namespace {

std::optional<Scheduled> first_answer(const Request& request) {
  for (const GivenProvider& p : request.given)
    if (std::optional<Scheduled> out = ask(p, request)) return out;
  for (const NamedProvider& p : providers())
    if (std::optional<Scheduled> out = p.provider(request)) return out;
  return std::nullopt;
}

}  // namespace

Scheduled schedule(const Request& request) {
  if (request.opt_level == 0) return naive(request);
  std::optional<Scheduled> out = first_answer(request);
  check(out.has_value(), "the naive schedule accepts every function");
  out->func = lower_math(out->func, {request.target.machine.fma});
  out->func.attrs["scheduled"] = true;
  return std::move(*out);
}

}  // namespace tenon::schedule
