// SPDX-License-Identifier: Apache-2.0
// Writing elements at positions that another tensor holds: scatter_elements, scatter_nd.
#include <fmt/format.h>

#include "op/all_ops.h"
#include "op/loop_nest.h"
#include "op/onnx_axes.h"
#include "op/onnx_build.h"
#include "op/ops.h"

namespace tenon::op {
namespace {

using graph::AttrKind;
using graph::CallSite;
using graph::Fusion;
using te::Tensor;
using tir::Expr;

bool is_reduction(std::string_view r) { return r == "none" || r == "add" || r == "mul" || r == "min" || r == "max"; }

/// What an element becomes when `update` reaches it.
Expr combine(const std::string& reduction, const Expr& old, const Expr& update) {
  if (reduction == "add") return old + update;
  if (reduction == "mul") return old * update;
  if (reduction == "min") return tir::min(old, update);
  if (reduction == "max") return tir::max(old, update);
  return update;
}

/// The checks both operators share, reported by the codes given.
void check_scatter(const CallSite& call, const char* dtype_code, const char* reduction_code) {
  const TensorType &x = call.in(0), &indices = call.in(1), &updates = call.in(2);
  if (indices.dtype != DType::I32 && indices.dtype != DType::I64) call.error(1, dtype_code, "i32 or i64");
  if (updates.dtype != x.dtype) call.error(2, dtype_code, fmt::format("the dtype of `x`, {}", name(x.dtype)));
  const std::string& reduction = call.text("reduction");
  if (!is_reduction(reduction) || (reduction != "none" && x.dtype == DType::Bool))
    call.error(0, reduction_code, fmt::format("numbers, and a reduction none, add, mul, min or max, not `{}`", reduction));
}

/// Copies x, then writes `updates` one after another in row-major order, each at the point that `target` gives.
std::vector<Tensor> scatter(const CallSite& call, std::span<const Tensor> in, te::Graph& graph,
                            function_ref<std::vector<Expr>(const std::vector<Expr>&)> target) {
  const std::string& reduction = call.text("reduction");
  return graph.external(call.op().name, {call.out()}, [&](const std::vector<tir::Buffer>& out) {
    tir::Stmt copy = copy_loop(graph, in[0], out[0]);
    tir::Stmt write = loop_nest(graph, in[2].shape(), [&](const std::vector<Expr>& i) {
      std::vector<Expr> point = target(i);
      return tir::store(out[0], point, combine(reduction, tir::load(out[0], point), in[2](i)));
    });
    return tir::seq({copy, write});
  });
}

/// Whether `part` is known to be no larger than `whole`.
bool at_most(const Dim& part, const Dim& whole) {
  const int64_t *a = tir::as_int(part), *b = tir::as_int(whole);
  return a && b ? *a <= *b : tir::structural_equal(part, whole);
}

// C1  indices is i32 or i64; updates has the dtype of x
// C2  the reduction is known; one other than none takes numbers
// C3  `axis` is an axis of x; indices has the rank of x and the shape of updates
// C4  indices reaches no further than x on the other axes, and the axis has elements where indices has some
std::vector<TensorType> infer_scatter_elements(const CallSite& call) {
  check_scatter(call, "scatter_elements-C1", "scatter_elements-C2");
  const TensorType &x = call.in(0), &indices = call.in(1), &updates = call.in(2);
  int64_t axis = call.integer("axis");
  if (axis < 0 || axis >= x.rank() || indices.rank() != x.rank() || !same_shape(indices.shape, updates.shape))
    call.error(1, "scatter_elements-C3", fmt::format("the rank of x and the shape of updates, and an axis {}", axis));
  for (int64_t k = 0; k < x.rank(); ++k) {
    bool empty_axis = tir::structural_equal(x.dim(k), 0) && !tir::structural_equal(indices.dim(k), 0);
    if (k == axis ? empty_axis : !at_most(indices.dim(k), x.dim(k)))
      call.error(1, "scatter_elements-C4", fmt::format("at most the extents of x, which is {}", to_string(x)));
  }
  return {x};
}

std::vector<Tensor> compute_scatter_elements(const CallSite& call, std::span<const Tensor> in, te::Graph& graph) {
  int64_t axis = call.integer("axis");
  return scatter(call, in, graph, [&](const std::vector<Expr>& i) {
    std::vector<Expr> point = i;
    point[static_cast<size_t>(axis)] = safe_index(in[1](i), in[0].dim(axis));
    return point;
  });
}

// C1, C2  as scatter_elements
// C3  indices is [points…, axes] with a known last extent, at most the rank of x
// C4  updates is [points…] and then the axes of x that are not indexed; indexed axes have elements
std::vector<TensorType> infer_scatter_nd(const CallSite& call) {
  check_scatter(call, "scatter_nd-C1", "scatter_nd-C2");
  const TensorType &x = call.in(0), &indices = call.in(1);
  const int64_t* depth = indices.rank() > 0 ? tir::as_int(indices.shape.back()) : nullptr;
  if (!depth || *depth > x.rank()) call.error(1, "scatter_nd-C3", fmt::format("[points…, axes] with at most {} axes", x.rank()));
  std::vector<Dim> expected(indices.shape.begin(), indices.shape.end() - 1);
  expected.insert(expected.end(), x.shape.begin() + *depth, x.shape.end());
  bool fits = same_shape(call.in(2).shape, expected);
  for (int64_t k = 0; k < *depth; ++k) fits = fits && !tir::structural_equal(x.dim(k), 0);
  if (!fits) call.error(2, "scatter_nd-C4", to_string(TensorType(x.dtype, expected)));
  return {x};
}

std::vector<Tensor> compute_scatter_nd(const CallSite& call, std::span<const Tensor> in, te::Graph& graph) {
  int64_t depth = tir::int_value(in[1].shape().back());
  return scatter(call, in, graph, [&](const std::vector<Expr>& i) {
    auto tail = i.begin() + in[1].rank() - 1;
    std::vector<Expr> at(i.begin(), tail), point;
    at.emplace_back();
    for (int64_t k = 0; k < depth; ++k) {
      at.back() = k;
      point.push_back(safe_index(in[1](at), in[0].dim(k)));
    }
    point.insert(point.end(), tail, i.end());
    return point;
  });
}

/// Opset 16 brings add and mul, 18 min and max.
std::string reduction_of(OnnxNode& node) { return node.opset() >= 16 ? node.attr("reduction", "none") : "none"; }

std::vector<ValueId> import_scatter_elements(OnnxNode& node, Builder& builder) {
  int64_t axis = normalized_axis(node, node.attr("axis", 0), node.type(0).rank());
  return {
      builder.call1(scatter_elements, {node.in(0), node.in(1), node.in(2)}, {{"axis", axis}, {"reduction", reduction_of(node)}})};
}

std::vector<ValueId> import_scatter_nd(OnnxNode& node, Builder& builder) {
  return {builder.call1(scatter_nd, {node.in(0), node.in(1), node.in(2)}, {{"reduction", reduction_of(node)}})};
}

/// The shape before a pooling with this window, from the pooled one.
Shape unpooled_shape(OnnxNode& node, const Shape& pooled) {
  std::vector<int64_t> kernel = node.ints("kernel_shape", {});
  size_t rank = kernel.size();
  std::vector<int64_t> strides = node.ints("strides", std::vector<int64_t>(rank, 1));
  std::vector<int64_t> pads = node.ints("pads", std::vector<int64_t>(2 * rank, 0));
  if (pooled.size() != rank + 2 || strides.size() != rank || pads.size() != 2 * rank)
    node.malformed("the window does not fit its input", to_string(pooled), to_string(kernel));
  Shape shape = pooled;
  for (size_t k = 0; k < rank; ++k) {
    shape[k + 2] = (pooled[k + 2] - 1) * strides[k] - pads[k] - pads[rank + k] + kernel[k];
    if (shape[k + 2] <= 0) node.malformed("the window cuts everything away");
  }
  return shape;
}

/// Zeros with each element at the position in the flat result that its index names; a larger shape is filled at its end.
std::vector<ValueId> import_max_unpool(OnnxNode& node, Builder& builder) {
  if (!node.type(0).is_static()) node.unsupported("an input of " + to_string(node.type(0)) + ", whose extents are not known");
  Shape shape = unpooled_shape(node, node.type(0).static_shape());
  auto flat = [&](ValueId v) { return builder.call1(reshape, {v}, {{"shape", Shape{-1}}}); };
  ValueId zero = scalar(builder, node.type(0).dtype, 0);
  ValueId zeros = builder.call1(broadcast_to, {zero}, {{"shape", Shape{element_count(shape)}}});
  ValueId filled = builder.call1(scatter_elements, {zeros, flat(node.in(1)), flat(node.in(0))}, {{"axis", int64_t{0}}});
  ValueId result = builder.call1(reshape, {filled}, {{"shape", shape}});
  if (!node.has(2)) return {result};
  Shape wanted = node.constant_ints(2), after;
  if (wanted.size() != shape.size())
    node.malformed("the shape of the result has the wrong rank", to_string(shape), to_string(wanted));
  for (size_t k = 0; k < shape.size(); ++k) after.push_back(wanted[k] - shape[k]);
  return {builder.call1(pad, {result, zero}, {{"before", Shape(shape.size(), 0)}, {"after", after}})};
}

}  // namespace

const graph::OpDef scatter_elements{
    .name = "scatter_elements",
    .doc =
        "x with each element of updates at its own position but at the index on an axis. Later updates win; indices as in "
        "`gather`.",
    .inputs = {{"x", "a tensor of rank 1 at least"},
               {"indices", "i32 or i64, the rank of x"},
               {"updates", "the shape of indices"}},
    .attrs = {{"axis", AttrKind::Int, int64_t{0}, "the axis of x to index"},
              {"reduction", AttrKind::String, std::string("none"), "how an update joins the element: none, add, mul, min, max"}},
    .fusion = Fusion::Opaque,
    .infer = infer_scatter_elements,
    .compute = compute_scatter_elements,
};

const graph::OpDef scatter_nd{
    .name = "scatter_nd",
    .doc =
        "x with slices of updates at the points that the last axis of indices holds. Later updates win; indices as in `gather`.",
    .inputs = {{"x", "a tensor"}, {"indices", "i32 or i64: [points…, axes]"}, {"updates", "[points…] and the other axes of x"}},
    .attrs = {{"reduction", AttrKind::String, std::string("none"), "how an update joins the element: none, add, mul, min, max"}},
    .fusion = Fusion::Opaque,
    .infer = infer_scatter_nd,
    .compute = compute_scatter_nd,
};

Family scatter_family() {
  return {{&scatter_elements, &scatter_nd},
          {{"Scatter", 9, import_scatter_elements},
           {"ScatterElements", 11, import_scatter_elements},
           {"ScatterND", 11, import_scatter_nd},
           {"MaxUnpool", 9, import_max_unpool}}};
}

}  // namespace tenon::op
