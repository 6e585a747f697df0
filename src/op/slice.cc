// SPDX-License-Identifier: Apache-2.0
// Choosing a regular part of a tensor, or an order along an axis: strided_slice, reverse_sequence, trilu.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

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

constexpr int64_t kToTheEnd = std::numeric_limits<int64_t>::max();

/// The number of points from `begin` to before `end` by steps of `stride`.
int64_t slice_extent(int64_t begin, int64_t end, int64_t stride) {
  int64_t span = stride > 0 ? end - begin : begin - end;
  int64_t step = stride > 0 ? stride : -stride;
  return span <= 0 ? 0 : (span - 1) / step + 1;
}

// C1  `begin`, `end` and `strides` have an entry for each axis of x; no stride is 0
// C2  every point lies inside x: 0 <= begin <= end <= extent for a stride above 0, extent > begin >= end >= -1 below
// C3  an axis of unknown extent is taken from a begin >= 0 to its end (the largest i64) by steps of 1
std::vector<TensorType> infer_slice(const CallSite& call) {
  const TensorType& x = call.in(0);
  const auto &begin = call.integers("begin"), &end = call.integers("end"), &strides = call.integers("strides");
  size_t rank = x.shape.size();
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
  bool steps = std::none_of(strides.begin(), strides.end(), [](int64_t s) { return s == 0 || s == kLowest; });
  if (begin.size() != rank || end.size() != rank || strides.size() != rank || !steps)
    call.error(0, "strided_slice-C1", "`begin`, `end` and non-zero `strides` of its rank");
  TensorType out = x;
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t* extent = tir::as_int(x.shape[axis]);
    if (!extent) {
      if (begin[axis] < 0 || end[axis] != kToTheEnd || strides[axis] != 1)
        call.unsupported(0, "strided_slice-C3", fmt::format("a known extent on the sliced axis {}", axis));
      out.shape[axis] = x.shape[axis] - Expr(begin[axis]);
      continue;
    }
    bool inside = strides[axis] > 0 ? 0 <= begin[axis] && begin[axis] <= end[axis] && end[axis] <= *extent
                                    : *extent > begin[axis] && begin[axis] >= end[axis] && end[axis] >= -1;
    if (!inside) call.error(0, "strided_slice-C2", fmt::format("an axis {} that holds [{}, {})", axis, begin[axis], end[axis]));
    out.shape[axis] = slice_extent(begin[axis], end[axis], strides[axis]);
  }
  return {out};
}

std::vector<Tensor> compute_slice(const CallSite& call, std::span<const Tensor> in, te::Graph& graph) {
  const auto &begin = call.integers("begin"), &strides = call.integers("strides");
  return {graph.compute("strided_slice", call.out().shape, [&](const std::vector<Expr>& i) {
    std::vector<Expr> indices;
    for (size_t axis = 0; axis < i.size(); ++axis) indices.push_back(i[axis] * Expr(strides[axis]) + Expr(begin[axis]));
    return in[0](indices);
  })};
}

std::optional<std::vector<Array>> fold_slice(const CallSite& call, std::span<const Array> in) {
  const auto &begin = call.integers("begin"), &strides = call.integers("strides");
  std::vector<int64_t> own = row_major_strides(in[0].shape), steps;
  int64_t start = 0;
  for (size_t axis = 0; axis < own.size(); ++axis) {
    start += begin[axis] * own[axis];
    steps.push_back(strides[axis] * own[axis]);
  }
  return std::vector<Array>{gather_strided(in[0], call.out().static_shape(), std::move(steps), start)};
}

// C1  `time_axis` and `batch_axis` are two axes of x
// C2  lens is i64 with an entry for each index of the batch axis
std::vector<TensorType> infer_reverse_sequence(const CallSite& call) {
  const TensorType &x = call.in(0), &lens = call.in(1);
  int64_t time = call.integer("time_axis"), batch = call.integer("batch_axis");
  if (time < 0 || batch < 0 || time == batch || std::max(time, batch) >= x.rank())
    call.error(0, "reverse_sequence-C1", fmt::format("a tensor with two axes {} and {}", time, batch));
  if (lens.dtype != DType::I64 || !same_shape(lens.shape, std::span(&x.dim(batch), 1)))
    call.error(1, "reverse_sequence-C2", to_string(TensorType(DType::I64, {x.dim(batch)})));
  return {x};
}

