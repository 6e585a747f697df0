// SPDX-License-Identifier: Apache-2.0
// What the passes over graph functions share: visiting the functions that a pass may change.
#pragma once

#include "base/function_ref.h"
#include "graph/op_def.h"

namespace tenon::pass {

/// Copies `module` with every function replaced by `rewrite(copy, function)`, which may add constants to the copy.
/// Primitive and external functions stay as they are: their shape was decided by whoever made them.
graph::Module map_functions(const graph::Module& module,
                            function_ref<graph::Function(graph::Module& out, const graph::Function& function)> rewrite);

/// Whether each element of the result comes from the elements of the operands that NumPy broadcasting puts beside it.
bool is_elementwise(const graph::OpDef& op);

/// `function` without the nodes that no result of it depends on.
graph::Function remove_dead_nodes(graph::Module& out, const graph::Function& function);

}  // namespace tenon::pass
