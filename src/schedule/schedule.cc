// SPDX-License-Identifier: Apache-2.0
// Chooses a nest for each root of a function and puts them together.
#include "schedule/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "passes/tir/passes.h"
#include "schedule/construct.h"
#include "schedule/nests.h"
#include "schedule/primitives/place.h"

namespace tenon::schedule {

using namespace tir;

namespace {

/// Emits every root of a function; some leading axes are looped over around all of them.
class Assembly {
 public:
  /// Decides while it emits.
  Assembly(const Request& request, StageGraph graph, size_t shared) : Assembly(request, std::move(graph)) {
    made_.shared = shared;
    made_.fma = request.target.machine.fma;
    outer_ = unify_axes(graph_, shared, names_);
    parts_ = decompose(graph_);
    made_.inlined = {parts_.inlined.begin(), parts_.inlined.end()};
  }
  Assembly(const Request& request, StageGraph graph, const Decisions& given) : Assembly(request, std::move(graph)) {
    given_ = &given;
    made_ = given;
    made_.nests.clear();
    if (size_t most = shared_axes(graph_); given.shared > most)
      fail_step("schedule-nest-size", {.message = fmt::format("the stages cannot share {} axes", given.shared),
                                       .expected = fmt::format("at most {}", most),
                                       .found = std::to_string(given.shared)});
    outer_ = unify_axes(graph_, given.shared, names_);
    parts_ = decompose(graph_, given);
  }

  /// Settles which roots are contractions.
  void plan() {
    for (const Buffer& p : request_.func.params) layout_.add(p, Scope::Global);
    for (const auto& [buffer, data] : graph_.constants) layout_.add(buffer, Scope::Global);
    for (const Root& root : parts_.roots)
      for (const Buffer& b : root.output().outputs)
        if (!graph_.is_param(b)) made_.shared ? layout_.add(b, Scope::Local, made_.shared) : layout_.add(b, Scope::Global);
    plan_contractions();
  }

  Scheduled build() {
    std::vector<Stmt> stmts;
    for (const auto& [buffer, data] : graph_.constants) {
      Array flat = data;
      flat.shape = {data.elements()};
      stmts.push_back(allocate_const(layout_.flat(buffer), std::move(flat)));
    }
    std::vector<Stmt> roots;
    for (size_t i = 0; i < nests_.size(); ++i)
      if (!windows_.contains(nests_[i].stage)) emit(i, roots);
    if (made_.shared) roots = {around(std::move(roots))};
    stmts.insert(stmts.end(), roots.begin(), roots.end());
    out_.func = request_.func;
    for (Buffer& p : out_.func.params) p = layout_.flat(p);
    out_.func.body = scoped(std::move(stmts));
    out_.origin = std::move(made_);
    return std::move(out_);
  }

  bool has_contraction() const {
    return std::any_of(contractions_.begin(), contractions_.end(), [](const auto& emit) { return bool{emit}; });
  }
  const StageGraph& graph() const { return graph_; }
  const Decomposition& parts() const { return parts_; }

 private:
  Assembly(const Request& request, StageGraph graph) : request_(request), graph_(std::move(graph)), names_(request.func) {
    for (const std::string& name : graph_.renamed) names_.reserve(name);
    ranges_ = graph_.ranges;
  }

  /// The nest that was given for a stage, or null.
  const Nest* given_for(const std::string& stage) const {
    if (!given_) return nullptr;
    auto found = std::find_if(given_->nests.begin(), given_->nests.end(), [&](const Nest& n) { return n.stage == stage; });
    return found == given_->nests.end() ? nullptr : &*found;
  }

  /// Before anything is emitted, as what stands in a contraction's window has no nest of its own.
  void plan_contractions() {
    size_t count = parts_.roots.size();
    nests_.resize(count);
    contractions_.resize(count);
    for (size_t i = 0; i < count; ++i) {
      const Root& root = parts_.roots[i];
      Nest& nest = nests_[i];
      nest.stage = root.name();
      if (root.reduction && root.epilogue) nest.epilogue = root.epilogue->name;
      if (const Nest* given = given_for(nest.stage)) nest.shape = given->shape, nest.worker = given->worker;
      if (root.output().points() == 0 || (given_ && !std::holds_alternative<ContractionNest>(nest.shape))) continue;
      contractions_[i] = plan_contraction(request_for(i));
      if (given_ && !contractions_[i]) refuse_shape(nest);
      if (!contractions_[i]) continue;
      const std::string& window = std::get<ContractionNest>(nest.shape).window;
      if (!window.empty()) windows_.insert(window);
    }
  }

  NestRequest request_for(size_t i) {
    return {emission_,   parts_.roots[i], made_.shared, request_.target,  made_.shared == 0, request_.constant_params,
            out_.packed, out_.explain,    nests_[i],    given_ != nullptr};
  }

