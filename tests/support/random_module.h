// SPDX-License-Identifier: Apache-2.0
// Random modules over real operators, for laws that hold for every module.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace tenon::test {

struct RandomModule {
  graph::Module module;
  std::vector<Array> inputs;  // one per parameter of `main`
};

/// A valid module with about `nodes` operators; the same for the same seed on every machine. Values are small integers
/// or small binary fractions, so sums and products are exact in any order, and diamonds, several results of a node, dead
/// nodes, equal constants and parameters that are results all occur.
RandomModule random_module(uint64_t seed, int nodes = 16);

}  // namespace tenon::test
