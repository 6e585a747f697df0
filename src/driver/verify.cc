// SPDX-License-Identifier: Apache-2.0
// Interpreter against interpreter against code.
#include "driver/verify.h"

#include <fmt/format.h>

#include "driver/attributes.h"
#include "graph/interpret.h"
#include "runtime/session.h"

namespace tenon::driver {
namespace {

using graph::Module;
using graph::Node;
using graph::ValueId;

/// A value with what it is called.
struct Named {
  std::string node, value;
  Array data;
};

/// Every value that a node with a name defines, in order, and the results.
struct Trace {
  std::vector<Named> values;
  std::vector<Array> results;
};

Trace interpret(const Module& module, std::span<const Array> inputs) {
  const graph::Function& main = module.functions.find("main")->second;
  Trace trace;
  trace.results = graph::interpret(module, "main", inputs, [&](ValueId v, const Array& data) {
    const Node* node = main.definition(v);
    if (node && !node->name.empty()) trace.values.push_back({node->name, fmt::format("%{}", v.index), data});
  });
  return trace;
}

std::vector<Array> run_compiled(const Module& scheduled, std::span<const Array> inputs, const CompileOptions& options) {
  runtime::Session session(load(build(scheduled, options)));
  for (size_t i = 0; i < inputs.size(); ++i) session.bind_input(i, inputs[i].bytes.data());
  session.run();
  std::vector<Array> results;
  for (size_t i = 0; i < session.program().outputs.size(); ++i) results.push_back(session.output(i));
  return results;
}

bool comparable(const Array& a, const Array& b) { return a.dtype == b.dtype && a.shape == b.shape; }

std::optional<Difference> first_difference(std::span<const Array> got, std::span<const Array> want, const Tolerance& tolerance) {
  for (size_t i = 0; i < want.size(); ++i) {
    Difference difference = compare(got[i], want[i], tolerance);
    if (difference.count > 0) return difference;
  }
  return std::nullopt;
}

/// The module with the results of every loop function as results of `main`.
Module with_all_results(Module module, std::vector<Named>& names) {
  graph::Function& main = module.functions.find("main")->second;
  main.results.clear();
  main.result_names.clear();
  for (const Node& node : main.nodes) {
    if (node.kind != graph::NodeKind::CallLowered) continue;
    for (uint32_t i = 0; i < node.types.size(); ++i) {
      ValueId value = node.result(i);
      main.results.push_back(value);
      main.result_names.push_back(fmt::format("%{}", value.index));
      names.push_back({node.name.empty() ? node.callee : node.name, main.result_names.back(), {}});
    }
  }
  return module;
}

class Verifier {
 public:
  Verifier(const Module& imported, std::span<const Array> inputs, const CompileOptions& options, const Tolerance& tolerance)
      : imported_(imported), inputs_(inputs), options_(options), tolerance_(tolerance), want_(interpret(imported, inputs)) {}

  std::optional<FirstDifference> check_level(int level) {
    CompileOptions options = options_;
    options.opt_level = level;
    Module module = imported_;
    module.attrs["opt_level"] = int64_t{level};
    Module scheduled = run_pipeline(module, options);
    auto difference = first_difference(run_compiled(scheduled, inputs_, options), want_.results, tolerance_);
    if (!difference) return std::nullopt;
    std::optional<FirstDifference> found = find_pass(module, options);
    if (!found) found = find_kernel(scheduled, options);
    if (!found) found = FirstDifference{.pass = "link", .difference = *difference};
    found->opt_level = level;
    return found;
  }

 private:
  /// The first pass after which the interpreter gives something else.
  std::optional<FirstDifference> find_pass(Module module, CompileOptions options) {
    for (const PipelineStep& step : pipeline()) {
      options.stop_after = step.name;
      module = run_pipeline(std::move(module), options);
      Trace got = interpret(module, inputs_);
      auto difference = first_difference(got.results, want_.results, tolerance_);
      if (!difference) continue;
      FirstDifference found{.pass = std::string(step.name), .difference = *difference};
      name_node(got, found);
      return found;
    }
    return std::nullopt;
  }

  void name_node(const Trace& got, FirstDifference& found) const {
    std::map<std::string, const Named*> wanted;
    for (const Named& value : want_.values) wanted.try_emplace(value.node, &value);
    for (const Named& value : got.values) {
      auto want = wanted.find(value.node);
      if (want == wanted.end() || !comparable(value.data, want->second->data)) continue;
      Difference difference = compare(value.data, want->second->data, tolerance_);
      if (difference.count == 0) continue;
      found.node = value.node;
      found.value = value.value;
      found.difference = difference;
      return;
    }
  }

  std::optional<FirstDifference> find_kernel(const Module& scheduled, const CompileOptions& options) {
    std::vector<Named> names;
    Module module = with_all_results(scheduled, names);
    std::vector<Array> got = run_compiled(module, inputs_, options), want = graph::interpret(module, "main", inputs_);
    for (size_t i = 0; i < want.size(); ++i) {
      Difference difference = compare(got[i], want[i], tolerance_);
      if (difference.count > 0)
        return FirstDifference{.pass = "codegen", .node = names[i].node, .value = names[i].value, .difference = difference};
    }
    return std::nullopt;
  }

  const Module& imported_;
  std::span<const Array> inputs_;
  const CompileOptions& options_;
  const Tolerance& tolerance_;
  Trace want_;
};

}  // namespace

std::optional<FirstDifference> verify_module(const Module& imported, std::span<const Array> inputs, const CompileOptions& options,
                                             const Tolerance& tolerance) {
  Verifier verifier(imported, inputs, options, tolerance);
  if (auto difference = verifier.check_level(0)) return difference;
  int level = pass_options(imported).opt_level;
  return level == 0 ? std::nullopt : verifier.check_level(level);
}

}  // namespace tenon::driver
