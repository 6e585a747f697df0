// SPDX-License-Identifier: Apache-2.0
//
// Removes work that changes nothing and moves transposes to where they cancel. Results keep their bits.
//
//   %1 = cast(%0) {to = "f32"} : f32[2]               =>   %0, when it is f32 already
//   %2 = transpose(transpose(%1))                     =>   one transpose, or %1
//   %3 = relu(transpose(%2) {axes = [0,2,3,1]})       =>   transpose(relu(%2)) {axes = [0,2,3,1]}
//   %4 = multiply(%3, 1), divide(%3, 4)               =>   %3, multiply(%3, 0.25)
//   %5 = add(broadcast_to(%4), %6)                    =>   add(%4, %6)
//   %7 = add(%5, [3, 3, 3])                           =>   add(%5, 3), which fusion keeps inside a kernel
//
// Rules around one node are in simplify_rules.cc, the movement of transposes in sink_transposes.cc; both run until
// neither changes anything. What is not exact for every float stays: x + 0 is not x for -0, nor is x - x always 0.
//
// Needs inferred types. Removes the nodes that it makes dead, leaves unused table entries to `eliminate-dead`.
#include "passes/graph/functions.h"
#include "passes/graph/passes.h"
#include "passes/graph/simplify_rules.h"
#include "passes/graph/sink_transposes.h"

namespace tenon::pass {
namespace {

using graph::Function;
using graph::Module;
using graph::Node;
using graph::NodeKind;
using graph::ValueId;

/// Returns whether a rule applied.
bool apply_rules(Module& module, Function& function) {
  std::vector<uint32_t> uses = graph::use_counts(function);
  graph::Rewriter rewriter(module, function);
  graph::Builder& builder = rewriter.builder();
  std::vector<bool> sole_reader;
  bool changed = false;
  for (Node& node : function.nodes) {
    sole_reader.clear();
    for (ValueId v : node.inputs) sole_reader.push_back(uses[v.index] == 1);
    rewriter.rename(node);
    std::optional<ValueId> simpler;
    if (node.kind == NodeKind::Op && node.types.size() == 1) {
      builder.at(node.name, node.span);
      simpler = simplify_node(builder, node, sole_reader);
    }
    changed |= simpler.has_value();
    if (simpler)
      rewriter.replace(node.result(), *simpler);
    else
      rewriter.add(std::move(node));
  }
  function = rewriter.finish();
  return changed;
}

/// Every rewrite lowers a cost or moves a transpose forward, so this is a guard, not a limit that is met.
constexpr int kMaxRounds = 100;

Function simplify_function(Module& module, Function function) {
  function = remove_dead_nodes(std::move(function));
  for (int round = 0; round < kMaxRounds; ++round) {
    bool changed = apply_rules(module, function);
    if (changed) function = remove_dead_nodes(std::move(function));
    changed |= sink_transposes(module, function);
    if (changed)
      function = remove_dead_nodes(std::move(function));
    else if (!transposes_to_reshapes(module, function))
      break;
  }
  return function;
}

Module run(Module module, const PassOptions&) {
  return map_functions(std::move(module), [](Module& whole, Function f) { return simplify_function(whole, std::move(f)); });
}

}  // namespace

const Pass simplify{"simplify", "remove work that changes nothing and let transposes cancel", run};

}  // namespace tenon::pass
