// SPDX-License-Identifier: Apache-2.0
// Functions, modules, and the two ways to build them.
#include "graph/graph.h"

#include <algorithm>
#include <cctype>

#include "graph/op_def.h"

namespace tenon::graph {

uint32_t Function::value_count() const {
  return nodes.empty() ? static_cast<uint32_t>(params.size())
                       : nodes.back().first_result + static_cast<uint32_t>(nodes.back().types.size());
}

const Node* Function::definition(ValueId v) const {
  if (is_param(v)) return nullptr;
  auto it = std::upper_bound(nodes.begin(), nodes.end(), v.index, [](uint32_t i, const Node& n) { return i < n.first_result; });
  check(it != nodes.begin(), "a value has a definition");
  return &*(it - 1);
}

const TensorType& Function::type(ValueId v) const {
  if (is_param(v)) return params[v.index].type;
  const Node* node = definition(v);
  return node->types[v.index - node->first_result];
}

static bool flag(const Attrs& attrs, std::string_view name) {
  auto it = attrs.find(name);
  return it != attrs.end() && std::holds_alternative<bool>(it->second) && std::get<bool>(it->second);
}

bool Function::primitive() const { return flag(attrs, "primitive"); }

static bool operator==(const Param& a, const Param& b) { return a.name == b.name && a.type == b.type; }
static bool operator==(const Node& a, const Node& b) {
  return a.kind == b.kind && a.op == b.op && a.callee == b.callee && a.inputs == b.inputs && a.attrs == b.attrs &&
         a.types == b.types && a.first_result == b.first_result && a.name == b.name;
}

bool operator==(const Function& a, const Function& b) {
  return a.name == b.name && std::equal(a.params.begin(), a.params.end(), b.params.begin(), b.params.end()) &&
         std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end()) && a.results == b.results &&
         a.result_names == b.result_names && a.attrs == b.attrs;
}

bool operator==(const Module& a, const Module& b) {
  auto same_prim = [](const auto& x, const auto& y) { return x.first == y.first && tir::structural_equal(x.second, y.second); };
  return a.functions == b.functions && a.constants == b.constants && a.attrs == b.attrs &&
         std::equal(a.prim_funcs.begin(), a.prim_funcs.end(), b.prim_funcs.begin(), b.prim_funcs.end(), same_prim);
}

std::vector<uint32_t> use_counts(const Function& function) {
  std::vector<uint32_t> counts(function.value_count());
  for (const Node& node : function.nodes)
    for (ValueId v : node.inputs) ++counts[v.index];
  for (ValueId v : function.results) ++counts[v.index];
  return counts;
}

std::optional<std::vector<Array>> fold_node(const OpDef& op, std::span<const Array> inputs, std::span<const TensorType> outputs,
                                            const Attrs& attrs, int64_t max_bytes) {
  if (!op.fold) return std::nullopt;
  for (const TensorType& type : outputs)
    if (!type.is_static() || type.bytes() > max_bytes) return std::nullopt;
  std::vector<TensorType> input_types;
  for (const Array& a : inputs) input_types.push_back(type_of(a));
  return op.fold(CallSite(op, input_types, attrs, outputs), inputs);
}

std::string add_constant(Module& module, Array data, std::string_view hint) {
  std::string base(hint);
  for (char& c : base)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  if (base.empty()) base = "c";
  std::string name = base;
  for (int i = 1;; ++i) {
    auto it = module.constants.find(name);
    if (it == module.constants.end()) break;
    if (it->second == data) return name;
    name = base + '_' + std::to_string(i);
  }
  module.constants.emplace(name, std::move(data));
  return name;
}

Builder::Builder(Module& module, std::string function_name) : module_(module) { function_.name = std::move(function_name); }

ValueId Builder::param(std::string name, TensorType type) {
  check(function_.nodes.empty(), "parameters come before nodes");
  function_.params.push_back({std::move(name), type});
  types_.push_back(std::move(type));
  definition_.push_back(-1);
  return {static_cast<uint32_t>(types_.size() - 1)};
}

