// SPDX-License-Identifier: Apache-2.0
// Pattern tables: chains of operators that a code generator computes as one.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/op_def.h"

namespace tenon::external {

/// A node that may take a place in a pattern.
struct Candidate {
  const graph::Function& function;
  const graph::Node& node;
  std::optional<graph::ValueId> chain;  // the result of the operator before it, which `node` reads; none for the first

  const TensorType& type(size_t operand) const { return function.type(node.inputs[operand]); }
  /// Whether an operand is a constant.
  bool constant(size_t operand) const;
};

/// One place of a pattern: any of these operators, if `accepts` holds.
struct PatternOp {
  std::vector<const graph::OpDef*> ops;
  std::function<bool(const Candidate&)> accepts = {};  // empty: any
  bool optional = false;
};

/// A chain: each operator reads the result of the one before, which nothing else does. Only the last one's results are read
/// from outside.
struct Pattern {
  std::string name;
  std::vector<PatternOp> chain;  // the first is not optional
};

/// The nodes of one match, by index, in order.
using Match = std::vector<uint32_t>;

/// Goes through the nodes in order and takes the first pattern of the table that fits at each, an optional operator whenever it
/// fits. No node is in two matches. Only nodes with static types match, and none
/// whose result has a place that the user chose.
std::vector<Match> find_matches(const graph::Function& function, std::span<const Pattern> table);

}  // namespace tenon::external
