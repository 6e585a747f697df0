// SPDX-License-Identifier: Apache-2.0
// Operators that give a tensor another shape without choosing among its elements: reshape, transpose, broadcast_to, tile, repeat.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "op/all_ops.h"
#include "op/onnx_axes.h"
#include "op/ops.h"
#include "op/shape_rules.h"
#include "op/strided_copy.h"

namespace tenon::op {
namespace {

using graph::AttrKind;
using graph::CallSite;
using graph::Fusion;
using te::Tensor;
using tir::Expr;

constexpr int64_t kInferred = -1;
constexpr int64_t kCopied = -2;

/// The product of a shape, as its number and its symbolic factors.
struct Volume {
  int64_t number = 1;
  std::vector<Dim> symbols;

  void multiply(const CallSite& call, const Dim& dim) {
    const int64_t* extent = tir::as_int(dim);
    if (!extent)
      symbols.push_back(dim);
    else if (__builtin_mul_overflow(number, *extent, &number))
      call.error(0, "reshape-C2", "a shape of at most 2^62 elements");
  }
  /// Removes one symbolic factor equal to `dim`.
  void divide(const Dim& dim) {
    auto same = [&](const Dim& d) { return tir::structural_equal(d, dim); };
    auto it = std::find_if(symbols.begin(), symbols.end(), same);
    check(it != symbols.end(), "a copied dimension is a factor of the operand's volume");
    symbols.erase(it);
  }
};

/// What is left for the dimension given as -1.
Dim inferred_dim(const CallSite& call, const Volume& in, int64_t known) {
  Dim rest = in.number;
  if (known == 0 || (in.symbols.empty() && in.number % known != 0))
    call.error(0, "reshape-C2", fmt::format("a multiple of {} elements, for shape {}", known, to_string(call.integers("shape"))));
  bool exact = in.number % known == 0;
  if (exact) rest = in.number / known;
  for (const Dim& symbol : in.symbols) rest = rest * symbol;
  return exact ? rest : tir::floordiv(rest, known);
}

// C1  each entry of `shape` is an extent, or -2 at an axis that x has, or -1 once
// C2  x has as many elements as the new shape
std::vector<TensorType> infer_reshape(const CallSite& call) {
  const TensorType& x = call.in(0);
  const std::vector<int64_t>& shape = call.integers("shape");
  Volume volume;
  for (const Dim& dim : x.shape) volume.multiply(call, dim);
  std::vector<Dim> out;
  int64_t known = 1;
  ptrdiff_t inferred = -1;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    int64_t extent = shape[axis];
    if (extent < kCopied || (extent == kInferred && inferred >= 0) ||
        (extent == kCopied && static_cast<int64_t>(axis) >= x.rank()))
      call.error(0, "reshape-C1", fmt::format("a shape with one -1 at most, not {}", to_string(shape)));
    if (extent == kInferred) inferred = static_cast<ptrdiff_t>(axis);
    out.push_back(extent == kCopied ? x.shape[axis] : Dim(extent));
    const int64_t* number = tir::as_int(out.back());
    if (!number) volume.divide(out.back());
    if (number && extent != kInferred && __builtin_mul_overflow(known, *number, &known))
      call.error(0, "reshape-C2", "a shape of at most 2^62 elements");
  }
  if (inferred >= 0)
    out[static_cast<size_t>(inferred)] = inferred_dim(call, volume, known);
  else if (!volume.symbols.empty() || volume.number != known)
    call.error(0, "reshape-C2", fmt::format("{} elements, for shape {}", known, to_string(shape)));
  return {{x.dtype, std::move(out)}};
}

Expr ravel(std::span<const Expr> indices, std::span<const Expr> shape) {
  Expr flat = 0;
  for (size_t axis = 0; axis < indices.size(); ++axis) {
    const int64_t* extent = tir::as_int(shape[axis]);
    if (!extent || *extent != 1) flat = flat * shape[axis] + indices[axis];
  }
  return flat;
}

void unravel(Expr flat, std::span<const Expr> shape, std::vector<Expr>& indices) {
  size_t at = indices.size();
  indices.resize(at + shape.size());
  bool outermost = true;
  std::vector<bool> first(shape.size(), false);
  for (size_t axis = 0; axis < shape.size() && outermost; ++axis) {
    const int64_t* extent = tir::as_int(shape[axis]);
    outermost = extent && *extent == 1;
    first[axis] = !outermost;
  }
  for (size_t axis = shape.size(); axis-- > 0;) {
    const int64_t* extent = tir::as_int(shape[axis]);
    if (extent && *extent == 1) {
      indices[at + axis] = 0;
      continue;
    }
    indices[at + axis] = first[axis] ? flat : tir::floormod(flat, shape[axis]);
    flat = tir::floordiv(flat, shape[axis]);
  }
}

/// The axes of one side that a group of axes of the other side stands for: [from, to).
struct AxisGroup {
  size_t in_from, in_to, out_from, out_to;
};

/// Splits both shapes into the shortest groups of equal volume, so that each index stays as simple as it can be.
std::vector<AxisGroup> matching_groups(std::span<const Dim> in, std::span<const Dim> out) {
  std::vector<AxisGroup> groups;
  size_t i = 0, o = 0;
  while (i < in.size() || o < out.size()) {
    AxisGroup group{i, i, o, o};
    if (i < in.size() && o < out.size() && tir::structural_equal(in[i], out[o])) {
      groups.push_back({i, i + 1, o, o + 1});
      ++i, ++o;
      continue;
    }
    int64_t in_volume = 1, out_volume = 1;
    bool numbers = true;
    do {
      bool take_in = o == out.size() || (i < in.size() && in_volume <= out_volume);
      const int64_t* extent = tir::as_int(take_in ? in[i] : out[o]);
      numbers = extent != nullptr;
      if (numbers) (take_in ? in_volume : out_volume) *= *extent;
      ++(take_in ? i : o);
    } while (numbers && in_volume != out_volume && (i < in.size() || o < out.size()));
    if (!numbers) i = in.size(), o = out.size();
    group.in_to = i;
    group.out_to = o;
    groups.push_back(group);
  }
  return groups;
}

std::vector<Tensor> compute_reshape(const CallSite& call, std::span<const Tensor> in, te::Graph& graph) {
  std::span<const Expr> from(in[0].shape()), to(call.out().shape);
  return {graph.compute("reshape", call.out().shape, [&](const std::vector<Expr>& i) {
    std::vector<Expr> indices;
    for (const AxisGroup& g : matching_groups(from, to)) {
      size_t width = g.out_to - g.out_from;
      Expr flat = ravel(std::span(i).subspan(g.out_from, width), to.subspan(g.out_from, width));
      unravel(flat, from.subspan(g.in_from, g.in_to - g.in_from), indices);
    }
    return in[0](indices);
  })};
}

std::optional<std::vector<Array>> fold_reshape(const CallSite& call, std::span<const Array> in) {
  Array out = in[0];
  out.shape = call.out().static_shape();
  return std::vector<Array>{out};
}

// C1  `axes` names each axis of x once
std::vector<TensorType> infer_transpose(const CallSite& call) {
  const TensorType& x = call.in(0);
  const std::vector<int64_t>& axes = call.integers("axes");
  std::vector<int64_t> sorted = axes, all(x.shape.size());
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all)
    call.error(0, "transpose-C1", fmt::format("rank {} with each axis once, for axes {}", axes.size(), to_string(axes)));
  std::vector<Dim> out;
  for (int64_t axis : axes) out.push_back(x.dim(axis));
  return {{x.dtype, std::move(out)}};
}

