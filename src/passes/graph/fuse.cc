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

#include "base/hash.h"
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

uint64_t body_hash(const Function& function) {
  uint64_t hash = function.nodes.size();
  for (const graph::Param& p : function.params)
    for (const Dim& dim : p.type.shape) hash = hash_combine(hash, dim->hash);
  for (const Node& node : function.nodes) hash = hash_combine(hash, computation_hash(node));
  return hash;
}

/// Whether two groups are equal up to names.
bool same_body(const Function& a, const Function& b) {
  auto same_param = [](const graph::Param& x, const graph::Param& y) { return x.type == y.type; };
  auto same_node = [](const Node& x, const Node& y) { return same_computation(x, y) && x.types == y.types; };
  return std::equal(a.params.begin(), a.params.end(), b.params.begin(), b.params.end(), same_param) &&
         std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(), same_node) && a.results == b.results;
}

/// The fused functions of one module.
class FusedFunctions {
 public:
  /// Names in `taken` are avoided.
  explicit FusedFunctions(const Module& taken) {
    for (const auto& [name, function] : taken.functions) taken_.insert(name);
    for (const auto& [name, function] : taken.prim_funcs) taken_.insert(name);
  }

  /// The name of `function`, or of an equal one that is there already.
  const std::string& add(Function function) {
    uint64_t hash = body_hash(function);
    auto [begin, end] = by_hash_.equal_range(hash);
    for (auto it = begin; it != end; ++it)
      if (same_body(*it->second, function)) return it->second->name;
    std::string base = "fused";
    for (const Node& node : function.nodes)
      if (node.kind == NodeKind::Op && base.size() < kMaxNameLength) base.append("_").append(node.op->name);
    base.resize(std::min(base.size(), kMaxNameLength));
    function.name = unique(base, with_base_[base]++);
    auto added = functions_.emplace(function.name, std::move(function)).first;
    by_hash_.emplace(hash, &added->second);
    return added->first;
  }

  std::map<std::string, Function, std::less<>>& functions() { return functions_; }

 private:
  std::string unique(const std::string& base, size_t first_suffix) const {
    for (size_t i = first_suffix;; ++i) {
      std::string name = i == 0 ? base : fmt::format("{}_{}", base, i);
      if (!functions_.contains(name) && !taken_.contains(name)) return name;
    }
  }

  std::set<std::string, std::less<>> taken_;
  std::map<std::string, Function, std::less<>> functions_;
  std::unordered_multimap<uint64_t, const Function*> by_hash_;
  std::map<std::string, size_t> with_base_;  // how many there are
};

/// Rewrites one function into calls of its groups.
class FunctionFuser {
 public:
  FunctionFuser(Module& module, FusedFunctions& fused, Function from, const PassOptions& options)
      : from_(std::move(from)),
        rewriter_(module, from_),
        module_(module),
        fused_(fused),
        groups_(fusion_groups(from_, options.opt_level == 0 ? 0 : options.fuse_max_nodes)),
        node_of_value_(from_.params.size(), kNone),
        visited_(from_.nodes.size()),
        param_of_(from_.value_count()),
        in_kernel_(from_.value_count()) {
    for (uint32_t i = 0; i < from_.nodes.size(); ++i) {
      const Node& node = from_.nodes[i];
      node_of_value_.insert(node_of_value_.end(), node.types.size(), i);
      constant_inside_.push_back(node.kind == NodeKind::Constant && (is_simple_scalar(node) || options.link_params));
    }
    find_outside_uses();
  }

