// SPDX-License-Identifier: Apache-2.0
// Convolution over any number of spatial axes.
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

// conv-C1  w is [O, C/groups, kernel…], numbers, with the rank of x
// conv-C2  x has groups times as many channels as w takes, and groups divides O
// conv-C3  pads are 0 or more
// same-dtype
Window conv_window(const CallSite& call) {
  const TensorType &x = call.in(0), &w = call.in(1);
  if (w.rank() != x.rank() || w.rank() < 3 || !w.is_static())
    call.error(1, "conv-C1", "[O, C/groups, kernel…] with the rank of `x`");
  Shape weights = w.static_shape();
  int64_t groups = call.integer("groups");
  const int64_t* channels = tir::as_int(x.dim(1));
  if (groups < 1 || !channels || *channels != groups * weights[1] || weights[0] % groups != 0)
    call.error(1, "conv-C2",
               fmt::format("{} channels of `x` in {} groups of the extent of axis 1, and a multiple of the groups at axis 0",
                           to_string(x.dim(1)), groups));
  Window window = window_of(call, Shape(weights.begin() + 2, weights.end()));
  if (std::any_of(window.pads.begin(), window.pads.end(), [](int64_t pad) { return pad < 0; }))
    call.error(-1, "conv-C3", "pads of 0 or more");
  return window;
}

std::vector<TensorType> infer_conv(const CallSite& call) {
  DType dtype = same_dtype(call);
  Window window = conv_window(call);
  std::vector<Dim> shape{call.in(0).dim(0), call.in(1).dim(0)};
  for (size_t axis = 0; axis < window.rank(); ++axis) shape.push_back(window_count(call, window, axis));
  return {{dtype, std::move(shape)}};
}

/// Zeros are written around x by a stage of its own, so that the sum reads without conditions.
std::vector<te::Tensor> compute_conv(const CallSite& call, std::span<const te::Tensor> in, te::Graph& graph) {
  Window window = conv_window(call);
  size_t rank = window.rank();
  DType dtype = call.out().dtype, wide = accumulation_dtype(dtype);
  std::vector<int64_t> before(window.pads.begin(), window.pads.begin() + static_cast<int64_t>(rank));
  std::vector<int64_t> after(window.pads.begin() + static_cast<int64_t>(rank), window.pads.end());
  te::Tensor x = pad_spatial(graph, in[0], before, after, tir::imm(dtype, 0));
  const te::Tensor& w = in[1];
  int64_t groups = call.integer("groups");
  int64_t group_outputs = tir::int_value(w.dim(0)) / groups, group_inputs = tir::int_value(w.dim(1));
  std::vector<Expr> taps(w.shape().begin() + 1, w.shape().end());
  auto product = [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
    Expr channel = groups == 1 ? r[0] : tir::floordiv(i[1], Expr(group_outputs)) * Expr(group_inputs) + r[0];
    std::vector<Expr> at_x{i[0], channel}, at_w{i[1], r[0]};
    for (size_t k = 0; k < rank; ++k) {
      at_x.push_back(i[k + 2] * Expr(window.strides[k]) + r[k + 1] * Expr(window.dilations[k]));
      at_w.push_back(r[k + 1]);
    }
    return tir::cast(wide, x(std::move(at_x))) * tir::cast(wide, w(std::move(at_w)));
  };
  return {cast_tensor(graph, graph.sum("conv", wide, call.out().shape, taps, product), dtype)};
}

std::vector<ValueId> build_conv(OnnxNode& node, Builder& builder) {
  std::vector<int64_t> kernel = read_kernel(node);
  graph::Attrs attrs = window_attrs(read_window(node, std::move(kernel)));
  attrs["groups"] = node.attr("group", int64_t{1});
  ValueId y = builder.call1(conv, {node.in(0), node.in(1)}, std::move(attrs));
  return {add_channel_bias(node, builder, y)};
}

std::vector<graph::AttrSpec> conv_schema() {
  std::vector<graph::AttrSpec> schema = window_schema();
  schema.push_back({"groups", AttrKind::Int, int64_t{1}, "input and output channels fall into this many groups that do not mix"});
  return schema;
}

}  // namespace

std::vector<int64_t> read_kernel(OnnxNode& node, size_t weights) {
  const TensorType& w = node.type(weights);
  if (w.rank() < 3 || !w.is_static()) node.unsupported(fmt::format("weights of type {}", to_string(w)));
  Shape shape = w.static_shape();
  std::vector<int64_t> kernel(shape.begin() + 2, shape.end());
  std::vector<int64_t> named = node.ints("kernel_shape", kernel);
  if (named != kernel) node.malformed("`kernel_shape` differs from the weights", to_string(kernel), to_string(named));
  return kernel;
}

ValueId add_channel_bias(OnnxNode& node, Builder& builder, ValueId y) {
  if (!node.has(2)) return y;
  if (node.type(2).rank() != 1) node.malformed(fmt::format("the bias is {}", to_string(node.type(2))), "a vector");
  Shape shape{-2};
  shape.resize(static_cast<size_t>(builder.type(y).rank()) - 1, 1);
  return builder.call1(add, {y, builder.call1(reshape, {node.in(2)}, {{"shape", shape}})});
}

const OpDef conv{.name = "conv",
                 .doc = "sum over channels and taps of x * w, a correlation as in ONNX; 16-bit floats are added at f32",
                 .inputs = {{"x", "[N, C, spatial…]"}, {"w", "[O, C/groups, kernel…]"}},
                 .attrs = conv_schema(),
                 .fusion = Fusion::OutputFusable,
                 .dtypes = graph::kNumeric,
                 .dtype_note = "a number: products are not defined on bool",
                 .infer = infer_conv,
                 .compute = compute_conv};

Family conv_family() { return {.ops = {&conv}, .onnx = {{"Conv", 1, build_conv}}}; }

}  // namespace tenon::op
