// SPDX-License-Identifier: Apache-2.0
// Windows that slide over the spatial axes of a tensor [N, C, …]: what convolution and pooling share.
#pragma once

#include "op/onnx_node.h"
#include "op/shape_rules.h"

namespace tenon::op {

/// One entry per spatial axis; `pads` has those before each axis, then those after.
struct Window {
  std::vector<int64_t> kernel, strides, pads, dilations;

  size_t rank() const { return kernel.size(); }
  int64_t before(size_t axis) const { return pads[axis]; }
  int64_t after(size_t axis) const { return pads[axis + rank()]; }
  /// Points from the first tap of a window to its last.
  int64_t span(size_t axis) const { return (kernel[axis] - 1) * dilations[axis] + 1; }
};

/// The window of a call with attributes `strides`, `pads` and `dilations` over operand 0.
/// window-C1  operand 0 has a batch, a channel and a spatial axis or more, as many as the kernel
/// window-C2  one stride and dilation per spatial axis, each 1 or more, and two pads
Window window_of(const CallSite& call, std::vector<int64_t> kernel);

/// The number of windows along spatial axis `axis`; in `ceil_mode` a last one may hang over the end, but does not start
/// beyond the padded front.
/// window-C3  the padded extent holds a window
/// window-C4  with `ceil_mode` the extent is a number
Dim window_count(const CallSite& call, const Window& window, size_t axis, bool ceil_mode = false);

/// `x` with `before[k]` and `after[k]` elements of `value` around spatial axis k; `x` itself if there are none.
te::Tensor pad_spatial(te::Graph& graph, const te::Tensor& x, const std::vector<int64_t>& before,
                       const std::vector<int64_t>& after, const Expr& value);

/// The attributes `strides`, `pads`, `dilations` and `auto_pad` of an ONNX node over input 0, padding resolved to numbers.
Window read_window(OnnxNode& node, std::vector<int64_t> kernel);

/// The window as attributes of an operator, all but the kernel.
graph::Attrs window_attrs(const Window& window);
/// Their schema.
std::vector<graph::AttrSpec> window_schema();

}  // namespace tenon::op
