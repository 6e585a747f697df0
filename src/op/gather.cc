// SPDX-License-Identifier: Apache-2.0
// Reading elements at positions that another tensor holds: gather, gather_elements, gather_nd, one_hot.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "op/all_ops.h"
#include "op/loop_nest.h"
#include "op/onnx_axes.h"
#include "op/onnx_build.h"
#include "op/ops.h"
#include "op/shape_rules.h"

namespace tenon::op {
namespace {

using graph::AttrKind;
using graph::CallSite;
using graph::Fusion;
using te::Tensor;
using tir::Expr;

bool is_index(DType dtype) { return dtype == DType::I32 || dtype == DType::I64; }

// C1  `axis` is an axis of x
// C2  indices is i32 or i64
// C3  the axis has elements where the result has some
std::vector<TensorType> infer_gather(const CallSite& call) {
  const TensorType &x = call.in(0), &indices = call.in(1);
  int64_t axis = call.integer("axis");
  if (axis < 0 || axis >= x.rank()) call.error(0, "gather-C1", fmt::format("a tensor with an axis {}", axis));
  if (!is_index(indices.dtype)) call.error(1, "gather-C2", "i32 or i64");
  std::vector<Dim> out(x.shape.begin(), x.shape.begin() + axis);
  out.insert(out.end(), indices.shape.begin(), indices.shape.end());
  out.insert(out.end(), x.shape.begin() + axis + 1, x.shape.end());
  if (is_zero(x.dim(axis)) && !has_no_elements(out)) call.error(0, "gather-C3", fmt::format("elements on axis {}", axis));
  return {{x.dtype, std::move(out)}};
}

std::vector<Tensor> compute_gather(const CallSite& call, std::span<const Tensor> in, te::Graph& graph) {
  auto axis = static_cast<ptrdiff_t>(call.integer("axis"));
  auto width = static_cast<ptrdiff_t>(in[1].rank());
  return {graph.compute("gather", call.out().shape, [&](const std::vector<Expr>& i) {
    auto first = i.begin() + axis, last = first + width;
    std::vector<Expr> indices(i.begin(), first);
    indices.push_back(safe_index(in[1]({first, last}), in[0].dim(axis)));
    indices.insert(indices.end(), last, i.end());
    return in[0](indices);
  })};
}

int64_t read_index(const Array& indices, int64_t at) {
  return indices.dtype == DType::I64 ? indices.read<int64_t>(at) : indices.read<int32_t>(at);
}

/// Element `at` of an index array as a position in [0, extent): negative from the end, then clamped.
int64_t index_at(const Array& indices, int64_t at, int64_t extent) {
  int64_t index = read_index(indices, at);
  return std::clamp<int64_t>(index < 0 ? index + extent : index, 0, extent - 1);
}

std::optional<std::vector<Array>> fold_gather(const CallSite& call, std::span<const Array> in) {
  auto axis = static_cast<size_t>(call.integer("axis"));
  const Shape& shape = in[0].shape;
  MutableArray out(in[0].dtype, call.out().static_shape());
  if (out.size_bytes == 0) return std::vector<Array>{std::move(out).freeze()};
  int64_t outer = element_count(std::span(shape).first(axis)), inner = element_count(std::span(shape).subspan(axis + 1));
  int64_t run = inner * byte_size(in[0].dtype), count = in[1].elements();
  std::byte* to = out.data();
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t k = 0; k < count; ++k, to += run) {
      int64_t row = o * shape[axis] + index_at(in[1], k, shape[axis]);
      std::memcpy(to, in[0].bytes.data() + row * run, static_cast<size_t>(run));
    }
  return std::vector<Array>{std::move(out).freeze()};
}

// C1  `axis` is an axis of x, and indices has the rank of x
// C2  indices is i32 or i64
// C3  indices reaches no further than x on the other axes, and x has elements where the result has some
std::vector<TensorType> infer_gather_elements(const CallSite& call) {
  const TensorType &x = call.in(0), &indices = call.in(1);
  int64_t axis = call.integer("axis");
  if (axis < 0 || axis >= x.rank() || indices.rank() != x.rank())
    call.error(1, "gather_elements-C1", fmt::format("the rank of x, which has an axis {}", axis));
  if (!is_index(indices.dtype)) call.error(1, "gather_elements-C2", "i32 or i64");
  for (int64_t k = 0; k < x.rank(); ++k) {
    const int64_t *have = tir::as_int(x.dim(k)), *want = tir::as_int(indices.dim(k));
    bool reaches = have && want ? *want <= *have : tir::structural_equal(x.dim(k), indices.dim(k));
    bool fits = k == axis ? !is_zero(x.dim(k)) || has_no_elements(indices.shape) : reaches;
    if (!fits) call.error(1, "gather_elements-C3", fmt::format("at most the extents of x, which is {}", to_string(x)));
  }
  return {{x.dtype, indices.shape}};
}

std::vector<Tensor> compute_gather_elements(const CallSite& call, std::span<const Tensor> in, te::Graph& graph) {
  int64_t axis = call.integer("axis");
  return {graph.compute("gather_elements", call.out().shape, [&](const std::vector<Expr>& i) {
    std::vector<Expr> indices = i;
    indices[static_cast<size_t>(axis)] = safe_index(in[1](i), in[0].dim(axis));
    return in[0](indices);
  })};
}

// C1  indices is i32 or i64, of rank 1 at least, with a known extent on its last axis
// C2  x has `batch_dims` axes in common with indices, then an axis for each entry of the last axis of indices
// C3  the indexed axes have elements where the result has some
std::vector<TensorType> infer_gather_nd(const CallSite& call) {
  const TensorType &x = call.in(0), &indices = call.in(1);
  int64_t batch = call.integer("batch_dims");
  if (!is_index(indices.dtype) || indices.rank() < 1 || !tir::as_int(indices.shape.back()))
    call.error(1, "gather_nd-C1", "i32 or i64 of rank 1 at least, with a known last extent");
  int64_t depth = tir::int_value(indices.shape.back());
  bool fits = batch >= 0 && batch < indices.rank() && batch + depth <= x.rank() && depth >= 0;
  for (int64_t k = 0; fits && k < batch; ++k) fits = tir::structural_equal(x.dim(k), indices.dim(k));
  if (!fits) call.error(0, "gather_nd-C2", fmt::format("{} axes shared with indices and {} more", batch, depth));
  std::vector<Dim> out(indices.shape.begin(), indices.shape.end() - 1);
  out.insert(out.end(), x.shape.begin() + batch + depth, x.shape.end());
  for (int64_t k = batch; k < batch + depth; ++k)
    if (is_zero(x.dim(k)) && !has_no_elements(out)) call.error(0, "gather_nd-C3", fmt::format("elements on axis {}", k));
  return {{x.dtype, std::move(out)}};
}

std::vector<Tensor> compute_gather_nd(const CallSite& call, std::span<const Tensor> in, te::Graph& graph) {
  auto batch = static_cast<ptrdiff_t>(call.integer("batch_dims"));
  int64_t depth = tir::int_value(in[1].shape().back());
  return {graph.compute("gather_nd", call.out().shape, [&](const std::vector<Expr>& i) {
    auto tail = i.begin() + in[1].rank() - 1;
    std::vector<Expr> point(i.begin(), tail), indices(i.begin(), i.begin() + batch);
    point.emplace_back();
    for (int64_t k = 0; k < depth; ++k) {
      point.back() = k;
      indices.push_back(safe_index(in[1](point), in[0].dim(batch + k)));
    }
    indices.insert(indices.end(), tail, i.end());
    return in[0](indices);
  })};
}

// C1  indices is an integer tensor, and `axis` a place for a new axis
// C2  values has two elements: what is off and what is on
// C3  `depth` is above 0
std::vector<TensorType> infer_one_hot(const CallSite& call) {
  const TensorType &indices = call.in(0), &values = call.in(1);
  int64_t axis = call.integer("axis"), depth = call.integer("depth");
  if (axis < 0 || axis > indices.rank()) call.error(0, "one_hot-C1", fmt::format("rank {} at least", axis));
  if (values.rank() != 1 || !tir::structural_equal(values.dim(0), 2)) call.error(1, "one_hot-C2", "a tensor of shape [2]");
  if (depth <= 0) call.error(-1, "one_hot-C3", fmt::format("a depth above 0, not {}", depth));
  std::vector<Dim> out = indices.shape;
  out.insert(out.begin() + axis, Dim(depth));
  return {{values.dtype, std::move(out)}};
}

std::vector<Tensor> compute_one_hot(const CallSite& call, std::span<const Tensor> in, te::Graph& graph) {
  auto axis = static_cast<size_t>(call.integer("axis"));
  Expr depth = call.integer("depth");
  return {graph.compute("one_hot", call.out().shape, [&](const std::vector<Expr>& i) {
    std::vector<Expr> at = i;
    at.erase(at.begin() + static_cast<ptrdiff_t>(axis));
    Expr index = tir::cast(DType::I64, in[0](at));
    Expr hot = tir::eq(i[axis], tir::select(tir::lt(index, Expr(0)), index + depth, index));
    return tir::select(hot, in[1]({1}), in[1]({0}));
  })};
}

std::vector<ValueId> import_gather(OnnxNode& node, Builder& builder) {
  int64_t axis = normalized_axis(node, node.attr("axis", 0), node.type(0).rank());
  return {builder.call1(gather, {node.in(0), node.in(1)}, {{"axis", axis}})};
}

std::vector<ValueId> import_gather_elements(OnnxNode& node, Builder& builder) {
  int64_t axis = normalized_axis(node, node.attr("axis", 0), node.type(0).rank());
  return {builder.call1(gather_elements, {node.in(0), node.in(1)}, {{"axis", axis}})};
}

std::vector<ValueId> import_gather_nd(OnnxNode& node, Builder& builder) {
  return {builder.call1(gather_nd, {node.in(0), node.in(1)}, {{"batch_dims", node.attr("batch_dims", 0)}})};
}

/// Indices of any numeric type; one outside [-depth, depth) gives a row that is all off.
std::vector<ValueId> import_one_hot(OnnxNode& node, Builder& builder) {
  std::vector<double> depth = node.constant_floats(1);
  if (depth.size() != 1) node.malformed("the depth is not one number");
  int64_t axis = normalized_axis(node, node.attr("axis", -1), node.type(0).rank() + 1);
  ValueId indices = node.in(0);
  if (!is_integer(node.type(0).dtype)) indices = cast_to(builder, indices, DType::I64);
  return {builder.call1(one_hot, {indices, node.in(2)}, {{"axis", axis}, {"depth", static_cast<int64_t>(depth[0])}})};
}

bool is_nonzero(const Array& array, int64_t at) {
  auto size = static_cast<size_t>(byte_size(array.dtype));
  std::span<const std::byte> bytes = array.bytes.subspan(static_cast<size_t>(at) * size, size);
  for (size_t k = 0; k < size; ++k) {
    bool holds_sign = is_float(array.dtype) && k + 1 == size;
    if ((bytes[k] & std::byte(holds_sign ? 0x7f : 0xff)) != std::byte{0}) return true;
  }
  return false;
}

/// The positions of a constant's elements that are not zero: how many there are decides the shape.
std::vector<ValueId> import_non_zero(OnnxNode& node, Builder& builder) {
  const Array* x = node.constant(0);
  if (!x) node.unsupported("the shape of the result depends on values that are not known when compiling");
  std::vector<int64_t> found;
  for (int64_t at = 0; at < x->elements(); ++at)
    if (is_nonzero(*x, at)) found.push_back(at);
  std::vector<int64_t> positions;
  int64_t inner = x->elements();
  for (int64_t extent : x->shape) {
    inner = extent ? inner / extent : 0;
    for (int64_t at : found) positions.push_back(at / inner % extent);
  }
  Shape shape{static_cast<int64_t>(x->shape.size()), static_cast<int64_t>(found.size())};
  return {builder.constant(array_of(DType::I64, shape, positions), "nonzero")};
}

/// The slices of an axis (or the elements) at which a constant condition holds: a gather with constant indices.
std::vector<ValueId> import_compress(OnnxNode& node, Builder& builder) {
  const Array* condition = node.constant(1);
  if (!condition) node.unsupported("the shape of the result depends on a condition that is not known when compiling");
  ValueId x = node.in(0);
  int64_t axis = 0;
  if (node.has_attr("axis"))
    axis = normalized_axis(node, node.attr("axis", 0), node.type(0).rank());
  else
    x = builder.call1(reshape, {x}, {{"shape", Shape{-1}}});
  std::vector<int64_t> kept;
  for (int64_t at = 0; at < condition->elements(); ++at)
    if (is_nonzero(*condition, at)) kept.push_back(at);
  Shape shape{static_cast<int64_t>(kept.size())};
  ValueId indices = builder.constant(array_of(DType::I64, shape, kept), "kept");
  return {builder.call1(gather, {x, indices}, {{"axis", axis}})};
}

}  // namespace

