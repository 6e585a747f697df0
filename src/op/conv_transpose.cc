// SPDX-License-Identifier: Apache-2.0
// Transposed convolution: each input point adds a scaled kernel to the output. Computed the other way round: output points
// with equal remainder by the stride (a phase) meet the same taps, so each phase is a plain convolution of stride 1.
#include <fmt/format.h>

#include <algorithm>

#include "op/all_ops.h"
#include "op/conv_bias.h"
#include "op/ops.h"
#include "op/window.h"

namespace tenon::op {
namespace {

using graph::AttrKind;
using graph::Fusion;

// conv-transpose-C1  w is [C, O/groups, kernel…], numbers, with the rank and the channels of x
// conv-transpose-C2  groups divides the channels
// conv-transpose-C3  the spatial extents of x are numbers
// conv-transpose-C4  one output padding per spatial axis, and no extent of the result below 1
// same-dtype
Window transpose_window(const CallSite& call) {
  const TensorType &x = call.in(0), &w = call.in(1);
  if (w.rank() != x.rank() || w.rank() < 3 || !w.is_static() || !structural_equal(w.dim(0), x.dim(1)))
    call.error(1, "conv-transpose-C1",
               fmt::format("[{}, O/groups, kernel…] with the rank of `x`", x.rank() > 1 ? to_string(x.dim(1)) : "C"));
  Shape weights = w.static_shape();
  int64_t groups = call.integer("groups");
  if (groups < 1 || weights[0] % groups != 0)
    call.error(0, "conv-transpose-C2", fmt::format("a multiple of {} channels", groups));
  for (int64_t axis = 2; axis < x.rank(); ++axis)
    if (!tir::as_int(x.dim(axis))) call.unsupported(0, "conv-transpose-C3", "numbers as spatial extents");
  return window_of(call, Shape(weights.begin() + 2, weights.end()));
}

std::vector<TensorType> infer_conv_transpose(const CallSite& call) {
  DType dtype = same_dtype(call);
  Window window = transpose_window(call);
  const std::vector<int64_t>& extra = call.integers("output_padding");
  std::vector<Dim> shape{call.in(0).dim(0), call.in(1).dim(1) * Dim(call.integer("groups"))};
  for (size_t axis = 0; axis < window.rank(); ++axis) {
    int64_t extent = tir::int_value(call.in(0).shape[axis + 2]);
    int64_t padding = window.before(axis) + window.after(axis);
    int64_t result =
        extra.size() == window.rank() ? window.strides[axis] * (extent - 1) + extra[axis] + window.span(axis) - padding : 0;
    if (result < 1)
      call.error(0, "conv-transpose-C4", fmt::format("one output padding per spatial axis, and a result at axis {}", axis + 2));
    shape.emplace_back(result);
  }
  return {{dtype, std::move(shape)}};
}

/// How one spatial axis falls into phases. Output point y meets tap t of input i where y + before = stride * i + t; with
/// y + before = stride * q + phase, these are taps phase + stride * j of inputs q - j.
struct PhaseAxis {
  int64_t stride, before;
  int64_t taps;                         // per phase, the last ones perhaps beyond the kernel
  int64_t first, count;                 // the values of q
  int64_t pad_before, pad_after, skip;  // zeros around x, and where the window of the first q starts in the padded x
};

PhaseAxis phase_axis(const Window& window, size_t axis, int64_t extent, int64_t result) {
  auto floor_div = [](int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); };
  PhaseAxis p{};
  p.stride = window.strides[axis];
  p.before = window.before(axis);
  p.taps = (window.span(axis) + p.stride - 1) / p.stride;
  p.first = floor_div(p.before, p.stride);
  int64_t last = floor_div(p.before + result - 1, p.stride);
  p.count = last - p.first + 1;
  int64_t lowest = p.first - (p.taps - 1);
  p.pad_before = std::max<int64_t>(-lowest, 0);
  p.pad_after = std::max<int64_t>(last - (extent - 1), 0);
  p.skip = lowest + p.pad_before;
  return p;
}

/// The weights as [O, phases…, C/groups, taps…], in the order in which the sum meets them. A tap between dilated ones or past
/// the kernel's end is 0, so that each phase has equally many.
te::Tensor weights_by_phase(const CallSite& call, te::Graph& graph, const te::Tensor& w, const Window& window,
                            const std::vector<PhaseAxis>& axes, const std::vector<size_t>& phased) {
  int64_t groups = call.integer("groups");
  int64_t group_outputs = tir::int_value(w.dim(1)), group_inputs = tir::int_value(w.dim(0)) / groups;
  std::vector<Expr> shape{call.out().dim(1)};
  for (size_t k : phased) shape.emplace_back(axes[k].stride);
  size_t inputs = shape.size();
  shape.emplace_back(group_inputs);
  for (const PhaseAxis& axis : axes) shape.emplace_back(axis.taps);
  return graph.compute("by_phase", shape, [&](const std::vector<Expr>& i) {
    Expr channel = groups == 1 ? i[inputs] : tir::floordiv(i[0], Expr(group_outputs)) * Expr(group_inputs) + i[inputs];
    std::vector<Expr> at{channel, groups == 1 ? i[0] : tir::floormod(i[0], Expr(group_outputs))};
    for (size_t k = 0; k < axes.size(); ++k) at.push_back((Expr(axes[k].taps - 1) - i[inputs + 1 + k]) * Expr(axes[k].stride));
    for (size_t n = 0; n < phased.size(); ++n) at[phased[n] + 2] = at[phased[n] + 2] + i[n + 1];
    Expr inside = tir::bool_imm(true);
    for (size_t k = 0; k < axes.size(); ++k) {
      Expr tap = at[k + 2], dilation(window.dilations[k]);
      if (axes[k].taps * axes[k].stride > window.span(k)) inside = tir::logical_and(inside, tir::lt(tap, Expr(window.span(k))));
      if (window.dilations[k] > 1) inside = tir::logical_and(inside, tir::eq(tir::floormod(tap, dilation), Expr(0)));
      at[k + 2] = tir::floordiv(tap, dilation);
    }
    return tir::select(inside, w(at), tir::imm(w.dtype(), 0));
  });
}

/// [N, O, phases…, q…]: the sum for each phase and q, spatial axes last so that they lie in memory as those of x.
te::Tensor sum_phases(const CallSite& call, te::Graph& graph, const te::Tensor& x, const te::Tensor& w,
                      const std::vector<PhaseAxis>& axes, size_t phased) {
  DType wide = accumulation_dtype(call.out().dtype);
  const Dim& group_inputs = w.dim(static_cast<int64_t>(phased) + 1);
  Expr group_outputs = tir::floordiv(call.out().dim(1), Expr(call.integer("groups")));
  std::vector<Expr> shape{call.out().dim(0)}, reduced{group_inputs};
  shape.insert(shape.end(), w.shape().begin(), w.shape().begin() + static_cast<int64_t>(phased) + 1);
  for (const PhaseAxis& axis : axes) {
    shape.emplace_back(axis.count);
    reduced.emplace_back(axis.taps);
  }
  return graph.sum("phases", wide, shape, reduced, [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
    Expr channel = call.integer("groups") == 1 ? r[0] : tir::floordiv(i[1], group_outputs) * group_inputs + r[0];
    std::vector<Expr> at_x{i[0], channel}, at_w(i.begin() + 1, i.begin() + 2 + static_cast<int64_t>(phased));
    for (size_t k = 0; k < axes.size(); ++k) at_x.push_back(i[phased + 2 + k] + r[k + 1] + Expr(axes[k].skip));
    at_w.insert(at_w.end(), r.begin(), r.end());
    return tir::cast(wide, x(std::move(at_x))) * tir::cast(wide, w(std::move(at_w)));
  });
}

std::vector<te::Tensor> compute_conv_transpose(const CallSite& call, std::span<const te::Tensor> in, te::Graph& graph) {
  Window window = transpose_window(call);
  const std::vector<Dim>& out = call.out().shape;
  DType dtype = call.out().dtype;
  std::vector<PhaseAxis> axes;
  std::vector<int64_t> before, after;
  std::vector<size_t> phased;  // the spatial axes of more than one phase
  for (size_t k = 0; k < window.rank(); ++k) {
    axes.push_back(phase_axis(window, k, tir::int_value(in[0].shape()[k + 2]), tir::int_value(out[k + 2])));
    before.push_back(axes[k].pad_before);
    after.push_back(axes[k].pad_after);
    if (axes[k].stride > 1) phased.push_back(k);
  }
  te::Tensor x = pad_spatial(graph, in[0], before, after, tir::imm(dtype, 0));
  te::Tensor w = weights_by_phase(call, graph, in[1], window, axes, phased);
  te::Tensor phases = sum_phases(call, graph, x, w, axes, phased.size());
  if (phased.empty()) return {cast_tensor(graph, phases, dtype)};
  return {graph.compute("conv_transpose", out, [&](const std::vector<Expr>& i) {
    std::vector<Expr> at{i[0], i[1]};
    for (size_t k : phased) at.push_back(tir::floormod(i[k + 2] + Expr(axes[k].before), Expr(axes[k].stride)));
    for (size_t k = 0; k < axes.size(); ++k)
      at.push_back(tir::floordiv(i[k + 2] + Expr(axes[k].before), Expr(axes[k].stride)) - Expr(axes[k].first));
    return tir::cast(dtype, phases(std::move(at)));
  })};
}

/// Crops the whole result to the wanted extents at both ends, by the larger half of an odd excess in front, or after with
/// SAME_UPPER. What is missing to them is added at the end.
void pad_to(const OnnxNode& node, Window& window, const std::vector<int64_t>& wanted, const std::vector<int64_t>& extra,
            bool upper) {
  for (size_t k = 0; k < window.rank(); ++k) {
    const int64_t* extent = tir::as_int(node.type(0).shape[k + 2]);
    if (!extent) node.unsupported("an output shape of a symbolic extent");
    int64_t goal = wanted.empty() ? *extent * window.strides[k] : wanted[k];
    int64_t total = window.strides[k] * (*extent - 1) + extra[k] + window.span(k) - goal;
    int64_t excess = std::max<int64_t>(total, 0);
    window.pads[k] = upper ? excess / 2 : excess - excess / 2;
    window.pads[k + window.rank()] = total - window.pads[k];
  }
}

std::vector<ValueId> build_conv_transpose(OnnxNode& node, Builder& builder) {
  std::vector<int64_t> kernel = read_kernel(node);
  size_t rank = kernel.size();
  std::string automatic = node.attr("auto_pad", "NOTSET");
  Window window = read_window(node, std::move(kernel));
  std::vector<int64_t> extra = node.ints("output_padding", std::vector<int64_t>(rank, 0));
  std::vector<int64_t> wanted = node.ints("output_shape", {});
  if (wanted.size() == rank + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (extra.size() != rank || (!wanted.empty() && wanted.size() != rank))
    node.malformed("`output_padding` or `output_shape` has the wrong length", std::to_string(rank));
  if (!wanted.empty() || automatic.starts_with("SAME")) pad_to(node, window, wanted, extra, automatic == "SAME_UPPER");
  graph::Attrs attrs = window_attrs(window);
  attrs["groups"] = node.attr("group", int64_t{1});
  attrs["output_padding"] = extra;
  ValueId y = builder.call1(conv_transpose, {node.in(0), node.in(1)}, std::move(attrs));
  return {add_channel_bias(node, builder, y)};
}

std::vector<graph::AttrSpec> schema() {
  std::vector<graph::AttrSpec> schema = window_schema();
  schema.push_back({"groups", AttrKind::Int, int64_t{1}, "input and output channels fall into this many groups that do not mix"});
  schema.push_back(
      {"output_padding", AttrKind::Ints, std::nullopt, "the points added at the end of each spatial axis of the result"});
  return schema;
}

}  // namespace

const OpDef conv_transpose{.name = "conv_transpose",
                           .doc = "each point of x adds w times its value to the result, windows `strides` apart; `pads` crop it",
                           .inputs = {{"x", "[N, C, spatial…]"}, {"w", "[C, O/groups, kernel…]"}},
                           .attrs = schema(),
                           .fusion = Fusion::OutputFusable,
                           .dtypes = graph::kNumeric,
                           .dtype_note = "a number: products are not defined on bool",
                           .infer = infer_conv_transpose,
                           .compute = compute_conv_transpose};

Family conv_transpose_family() { return {.ops = {&conv_transpose}, .onnx = {{"ConvTranspose", 1, build_conv_transpose}}}; }

}  // namespace tenon::op