std::vector<ValueId> Builder::call(const OpDef& op, std::vector<ValueId> inputs, Attrs attrs) {
  std::vector<TensorType> operand_types;
  for (ValueId v : inputs) operand_types.push_back(type(v));
  Node node;
  node.op = &op;
  node.types = infer_types(op, operand_types, attrs, node_name_, span_);
  if (fold_limit_ > 0) {
    std::vector<Array> constants;
    for (ValueId v : inputs)
      if (const Array* value = constant_value(v)) constants.push_back(*value);
    if (constants.size() == inputs.size())
      if (auto folded = fold_node(op, constants, node.types, attrs, fold_limit_)) {
        std::vector<ValueId> results;
        for (Array& value : *folded) results.push_back(constant(std::move(value)));
        return results;
      }
  }
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
  node.name = node_name_;
  node.span = span_;
  return append(std::move(node));
}

ValueId Builder::call1(const OpDef& op, std::vector<ValueId> inputs, Attrs attrs) {
  auto results = call(op, std::move(inputs), std::move(attrs));
  check(results.size() == 1, "call1 is for operators with one result");
  return results[0];
}

std::vector<ValueId> Builder::append(Node node) {
  node.first_result = static_cast<uint32_t>(types_.size());
  std::vector<ValueId> results;
  for (const TensorType& t : node.types) {
    results.push_back({static_cast<uint32_t>(types_.size())});
    types_.push_back(t);
    definition_.push_back(static_cast<int32_t>(function_.nodes.size()));
  }
  function_.nodes.push_back(std::move(node));
  return results;
}

ValueId Builder::constant(Array data, std::string_view name_hint) {
  return constant_ref(add_constant(module_, std::move(data), name_hint));
}

ValueId Builder::constant_ref(const std::string& entry) {
  auto it = module_.constants.find(entry);
  check(it != module_.constants.end(), "a constant node reads an entry of the table");
  Node node;
  node.kind = NodeKind::Constant;
  node.callee = entry;
  node.types = {type_of(it->second)};
  return append(std::move(node))[0];
}

const Array* Builder::constant_value(ValueId v) const {
  int32_t index = definition_[v.index];
  if (index < 0 || function_.nodes[static_cast<size_t>(index)].kind != NodeKind::Constant) return nullptr;
  return &module_.constants.find(function_.nodes[static_cast<size_t>(index)].callee)->second;
}

void Builder::at(std::string node_name, Span span) {
  node_name_ = std::move(node_name);
  span_ = std::move(span);
}

Function Builder::finish(std::vector<ValueId> results, std::vector<std::string> result_names) {
  function_.results = std::move(results);
  function_.result_names = std::move(result_names);
  return std::move(function_);
}

Rewriter::Rewriter(Module& module, const Function& from) : from_(from), builder_(module, from.name), map_(from.value_count()) {
  for (uint32_t i = 0; i < from.params.size(); ++i) map_[i] = builder_.param(from.params[i].name, from.params[i].type);
}

std::vector<ValueId> Rewriter::operator()(std::span<const ValueId> old) const {
  std::vector<ValueId> out;
  for (ValueId v : old) out.push_back(map_[v.index]);
  return out;
}

void Rewriter::keep(const Node& old) {
  Node node = old;
  node.inputs = (*this)(std::span<const ValueId>(old.inputs));
  auto results = builder_.append(std::move(node));
  for (uint32_t i = 0; i < results.size(); ++i) map_[old.first_result + i] = results[i];
}

Function Rewriter::finish() {
  std::vector<ValueId> results;
  for (ValueId v : from_.results) results.push_back(map_[v.index]);
  Function out = builder_.finish(std::move(results), from_.result_names);
  out.attrs = from_.attrs;
  return out;
}

}  // namespace tenon::graph
