// SPDX-License-Identifier: Apache-2.0
// The softmax family.
#include <fmt/format.h>

#include "op/all_ops.h"
#include "op/onnx_axes.h"
#include "op/onnx_build.h"
#include "op/ops.h"
#include "op/reduce.h"

namespace tenon::op {
namespace {

using graph::AttrKind;
using graph::Fusion;
using tir::Intrinsic;

// softmax-C1  every axis is in [-rank, rank)
// softmax-C2  no axis is named twice
ReducedAxes softmax_axes(const CallSite& call) {
  return {call.in(0).shape, resolve_axes(call, call.integers("axes"), call.in(0).rank(), "softmax-C1", "softmax-C2"), true};
}

std::vector<TensorType> infer_softmax(const CallSite& call) {
  softmax_axes(call);
  return {call.in(0)};
}

// hardmax-C1  the axis is in [-rank, rank)
int64_t hardmax_axis(const CallSite& call) { return resolve_axis(call, call.integer("axis"), call.in(0).rank(), "hardmax-C1"); }

std::vector<TensorType> infer_hardmax(const CallSite& call) {
  hardmax_axis(call);
  return {call.in(0)};
}

/// x minus its largest value, so that no power overflows, at the accumulation dtype.
te::Tensor shifted(const te::Tensor& x, te::Graph& graph, const ReducedAxes& axes) {
  DType wide = accumulation_dtype(x.dtype());
  te::Tensor largest = max_over(graph, "largest", axes, x);
  return graph.compute("shifted", x.shape(), [&](const std::vector<Expr>& i) {
    return tir::cast(wide, x(i)) - tir::cast(wide, largest(axes.result_point(i)));
  });
}

std::vector<te::Tensor> compute_softmax(const CallSite& call, std::span<const te::Tensor> in, te::Graph& graph) {
  ReducedAxes axes = softmax_axes(call);
  te::Tensor x = shifted(in[0], graph, axes);
  te::Tensor powers =
      graph.compute("powers", x.shape(), [&](const std::vector<Expr>& i) { return tir::call(Intrinsic::Exp, {x(i)}); });
  te::Tensor total = sum_over(graph, "total", axes, x.dtype(), [&](const std::vector<Expr>& point) { return powers(point); });
  return {graph.compute("softmax", x.shape(), [&](const std::vector<Expr>& i) {
    return tir::cast(in[0].dtype(), tir::binary(tir::BinaryOp::Div, powers(i), total(axes.result_point(i))));
  })};
}

std::vector<te::Tensor> compute_log_softmax(const CallSite& call, std::span<const te::Tensor> in, te::Graph& graph) {
  ReducedAxes axes = softmax_axes(call);
  te::Tensor x = shifted(in[0], graph, axes);
  te::Tensor total = sum_over(graph, "total", axes, x.dtype(),
                              [&](const std::vector<Expr>& point) { return tir::call(Intrinsic::Exp, {x(point)}); });
  te::Tensor shift =
      graph.compute("shift", total.shape(), [&](const std::vector<Expr>& i) { return tir::call(Intrinsic::Log, {total(i)}); });
  return {graph.compute("log_softmax", x.shape(), [&](const std::vector<Expr>& i) {
    return tir::cast(in[0].dtype(), x(i) - shift(axes.result_point(i)));
  })};
}

std::vector<te::Tensor> compute_hardmax(const CallSite& call, std::span<const te::Tensor> in, te::Graph& graph) {
  const te::Tensor& x = in[0];
  auto axis = static_cast<size_t>(hardmax_axis(call));
  ReducedAxes axes(x.shape(), {static_cast<int64_t>(axis)}, true);
  te::Tensor where = index_of_extreme(graph, "where", axes, x, true, false);
  return {graph.compute("hardmax", x.shape(), [&](const std::vector<Expr>& i) {
    return tir::cast(x.dtype(), tir::eq(i[axis], where(axes.result_point(i))));
  })};
}

/// Before opset 13 the axes from `axis` (1 by default) on count as one; since then `axis` (-1) is one axis.
std::vector<int64_t> read_axes(OnnxNode& node) {
  int64_t rank = node.type(0).rank();
  if (node.opset() >= 13) return {normalized_axis(node, node.attr("axis", int64_t{-1}), rank)};
  std::vector<int64_t> axes;
  for (int64_t axis = normalized_axis(node, node.attr("axis", int64_t{1}), rank); axis < rank; ++axis) axes.push_back(axis);
  return axes;
}

template <const OpDef& op>
std::vector<ValueId> build_softmax(OnnxNode& node, Builder& builder) {
  return {builder.call1(op, {node.in(0)}, {{"axes", read_axes(node)}})};
}

std::vector<ValueId> build_hardmax(OnnxNode& node, Builder& builder) {
  std::vector<int64_t> axes = read_axes(node);
  const TensorType& type = node.type(0);
  if (axes.size() == 1) return {builder.call1(hardmax, {node.in(0)}, {{"axis", axes[0]}})};
  if (!type.is_static()) node.unsupported("hardmax over several axes of symbolic extents");
  Shape shape = type.static_shape();
  Shape rows(shape.begin(), shape.begin() + axes[0]), row(shape.begin() + axes[0], shape.end());
  ValueId matrix = builder.call1(reshape, {node.in(0)}, {{"shape", Shape{element_count(rows), element_count(row)}}});
  return {builder.call1(reshape, {builder.call1(hardmax, {matrix}, {{"axis", int64_t{1}}})}, {{"shape", shape}})};
}

OpDef softmax_like(std::string_view name, std::string_view doc, decltype(OpDef::compute) compute) {
  return {.name = name,
          .doc = doc,
          .inputs = {{"x", "any shape"}},
          .attrs = {{"axes", AttrKind::Ints, std::nullopt, "the axes along which the powers sum to 1"}},
          .fusion = Fusion::OutputFusable,
          .dtypes = graph::kFloats,
          .dtype_note = "a float: powers of e are real numbers",
          .infer = infer_softmax,
          .compute = compute};
}

}  // namespace

const OpDef softmax = softmax_like("softmax", "e^x over the sum of e^x along axes; 16-bit floats by way of f32", compute_softmax);
const OpDef log_softmax = softmax_like("log_softmax", "the logarithm of softmax, without computing that", compute_log_softmax);
const OpDef hardmax{.name = "hardmax",
                    .doc = "1 at the first largest element along an axis, else 0",
                    .inputs = {{"x", "any shape"}},
                    .attrs = {{"axis", AttrKind::Int, std::nullopt, "the axis to search"}},
                    .fusion = Fusion::OutputFusable,
                    .dtypes = graph::kFloats,
                    .dtype_note = "a float: it stands in for softmax",
                    .infer = infer_hardmax,
                    .compute = compute_hardmax};

Family softmax_family() {
  return {
      .ops = {&softmax, &log_softmax, &hardmax},
      .onnx = {
          {"Softmax", 1, build_softmax<softmax>}, {"LogSoftmax", 1, build_softmax<log_softmax>}, {"Hardmax", 1, build_hardmax}}};
}

}  // namespace tenon::op
