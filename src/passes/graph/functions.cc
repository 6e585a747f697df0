// SPDX-License-Identifier: Apache-2.0
// Visiting the functions that a pass may change.
#include "passes/graph/functions.h"

#include "op/ops.h"

namespace tenon::pass {

graph::Module map_functions(const graph::Module& module,
                            function_ref<graph::Function(graph::Module& out, const graph::Function& function)> rewrite) {
  graph::Module out;
  out.prim_funcs = module.prim_funcs;
  out.constants = module.constants;
  out.attrs = module.attrs;
  for (const auto& [name, function] : module.functions) {
    bool fixed = function.primitive() || function.attrs.contains("external");
    out.functions.emplace(name, fixed ? function : rewrite(out, function));
  }
  return out;
}

bool is_elementwise(const graph::OpDef& op) {
  // These two are of the class, but align their operands by the result's shape and by channel.
  return op.fusion <= graph::Fusion::Broadcast && &op != &op::broadcast_to && &op != &op::batch_norm;
}

graph::Function remove_dead_nodes(graph::Module& out, const graph::Function& function) {
  std::vector<bool> live(function.value_count());
  for (graph::ValueId v : function.results) live[v.index] = true;
  std::vector<bool> keep(function.nodes.size());
  for (size_t i = function.nodes.size(); i-- > 0;) {
    const graph::Node& node = function.nodes[i];
    for (uint32_t k = 0; k < node.types.size(); ++k) keep[i] = keep[i] || live[node.first_result + k];
    if (!keep[i]) continue;
    for (graph::ValueId v : node.inputs) live[v.index] = true;
  }
  graph::Rewriter rewriter(out, function);
  for (size_t i = 0; i < function.nodes.size(); ++i)
    if (keep[i]) rewriter.keep(function.nodes[i]);
  return rewriter.finish();
}

}  // namespace tenon::pass
