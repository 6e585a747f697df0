// SPDX-License-Identifier: Apache-2.0
// Delta debugging over the nodes of `main`.
#include "driver/reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "passes/graph/passes.h"

namespace tenon::driver {
namespace {

using graph::Function;
using graph::Module;
using graph::Node;
using graph::ValueId;

struct Result {
  ValueId value;
  std::string name;  // empty if the function names none
};

/// What is left of a function.
struct Selection {
  std::vector<bool> nodes;     // kept, by index
  std::vector<ValueId> stand;  // for each value the one that stands for it; itself if none does
  std::vector<Result> results;
};

/// The chosen part of `main` as a module. Values that only nodes left out define become parameters.
Module extract(const Module& module, const Selection& selection) {
  const Function& main = module.functions.find("main")->second;
  auto stand = [&](ValueId v) {
    while (selection.stand[v.index] != v) v = selection.stand[v.index];
    return v;
  };
  std::vector<bool> defined(main.value_count()), used(main.value_count());
  auto use = [&](ValueId v) { used[stand(v).index] = true; };
  for (size_t i = 0; i < main.nodes.size(); ++i) {
    if (!selection.nodes[i]) continue;
    const Node& node = main.nodes[i];
    for (ValueId v : node.inputs) use(v);
    for (uint32_t k = 0; k < node.types.size(); ++k) defined[node.first_result + k] = true;
  }
  for (const Result& r : selection.results) use(r.value);

  Module out{
      .functions = module.functions, .prim_funcs = module.prim_funcs, .constants = module.constants, .attrs = module.attrs};
  out.functions.erase("main");
  graph::Builder builder(out, "main");
  std::vector<ValueId> at(main.value_count());
  std::set<std::string> names;
  for (uint32_t v = 0; v < at.size(); ++v) {
    if (!used[v] || defined[v]) continue;
    std::string name = main.is_param({v}) ? main.params[v].name : fmt::format("value{}", v);
    while (!names.insert(name).second) name += '_';
    at[v] = builder.param(name, main.type({v}));
  }
  for (size_t i = 0; i < main.nodes.size(); ++i) {
    if (!selection.nodes[i]) continue;
    Node node = main.nodes[i];
    for (ValueId& v : node.inputs) v = at[stand(v).index];
    uint32_t first = node.first_result;
    std::vector<ValueId> results = builder.append(std::move(node));
    for (uint32_t k = 0; k < results.size(); ++k) at[first + k] = results[k];
  }
  std::vector<ValueId> results;
  std::vector<std::string> result_names;
  for (const Result& r : selection.results) {
    results.push_back(at[stand(r.value).index]);
    if (!main.result_names.empty()) result_names.push_back(r.name);
  }
  Function reduced = builder.finish(std::move(results), std::move(result_names));
  reduced.attrs = main.attrs;
  out.functions.emplace("main", std::move(reduced));
  return pass::eliminate_dead.run(out, {});
}

class Reducer {
 public:
  Reducer(const Module& module, function_ref<bool(const Module&)> fails)
      : module_(module), main_(module.functions.find("main")->second), fails_(fails) {
    best_.nodes.assign(main_.nodes.size(), true);
    for (size_t i = 0; i < main_.results.size(); ++i)
      best_.results.push_back({main_.results[i], main_.result_names.empty() ? "" : main_.result_names[i]});
    for (uint32_t v = 0; v < main_.value_count(); ++v) best_.stand.push_back({v});
  }

  Module run() {
    bool smaller = true;
    while (smaller) {
      smaller = drop_results();
      smaller = raise_results() || smaller;
      smaller = drop_nodes() || smaller;
      smaller = bypass() || smaller;
    }
    return extract(module_, best_);
  }

 private:
  bool accept(Selection candidate) {
    if (!fails_(extract(module_, candidate))) return false;
    best_ = std::move(candidate);
    return true;
  }

  bool drop_results() {
    bool any = false;
    for (size_t i = best_.results.size(); i-- > 0 && best_.results.size() > 1;) {
      Selection candidate = best_;
      candidate.results.erase(candidate.results.begin() + static_cast<std::ptrdiff_t>(i));
      any |= accept(std::move(candidate));
    }
    return any;
  }

  /// Makes operands of the node behind a result the results in its place.
  bool raise_results() {
    bool any = false;
    for (size_t i = 0; i < best_.results.size(); ++i) {
      for (;;) {
        const Node* node = main_.definition(best_.results[i].value);
        if (!node || !best_.nodes[static_cast<size_t>(node - main_.nodes.data())]) break;
        bool raised = std::any_of(node->inputs.begin(), node->inputs.end(), [&](ValueId operand) {
          Selection candidate = best_;
          candidate.results[i] = {operand, fmt::format("value{}", operand.index)};
          return accept(std::move(candidate));
        });
        if (!raised) break;
        any = true;
      }
    }
    return any;
  }

  /// Leaves out chunks of nodes, from halves down to single ones.
  bool drop_nodes() {
    bool any = false;
    std::vector<size_t> kept = kept_nodes();
    for (size_t size = (kept.size() + 1) / 2; size > 0; size /= 2) {
      for (size_t begin = 0; begin < kept.size();) {
        size_t end = std::min(begin + size, kept.size());
        Selection candidate = best_;
        for (size_t i = begin; i < end; ++i) candidate.nodes[kept[i]] = false;
        if (accept(std::move(candidate))) {
          any = true;
          kept = kept_nodes();
        } else {
          begin = end;
        }
      }
    }
    return any;
  }

  std::vector<size_t> kept_nodes() const {
    std::vector<size_t> kept;
    for (size_t i = 0; i < best_.nodes.size(); ++i)
      if (best_.nodes[i]) kept.push_back(i);
    return kept;
  }

  /// Lets an operand stand for a node of the same type.
  bool bypass() {
    bool any = false;
    for (size_t i = 0; i < main_.nodes.size(); ++i) {
      const Node& node = main_.nodes[i];
      if (!best_.nodes[i] || node.types.size() != 1) continue;
      for (ValueId operand : node.inputs) {
        if (main_.type(operand) != node.types[0]) continue;
        Selection candidate = best_;
        candidate.nodes[i] = false;
        candidate.stand[node.first_result] = operand;
        if (accept(std::move(candidate))) {
          any = true;
          break;
        }
      }
    }
    return any;
  }

  const Module& module_;
  const Function& main_;
  function_ref<bool(const Module&)> fails_;
  Selection best_;
};

}  // namespace

Module reduce(const Module& module, function_ref<bool(const Module&)> fails) {
  if (!module.functions.contains("main"))
    throw CompileError(Diagnostic{.kind = ErrorKind::Malformed,
                                  .code = "no-main",
                                  .message = "the module has no function `main` to reduce",
                                  .expected = "a module with a function `@main`",
                                  .found = fmt::format("{} functions of other names", module.functions.size())});
  return Reducer(module, fails).run();
}

}  // namespace tenon::driver
