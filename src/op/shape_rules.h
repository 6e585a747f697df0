// SPDX-License-Identifier: Apache-2.0
// Shape rules that operators share: broadcasting, equal dtypes, axes that count from either end.
#pragma once

#include <optional>

#include "graph/op_def.h"

namespace tenon::op {

using graph::CallSite;
using tir::Expr;

/// The shape that two shapes broadcast to by NumPy's rule, if they do.
std::optional<std::vector<Dim>> broadcast(std::span<const Dim> a, std::span<const Dim> b);

/// NumPy broadcasting of the operands from `first` on: trailing axes are matched, and an extent of 1 stretches. Symbolic
/// dimensions match by structure. Error broadcast-C1.
std::vector<Dim> broadcast_shape(const CallSite& call, size_t first = 0);

/// The operands from `first` on have one dtype, which is returned. Error same-dtype.
DType same_dtype(const CallSite& call, size_t first = 0);

/// The index into `shape` that broadcasts to `index` of a result of shape `out`.
std::vector<Expr> broadcast_index(std::span<const Dim> shape, std::span<const Dim> out, const std::vector<Expr>& index);

/// The element of `x` that broadcasts to `index` of a result of shape `out`.
Expr load_broadcast(const te::Tensor& x, std::span<const Dim> out, const std::vector<Expr>& index);

/// An axis in [-rank, rank) as one in [0, rank). Error `code` at operand 0.
int64_t resolve_axis(const CallSite& call, int64_t axis, int64_t rank, const char* code);

/// Axes in [-rank, rank), each named once, sorted and in [0, rank). Errors `range_code` and `repeat_code` at operand 0.
std::vector<int64_t> resolve_axes(const CallSite& call, std::span<const int64_t> axes, int64_t rank, const char* range_code,
                                  const char* repeat_code);

bool is_zero(const Dim& extent);
/// Whether an extent is known to be 0.
bool has_no_elements(std::span<const Dim> shape);

/// f32 for the 16-bit floats, whose sums would lose most of their digits otherwise; else the dtype itself.
DType accumulation_dtype(DType dtype);

/// An extent as a number of another dtype.
Expr extent_as(DType dtype, const Dim& extent);

/// `x` as `dtype` by a stage of its own, or `x` itself.
te::Tensor cast_tensor(te::Graph& graph, const te::Tensor& x, DType dtype);

}  // namespace tenon::op
