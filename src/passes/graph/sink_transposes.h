// SPDX-License-Identifier: Apache-2.0
// Moves transposes toward the results, so that those that undo each other meet: a part of the pass `simplify`.
#pragma once

#include "graph/graph.h"

namespace tenon::pass {

/// Computes element-wise operators, reductions, joins and cuts that read a transposed value on the value before it was
/// transposed, and transposes their result. Done for each connected region of such operators in which it moves fewer
/// bytes or takes fewer transposes, or leaves both and adds none. Constants are transposed at once and added to `module`.
/// Returns whether that changed anything.
bool sink_transposes(graph::Module& module, graph::Function& function);

/// A transpose that moves only axes of extent 1 leaves the elements where they are: it becomes a reshape. Returns whether there
/// was one.
bool transposes_to_reshapes(graph::Module& module, graph::Function& function);

}  // namespace tenon::pass
