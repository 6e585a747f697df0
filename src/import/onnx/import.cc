// SPDX-License-Identifier: Apache-2.0
// From a parsed model to a graph module: nodes in order, each through the rule of its operator.
#include "import/onnx/import.h"

#include <fmt/format.h>

#include <filesystem>
#include <unordered_map>

#include "import/onnx/check.h"
#include "import/onnx/node.h"
#include "import/onnx/params.h"
#include "op/all_ops.h"
#include "op/ops.h"

namespace tenon::onnx {
namespace {

using graph::ValueId;

// Large enough for any arithmetic on shapes, small enough that weights are left to the constant-folding pass.
constexpr int64_t kFoldBytes = 64 << 10;

/// The names of one graph; those of the graphs around it are visible too.
struct Scope {
  Scope* outer = nullptr;
  std::unordered_map<std::string_view, std::optional<ValueId>> values;  // nothing: its node could not be imported
  std::unordered_map<std::string_view, const Tensor*> initializers;     // not read so far

  const std::optional<ValueId>* find(std::string_view name) const {
    for (const Scope* scope = this; scope; scope = scope->outer)
      if (auto it = scope->values.find(name); it != scope->values.end()) return &it->second;
    return nullptr;
  }
};

class Importer {
 public:
  Importer(const Source& source, const Model& model, const ImportOptions& options)
      : source_(source),
        model_(model),
        opset_(default_opset(source, model)),
        tensors_(source),
        builder_(module_, "main"),
        inputs_(supported_inputs(options)),
        context_{source, tensors_, builder_, inputs_.shape_hint} {
    builder_.fold_up_to(kFoldBytes);
  }

  graph::Module run() {
    Scope scope;
    for (const InputTypes::Input& input : inputs_.inputs)
      if (!input.value) scope.values.emplace(input.info->name, builder_.param(std::string(input.info->name), input.type));
    for (const InputTypes::Input& input : inputs_.inputs)
      if (input.value) scope.values.emplace(input.info->name, builder_.constant(*input.value, input.info->name));
    import_nodes(*model_.graph, scope);
    std::vector<ValueId> results;
    std::vector<std::string> names;
    for (const ValueInfo& output : model_.graph->outputs) add_output(output, scope, results, names);
    if (!errors_.empty()) throw CompileError(std::move(errors_));
    graph::Function main = builder_.finish(std::move(results), std::move(names));
    module_.functions.emplace("main", std::move(main));
    module_.attrs["stage"] = std::string("import");
    return std::move(module_);
  }

 private:
  /// Refuses before anything is built.
  InputTypes supported_inputs(const ImportOptions& options) {
    auto unsupported = find_unsupported(source_, model_, *model_.graph, opset_);
    if (!unsupported.empty()) throw CompileError(std::move(unsupported));
    if (model_.graph->outputs.empty()) source_.fail("onnx-graph", "the graph has no outputs", "at least one output", "none");
    return input_types(source_, *model_.graph, options);
  }

  void import_nodes(const Graph& graph, Scope& scope) {
    for (const Tensor& t : graph.initializers) scope.initializers.emplace(t.name, &t);
    for (uint32_t index : node_order(source_, graph)) {
      const Node& node = graph.nodes[index];
      for (std::string_view output : node.outputs) scope.values[output] = std::nullopt;
      try {
        import_node(node, scope);
      } catch (const CompileError& error) {
        for (Diagnostic d : error.diagnostics()) errors_.push_back(complete(std::move(d), node));
      }
    }
  }

  /// An error of an operator's own checks does not know the model.
  Diagnostic complete(Diagnostic d, const Node& node) const {
    if (d.node.empty()) d.node = node.label();
    if (d.hint.empty() && !context_.shape_hint.empty()) d.hint = context_.shape_hint;
    return d;
  }