std::vector<Tensor> compute_transpose(const CallSite& call, std::span<const Tensor> in, te::Graph& graph) {
  const std::vector<int64_t>& axes = call.integers("axes");
  return {graph.compute("transpose", call.out().shape, [&](const std::vector<Expr>& i) {
    std::vector<Expr> indices(i.size());
    for (size_t k = 0; k < axes.size(); ++k) indices[static_cast<size_t>(axes[k])] = i[k];
    return in[0](indices);
  })};
}

std::optional<std::vector<Array>> fold_transpose(const CallSite& call, std::span<const Array> in) {
  std::vector<int64_t> strides = row_major_strides(in[0].shape), permuted;
  for (int64_t axis : call.integers("axes")) permuted.push_back(strides[static_cast<size_t>(axis)]);
  return std::vector<Array>{gather_strided(in[0], call.out().static_shape(), std::move(permuted))};
}

// C1  `shape` has at least the rank of x
// C2  each axis of x, aligned at the right, is 1 or the new extent; an entry of -1 keeps the extent
std::vector<TensorType> infer_broadcast_to(const CallSite& call) {
  const TensorType& x = call.in(0);
  const std::vector<int64_t>& shape = call.integers("shape");
  if (static_cast<int64_t>(shape.size()) < x.rank())
    call.error(0, "broadcast_to-C1", fmt::format("rank {} at most, for shape {}", shape.size(), to_string(shape)));
  size_t lead = shape.size() - x.shape.size();
  std::vector<Dim> out;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    bool own = axis >= lead;
    bool keep = own && shape[axis] == -1;
    const int64_t* extent = own ? tir::as_int(x.shape[axis - lead]) : nullptr;
    bool fits = keep || (shape[axis] >= 0 && (!own || (extent && (*extent == 1 || *extent == shape[axis]))));
    if (!fits) call.error(0, "broadcast_to-C2", fmt::format("a shape that stretches to {}", to_string(shape)));
    out.push_back(keep ? x.shape[axis - lead] : Dim(shape[axis]));
  }
  return {{x.dtype, std::move(out)}};
}