  void emit(size_t i, std::vector<Stmt>& stmts) {
    const Root& root = parts_.roots[i];
    for (const Buffer& b : root.output().outputs)
      if (!graph_.is_param(b)) stmts.push_back(allocate(layout_.flat(b)));
    Nest& nest = nests_[i];
    if (root.output().points() == 0) {
      nest.shape = root.reduction ? decltype(nest.shape)(ScalarReduction{}) : ElementwiseNest{};
    } else {
      if (given_ && !given_for(nest.stage))
        fail_step("schedule-nest-stages", {.message = fmt::format("no step computes stage `{}`", nest.stage),
                                           .expected = "a nest for it, or `inline`",
                                           .found = "neither"});
      Stmt emitted = contractions_[i] ? contractions_[i]() : given_ ? given_nest(request_for(i)) : first_nest(request_for(i));
      if (!emitted) refuse_shape(nest);
      stmts.push_back(std::move(emitted));
    }
    made_.nests.push_back(std::move(nest));
  }

  Stmt given_nest(const NestRequest& request) const {
    const auto& shape = request.nest.shape;
    if (std::holds_alternative<ElementwiseNest>(shape)) return elementwise_nest(request);
    if (std::holds_alternative<RowReduction>(shape)) return row_reduction_nest(request);
    if (std::holds_alternative<SpatialReduction>(shape)) return spatial_reduction_nest(request);
    return scalar_reduction_nest(request);
  }

  /// Of the nests that decide while they emit, the first that takes the root.
  Stmt first_nest(const NestRequest& request) {
    if (!request.root.reduction) return elementwise_nest(request);
    for (auto* nest : {row_reduction_nest, spatial_reduction_nest}) {
      NameSupply names = names_;
      Ranges ranges = ranges_;
      if (Stmt emitted = nest(request)) return emitted;
      names_ = std::move(names);
      ranges_ = std::move(ranges);
    }
    return scalar_reduction_nest(request);
  }

  [[noreturn]] void refuse_shape(const Nest& nest) const {
    fail_step("schedule-nest-shape",
              {.message = fmt::format("stage `{}` does not have the form that this nest needs", nest.stage),
               .expected = "another step than its `" + step_of(nest).primitive + "`",
               .found = print(step_of(nest))});
  }

  Stmt around(std::vector<Stmt> roots) {
    std::vector<Loop> loops;
    for (const Iter& i : outer_)
      if (i.extent > 1) loops.push_back(loop_over(i));
    int64_t work = 0;
    for (const Root& r : parts_.roots) work += r.output().points() * (r.reduction ? r.reduction->reduce_points() : 1);
    if (!given_) made_.shared_worker = worker_loop(loops, work);
    parallelise(loops, made_.shared_worker, "share");
    VarMap units;
    for (const Iter& i : outer_)
      if (i.extent == 1) units[i.name] = Expr(0);
    return in_loops(loops, substitute(in_scope(std::move(roots)), units));
  }

  const Request& request_;
  StageGraph graph_;
  NameSupply names_;
  const Decisions* given_ = nullptr;
  Decisions made_;
  std::vector<Iter> outer_;
  Decomposition parts_;
  Layout layout_;
  Ranges ranges_;
  Emission emission_{graph_, parts_, layout_, names_, ranges_};
  std::vector<Nest> nests_;                          // of each root
  std::vector<std::function<Stmt()>> contractions_;  // what emits it, for each root that is one
  std::set<std::string> windows_;                    // stages that a contraction computes, row by row
  Scheduled out_;
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
  Assembly apart(request, *std::move(graph), 0);
  apart.plan();
  size_t shared = apart.has_contraction() ? 0 : worthwhile_shared_axes(apart.graph(), apart.parts(), request.target.machine);
  if (!shared) return apart.build();
  Assembly together(request, apart.graph(), shared);
  together.plan();
  return together.build();
}

}  // namespace

Scheduled construct(const PrimFunc& func, const Decisions& decisions) {
  std::optional<StageGraph> graph = read_stages(func);
  if (!graph)
    fail_step("schedule-nest-stages", {.message = "the function is no list of nests around one block each",
                                       .expected = "serial loops from 0 to a number around one block, as `lower` makes them",
                                       .found = func.name});
  Target target;
  target.machine.fma = decisions.fma;
  Request request{.func = func, .target = target, .constant_params = std::vector<bool>(func.params.size(), true)};
  Assembly assembly(request, std::move(*graph), decisions);
  assembly.plan();
  return assembly.build();
}

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

std::optional<Trace> trace_of(const Request& request, const Scheduled& scheduled) {
  Trace trace;
  if (const auto* decisions = std::get_if<Decisions>(&scheduled.origin))
    trace = steps_of(*decisions);
  else if (const auto* steps = std::get_if<Trace>(&scheduled.origin))
    trace = *steps;
  else if (std::holds_alternative<KeptLoops>(scheduled.origin))
    trace = {keep_loops_step()};
  else
    return std::nullopt;
  if (request.opt_level > 0) trace.push_back(lower_math_step(request.target.machine.fma));
  return trace;
}

}  // namespace tenon::schedule
