// SPDX-License-Identifier: Apache-2.0
// Padding: a border around a tensor, and what fills it.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "op/all_ops.h"
#include "op/onnx_axes.h"
#include "op/onnx_build.h"
#include "op/ops.h"
#include "op/strided_copy.h"

namespace tenon::op {
namespace {

using graph::AttrKind;
using graph::CallSite;
using graph::Fusion;
using te::Tensor;
using tir::Expr;

bool is_mode(std::string_view mode) { return mode == "constant" || mode == "reflect" || mode == "edge" || mode == "wrap"; }

// C1  `before` and `after` have an entry for each axis of x
// C2  value is one element of the dtype of x
// C3  `mode` is constant, reflect, edge or wrap
// C4  no axis ends with an extent below 0, and only the constant mode fills an axis without elements
std::vector<TensorType> infer_pad(const CallSite& call) {
  const TensorType &x = call.in(0), &value = call.in(1);
  const auto &before = call.integers("before"), &after = call.integers("after");
  const std::string& mode = call.text("mode");
  if (before.size() != x.shape.size() || after.size() != x.shape.size())
    call.error(0, "pad-C1", fmt::format("rank {}, the length of `before`, and of `after` too", before.size()));
  if (value.dtype != x.dtype || value.rank() != 0) call.error(1, "pad-C2", to_string(TensorType(x.dtype, {})));
  if (!is_mode(mode)) call.error(-1, "pad-C3", fmt::format("a mode constant, reflect, edge or wrap, not {}", mode));
  TensorType out = x;
  for (size_t axis = 0; axis < x.shape.size(); ++axis) {
    out.shape[axis] = x.shape[axis] + (Expr(before[axis]) + Expr(after[axis]));
    const int64_t *old_extent = tir::as_int(x.shape[axis]), *extent = tir::as_int(out.shape[axis]);
    bool invented = extent && *extent > 0 && *old_extent == 0 && mode != "constant";
    if ((extent && *extent < 0) || invented)
      call.error(0, "pad-C4", fmt::format("an axis {} that can be padded by {} and {}", axis, before[axis], after[axis]));
  }
  return {out};
}

/// The point of x that stands for point `at` of an axis, which may lie outside [0, extent).
Expr source_point(const std::string& mode, const Expr& at, const Expr& extent) {
  if (mode == "edge") return tir::max(Expr(0), tir::min(at, extent - Expr(1)));
  if (mode == "wrap") return tir::floormod(at, extent);
  Expr last = extent - Expr(1);
  Expr phase = tir::floormod(at, tir::max(Expr(1), last + last));
  return tir::min(phase, last + last - phase);
}

std::vector<Tensor> compute_pad(const CallSite& call, std::span<const Tensor> in, te::Graph& graph) {
  const auto &before = call.integers("before"), &after = call.integers("after");
  const std::string& mode = call.text("mode");
  return {graph.compute("pad", call.out().shape, [&](const std::vector<Expr>& i) {
    std::vector<Expr> indices;
    Expr inside = tir::bool_imm(true);
    for (size_t axis = 0; axis < i.size(); ++axis) {
      const Expr& extent = in[0].shape()[axis];
      Expr at = i[axis] - Expr(before[axis]);
      if (mode != "constant" && (before[axis] > 0 || after[axis] > 0)) at = source_point(mode, at, extent);
      if (mode == "constant" && before[axis] > 0) inside = tir::logical_and(inside, tir::le(Expr(before[axis]), i[axis]));
      if (mode == "constant" && after[axis] > 0) inside = tir::logical_and(inside, tir::lt(i[axis], extent + Expr(before[axis])));
      indices.push_back(at);
    }
    return tir::select(inside, in[0](indices), in[1]({}));
  })};
}

/// Constant mode only: the value everywhere, then what is left of x over it.
std::optional<std::vector<Array>> fold_pad(const CallSite& call, std::span<const Array> in) {
  if (call.text("mode") != "constant") return std::nullopt;
  const auto &before = call.integers("before"), &after = call.integers("after");
  MutableArray out(in[0].dtype, call.out().static_shape());
  std::vector<int64_t> from_strides = row_major_strides(in[0].shape), to_strides = row_major_strides(out.shape);
  copy_strided({out.shape, std::vector<int64_t>(out.shape.size(), 0), to_strides}, in[1], out);
  Shape kept = in[0].shape;
  int64_t from = 0, to = 0;
  for (size_t axis = 0; axis < kept.size(); ++axis) {
    kept[axis] = std::max<int64_t>(0, kept[axis] + std::min<int64_t>(before[axis], 0) + std::min<int64_t>(after[axis], 0));
    from += std::max<int64_t>(-before[axis], 0) * from_strides[axis];
    to += std::max<int64_t>(before[axis], 0) * to_strides[axis];
  }
  copy_strided({kept, from_strides, to_strides, from, to}, in[0], out);
  return std::vector<Array>{std::move(out).freeze()};
}

/// The value of a constant border: an attribute before opset 11, then an input.
ValueId pad_value(OnnxNode& node, Builder& builder, DType dtype) {
  if (node.opset() >= 11) {
    if (!node.has(2)) return scalar(builder, dtype, 0);
    return builder.call1(reshape, {node.in(2)}, {{"shape", Shape{}}});
  }
  return scalar(builder, dtype, node.attr("value", 0.0));
}

std::vector<ValueId> import_pad(OnnxNode& node, Builder& builder) {
  const TensorType& x = node.type(0);
  size_t rank = x.shape.size();
  std::vector<int64_t> pads = node.opset() >= 11 ? node.constant_ints(1) : node.ints("pads", {});
  std::vector<int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (node.opset() >= 18 && node.has(3)) axes = normalized_axes(node, node.constant_ints(3), x.rank());
  if (pads.size() != 2 * axes.size())
    node.malformed("`pads` has the wrong length", std::to_string(2 * axes.size()), std::to_string(pads.size()));
  std::vector<int64_t> before(rank, 0), after(rank, 0);
  for (size_t k = 0; k < axes.size(); ++k) {
    before[static_cast<size_t>(axes[k])] = pads[k];
    after[static_cast<size_t>(axes[k])] = pads[axes.size() + k];
  }
  std::string mode = node.attr("mode", "constant");
  ValueId value = mode == "constant" ? pad_value(node, builder, x.dtype) : scalar(builder, x.dtype, 0);
  if (mode != "constant" && node.opset() < 11) node.ignore("value");
  return {builder.call1(pad, {node.in(0), value}, {{"before", before}, {"after", after}, {"mode", mode}})};
}

/// Each axis is cut or filled with zeros equally on both sides; an odd element more is cut or filled at the end.
std::vector<ValueId> import_center_crop_pad(OnnxNode& node, Builder& builder) {
  const TensorType& x = node.type(0);
  if (!x.is_static()) node.unsupported("an input of " + to_string(x) + ", whose extents are not known when compiling");
  std::vector<int64_t> all_axes(x.shape.size());
  std::iota(all_axes.begin(), all_axes.end(), 0);
  std::vector<int64_t> axes = normalized_axes(node, node.ints("axes", all_axes), x.rank());
  std::vector<int64_t> target = node.constant_ints(1), before(x.shape.size(), 0), after(x.shape.size(), 0);
  if (target.size() != axes.size()) node.malformed("the shape has the wrong length", std::to_string(axes.size()));
  for (size_t k = 0; k < axes.size(); ++k) {
    auto axis = static_cast<size_t>(axes[k]);
    int64_t growth = target[k] - tir::int_value(x.shape[axis]);
    before[axis] = growth / 2;
    after[axis] = growth - before[axis];
  }
  ValueId zero = scalar(builder, x.dtype, 0);
  return {builder.call1(pad, {node.in(0), zero}, {{"before", before}, {"after", after}, {"mode", std::string("constant")}})};
}

}  // namespace

const graph::OpDef pad{
    .name = "pad",
    .doc = "x with a border on each axis, of a constant or of its own elements; a negative width cuts.",
    .inputs = {{"x", "any tensor"}, {"value", "what a constant border holds, of rank 0"}},
    .attrs = {{"before", AttrKind::Ints, {}, "the width before the first element of each axis"},
              {"after", AttrKind::Ints, {}, "the width after the last element of each axis"},
              {"mode", AttrKind::String, std::string("constant"),
               "`constant`; `reflect` about the outer elements; `edge`, which repeats them; `wrap` around"}},
    .fusion = Fusion::Injective,
    .infer = infer_pad,
    .compute = compute_pad,
    .fold = fold_pad,
};

Family pad_family() { return {{&pad}, {{"Pad", 1, import_pad}, {"CenterCropPad", 18, import_center_crop_pad}}}; }

}  // namespace tenon::op