std::vector<Tensor> compute_broadcast_to(const CallSite& call, std::span<const Tensor> in, te::Graph& graph) {
  const std::vector<Dim>& shape = call.out().shape;
  return {graph.compute("broadcast_to", shape, [&](const std::vector<Expr>& i) { return load_broadcast(in[0], shape, i); })};
}

std::optional<std::vector<Array>> fold_broadcast_to(const CallSite& call, std::span<const Array> in) {
  Shape shape = call.out().static_shape();
  std::vector<int64_t> own = row_major_strides(in[0].shape), strides(shape.size(), 0);
  size_t lead = shape.size() - own.size();
  for (size_t axis = 0; axis < own.size(); ++axis)
    if (in[0].shape[axis] != 1) strides[lead + axis] = own[axis];
  return std::vector<Array>{gather_strided(in[0], std::move(shape), std::move(strides))};
}

// C1  `reps` has one count >= 0 for each axis of x
std::vector<TensorType> infer_tile(const CallSite& call) {
  const TensorType& x = call.in(0);
  const std::vector<int64_t>& reps = call.integers("reps");
  bool counts = std::all_of(reps.begin(), reps.end(), [](int64_t r) { return r >= 0; });
  if (static_cast<int64_t>(reps.size()) != x.rank() || !counts)
    call.error(0, "tile-C1", fmt::format("rank {} and counts >= 0, for reps {}", reps.size(), to_string(reps)));
  std::vector<Dim> out;
  for (size_t axis = 0; axis < reps.size(); ++axis) out.push_back(x.shape[axis] * Expr(reps[axis]));
  return {{x.dtype, std::move(out)}};
}

std::vector<Tensor> compute_tile(const CallSite& call, std::span<const Tensor> in, te::Graph& graph) {
  const std::vector<int64_t>& reps = call.integers("reps");
  return {graph.compute("tile", call.out().shape, [&](const std::vector<Expr>& i) {
    std::vector<Expr> indices = i;
    for (size_t axis = 0; axis < i.size(); ++axis)
      if (reps[axis] > 1) indices[axis] = tir::floormod(i[axis], in[0].shape()[axis]);
    return in[0](indices);
  })};
}

std::optional<std::vector<Array>> fold_tile(const CallSite& call, std::span<const Array> in) {
  const std::vector<int64_t>& reps = call.integers("reps");
  std::vector<int64_t> own = row_major_strides(in[0].shape);
  Shape split;
  std::vector<int64_t> strides;
  for (size_t axis = 0; axis < reps.size(); ++axis) {
    split.insert(split.end(), {reps[axis], in[0].shape[axis]});
    strides.insert(strides.end(), {0, own[axis]});
  }
  Array out = gather_strided(in[0], std::move(split), std::move(strides));
  out.shape = call.out().static_shape();
  return std::vector<Array>{out};
}

// C1  `axis` is an axis of x
// C2  `times` is 0 or more
std::vector<TensorType> infer_repeat(const CallSite& call) {
  TensorType out = call.in(0);
  int64_t axis = call.integer("axis"), times = call.integer("times");
  if (axis < 0 || axis >= out.rank()) call.error(0, "repeat-C1", fmt::format("a tensor with an axis {}", axis));
  if (times < 0) call.error(-1, "repeat-C2", fmt::format("a count >= 0, not {}", times));
  Dim& dim = out.shape[static_cast<size_t>(axis)];
  dim = dim * Expr(times);
  return {out};
}