const graph::OpDef gather{
    .name = "gather",
    .doc = "The slices of x along an axis that indices names. Negative indices count from the end; others are clamped.",
    .inputs = {{"x", "a tensor of rank 1 at least"}, {"indices", "i32 or i64, any shape, which replaces the axis"}},
    .attrs = {{"axis", AttrKind::Int, int64_t{0}, "the axis of x to index"}},
    .fusion = Fusion::Injective,
    .infer = infer_gather,
    .compute = compute_gather,
    .fold = fold_gather,
};

const graph::OpDef gather_elements{
    .name = "gather_elements",
    .doc = "For each element of indices, the element of x at its position but at that index on an axis. Indices as in `gather`.",
    .inputs = {{"x", "a tensor of rank 1 at least"}, {"indices", "i32 or i64, the rank of x"}},
    .attrs = {{"axis", AttrKind::Int, int64_t{0}, "the axis of x to index"}},
    .fusion = Fusion::Injective,
    .infer = infer_gather_elements,
    .compute = compute_gather_elements,
};

const graph::OpDef gather_nd{
    .name = "gather_nd",
    .doc = "The slices of x at the points that the last axis of indices holds. Indices as in `gather`.",
    .inputs = {{"x", "a tensor"}, {"indices", "i32 or i64: [batch…, points…, axes]"}},
    .attrs = {{"batch_dims", AttrKind::Int, int64_t{0}, "how many leading axes x and indices share"}},
    .fusion = Fusion::Injective,
    .infer = infer_gather_nd,
    .compute = compute_gather_nd,
};

const graph::OpDef one_hot{
    .name = "one_hot",
    .doc = "A new axis that is on at the index and off elsewhere; an index outside [-depth, depth) is off everywhere.",
    .inputs = {{"indices", "integers"}, {"values", "[2]: off, on"}},
    .attrs = {{"axis", AttrKind::Int, {}, "where the new axis stands"}, {"depth", AttrKind::Int, {}, "its extent"}},
    .fusion = Fusion::Injective,
    .dtypes = graph::kIntegers,
    .dtype_note = "integers: they name positions",
    .infer = infer_one_hot,
    .compute = compute_one_hot,
};

Family gather_family() {
  return {{&gather, &gather_elements, &gather_nd, &one_hot},
          {{"Gather", 1, import_gather},
           {"GatherElements", 11, import_gather_elements},
           {"GatherND", 11, import_gather_nd},
           {"OneHot", 9, import_one_hot},
           {"NonZero", 9, import_non_zero},
           {"Compress", 9, import_compress}}};
}

}  // namespace tenon::op
