// SPDX-License-Identifier: Apache-2.0
// The rewrites of the pass `simplify` that look at one node and what defines its operands.
#pragma once

#include <optional>

#include "graph/op_def.h"

namespace tenon::pass {

/// The value that a node's one result equals, when a rule finds a cheaper one; nodes that it needs are appended to
/// `builder`. `node` has its operands in `builder`'s numbering, and `sole_reader[i]` says that no other node reads
/// operand i.
std::optional<graph::ValueId> simplify_node(graph::Builder& builder, const graph::Node& node,
                                            const std::vector<bool>& sole_reader);

}  // namespace tenon::pass