std::vector<Tensor> compute_repeat(const CallSite& call, std::span<const Tensor> in, te::Graph& graph) {
  auto axis = static_cast<size_t>(call.integer("axis"));
  Expr times = call.integer("times");
  return {graph.compute("repeat", call.out().shape, [&](const std::vector<Expr>& i) {
    std::vector<Expr> indices = i;
    indices[axis] = tir::floordiv(i[axis], times);
    return in[0](indices);
  })};
}

std::optional<std::vector<Array>> fold_repeat(const CallSite& call, std::span<const Array> in) {
  auto after = static_cast<ptrdiff_t>(call.integer("axis")) + 1;
  Shape split = in[0].shape;
  std::vector<int64_t> strides = row_major_strides(split);
  split.insert(split.begin() + after, call.integer("times"));
  strides.insert(strides.begin() + after, 0);
  Array out = gather_strided(in[0], std::move(split), std::move(strides));
  out.shape = call.out().static_shape();
  return std::vector<Array>{out};
}

ValueId reshape_to(Builder& builder, ValueId x, std::vector<int64_t> shape) {
  return builder.call1(reshape, {x}, {{"shape", std::move(shape)}});
}

/// Each dimension as `reshape` takes it: its number, or -2 where it is a symbol.
std::vector<int64_t> dims_or_copied(const TensorType& type) {
  std::vector<int64_t> out;
  for (const Dim& dim : type.shape) {
    const int64_t* extent = tir::as_int(dim);
    out.push_back(extent ? *extent : kCopied);
  }
  return out;
}

std::vector<ValueId> import_reshape(OnnxNode& node, Builder& builder) {
  std::vector<int64_t> shape = node.constant_ints(1);
  bool allow_zero = node.opset() >= 14 && node.attr("allowzero", 0) != 0;
  const TensorType& x = node.type(0);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] < kInferred) node.malformed("a reshape to " + to_string(shape), "extents >= 0 and one -1");
    if (shape[axis] != 0 || allow_zero) continue;
    if (axis >= x.shape.size()) node.malformed("a reshape that copies an axis its input lacks", {}, to_string(shape));
    const int64_t* extent = tir::as_int(x.shape[axis]);
    shape[axis] = extent ? *extent : kCopied;
  }
  return {reshape_to(builder, node.in(0), std::move(shape))};
}

std::vector<ValueId> import_flatten(OnnxNode& node, Builder& builder) {
  const TensorType& x = node.type(0);
  int64_t axis = node.attr("axis", 1);
  if (axis < 0) axis += x.rank();
  if (axis < 0 || axis > x.rank()) node.malformed("`axis` is outside the input's rank", fmt::format("at most {}", x.rank()));
  auto volume = [&](int64_t from, int64_t to) {
    Dim product = 1;
    for (int64_t k = from; k < to; ++k) product = product * x.dim(k);
    return product;
  };
  const Dim before = volume(0, axis), after = volume(axis, x.rank());
  const int64_t* rows = tir::as_int(before);
  const int64_t* columns = tir::as_int(after);
  if (!rows && !columns) node.unsupported("flattening with unknown extents on both sides of the axis");
  return {reshape_to(builder, node.in(0), {rows ? *rows : kInferred, columns ? *columns : kInferred})};
}

/// The axes of Squeeze and Unsqueeze: an attribute before opset 13, then an input.
std::vector<int64_t> axes_of(OnnxNode& node, int64_t rank, const std::vector<int64_t>& fallback) {
  if (node.opset() < 13) return normalized_axes(node, node.ints("axes", fallback), rank);
  return node.has(1) ? normalized_axes(node, node.constant_ints(1), rank) : fallback;
}

std::vector<ValueId> import_squeeze(OnnxNode& node, Builder& builder) {
  const TensorType& x = node.type(0);
  std::vector<int64_t> ones;
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    const int64_t* extent = tir::as_int(x.dim(axis));
    if (extent && *extent == 1) ones.push_back(axis);
  }
  std::vector<int64_t> axes = axes_of(node, x.rank(), ones);
  std::vector<int64_t> shape;
  std::vector<int64_t> dims = dims_or_copied(x);
  bool moved = false;
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    int64_t extent = dims[static_cast<size_t>(axis)];
    if (!std::count(axes.begin(), axes.end(), axis)) {
      shape.push_back(extent == kCopied && moved ? kInferred : extent);
      continue;
    }
    if (extent != 1) node.malformed(fmt::format("axis {} is squeezed", axis), "extent 1", to_string(x.dim(axis)));
    moved = true;
  }
  if (std::count(shape.begin(), shape.end(), kInferred) > 1) node.unsupported("squeezing before several unknown extents");
  return {reshape_to(builder, node.in(0), std::move(shape))};
}

