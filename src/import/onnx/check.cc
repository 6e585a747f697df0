// SPDX-License-Identifier: Apache-2.0
// Checks of a model as a whole.
#include "import/onnx/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "import/onnx/tensor.h"
#include "op/all_ops.h"

namespace tenon::onnx {
namespace {

// The newest opset whose changes the rules take into account. A rule names the opset it holds from, so an operator whose
// meaning was another one before is refused by itself.
constexpr int64_t kNewestOpset = 24;
// Files of an older IR version mean opset 1.
constexpr int64_t kFirstIrWithOpsets = 3;

/// Why no rule reads a node; empty if one does.
std::string reason(const Model& model, const Node& node, int opset) {
  for (const auto& [domain, name] : model.functions)
    if (domain == node.domain && name == node.op_type) return "functions of the model are not supported; inline them first";
  if (!node.domain.empty()) return fmt::format("operators of domain `{}` are not supported", node.domain);
  if (node.op_type == "If" || op::find_onnx_rule(node.op_type, opset)) return {};
  for (const op::OnnxRule& rule : op::all_onnx_rules())
    if (rule.op_type == node.op_type) return fmt::format("the operator is supported from opset {} on", rule.since);
  for (const Attribute& a : node.attributes)
    if (!a.graphs.empty()) return "control flow is not supported";
  return "the operator is not supported";
}

int opset_of(const Model& model, std::string_view domain) {
  for (const auto& [name, version] : model.opset_imports)
    if (name == domain) return static_cast<int>(std::clamp<int64_t>(version, 0, INT32_MAX));
  return 0;
}

Diagnostic unsupported_type(const Source& source, std::string_view name, std::string_view what, std::string found) {
  Diagnostic d = source.error("onnx-dtype", fmt::format("{} `{}` is a {}, which is not supported", what, name, found),
                              "a tensor of numbers or booleans", found);
  d.kind = ErrorKind::Unsupported;
  d.input = name;
  return d;
}

void check_values(const Source& source, std::string_view what, std::span<const ValueInfo> values, std::vector<Diagnostic>& out) {
  for (const ValueInfo& v : values) {
    const bool untyped_output = what == "output" && (v.kind == ValueInfo::Kind::None || v.type == ElemType::Undefined);
    if (v.kind == ValueInfo::Kind::None || untyped_output) continue;
    if (v.kind != ValueInfo::Kind::Tensor)
      out.push_back(unsupported_type(source, v.name, what, std::string(name(v.kind))));
    else if (!dtype_of(v.type))
      out.push_back(unsupported_type(source, v.name, what, "tensor of " + spelling(v.type)));
  }
}

using Definitions = std::unordered_map<std::string_view, uint32_t>;

/// Which node defines each name.
Definitions definitions(const Source& source, const Graph& graph) {
  constexpr uint32_t kNoNode = UINT32_MAX;
  Definitions out;
  auto twice = [&](std::string_view name) {
    source.fail("onnx-graph", fmt::format("value `{}` is defined twice", name), "one definition", "two");
  };
  for (const ValueInfo& v : graph.inputs)
    if (!out.emplace(v.name, kNoNode).second) twice(v.name);
  for (uint32_t i = 0; i < graph.nodes.size(); ++i)
    for (std::string_view name : graph.nodes[i].outputs)
      if (!name.empty() && !out.emplace(name, i).second) twice(name);
  std::unordered_map<std::string_view, const Tensor*> initializers;
  for (const Tensor& t : graph.initializers) {
    auto it = out.find(t.name);
    if (!initializers.emplace(t.name, &t).second || (it != out.end() && it->second != kNoNode)) twice(t.name);
  }
  std::erase_if(out, [&](const auto& entry) { return entry.second == kNoNode; });
  return out;
}

[[noreturn]] void fail_cycle(const Source& source, const Graph& graph, const std::vector<uint32_t>& waiting) {
  std::string names;
  size_t listed = 0;
  for (uint32_t i = 0; i < waiting.size() && listed < 5; ++i)
    if (waiting[i] > 0) names += fmt::format("{}`{}`", listed++ ? ", " : "", graph.nodes[i].label());
  source.fail("onnx-graph", fmt::format("nodes read each other's results in a cycle; among or after it: {}", names),
              "nodes that can be put in order", "a cycle");
}

}  // namespace

int default_opset(const Source& source, const Model& model) {
  std::optional<int64_t> version;
  for (const auto& [domain, given] : model.opset_imports) {
    if (!domain.empty()) continue;
    if (version && *version != given)
      source.fail("onnx-opset", fmt::format("the model imports opset {} and opset {}", *version, given),
                  "one version of a domain", "two");
    version = given;
  }
  const auto& nodes = model.graph->nodes;
  const bool needed = std::any_of(nodes.begin(), nodes.end(), [](const Node& node) { return node.domain.empty(); });
  if (!version && (!needed || model.ir_version < kFirstIrWithOpsets)) return 1;
  if (!version)
    source.fail("onnx-opset", "the model does not say which opset it uses", "an opset_import of the default domain", "none",
                "export it again with a current exporter");
  if (*version >= 1 && *version <= kNewestOpset) return static_cast<int>(*version);
  Diagnostic d =
      source.error("onnx-opset", fmt::format("opset {} is not supported", *version), fmt::format("opset 1 to {}", kNewestOpset),
                   std::to_string(*version), "convert the model with onnx.version_converter or export it at another opset");
  d.kind = ErrorKind::Unsupported;
  throw CompileError(d);
}

std::vector<Unsupported> unsupported_nodes(const Model& model, const Graph& graph, int opset) {
  std::vector<Unsupported> out;
  for (const Node& node : graph.nodes)
    if (std::string why = reason(model, node, opset); !why.empty())
      out.push_back({.node = std::string(node.label()),
                     .op = node.domain.empty() ? std::string(node.op_type) : fmt::format("{}::{}", node.domain, node.op_type),
                     .reason = std::move(why),
                     .opset = opset_of(model, node.domain)});
  return out;
}

std::vector<Diagnostic> find_unsupported(const Source& source, const Model& model, const Graph& graph, int opset) {
  std::vector<Diagnostic> out;
  for (const Unsupported& u : unsupported_nodes(model, graph, opset)) {
    Diagnostic d = source.error("onnx-unsupported", fmt::format("{} (opset {}): {}", u.op, u.opset, u.reason));
    d.kind = ErrorKind::Unsupported;
    d.node = u.node;
    out.push_back(std::move(d));
  }
  check_values(source, "input", graph.inputs, out);
  check_values(source, "output", graph.outputs, out);
  for (const Tensor& t : graph.initializers)
    if (!dtype_of(t.type)) out.push_back(unsupported_type(source, t.name, "initializer", "tensor of " + spelling(t.type)));
  for (std::string_view name : graph.sparse_initializers)
    out.push_back(unsupported_type(source, name, "initializer", "sparse tensor"));
  return out;
}

void for_each_read(const Node& node, function_ref<void(std::string_view)> f) {
  for (std::string_view name : node.inputs)
    if (!name.empty()) f(name);
  for (const Attribute& a : node.attributes)
    for (const Graph& graph : a.graphs) {
      for (const Node& inner : graph.nodes) for_each_read(inner, f);
      for (const ValueInfo& v : graph.outputs) f(v.name);
    }
}

std::vector<uint32_t> node_order(const Source& source, const Graph& graph) {
  const Definitions defined_by = definitions(source, graph);
  const auto count = static_cast<uint32_t>(graph.nodes.size());
  std::vector<uint32_t> waiting(count, 0);  // definitions that have not come yet
  std::vector<std::vector<uint32_t>> readers(count);
  for (uint32_t i = 0; i < count; ++i)
    for_each_read(graph.nodes[i], [&](std::string_view name) {
      auto it = defined_by.find(name);
      if (it == defined_by.end()) return;
      readers[it->second].push_back(i);
      ++waiting[i];
    });
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;
  for (uint32_t i = 0; i < count; ++i)
    if (waiting[i] == 0) ready.push(i);
  std::vector<uint32_t> order;
  while (!ready.empty()) {
    const uint32_t node = ready.top();
    ready.pop();
    order.push_back(node);
    for (uint32_t reader : readers[node])
      if (--waiting[reader] == 0) ready.push(reader);
  }
  if (order.size() != count) fail_cycle(source, graph, waiting);
  return order;
}

}  // namespace tenon::onnx
