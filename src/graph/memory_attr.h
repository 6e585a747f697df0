// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "graph/graph.h"
#include "tir/memory_attr.h"

namespace tenon::graph {

using tir::kMemoryAttr;

/// What any node of `main` says with it about where its results are to lie: `POOL` or `POOL@OFFSET` (link/places.h). Empty if
/// nothing.
inline std::string place_of_node(const Node& node) {
  auto it = node.attrs.find(kMemoryAttr);
  const std::string* place = it == node.attrs.end() ? nullptr : std::get_if<std::string>(&it->second);
  return place ? *place : "";
}

}  // namespace tenon::graph
