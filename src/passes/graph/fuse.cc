// SPDX-License-Identifier: Apache-2.0
//
// Turns groups of operators that can run as one kernel into functions marked `primitive`.
//
//   %1 = relu(%0)                     %1 = call @fused_relu_exp(%0)
//   %2 = exp(%1)                 =>   fn @fused_relu_exp(%0) -> … {primitive = true} { relu, exp }
//
// The groups are those of fusion_groups.h (spec.md 7.1); at opt_level 0 every operator is its own. A function's
// parameters stand in the order of first use from its last operator; equal groups share one function. Rank-0 constants
// of common dtypes go inside, all others stay in the caller and are passed, unless `link_params` keeps them inside too.
// A group's only results are what is read outside of it. A node with the attribute `memory` is the last of its group, whose
// call takes the attribute over. `stop_fusion(%1)` keeps what makes %1 and what reads the marker apart;
// it disappears here.
//
// Needs inferred types. Drops dead nodes first, since they would hold groups apart. Leaves functions that are primitive
// or external and calls as they are, which makes it idempotent.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "graph/memory_attr.h"
#include "op/ops.h"
#include "passes/graph/functions.h"
#include "passes/graph/fusion_groups.h"
#include "passes/graph/passes.h"

namespace tenon::pass {
namespace {

using graph::Function;
using graph::Module;
using graph::Node;
using graph::NodeKind;
using graph::ValueId;

constexpr size_t kMaxNameLength = 80;
constexpr uint32_t kNone = UINT32_MAX;

/// Names without meaning removed, so that equal groups compare equal.
Function anonymous(Function function) {
  function.name.clear();
  for (Node& node : function.nodes) node.name.clear();
  return function;
}

/// The fused functions of one module.
class FusedFunctions {
 public:
  /// Names in `taken` are avoided.
  explicit FusedFunctions(const Module& taken) : taken_(taken) {}

  /// The name of `function`, or of an equal one that is there already.
  std::string add(Function function) {
    std::string base = "fused";
    for (const Node& node : function.nodes)
      if (node.kind == NodeKind::Op && base.size() < kMaxNameLength) base += fmt::format("_{}", node.op->name);
    base.resize(std::min(base.size(), kMaxNameLength));
    std::vector<Known>& known = by_base_[base];
    Function key = anonymous(function);
    for (const Known& k : known)
      if (k.key == key) return k.name;
    std::string name = unique(base, known.size());
    function.name = name;
    known.push_back({std::move(key), name});
    functions_.emplace(name, std::move(function));
    return name;
  }

  std::map<std::string, Function, std::less<>>& functions() { return functions_; }

 private:
  struct Known {
    Function key;
    std::string name;
  };

  std::string unique(const std::string& base, size_t first_suffix) const {
    for (size_t i = first_suffix;; ++i) {
      std::string name = i == 0 ? base : fmt::format("{}_{}", base, i);
      if (!functions_.contains(name) && !taken_.functions.contains(name) && !taken_.prim_funcs.contains(name)) return name;
    }
  }

  const Module& taken_;
  std::map<std::string, Function, std::less<>> functions_;
  std::map<std::string, std::vector<Known>> by_base_;
};

/// Rewrites one function into calls of its groups.
class FunctionFuser {
 public:
  FunctionFuser(Module& out, FusedFunctions& fused, const Function& from, const PassOptions& options)
      : rewriter_(out, from),
        out_(out),
        fused_(fused),
        from_(from),
        options_(options),
        groups_(fusion_groups(from, options.opt_level == 0 ? 0 : options.fuse_max_nodes)),
        node_of_value_(from.params.size(), kNone),
        visited_(from.nodes.size()) {
    for (uint32_t i = 0; i < from.nodes.size(); ++i) node_of_value_.insert(node_of_value_.end(), from.nodes[i].types.size(), i);
    find_outside_uses();
  }

  Function run() {
    for (uint32_t i = 0; i < from_.nodes.size(); ++i) {
      const Node& node = from_.nodes[i];
      if (node.op == &op::stop_fusion) {
        rewriter_.replace(node.result(), rewriter_(node.inputs[0]));
      } else if (node.kind == NodeKind::Op) {
        if (groups_[i] == i) emit_call(node);
      } else if (node.kind != NodeKind::Constant || is_read_outside(node)) {
        rewriter_.keep(node);
      }
    }
    return rewriter_.finish();
  }

 private:
  /// A group before it is a function: its parameters as values of the caller, its nodes in order.
  struct Group {
    std::vector<ValueId> params;
    std::vector<uint32_t> nodes;
  };

  bool is_constant_inside(const Node& node) const {
    return node.kind == NodeKind::Constant && (is_simple_scalar(node) || options_.link_params);
  }

