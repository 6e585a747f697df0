// SPDX-License-Identifier: Apache-2.0
// Axes as ONNX gives them: negative ones count from the end.
#pragma once

#include "op/onnx_node.h"

namespace tenon::op {

/// The axis in [0, rank); refuses the node when it is outside [-rank, rank).
int64_t normalized_axis(const OnnxNode& node, int64_t axis, int64_t rank);
std::vector<int64_t> normalized_axes(const OnnxNode& node, std::vector<int64_t> axes, int64_t rank);

}  // namespace tenon::op
