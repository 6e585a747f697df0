// SPDX-License-Identifier: Apache-2.0
// Geometry of sliding windows, and how ONNX spells it.
#include "op/window.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::op {

using graph::AttrKind;

Window window_of(const CallSite& call, std::vector<int64_t> kernel) {
  Window window{std::move(kernel), call.integers("strides"), call.integers("pads"), call.integers("dilations")};
  size_t rank = window.rank();
  if (rank == 0 || call.in(0).shape.size() != rank + 2)
    call.error(0, "window-C1", fmt::format("[N, C] and {} spatial axes", std::max<size_t>(rank, 1)));
  auto positive = [](const std::vector<int64_t>& list) {
    return std::all_of(list.begin(), list.end(), [](int64_t v) { return v > 0; });
  };
  bool fits = window.strides.size() == rank && window.dilations.size() == rank && window.pads.size() == 2 * rank;
  if (!fits || !positive(window.strides) || !positive(window.dilations) || !positive(window.kernel))
    call.error(-1, "window-C2", fmt::format("{0} strides and {0} dilations of 1 or more, and {1} pads", rank, 2 * rank));
  return window;
}

Dim window_count(const CallSite& call, const Window& window, size_t axis, bool ceil_mode) {
  const Dim& extent = call.in(0).shape[axis + 2];
  int64_t stride = window.strides[axis];
  int64_t slack = window.before(axis) + window.after(axis) - window.span(axis);
  const int64_t* known = tir::as_int(extent);
  if (!known) {
    if (ceil_mode) call.unsupported(0, "window-C4", fmt::format("a number as extent of axis {}, for `ceil_mode`", axis + 2));
    return stride == 1 ? extent + Dim(slack + 1) : tir::floordiv(extent + Dim(slack), Dim(stride)) + Dim(1);
  }
  int64_t room = *known + slack;
  if (room < 0)
    call.error(0, "window-C3",
               fmt::format("axis {} to hold a window of {} points with its padding", axis + 2, window.span(axis)));
  if (!ceil_mode) return Dim(room / stride + 1);
  int64_t count = (room + stride - 1) / stride + 1;
  return Dim((count - 1) * stride >= *known + window.before(axis) ? count - 1 : count);
}

te::Tensor pad_spatial(te::Graph& graph, const te::Tensor& x, const std::vector<int64_t>& before,
                       const std::vector<int64_t>& after, const Expr& value) {
  auto none = [](const std::vector<int64_t>& list) {
    return std::all_of(list.begin(), list.end(), [](int64_t v) { return v == 0; });
  };
  if (none(before) && none(after)) return x;
  std::vector<Expr> shape = x.shape();
  for (size_t k = 0; k < before.size(); ++k) shape[k + 2] = shape[k + 2] + Expr(before[k] + after[k]);
  return graph.compute("padded", shape, [&](const std::vector<Expr>& i) {
    Expr inside = tir::bool_imm(true);
    std::vector<Expr> at = i;
    for (size_t k = 0; k < before.size(); ++k) {
      Expr& index = at[k + 2];
      index = index - Expr(before[k]);
      if (before[k] > 0) inside = tir::logical_and(inside, tir::le(Expr(before[k]), i[k + 2]));
      if (after[k] > 0) inside = tir::logical_and(inside, tir::lt(index, x.dim(static_cast<int64_t>(k) + 2)));
    }
    return tir::select(inside, x(at), value);
  });
}

namespace {

/// SAME: as many windows as strides fit into the extent; an odd point of padding goes after (UPPER) or before (LOWER).
void pad_same(OnnxNode& node, Window& window, bool upper) {
  window.pads.assign(2 * window.rank(), 0);
  for (size_t axis = 0; axis < window.rank(); ++axis) {
    const int64_t* extent = tir::as_int(node.type(0).shape[axis + 2]);
    if (!extent) node.unsupported("`auto_pad` SAME of a symbolic extent");
    int64_t stride = window.strides[axis];
    int64_t count = (*extent + stride - 1) / stride;
    int64_t total = std::max<int64_t>((count - 1) * stride + window.span(axis) - *extent, 0);
    int64_t smaller = total / 2;
    window.pads[axis] = upper ? smaller : total - smaller;
    window.pads[axis + window.rank()] = upper ? total - smaller : smaller;
  }
}

}  // namespace

Window read_window(OnnxNode& node, std::vector<int64_t> kernel) {
  Window window;
  window.kernel = std::move(kernel);
  size_t rank = window.rank();
  auto list = [&](const char* name, size_t size, int64_t fallback) {
    std::vector<int64_t> values = node.ints(name, std::vector<int64_t>(size, fallback));
    if (values.size() != size)
      node.malformed(fmt::format("`{}` has {} values", name, values.size()), std::to_string(size), std::to_string(values.size()));
    return values;
  };
  if (node.type(0).shape.size() != rank + 2)
    node.malformed(fmt::format("the data is {}", to_string(node.type(0))), fmt::format("[N, C] and {} spatial axes", rank));
  window.strides = list("strides", rank, 1);
  window.dilations = list("dilations", rank, 1);
  window.pads = list("pads", 2 * rank, 0);
  for (int64_t stride : window.strides)
    if (stride < 1) node.malformed("a stride is below 1", "1 or more", std::to_string(stride));
  std::string automatic = node.attr("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER")
    pad_same(node, window, automatic == "SAME_UPPER");
  else if (automatic == "VALID")
    window.pads.assign(2 * rank, 0);
  else if (automatic != "NOTSET")
    node.malformed("`auto_pad` is unknown", "NOTSET, SAME_UPPER, SAME_LOWER or VALID", automatic);
  return window;
}

graph::Attrs window_attrs(const Window& window) {
  return {{"strides", window.strides}, {"pads", window.pads}, {"dilations", window.dilations}};
}

std::vector<graph::AttrSpec> window_schema() {
  return {{"strides", AttrKind::Ints, std::nullopt, "the step between windows, per spatial axis"},
          {"pads", AttrKind::Ints, std::nullopt, "the points added before each spatial axis, then those after"},
          {"dilations", AttrKind::Ints, std::nullopt, "the step between the taps of a window, per spatial axis"}};
}

}  // namespace tenon::op
