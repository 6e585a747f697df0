// SPDX-License-Identifier: Apache-2.0
// Visiting the functions that a pass may change.
#include "passes/graph/functions.h"

#include <algorithm>
#include <bit>

#include "base/hash.h"
#include "op/ops.h"

namespace tenon::pass {

graph::Module map_functions(graph::Module module,
                            function_ref<graph::Function(graph::Module& module, graph::Function function)> rewrite) {
  for (auto& [name, function] : module.functions)
    if (!function.primitive() && !function.attrs.contains("external")) function = rewrite(module, std::move(function));
  return module;
}

bool is_elementwise(const graph::OpDef& op) {
  // These two are of the class, but align their operands by the result's shape and by channel.
  return op.fusion <= graph::Fusion::Broadcast && &op != &op::broadcast_to && &op != &op::batch_norm;
}

namespace {

uint64_t hash_of(bool value) { return value; }
uint64_t hash_of(int64_t value) { return static_cast<uint64_t>(value); }
uint64_t hash_of(double value) { return std::bit_cast<uint64_t>(value); }
uint64_t hash_of(const std::string& value) { return std::hash<std::string>()(value); }
uint64_t hash_of(const std::vector<int64_t>& values) {
  uint64_t hash = values.size();
  for (int64_t v : values) hash = hash_combine(hash, hash_of(v));
  return hash;
}

bool same_value(const graph::AttrValue& a, const graph::AttrValue& b) {
  const double *x = std::get_if<double>(&a), *y = std::get_if<double>(&b);
  return x && y ? std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(*y) : a == b;
}

}  // namespace

uint64_t computation_hash(const graph::Node& node) {
  uint64_t hash = node.kind == graph::NodeKind::Op ? std::hash<const void*>()(node.op) : hash_of(node.callee);
  for (graph::ValueId v : node.inputs) hash = hash_combine(hash, v.index);
  for (const auto& [name, value] : node.attrs)
    hash = hash_combine(hash, std::visit([](const auto& v) { return hash_of(v); }, value));
  return hash;
}

bool same_computation(const graph::Node& a, const graph::Node& b) {
  auto same_attr = [](const auto& x, const auto& y) { return x.first == y.first && same_value(x.second, y.second); };
  return a.kind == b.kind && a.op == b.op && a.callee == b.callee && a.inputs == b.inputs &&
         std::equal(a.attrs.begin(), a.attrs.end(), b.attrs.begin(), b.attrs.end(), same_attr);
}

graph::Function remove_dead_nodes(graph::Function function) {
  std::vector<bool> live(function.value_count());
  for (graph::ValueId v : function.results) live[v.index] = true;
  std::vector<bool> keep(function.nodes.size());
  for (size_t i = function.nodes.size(); i-- > 0;) {
    const graph::Node& node = function.nodes[i];
    for (uint32_t k = 0; k < node.types.size(); ++k) keep[i] = keep[i] || live[node.first_result + k];
    if (!keep[i]) continue;
    for (graph::ValueId v : node.inputs) live[v.index] = true;
  }
  if (std::find(keep.begin(), keep.end(), false) == keep.end()) return function;
  std::vector<graph::ValueId> renamed(live.size());
  auto next = static_cast<uint32_t>(function.params.size());
  for (uint32_t i = 0; i < next; ++i) renamed[i] = {i};
  auto end = function.nodes.begin();
  for (size_t i = 0; i < keep.size(); ++i) {
    if (!keep[i]) continue;
    graph::Node& node = function.nodes[i];
    for (graph::ValueId& v : node.inputs) v = renamed[v.index];
    uint32_t old = std::exchange(node.first_result, next);
    for (uint32_t k = 0; k < node.types.size(); ++k) renamed[old + k] = {next++};
    if (&*end != &node) *end = std::move(node);
    ++end;
  }
  function.nodes.erase(end, function.nodes.end());
  for (graph::ValueId& v : function.results) v = renamed[v.index];
  return function;
}

}  // namespace tenon::pass