  void import_node(const Node& node, Scope& scope) {
    std::vector<std::optional<ValueId>> inputs;
    for (std::string_view name : node.inputs) {
      inputs.emplace_back();
      if (name.empty()) continue;
      auto value = lookup(name, node.label(), scope);
      if (!value) return;  // follows from an error that is reported already
      inputs.back() = *value;
    }
    builder_.at(node.label());
    check_attributes(node);
    ImportedNode view(context_, node, opset_, std::move(inputs));
    std::vector<ValueId> results;
    if (node.op_type == "If") {
      if (!import_if(node, view, scope, results)) return;
    } else {
      const op::OnnxRule* rule = op::find_onnx_rule(node.op_type, opset_);
      check(rule != nullptr, "nodes without a rule are refused first");
      results = rule->build(view, builder_);
    }
    if (auto unread = view.unread(); !unread.empty()) throw CompileError(std::move(unread));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].empty()) continue;
      if (i >= results.size()) view.unsupported(fmt::format("output {} (`{}`) is not supported", i, node.outputs[i]));
      scope.values[node.outputs[i]] = results[i];
    }
  }

  void check_attributes(const Node& node) const {
    for (const Attribute& a : node.attributes)
      if (node.find(a.name) != &a)
        source_.fail("onnx-node", fmt::format("attribute `{}` of node `{}` is given twice", a.name, node.label()), "one", "two");
  }

  /// Only the branch that is taken is built; with a condition of the run both are, and `where` picks the results. False if
  /// that could not be done.
  bool import_if(const Node& node, ImportedNode& view, Scope& scope, std::vector<ValueId>& results) {
    ValueId condition = view.in(0);
    if (const TensorType& type = view.type(0); type.dtype != DType::Bool || !type.is_static() || type.elements() != 1)
      view.malformed("the condition is not one boolean", "bool[]", to_string(type));
    view.ignore("then_branch");
    view.ignore("else_branch");
    if (const Array* known = view.constant(0))
      return import_branch(node, view, known->read<uint8_t>(0) ? "then_branch" : "else_branch", scope, results);
    std::vector<ValueId> otherwise;
    if (!import_branch(node, view, "then_branch", scope, results) || !import_branch(node, view, "else_branch", scope, otherwise))
      return false;
    builder_.at(node.label());
    condition = builder_.call1(op::reshape, {condition}, {{"shape", Shape{}}});
    for (size_t i = 0; i < results.size(); ++i) {
      const TensorType &a = builder_.type(results[i]), &b = builder_.type(otherwise[i]);
      if (!(a == b))
        view.unsupported(
            fmt::format("the condition is only known at run time and decides between {} and {}", to_string(a), to_string(b)));
      results[i] = builder_.call1(op::where, {condition, results[i], otherwise[i]});
    }
    return true;
  }

  bool import_branch(const Node& node, ImportedNode& view, std::string_view name, Scope& scope, std::vector<ValueId>& results) {
    const Attribute* branch = node.find(name);
    if (!branch || branch->type != AttrType::Graph) view.malformed(fmt::format("`{}` is missing", name), "a graph", "none");
    const Graph& graph = branch->graphs[0];
    auto unsupported = find_unsupported(source_, model_, graph, opset_);
    if (!unsupported.empty()) throw CompileError(std::move(unsupported));
    if (graph.outputs.size() != node.outputs.size())
      view.malformed(fmt::format("`{}` has {} outputs", name, graph.outputs.size()), std::to_string(node.outputs.size()),
                     std::to_string(graph.outputs.size()));
    Scope inner{.outer = &scope};
    import_nodes(graph, inner);
    for (const ValueInfo& output : graph.outputs) {
      auto value = lookup(output.name, node.label(), inner);
      if (!value) return false;
      results.push_back(*value);
    }
    return true;
  }

  /// Nothing for a value whose node could not be imported.
  std::optional<ValueId> lookup(std::string_view name, std::string_view reader, Scope& scope) {
    if (const auto* value = scope.find(name)) return *value;
    for (Scope* s = &scope; s; s = s->outer)
      if (auto it = s->initializers.find(name); it != s->initializers.end())
        return s->values.emplace(name, builder_.constant(tensors_.read(*it->second), name)).first->second;
    Diagnostic d = source_.error("onnx-graph", fmt::format("value `{}` is read but nothing defines it", name),
                                 "an input, an initializer or the output of a node", "none");
    d.node = reader;
    d.input = name;
    throw CompileError(d);
  }

  void add_output(const ValueInfo& output, Scope& scope, std::vector<ValueId>& results, std::vector<std::string>& names) {
    if (std::find(names.begin(), names.end(), output.name) != names.end())
      source_.fail("onnx-graph", fmt::format("output `{}` is listed twice", output.name), "distinct names", "a name twice");
    auto value = lookup(output.name, "", scope);
    names.emplace_back(output.name);
    if (!value) return;
    const DType dtype = builder_.type(*value).dtype;
    if (auto declared = dtype_of(output.type); declared && *declared != dtype)
      source_.fail("onnx-graph", fmt::format("output `{}` is {}", output.name, tenon::name(dtype)),
                   std::string(tenon::name(*declared)), std::string(tenon::name(dtype)),
                   "the model's declared type does not follow from its nodes");
    results.push_back(*value);
  }

  const Source& source_;
  const Model& model_;
  int opset_;
  TensorReader tensors_;
  graph::Module module_;
  graph::Builder builder_;
  InputTypes inputs_;
  NodeContext context_;
  std::vector<Diagnostic> errors_;
};

