// SPDX-License-Identifier: Apache-2.0
// What the passes over graph functions share: visiting the functions that a pass may change.
#pragma once

#include "base/function_ref.h"
#include "graph/op_def.h"

namespace tenon::pass {

/// Replaces every function by `rewrite(module, function)`, which may add constants to the module. Primitive and external
/// functions stay as they are: their shape was decided by whoever made them.
graph::Module map_functions(graph::Module module,
                            function_ref<graph::Function(graph::Module& module, graph::Function function)> rewrite);

/// Whether each element of the result comes from the elements of the operands that NumPy broadcasting puts beside it.
bool is_elementwise(const graph::OpDef& op);

/// What a node computes, as a hash and exactly: kind, operator or callee, inputs and attributes, these to the bit. Neither types
/// nor names.
uint64_t computation_hash(const graph::Node& node);
bool same_computation(const graph::Node& a, const graph::Node& b);

/// `function` without the nodes that no result of it depends on.
graph::Function remove_dead_nodes(graph::Function function);

}  // namespace tenon::pass
