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

Function apply_rules(Module& out, const Function& function) {
  std::vector<uint32_t> uses = graph::use_counts(function);
  graph::Rewriter rewriter(out, function);
  graph::Builder& builder = rewriter.builder();
  for (const Node& old : function.nodes) {
    std::optional<ValueId> simpler;
    if (old.kind == NodeKind::Op && old.types.size() == 1) {
      Node node = old;
      node.inputs = rewriter(old.inputs);
      std::vector<bool> sole_reader;
      for (ValueId v : old.inputs) sole_reader.push_back(uses[v.index] == 1);
      builder.at(old.name, old.span);
      simpler = simplify_node(builder, node, sole_reader);
    }
    if (simpler)
      rewriter.replace(old.result(), *simpler);
    else
      rewriter.keep(old);
  }
  return rewriter.finish();
}

/// Every rewrite lowers a cost or moves a transpose forward, so this is a guard, not a limit that is met.
constexpr int kMaxRounds = 100;

Function simplify_function(Module& out, const Function& function) {
  Function current = remove_dead_nodes(out, function);
  for (int round = 0; round < kMaxRounds; ++round) {
    Function next = remove_dead_nodes(out, sink_transposes(out, remove_dead_nodes(out, apply_rules(out, current))));
    if (next == current) {
      next = transposes_to_reshapes(out, current);
      if (next == current) break;
    }
    current = std::move(next);
  }
  return current;
}

Module run(const Module& module, const PassOptions&) {
  return map_functions(module, [](Module& out, const Function& function) { return simplify_function(out, function); });
}

}  // namespace

const Pass simplify{"simplify", "remove work that changes nothing and let transposes cancel", run};

}  // namespace tenon::pass
