// SPDX-License-Identifier: Apache-2.0
// What the ONNX rules of convolution and its transpose share.
#pragma once

#include "op/onnx_node.h"

namespace tenon::op {

/// The spatial extents of the weights, with which `kernel_shape` must agree.
std::vector<int64_t> read_kernel(OnnxNode& node, size_t weights = 1);

/// `y` plus the optional input 2, one value per channel.
ValueId add_channel_bias(OnnxNode& node, Builder& builder, ValueId y);

}  // namespace tenon::op
