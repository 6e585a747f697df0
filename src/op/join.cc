// SPDX-License-Identifier: Apache-2.0
// Joining tensors along an axis and taking them apart again: concat, split.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "op/all_ops.h"
#include "op/onnx_axes.h"
#include "op/ops.h"
#include "op/strided_copy.h"

namespace tenon::op {
namespace {

using graph::AttrKind;
using graph::CallSite;
using graph::Fusion;
using te::Tensor;
using tir::Expr;

// C1  `axis` is an axis of the first part
// C2  the parts have one dtype and one rank
// C3  the parts agree on every other axis
std::vector<TensorType> infer_concat(const CallSite& call) {
  TensorType out = call.in(0);
  int64_t axis = call.integer("axis");
  if (axis < 0 || axis >= out.rank()) call.error(0, "concat-C1", fmt::format("a tensor with an axis {}", axis));
  auto joined = static_cast<size_t>(axis);
  for (size_t k = 1; k < call.input_count(); ++k) {
    const TensorType& part = call.in(k);
    auto operand = static_cast<int>(k);
    if (part.dtype != out.dtype || part.rank() != out.rank())
      call.error(operand, "concat-C2", fmt::format("{} of rank {}", name(out.dtype), out.rank()));
    for (size_t a = 0; a < out.shape.size(); ++a)
      if (a != joined && !tir::structural_equal(part.shape[a], out.shape[a]))
        call.error(operand, "concat-C3", fmt::format("extent {} on axis {}", to_string(out.shape[a]), a));
    out.shape[joined] = out.shape[joined] + part.shape[joined];
  }
  return {out};
}

/// The element at `i`, found by halving the list of parts: `starts[k]` is where part k begins on the axis.
Expr pick_part(std::span<const Tensor> parts, std::span<const Expr> starts, size_t axis, const std::vector<Expr>& i) {
  if (parts.size() == 1) {
    std::vector<Expr> indices = i;
    indices[axis] = i[axis] - starts[0];
    return parts[0](indices);
  }
  size_t half = parts.size() / 2;
  return tir::select(tir::lt(i[axis], starts[half]), pick_part(parts.first(half), starts.first(half), axis, i),
                     pick_part(parts.subspan(half), starts.subspan(half), axis, i));
}

std::vector<Tensor> compute_concat(const CallSite& call, std::span<const Tensor> in, te::Graph& graph) {
  auto axis = static_cast<size_t>(call.integer("axis"));
  std::vector<Expr> starts;
  Expr start = 0;
  for (const Tensor& part : in) {
    starts.push_back(start);
    start = start + part.shape()[axis];
  }
  return {graph.compute("concat", call.out().shape, [&](const std::vector<Expr>& i) { return pick_part(in, starts, axis, i); })};
}

std::optional<std::vector<Array>> fold_concat(const CallSite& call, std::span<const Array> in) {
  auto axis = static_cast<size_t>(call.integer("axis"));
  MutableArray out(in[0].dtype, call.out().static_shape());
  std::vector<int64_t> strides = row_major_strides(out.shape);
  int64_t start = 0;
  for (const Array& part : in) {
    copy_strided({part.shape, row_major_strides(part.shape), strides, 0, start}, part, out);
    start += part.shape[axis] * strides[axis];
  }
  return std::vector<Array>{std::move(out).freeze()};
}

// C1  `axis` is an axis of x with a known extent
// C2  `sizes` are extents that add up to it
std::vector<TensorType> infer_split(const CallSite& call) {
  const TensorType& x = call.in(0);
  int64_t axis = call.integer("axis");
  const std::vector<int64_t>& sizes = call.integers("sizes");
  if (axis < 0 || axis >= x.rank() || !tir::as_int(x.dim(axis)))
    call.error(0, "split-C1", fmt::format("a tensor with a known extent on axis {}", axis));
  bool extents = std::all_of(sizes.begin(), sizes.end(), [](int64_t s) { return s >= 0; });
  int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  if (sizes.empty() || !extents || total != tir::int_value(x.dim(axis)))
    call.error(0, "split-C2", fmt::format("extent {} on axis {}, for sizes {}", total, axis, to_string(sizes)));
  std::vector<TensorType> out(sizes.size(), x);
  for (size_t k = 0; k < sizes.size(); ++k) out[k].shape[static_cast<size_t>(axis)] = sizes[k];
  return out;
}

std::vector<Tensor> compute_split(const CallSite& call, std::span<const Tensor> in, te::Graph& graph) {
  auto axis = static_cast<size_t>(call.integer("axis"));
  const std::vector<int64_t>& sizes = call.integers("sizes");
  std::vector<Tensor> parts;
  int64_t start = 0;
  for (size_t k = 0; k < sizes.size(); ++k) {
    parts.push_back(graph.compute("split", call.out(k).shape, [&](const std::vector<Expr>& i) {
      std::vector<Expr> indices = i;
      indices[axis] = i[axis] + start;
      return in[0](indices);
    }));
    start += sizes[k];
  }
  return parts;
}

std::optional<std::vector<Array>> fold_split(const CallSite& call, std::span<const Array> in) {
  auto axis = static_cast<size_t>(call.integer("axis"));
  std::vector<int64_t> strides = row_major_strides(in[0].shape);
  std::vector<Array> parts;
  int64_t start = 0;
  for (int64_t size : call.integers("sizes")) {
    Shape shape = in[0].shape;
    shape[axis] = size;
    parts.push_back(gather_strided(in[0], std::move(shape), strides, start));
    start += size * strides[axis];
  }
  return parts;
}

std::vector<ValueId> import_concat(OnnxNode& node, Builder& builder) {
  std::vector<ValueId> parts;
  for (size_t k = 0; k < node.input_count(); ++k) parts.push_back(node.in(k));
  if (!node.has_attr("axis")) node.malformed("`axis` is missing", "the axis to join");
  return {builder.call1(concat, parts, {{"axis", normalized_axis(node, node.attr("axis", 0), node.type(0).rank())}})};
}

/// Sizes by attribute (before 13) or input, else `num_outputs` parts, of which the last is the shorter.
std::vector<int64_t> split_sizes(OnnxNode& node, const Dim& dim) {
  if (node.opset() < 13 && node.has_attr("split")) return node.ints("split", {});
  if (node.opset() >= 13 && node.has(1)) return node.constant_ints(1);
  auto parts = static_cast<int64_t>(node.output_count());
  if (node.opset() >= 18) parts = node.attr("num_outputs", parts);
  const int64_t* extent = tir::as_int(dim);
  if (!extent) node.unsupported("the extent " + to_string(dim) + " of the split axis is not known when compiling");
  if (parts <= 0 || (node.opset() < 18 && *extent % parts != 0))
    node.malformed("the split axis does not divide evenly", fmt::format("a multiple of {}", parts), std::to_string(*extent));
  int64_t size = (*extent + parts - 1) / parts;
  std::vector<int64_t> sizes(static_cast<size_t>(parts), size);
  sizes.back() = *extent - size * (parts - 1);
  return sizes;
}

std::vector<ValueId> import_split(OnnxNode& node, Builder& builder) {
  int64_t axis = normalized_axis(node, node.attr("axis", 0), node.type(0).rank());
  std::vector<int64_t> sizes = split_sizes(node, node.type(0).dim(axis));
  if (sizes.size() != node.output_count())
    node.malformed("the outputs differ in number from the sizes", std::to_string(sizes.size()),
                   std::to_string(node.output_count()));
  return builder.call(split, {node.in(0)}, {{"axis", axis}, {"sizes", std::move(sizes)}});
}

}  // namespace

const graph::OpDef concat{
    .name = "concat",
    .doc = "The parts one after another along an axis.",
    .inputs = {{"part", "tensors that differ on the axis only"}},
    .variadic = true,
    .attrs = {{"axis", AttrKind::Int, {}, "the axis to join"}},
    .fusion = Fusion::Injective,
    .infer = infer_concat,
    .compute = compute_concat,
    .fold = fold_concat,
};

const graph::OpDef split{
    .name = "split",
    .doc = "x cut along an axis: a result for each size.",
    .inputs = {{"x", "any tensor"}},
    .attrs = {{"axis", AttrKind::Int, {}, "the axis to cut"}, {"sizes", AttrKind::Ints, {}, "the extent of each result"}},
    .fusion = Fusion::Injective,
    .infer = infer_split,
    .compute = compute_split,
    .fold = fold_split,
};

Family join_family() { return {{&concat, &split}, {{"Concat", 4, import_concat}, {"Split", 1, import_split}}}; }

}  // namespace tenon::op