std::vector<ValueId> import_unsqueeze(OnnxNode& node, Builder& builder) {
  const TensorType& x = node.type(0);
  std::vector<int64_t> given = node.opset() < 13 ? node.ints("axes", {}) : node.constant_ints(1);
  int64_t rank = x.rank() + static_cast<int64_t>(given.size());
  std::vector<int64_t> axes = normalized_axes(node, given, rank);
  std::vector<int64_t> dims = dims_or_copied(x), shape;
  size_t next = 0;
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (std::count(axes.begin(), axes.end(), axis)) {
      shape.push_back(1);
      continue;
    }
    bool moved = static_cast<int64_t>(next) != axis;
    int64_t extent = dims[next++];
    shape.push_back(extent == kCopied && moved ? kInferred : extent);
  }
  if (std::count(shape.begin(), shape.end(), kInferred) > 1) node.unsupported("inserting axes before several unknown extents");
  return {reshape_to(builder, node.in(0), std::move(shape))};
}

std::vector<ValueId> import_transpose(OnnxNode& node, Builder& builder) {
  std::vector<int64_t> reversed(node.type(0).shape.size());
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  return {builder.call1(transpose, {node.in(0)}, {{"axes", node.ints("perm", reversed)}})};
}

std::vector<ValueId> import_expand(OnnxNode& node, Builder& builder) {
  std::vector<int64_t> shape = node.constant_ints(1);
  const TensorType& x = node.type(0);
  while (static_cast<int64_t>(shape.size()) < x.rank()) shape.insert(shape.begin(), 1);
  size_t lead = shape.size() - x.shape.size();
  for (size_t axis = lead; axis < shape.size(); ++axis) {
    const int64_t* extent = tir::as_int(x.shape[axis - lead]);
    if (shape[axis] == 1) shape[axis] = extent ? *extent : -1;
  }
  return {builder.call1(broadcast_to, {node.in(0)}, {{"shape", std::move(shape)}})};
}

std::vector<ValueId> import_tile(OnnxNode& node, Builder& builder) {
  return {builder.call1(tile, {node.in(0)}, {{"reps", node.constant_ints(1)}})};
}

/// The extents of [start, end) of the input's axes, which must be known.
std::vector<ValueId> import_shape(OnnxNode& node, Builder& builder) {
  const TensorType& x = node.type(0);
  auto clamped = [&](int64_t axis) { return std::clamp<int64_t>(axis < 0 ? axis + x.rank() : axis, 0, x.rank()); };
  int64_t start = node.opset() < 15 ? 0 : clamped(node.attr("start", 0));
  int64_t end = node.opset() < 15 ? x.rank() : clamped(node.attr("end", x.rank()));
  std::vector<int64_t> extents;
  for (int64_t axis = start; axis < end; ++axis) {
    const int64_t* extent = tir::as_int(x.dim(axis));
    if (!extent)
      node.unsupported(fmt::format("the extent {} of an input's shape is not known when compiling", to_string(x.dim(axis))));
    extents.push_back(*extent);
  }
  auto count = static_cast<int64_t>(extents.size());
  return {builder.constant(array_of<int64_t>(DType::I64, {count}, extents), "shape")};
}

std::vector<ValueId> import_size(OnnxNode& node, Builder& builder) {
  const TensorType& x = node.type(0);
  if (!x.is_static()) node.unsupported("the size of " + to_string(x) + " is not known when compiling");
  return {builder.constant(array_of<int64_t>(DType::I64, {}, {x.elements()}), "size")};
}

/// Axes [b, b, c] or [c, b, b] of a block of space move into or out of the channels: a reshape around a transpose.
std::vector<ValueId> import_depth_to_space(OnnxNode& node, Builder& builder) {
  const TensorType& x = node.type(0);
  int64_t block = node.attr("blocksize", 0);
  std::string mode = node.attr("mode", "DCR");
  if (x.rank() != 4 || !x.is_static()) node.unsupported("an input of " + to_string(x) + ", not of four known extents");
  Shape s = x.static_shape();
  if (block <= 0 || s[1] % (block * block) != 0) node.malformed("the channels are not a multiple of the block's size squared");
  int64_t depth = s[1] / (block * block);
  bool depth_first = mode == "CRD";
  Shape split = depth_first ? Shape{s[0], depth, block, block, s[2], s[3]} : Shape{s[0], block, block, depth, s[2], s[3]};
  Shape axes = depth_first ? Shape{0, 1, 4, 2, 5, 3} : Shape{0, 3, 4, 1, 5, 2};
  ValueId blocks = builder.call1(transpose, {reshape_to(builder, node.in(0), split)}, {{"axes", axes}});
  return {reshape_to(builder, blocks, {s[0], depth, s[2] * block, s[3] * block})};
}

