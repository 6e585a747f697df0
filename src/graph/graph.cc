// SPDX-License-Identifier: Apache-2.0
// Functions, modules, and the two ways to build them.
#include "graph/graph.h"

#include <algorithm>
#include <cctype>
#include <climits>

#include "base/hash.h"
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

/// Equal for equal arrays.
static uint64_t beginning_hash(const Array& array) {
  constexpr size_t kBeginning = 256;
  auto beginning = array.bytes.first(std::min(array.bytes.size(), kBeginning));
  return hash_combine(hash64({reinterpret_cast<const char*>(beginning.data()), beginning.size()}), array.bytes.size());
}

ConstantTable::Entries::iterator ConstantTable::add(Array data, std::string_view hint) {
  std::string name(hint);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  if (name.empty()) name = "c";
  auto [plain, is_first] = entries_.try_emplace(name, std::move(data));
  if (is_first || plain->second == data) return plain;
  Series& series = series_[name];
  uint64_t hash = beginning_hash(data);
  auto numbered = [&](int number) { return name + '_' + std::to_string(number); };
  int first = INT_MAX;
  for (auto [it, end] = series.by_beginning.equal_range(hash); it != end; ++it)
    if (it->second < first && entries_.find(numbered(it->second))->second == data) first = it->second;
  if (first != INT_MAX) return entries_.find(numbered(first));
  for (;;) {
    int number = series.next++;
    auto [entry, is_new] = entries_.try_emplace(numbered(number), std::move(data));
    series.by_beginning.emplace(beginning_hash(entry->second), number);
    if (is_new || entry->second == data) return entry;
  }
}

std::string add_constant(Module& module, Array data, std::string_view hint) {
  return ConstantTable(module).add(std::move(data), hint)->first;
}

static Node constant_node(const ConstantTable::Entries::value_type& entry) {
  Node node;
  node.kind = NodeKind::Constant;
  node.callee = entry.first;
  node.types.push_back(type_of(entry.second));
  return node;
}

Builder::Builder(Module& module, std::string function_name) : module_(module), constants_(module) {
  function_.name = std::move(function_name);
}

ValueId Builder::param(std::string name, TensorType type) {
  check(function_.nodes.empty(), "parameters come before nodes");
  function_.params.push_back({std::move(name), std::move(type)});
  definition_.push_back(0);
  return {static_cast<uint32_t>(definition_.size() - 1)};
}

std::vector<ValueId> Builder::call(const OpDef& op, std::vector<ValueId> inputs, Attrs attrs) {
  std::vector<const TensorType*> operand_types;
  for (ValueId v : inputs) operand_types.push_back(&type(v));
  Node node;
  node.op = &op;
  node.types = infer_types(op, std::move(operand_types), attrs, node_name_, span_);
  if (fold_limit_ > 0 && op.fold)
    if (auto constants = constant_values(inputs))
      if (auto folded = fold_node(op, *constants, node.types, attrs, fold_limit_)) {
        std::vector<ValueId> results;
        for (Array& value : *folded) results.push_back(constant(std::move(value)));
        return results;
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

ValueId Builder::add(Node&& node) {
  static_assert(std::is_nothrow_move_constructible_v<Node>, "types stay where they are while the list of nodes grows");
  ValueId first{static_cast<uint32_t>(definition_.size())};
  node.first_result = first.index;
  for (size_t i = 0; i < node.types.size(); ++i) definition_.push_back(static_cast<uint32_t>(function_.nodes.size()));
  function_.nodes.push_back(std::move(node));
  return first;
}

std::vector<ValueId> Builder::append(Node node) {
  std::vector<ValueId> results(node.types.size());
  ValueId first = add(std::move(node));
  for (uint32_t i = 0; i < results.size(); ++i) results[i] = {first.index + i};
  return results;
}

ValueId Builder::constant(Array data, std::string_view name_hint) {
  return add(constant_node(*constants_.add(std::move(data), name_hint)));
}

ValueId Builder::constant_ref(const std::string& entry) {
  auto it = module_.constants.find(entry);
  check(it != module_.constants.end(), "a constant node reads an entry of the table");
  return add(constant_node(*it));
}

const Node* Builder::definition(ValueId v) const {
  return function_.is_param(v) ? nullptr : &function_.nodes[definition_[v.index]];
}

const TensorType& Builder::type(ValueId v) const {
  const Node* node = definition(v);
  return node ? node->types[v.index - node->first_result] : function_.params[v.index].type;
}

const Array* Builder::constant_value(ValueId v) const {
  const Node* node = definition(v);
  return node && node->kind == NodeKind::Constant ? &module_.constants.find(node->callee)->second : nullptr;
}

std::optional<std::vector<Array>> Builder::constant_values(std::span<const ValueId> values) const {
  auto is_constant = [&](ValueId v) {
    const Node* node = definition(v);
    return node && node->kind == NodeKind::Constant;
  };
  if (!std::all_of(values.begin(), values.end(), is_constant)) return std::nullopt;
  std::vector<Array> arrays;
  for (ValueId v : values) arrays.push_back(*constant_value(v));
  return arrays;
}

void Builder::at(std::string_view node_name, const Span& span) {
  node_name_ = node_name;
  span_ = span;
}

void Builder::reserve(size_t nodes) {
  function_.nodes.reserve(nodes);
  definition_.reserve(function_.params.size() + nodes);
}

Function Builder::finish(std::vector<ValueId> results, std::vector<std::string> result_names) {
  function_.results = std::move(results);
  function_.result_names = std::move(result_names);
  return std::move(function_);
}

Rewriter::Rewriter(Module& module, const Function& from) : from_(from), builder_(module, from.name), map_(from.value_count()) {
  builder_.reserve(from.nodes.size());
  for (uint32_t i = 0; i < from.params.size(); ++i) map_[i] = builder_.param(from.params[i].name, from.params[i].type);
}

std::vector<ValueId> Rewriter::operator()(std::span<const ValueId> old) const {
  std::vector<ValueId> out;
  for (ValueId v : old) out.push_back(map_[v.index]);
  return out;
}

void Rewriter::keep(Node old) {
  rename(old);
  add(std::move(old));
}

void Rewriter::rename(Node& old) const {
  for (ValueId& v : old.inputs) v = map_[v.index];
}

void Rewriter::add(Node&& renamed) {
  uint32_t old = renamed.first_result, count = static_cast<uint32_t>(renamed.types.size());
  ValueId first = builder_.add(std::move(renamed));
  for (uint32_t i = 0; i < count; ++i) map_[old + i] = {first.index + i};
}

Function Rewriter::finish() {
  std::vector<ValueId> results;
  for (ValueId v : from_.results) results.push_back(map_[v.index]);
  Function out = builder_.finish(std::move(results), from_.result_names);
  out.attrs = from_.attrs;
  return out;
}

}  // namespace tenon::graph