  void find_outside_uses() {
    read_outside_.resize(from_.value_count());
    for (uint32_t i = 0; i < from_.nodes.size(); ++i)
      for (ValueId v : from_.nodes[i].inputs) {
        uint32_t producer = node_of_value_[v.index];
        bool in_kernel = from_.nodes[i].kind == NodeKind::Op && from_.nodes[i].op != &op::stop_fusion;
        bool inside =
            producer != kNone && in_kernel && (groups_[producer] == groups_[i] || is_constant_inside(from_.nodes[producer]));
        if (!inside) read_outside_[v.index] = true;
      }
    for (ValueId v : from_.results) read_outside_[v.index] = true;
  }

  bool is_read_outside(const Node& node) const {
    for (uint32_t i = 0; i < node.types.size(); ++i)
      if (read_outside_[node.first_result + i]) return true;
    return false;
  }

  /// Depth first from the last operator, operands in order.
  Group collect(uint32_t last) {
    Group group;
    std::set<uint32_t> params;
    std::vector<std::pair<uint32_t, size_t>> stack = {{last, 0}};
    while (!stack.empty()) {
      auto& [index, next] = stack.back();
      const Node& node = from_.nodes[index];
      if (next == node.inputs.size()) {
        group.nodes.push_back(index);
        stack.pop_back();
        continue;
      }
      ValueId v = node.inputs[next++];
      uint32_t producer = node_of_value_[v.index];
      bool inside = producer != kNone && (groups_[producer] == last || is_constant_inside(from_.nodes[producer]));
      if (!inside) {
        if (params.insert(v.index).second) group.params.push_back(v);
      } else if (visited_[producer] != last + 1) {
        visited_[producer] = last + 1;
        stack.push_back({producer, 0});
      }
    }
    return group;
  }

  Function build(const Group& group, const Node& last, std::vector<ValueId>& outside_results) const {
    graph::Builder builder(out_, "");
    std::unordered_map<uint32_t, ValueId> map;
    for (ValueId v : group.params) map[v.index] = builder.param("", type(v));
    for (uint32_t index : group.nodes) {
      Node node = from_.nodes[index];
      for (ValueId& v : node.inputs) v = map.at(v.index);
      node.attrs.erase(std::string(graph::kMemoryAttr));  // the call has it
      auto results = builder.append(std::move(node));
      for (uint32_t i = 0; i < results.size(); ++i) map[from_.nodes[index].first_result + i] = results[i];
    }
    std::vector<ValueId> results;
    for (uint32_t i = 0; i < last.types.size(); ++i)
      if (ValueId v = last.result(i); read_outside_[v.index]) {
        outside_results.push_back(v);
        results.push_back(map.at(v.index));
      }
    Function function = builder.finish(std::move(results));
    function.attrs["primitive"] = true;
    return function;
  }

  void emit_call(const Node& last) {
    Group group = collect(node_of_value_[last.first_result]);
    std::vector<ValueId> outside_results;
    Function function = build(group, last, outside_results);
    Node call;
    call.kind = NodeKind::Call;
    call.inputs = rewriter_(group.params);
    call.name = last.name;
    call.span = last.span;
    if (std::string place = graph::place_of_node(last); !place.empty()) call.attrs[std::string(graph::kMemoryAttr)] = place;
    for (ValueId v : outside_results) call.types.push_back(type(v));
    call.callee = fused_.add(std::move(function));
    auto results = rewriter_.builder().append(std::move(call));
    for (size_t i = 0; i < results.size(); ++i) rewriter_.replace(outside_results[i], results[i]);
  }

  const TensorType& type(ValueId v) const {
    uint32_t producer = node_of_value_[v.index];
    if (producer == kNone) return from_.params[v.index].type;
    return from_.nodes[producer].types[v.index - from_.nodes[producer].first_result];
  }

  graph::Rewriter rewriter_;
  Module& out_;
  FusedFunctions& fused_;
  const Function& from_;
  const PassOptions& options_;
  std::vector<uint32_t> groups_;
  std::vector<uint32_t> node_of_value_;
  std::vector<uint32_t> visited_;  // 1 + the group that reached a node last
  std::vector<bool> read_outside_;
};

Module run(const Module& module, const PassOptions& options) {
  FusedFunctions fused(module);
  Module out = map_functions(module, [&](Module& copy, const Function& function) {
    Function live = remove_dead_nodes(copy, function);
    return FunctionFuser(copy, fused, live, options).run();
  });
  out.functions.merge(fused.functions());
  return out;
}

}  // namespace

const Pass fuse{"fuse", "make one primitive function of each group of operators that can run as one kernel", run};

}  // namespace tenon::pass