std::vector<ValueId> import_space_to_depth(OnnxNode& node, Builder& builder) {
  const TensorType& x = node.type(0);
  int64_t block = node.attr("blocksize", 0);
  if (x.rank() != 4 || !x.is_static()) node.unsupported("an input of " + to_string(x) + ", not of four known extents");
  Shape s = x.static_shape();
  if (block <= 0 || s[2] % block != 0 || s[3] % block != 0)
    node.malformed("the spatial extents are not multiples of the block's size");
  Shape split{s[0], s[1], s[2] / block, block, s[3] / block, block};
  ValueId blocks = builder.call1(transpose, {reshape_to(builder, node.in(0), split)}, {{"axes", Shape{0, 3, 5, 1, 2, 4}}});
  return {reshape_to(builder, blocks, {s[0], s[1] * block * block, s[2] / block, s[3] / block})};
}

}  // namespace

const graph::OpDef reshape{
    .name = "reshape",
    .doc = "The elements of x in row-major order under another shape.",
    .inputs = {{"x", "any tensor"}},
    .attrs = {{"shape", AttrKind::Ints, {}, "the new extents; -1 once for what is left, -2 for the extent of x at that axis"}},
    .fusion = Fusion::Injective,
    .infer = infer_reshape,
    .compute = compute_reshape,
    .fold = fold_reshape,
    .view = true,
};

const graph::OpDef transpose{
    .name = "transpose",
    .doc = "The axes of x in another order: axis k of the result is axis axes[k] of x.",
    .inputs = {{"x", "any tensor"}},
    .attrs = {{"axes", AttrKind::Ints, {}, "each axis of x once"}},
    .fusion = Fusion::Injective,
    .infer = infer_transpose,
    .compute = compute_transpose,
    .fold = fold_transpose,
};

const graph::OpDef broadcast_to{
    .name = "broadcast_to",
    .doc = "x stretched to a shape: axes align at the right, and extent 1 repeats.",
    .inputs = {{"x", "any tensor"}},
    .attrs = {{"shape", AttrKind::Ints, {}, "the new extents; -1 keeps the extent of x"}},
    .fusion = Fusion::Broadcast,
    .infer = infer_broadcast_to,
    .compute = compute_broadcast_to,
    .fold = fold_broadcast_to,
};

const graph::OpDef tile{
    .name = "tile",
    .doc = "x repeated reps[k] times along each axis k.",
    .inputs = {{"x", "any tensor"}},
    .attrs = {{"reps", AttrKind::Ints, {}, "a count for each axis"}},
    .fusion = Fusion::Injective,
    .infer = infer_tile,
    .compute = compute_tile,
    .fold = fold_tile,
};

const graph::OpDef repeat{
    .name = "repeat",
    .doc = "x with each point of an axis `times` times in a row.",
    .inputs = {{"x", "rank 1 at least"}},
    .attrs = {{"axis", AttrKind::Int, {}, "the axis to stretch"}, {"times", AttrKind::Int, {}, "how often"}},
    .fusion = Fusion::Injective,
    .infer = infer_repeat,
    .compute = compute_repeat,
    .fold = fold_repeat,
};

Family shape_family() {
  return {{&reshape, &transpose, &broadcast_to, &tile, &repeat},
          {{"Reshape", 5, import_reshape},
           {"Flatten", 1, import_flatten},
           {"Squeeze", 1, import_squeeze},
           {"Unsqueeze", 1, import_unsqueeze},
           {"Transpose", 1, import_transpose},
           {"Expand", 8, import_expand},
           {"Tile", 6, import_tile},
           {"Shape", 1, import_shape},
           {"Size", 1, import_size},
           {"DepthToSpace", 1, import_depth_to_space},
           {"SpaceToDepth", 1, import_space_to_depth}}};
}

}  // namespace tenon::op