  Function run() {
    for (uint32_t i = 0; i < from_.nodes.size(); ++i) {
      Node& node = from_.nodes[i];
      if (node.op == &op::stop_fusion) {
        rewriter_.replace(node.result(), rewriter_(node.inputs[0]));
      } else if (node.kind == NodeKind::Op) {
        if (groups_[i] == i) emit_call(i);
      } else if (node.kind != NodeKind::Constant || is_read_outside(node)) {
        rewriter_.keep(constant_inside_[i] ? node : std::move(node));
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

  void find_outside_uses() {
    read_outside_.resize(from_.value_count());
    for (uint32_t i = 0; i < from_.nodes.size(); ++i)
      for (ValueId v : from_.nodes[i].inputs) {
        uint32_t producer = node_of_value_[v.index];
        bool in_kernel = from_.nodes[i].kind == NodeKind::Op && from_.nodes[i].op != &op::stop_fusion;
        bool inside = producer != kNone && in_kernel && (groups_[producer] == groups_[i] || constant_inside_[producer]);
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
      bool inside = producer != kNone && (groups_[producer] == last || constant_inside_[producer]);
      if (!inside) {
        if (std::exchange(param_of_[v.index], last + 1) != last + 1) group.params.push_back(v);
      } else if (visited_[producer] != last + 1) {
        visited_[producer] = last + 1;
        stack.push_back({producer, 0});
      }
    }
    return group;
  }

  /// The function of a group, which takes the group's operators over; constants may be in other groups too.
  Function build(const Group& group, const std::vector<ValueId>& results) {
    graph::Builder builder(module_, "");
    builder.reserve(group.nodes.size());
    for (ValueId v : group.params) in_kernel_[v.index] = builder.param("", rewriter_.builder().type(rewriter_(v)));
    for (uint32_t index : group.nodes) {
      Node& old = from_.nodes[index];
      uint32_t first = old.first_result, count = static_cast<uint32_t>(old.types.size());
      Node node = old.kind == NodeKind::Constant ? old : std::move(old);
      for (ValueId& v : node.inputs) v = in_kernel_[v.index];
      node.attrs.erase(std::string(graph::kMemoryAttr));  // the call has it
      ValueId added = builder.add(std::move(node));
      for (uint32_t i = 0; i < count; ++i) in_kernel_[first + i] = {added.index + i};
    }
    std::vector<ValueId> returned;
    for (ValueId v : results) returned.push_back(in_kernel_[v.index]);
    Function function = builder.finish(std::move(returned));
    function.attrs["primitive"] = true;
    return function;
  }

  void emit_call(uint32_t index) {
    const Node& last = from_.nodes[index];
    Node call;
    call.kind = NodeKind::Call;
    call.name = last.name;
    call.span = last.span;
    if (std::string place = graph::place_of_node(last); !place.empty()) call.attrs[std::string(graph::kMemoryAttr)] = place;
    std::vector<ValueId> results;
    for (uint32_t i = 0; i < last.types.size(); ++i)
      if (read_outside_[last.first_result + i]) {
        results.push_back(last.result(i));
        call.types.push_back(last.types[i]);
      }
    Group group = collect(index);
    call.inputs = rewriter_(group.params);
    call.callee = fused_.add(build(group, results));
    ValueId first = rewriter_.builder().add(std::move(call));
    for (uint32_t i = 0; i < results.size(); ++i) rewriter_.replace(results[i], {first.index + i});
  }

  Function from_;  // gives its operators away
  graph::Rewriter rewriter_;
  Module& module_;
  FusedFunctions& fused_;
  std::vector<uint32_t> groups_;
  std::vector<uint32_t> node_of_value_;
  std::vector<bool> constant_inside_;  // by node: each kernel that reads it has its own
  std::vector<uint32_t> visited_;      // by node, 1 + the group that reached it last
  std::vector<uint32_t> param_of_;     // by value, 1 + the group that took it as a parameter last
  std::vector<ValueId> in_kernel_;     // by value, what stands for it in the group at hand
  std::vector<bool> read_outside_;
};

Module run(Module module, const PassOptions& options) {
  FusedFunctions fused(module);
  module = map_functions(std::move(module), [&](Module& whole, Function function) {
    return FunctionFuser(whole, fused, remove_dead_nodes(std::move(function)), options).run();
  });
  module.functions.merge(fused.functions());
  return module;
}

}  // namespace

const Pass fuse{"fuse", "make one primitive function of each group of operators that can run as one kernel", run};

}  // namespace tenon::pass