std::vector<Tensor> compute_reverse_sequence(const CallSite& call, std::span<const Tensor> in, te::Graph& graph) {
  auto time = static_cast<size_t>(call.integer("time_axis")), batch = static_cast<size_t>(call.integer("batch_axis"));
  return {graph.compute("reverse_sequence", call.out().shape, [&](const std::vector<Expr>& i) {
    std::vector<Expr> indices = i;
    Expr length = tir::min(in[1]({i[batch]}), in[0].shape()[time]);
    indices[time] = tir::select(tir::lt(i[time], length), length - Expr(1) - i[time], i[time]);
    return in[0](indices);
  })};
}

// C1  x has at least two axes
// C2  k is one i64
std::vector<TensorType> infer_trilu(const CallSite& call) {
  const TensorType &x = call.in(0), &k = call.in(1);
  if (x.rank() < 2) call.error(0, "trilu-C1", "a tensor of rank 2 at least");
  if (k.dtype != DType::I64 || k.rank() != 0) call.error(1, "trilu-C2", "i64[]");
  return {x};
}

std::vector<Tensor> compute_trilu(const CallSite& call, std::span<const Tensor> in, te::Graph& graph) {
  bool upper = call.flag("upper");
  return {graph.compute("trilu", call.out().shape, [&](const std::vector<Expr>& i) {
    Expr diagonal = i[i.size() - 2] + in[1]({}), column = i.back();
    Expr kept = upper ? tir::le(diagonal, column) : tir::le(column, diagonal);
    return tir::select(kept, in[0](i), tir::imm(in[0].dtype(), 0));
  })};
}

/// What Slice asks for on each axis of its input, as given by the model.
struct SliceRequest {
  std::vector<int64_t> starts, ends, axes, steps;
};

SliceRequest slice_request(OnnxNode& node) {
  SliceRequest request;
  if (node.opset() < 10) {
    request.starts = node.ints("starts", {});
    request.ends = node.ints("ends", {});
    if (node.has_attr("axes")) request.axes = node.ints("axes", {});
  } else {
    request.starts = node.constant_ints(1);
    request.ends = node.constant_ints(2);
    if (node.has(3)) request.axes = node.constant_ints(3);
    if (node.has(4)) request.steps = node.constant_ints(4);
  }
  bool all_axes = request.axes.empty() && !request.starts.empty();
  for (size_t k = 0; all_axes && k < request.starts.size(); ++k) request.axes.push_back(static_cast<int64_t>(k));
  if (request.steps.empty()) request.steps.assign(request.starts.size(), 1);
  size_t count = request.starts.size();
  if (request.ends.size() != count || request.axes.size() != count || request.steps.size() != count)
    node.malformed("starts, ends, axes and steps differ in length", std::to_string(count));
  return request;
}

