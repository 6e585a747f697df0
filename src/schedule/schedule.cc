// SPDX-License-Identifier: Apache-2.0
// Chooses a nest for each root of a function and puts them together.
#include "schedule/schedule.h"

#include "schedule/nests.h"

namespace tenon::schedule {

using namespace tir;

namespace {

using NestFn = Stmt (*)(const NestRequest&);

/// In the order they are asked; each declines what is not of its shape.
constexpr NestFn kNests[] = {elementwise_nest, contraction_nest, row_reduction_nest, spatial_reduction_nest,
                             scalar_reduction_nest};

std::optional<Scheduled> by_nests(const Request& request) {
  std::optional<StageGraph> graph = read_stages(request.func);
  if (!graph) return std::nullopt;
  Decomposition parts = decompose(*graph);
  NameSupply names(request.func);
  Layout layout;
  Ranges ranges = graph->ranges;
  for (const Buffer& p : request.func.params) layout.add(p, Scope::Global);
  std::vector<Stmt> stmts;
  for (const auto& [buffer, data] : graph->constants) {
    Array flat = data;
    flat.shape = {data.elements()};
    stmts.push_back(allocate_const(layout.add(buffer, Scope::Global), std::move(flat)));
  }
  Emission emission{*graph, parts, layout, names, ranges};
  Scheduled out;
  for (const Root& root : parts.roots) {
    for (const Buffer& b : root.output().outputs)
      if (!graph->is_param(b)) stmts.push_back(allocate(layout.add(b, Scope::Global)));
    if (root.output().points() == 0) continue;
    NestRequest nest{emission, root, 0, request.target, true, request.constant_params, out.packed, out.explain};
    Stmt emitted;
    for (NestFn f : kNests)
      if ((emitted = f(nest))) break;
    check(bool{emitted}, "the scalar reduction takes any reduction and the element-wise nest anything else");
    stmts.push_back(emitted);
  }
  out.func = request.func;
  for (Buffer& p : out.func.params) p = layout.flat(p);
  out.func.body = in_scope(std::move(stmts));
  return out;
}

}  // namespace

const std::vector<NamedProvider>& providers() {
  static const std::vector<NamedProvider> list = {
      {"nests", by_nests},
      {"naive", [](const Request& request) -> std::optional<Scheduled> { return naive(request); }},
  };
  return list;
}

Scheduled schedule(const Request& request) {
  if (request.opt_level == 0) return naive(request);
  for (const NamedProvider& p : providers())
    if (std::optional<Scheduled> out = p.provider(request)) {
      out->func.attrs["scheduled"] = true;
      return std::move(*out);
    }
  fail_internal("the naive schedule accepts every function");
}

}  // namespace tenon::schedule
