// SPDX-License-Identifier: Apache-2.0
// Which nodes of a function fuse together: the analysis behind the pass `fuse`.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/op_def.h"

namespace tenon::pass {

/// A constant that a kernel holds inside whatever the options say: one element of rank 0 and a common dtype.
bool is_simple_scalar(const graph::Node& node);

/// For each node of `function` the last operator node of its group, by index; a node that is not an operator stands
/// for itself. Every value of a group that is read outside it is a result of that last node. `max_nodes` bounds a
/// group as spec.md 7.1 counts; 0 keeps every operator alone.
std::vector<uint32_t> fusion_groups(const graph::Function& function, int64_t max_nodes);

}  // namespace tenon::pass
