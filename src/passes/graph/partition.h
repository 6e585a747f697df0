// SPDX-License-Identifier: Apache-2.0
// Regions of a graph for an external code generator, and the way back.
#pragma once

#include <string>
#include <vector>

#include "base/function_ref.h"
#include "graph/op_def.h"

namespace tenon::pass {

/// Nodes by index that go together; a node is in one unit at most, and only the last node's results are read outside.
using Units = std::vector<std::vector<uint32_t>>;

struct PartitionRequest {
  std::string generator;  // becomes the attribute `external`
  bool merge = false;     // units that read each other become one region, as long as no cycle arises
  function_ref<Units(const graph::Function& function)> units;
};

/// Makes a function of each region, marked `primitive`, `external` and `symbol`, called by name. Its parameters are what it reads
/// from outside, in the order of first use; the constants it reads are inside; its results are what is read outside. A region's
/// symbol is its function's name, `<generator>_<n>`, unused in the module. Primitive and external functions stay as they are.
graph::Module partition(graph::Module module, const PartitionRequest& request);

/// Puts the bodies of external functions where they are called.
graph::Module inline_external(graph::Module module);

}  // namespace tenon::pass
