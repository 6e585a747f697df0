// SPDX-License-Identifier: Apache-2.0
// Axes as ONNX gives them.
#include "op/onnx_axes.h"

#include <fmt/format.h>

namespace tenon::op {

int64_t normalized_axis(const OnnxNode& node, int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    node.malformed(fmt::format("axis {} of a tensor of rank {}", axis, rank), fmt::format("an axis in [{}, {})", -rank, rank),
                   std::to_string(axis));
  return axis < 0 ? axis + rank : axis;
}

std::vector<int64_t> normalized_axes(const OnnxNode& node, std::vector<int64_t> axes, int64_t rank) {
  for (int64_t& axis : axes) axis = normalized_axis(node, axis, rank);
  return axes;
}

}  // namespace tenon::op