Source map_source(const std::string& path) {
  MappedFile file = map_file(path);
  const auto folder = std::filesystem::path(path).parent_path();
  return {.file = path,
          .folder = folder.empty() ? "." : folder.string(),
          .owner = std::move(file.owner),
          .bytes = {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()}};
}

graph::Module import_source(const Source& source, const ImportOptions& options) {
  const Model model = parse_model(source);
  return Importer(source, model, options).run();
}

ModelInfo::Value describe(const ValueInfo& info) {
  const bool tensor = info.kind == ValueInfo::Kind::Tensor;
  ModelInfo::Value out{
      .name = std::string(info.name), .dtype = tensor ? spelling(info.type) : std::string(name(info.kind)), .shape = {}};
  if (info.shape)
    for (const ValueInfo::Dim& d : *info.shape)
      out.shape.push_back(d.value ? std::to_string(*d.value) : d.symbol.empty() ? "?" : std::string(d.symbol));
  return out;
}

}  // namespace

graph::Module import_file(const std::string& path, const ImportOptions& options) {
  return import_source(map_source(path), options);
}

graph::Module import_bytes(std::string name, std::shared_ptr<const void> owner, std::span<const std::byte> bytes,
                           const ImportOptions& options) {
  return import_source({.file = std::move(name),
                        .folder = {},
                        .owner = std::move(owner),
                        .bytes = {reinterpret_cast<const char*>(bytes.data()), bytes.size()}},
                       options);
}

ModelInfo inspect_file(const std::string& path) {
  const Source source = map_source(path);
  const Model model = parse_model(source);
  const Graph& graph = *model.graph;
  ModelInfo out;
  std::unordered_map<std::string_view, const Tensor*> initializers;
  for (const Tensor& t : graph.initializers) initializers.emplace(t.name, &t);
  for (const ValueInfo& v : graph.inputs)
    if (!initializers.contains(v.name)) out.inputs.push_back(describe(v));
  for (const ValueInfo& v : graph.outputs) out.outputs.push_back(describe(v));
  int opset = 0;
  for (const auto& [domain, version] : model.opset_imports) {
    out.opsets[std::string(domain)] = version;
    if (domain.empty()) opset = static_cast<int>(std::clamp<int64_t>(version, 0, INT32_MAX));
  }
  out.nodes = static_cast<int64_t>(graph.nodes.size());
  for (const Node& node : graph.nodes)
    ++out.ops[node.domain.empty() ? std::string(node.op_type) : fmt::format("{}::{}", node.domain, node.op_type)];
  out.unsupported = unsupported_nodes(model, graph, opset);
  for (const auto& [key, value] : model.metadata) out.metadata[std::string(key)] = value;
  return out;
}

}  // namespace tenon::onnx
