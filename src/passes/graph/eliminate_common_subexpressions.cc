// SPDX-License-Identifier: Apache-2.0
//
// Computes equal things once: nodes of one operator with equal operands and attributes, and calls of one graph function.
//
//   %1 = relu(%0)
//   %2 = relu(%0)                =>   %1 = relu(%0)
//   %3 = add(%1, %2)                  %2 = add(%1, %1)
//
// Constants are equal by dtype, shape and bytes, so a different dtype or shape keeps equal bytes apart. Operators are
// pure; calls of lowered functions are left alone, since a foreign one may not be.
//
// Needs inferred types. Leaves unread table entries to `eliminate-dead`.
#include <fmt/format.h>

#include <unordered_map>

#include "base/content_index.h"
#include "passes/graph/functions.h"
#include "passes/graph/passes.h"
#include "tir/text.h"

namespace tenon::pass {
namespace {

using graph::Function;
using graph::Module;
using graph::Node;
using graph::NodeKind;
using graph::ValueId;

/// For each entry of the constant table the first entry, by name, that holds the same array.
std::map<std::string_view, std::string_view> representatives(const Module& module) {
  std::map<std::string_view, std::string_view> out;
  std::unordered_map<std::string, std::string_view> by_content;
  ContentIndex contents;
  for (const auto& [name, array] : module.constants) {
    std::string content = fmt::format("{}{} {}", tenon::name(array.dtype), to_string(array.shape), contents.add(array.bytes));
    out[name] = by_content.try_emplace(std::move(content), name).first->second;
  }
  return out;
}

/// Equal for nodes that compute the same.
std::string key(const Node& node) {
  std::string out = fmt::format("{} {}(", static_cast<int>(node.kind), node.kind == NodeKind::Op ? node.op->name : node.callee);
  for (ValueId v : node.inputs) out += fmt::format("{},", v.index);
  return out + ')' + tir::print_attrs(node.attrs);
}

Module run(const Module& module, const PassOptions&) {
  auto first_entry = representatives(module);
  return map_functions(module, [&](Module& out, const Function& function) {
    graph::Rewriter rewriter(out, function);
    std::unordered_map<std::string, ValueId> seen;  // the first result of the node with this key
    for (const Node& old : function.nodes) {
      Node node = old;
      node.inputs = rewriter(old.inputs);
      if (node.kind == NodeKind::Constant) node.callee = first_entry.at(node.callee);
      auto same = node.kind == NodeKind::CallLowered ? seen.end() : seen.find(key(node));
      if (same == seen.end()) {
        std::string node_key = key(node);
        ValueId first = rewriter.builder().append(std::move(node))[0];
        if (old.kind != NodeKind::CallLowered) seen.emplace(std::move(node_key), first);
        for (uint32_t i = 0; i < old.types.size(); ++i) rewriter.replace(old.result(i), {first.index + i});
      } else {
        for (uint32_t i = 0; i < old.types.size(); ++i) rewriter.replace(old.result(i), {same->second.index + i});
      }
    }
    return rewriter.finish();
  });
}

}  // namespace

const Pass eliminate_common_subexpressions{"eliminate-common-subexpressions", "compute equal things once", run};

}  // namespace tenon::pass
