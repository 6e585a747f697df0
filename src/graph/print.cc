// SPDX-License-Identifier: Apache-2.0
// Prints modules. The grammar is in docs/graph-ir.md; parse.cc reads it back.
#include <fmt/format.h>

#include <iterator>

#include "graph/text.h"

namespace tenon::graph {
namespace {

template <class List, class F>
void put_list(std::string& out, const List& list, F&& put_one) {
  bool first = true;
  for (const auto& item : list) {
    if (!first) out += ", ";
    first = false;
    put_one(item);
  }
}

void put_value(std::string& out, ValueId v) { fmt::format_to(std::back_inserter(out), "%{}", v.index); }

void put_values(std::string& out, const std::vector<ValueId>& values) {
  put_list(out, values, [&](ValueId v) { put_value(out, v); });
}

void put_attrs(std::string& out, const Attrs& attrs) {
  if (!attrs.empty()) out += ' ' + tir::print_attrs(attrs);
}

/// `%2, %3 = split(%0) {axis = 1} : f32[1,4], f32[1,4]  "node name"`
void put_node(std::string& out, const Node& node) {
  out += "  ";
  for (uint32_t i = 0; i < node.types.size(); ++i) {
    if (i) out += ", ";
    put_value(out, node.result(i));
  }
  out += " = ";
  switch (node.kind) {
    case NodeKind::Op: out += node.op->name; break;
    case NodeKind::Constant: out += "constant @" + node.callee; break;
    case NodeKind::Call: out += "call @" + node.callee; break;
    case NodeKind::CallLowered: out += "call_lowered @" + node.callee; break;
  }
  if (node.kind != NodeKind::Constant) {
    out += '(';
    put_values(out, node.inputs);
    out += ')';
  }
  put_attrs(out, node.attrs);
  out += " : ";
  out += print(std::span(node.types));
  if (!node.name.empty()) out += "  " + quote(node.name);
  out += '\n';
}

void put_function(std::string& out, const Function& f) {
  fmt::format_to(std::back_inserter(out), "fn @{}(", f.name);
  uint32_t index = 0;
  put_list(out, f.params, [&](const Param& p) {
    fmt::format_to(std::back_inserter(out), "%{}: {}", index++, to_string(p.type));
    if (!p.name.empty()) out += ' ' + quote(p.name);
  });
  out += ')';
  if (!f.result_names.empty()) {
    out += " -> (";
    put_list(out, f.result_names, [&](const std::string& name) { out += quote(name); });
    out += ')';
  }
  put_attrs(out, f.attrs);
  out += " {\n";
  for (const Node& node : f.nodes) put_node(out, node);
  out += f.results.empty() ? "  return" : "  return ";
  put_values(out, f.results);
  out += "\n}\n";
}

}  // namespace

std::string print(std::span<const TensorType> types) {
  std::string out;
  put_list(out, types, [&](const TensorType& t) { out += to_string(t); });
  return out;
}

std::string print(const Function& function) {
  std::string out;
  put_function(out, function);
  return out;
}

std::string print(const Module& module, tir::ConstantBytes* long_constants) {
  std::string out;
  if (!module.attrs.empty()) out += "module " + tir::print_attrs(module.attrs) + '\n';
  for (const auto& [name, data] : module.constants)
    fmt::format_to(std::back_inserter(out), "constant @{} : {} = {}\n", name, to_string(type_of(data)),
                   tir::print_constant(data, long_constants));
  for (const auto& [name, function] : module.functions) put_function(out, function);
  for (const auto& [name, function] : module.prim_funcs) out += tir::print(function, long_constants);
  return out;
}

}  // namespace tenon::graph