std::vector<ValueId> import_slice(OnnxNode& node, Builder& builder) {
  const TensorType& x = node.type(0);
  SliceRequest request = slice_request(node);
  std::vector<int64_t> begin(x.shape.size(), 0), end, strides(x.shape.size(), 1);
  for (const Dim& dim : x.shape) {
    const int64_t* extent = tir::as_int(dim);
    end.push_back(extent ? *extent : kToTheEnd);
  }
  for (size_t k = 0; k < request.axes.size(); ++k) {
    auto axis = static_cast<size_t>(normalized_axis(node, request.axes[k], x.rank()));
    const int64_t* known = tir::as_int(x.shape[axis]);
    int64_t step = request.steps[k], start = request.starts[k], stop = request.ends[k];
    if (step == 0) node.malformed("a slice by steps of 0");
    step = std::max(step, -kToTheEnd);
    if (!known) {
      if (start < 0 || step != 1 || stop < std::numeric_limits<int32_t>::max())
        node.unsupported(fmt::format("slicing axis {} of {}, whose extent is not known when compiling", axis, to_string(x)));
      begin[axis] = start;
      continue;
    }
    int64_t extent = *known, low = step > 0 ? 0 : -1, high = step > 0 ? extent : extent - 1;
    begin[axis] = std::clamp(start < 0 ? start + extent : start, step > 0 ? 0 : std::min<int64_t>(0, high), high);
    end[axis] = std::clamp(stop < 0 ? stop + extent : stop, low, high + (step > 0 ? 0 : 1));
    end[axis] = step > 0 ? std::max(end[axis], begin[axis]) : std::min(end[axis], begin[axis]);
    strides[axis] = step;
    if (extent == 0) begin[axis] = end[axis] = 0, strides[axis] = 1;
  }
  return {builder.call1(strided_slice, {node.in(0)}, {{"begin", begin}, {"end", end}, {"strides", strides}})};
}

std::vector<ValueId> import_reverse_sequence(OnnxNode& node, Builder& builder) {
  tir::Attrs axes{{"time_axis", node.attr("time_axis", 0)}, {"batch_axis", node.attr("batch_axis", 1)}};
  return {builder.call1(reverse_sequence, {node.in(0), node.in(1)}, std::move(axes))};
}

std::vector<ValueId> import_trilu(OnnxNode& node, Builder& builder) {
  ValueId k = node.has(1) ? node.in(1) : builder.constant(array_of<int64_t>(DType::I64, {}, {0}), "k");
  if (builder.type(k).rank() != 0) k = builder.call1(reshape, {k}, {{"shape", Shape{}}});
  return {builder.call1(trilu, {node.in(0), k}, {{"upper", node.attr("upper", 1) != 0}})};
}

}  // namespace

const graph::OpDef strided_slice{
    .name = "strided_slice",
    .doc = "The points begin[k] + j * strides[k] before end[k] on each axis k.",
    .inputs = {{"x", "any tensor"}},
    .attrs = {{"begin", AttrKind::Ints, {}, "the first point on each axis"},
              {"end", AttrKind::Ints, {}, "the point to stop before on each axis; -1 past the first of a negative stride"},
              {"strides", AttrKind::Ints, {}, "the step on each axis; may be negative"}},
    .fusion = Fusion::Injective,
    .infer = infer_slice,
    .compute = compute_slice,
    .fold = fold_slice,
};

const graph::OpDef reverse_sequence{
    .name = "reverse_sequence",
    .doc = "x with the first lens[b] points of the time axis in reverse order, for each b of the batch axis.",
    .inputs = {{"x", "any tensor of rank 2 at least"}, {"lens", "i64, one length for each b; clamped to the time axis"}},
    .attrs = {{"time_axis", AttrKind::Int, {}, "the axis to reverse"}, {"batch_axis", AttrKind::Int, {}, "the axis of lens"}},
    .fusion = Fusion::Injective,
    .infer = infer_reverse_sequence,
    .compute = compute_reverse_sequence,
};

const graph::OpDef trilu{
    .name = "trilu",
    .doc = "x with zeros below (upper) or above (lower) diagonal k of its last two axes.",
    .inputs = {{"x", "any tensor of rank 2 at least"}, {"k", "i64[]: 0 is the main diagonal, 1 the one above it"}},
    .attrs = {{"upper", AttrKind::Bool, true, "keep the upper triangle"}},
    .fusion = Fusion::Injective,
    .infer = infer_trilu,
    .compute = compute_trilu,
};

Family slice_family() {
  return {{&strided_slice, &reverse_sequence, &trilu},
          {{"Slice", 1, import_slice}, {"ReverseSequence", 10, import_reverse_sequence}, {"Trilu", 14, import_trilu}}};
}

}  // namespace tenon::op
