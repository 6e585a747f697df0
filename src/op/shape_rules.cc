// SPDX-License-Identifier: Apache-2.0
// Shape rules that operators share.
#include "op/shape_rules.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::op {
namespace {

bool is_one(const Dim& dim) {
  const int64_t* k = tir::as_int(dim);
  return k && *k == 1;
}

}  // namespace

std::optional<std::vector<Dim>> broadcast(std::span<const Dim> a, std::span<const Dim> b) {
  if (a.size() < b.size()) std::swap(a, b);
  std::vector<Dim> out(a.begin(), a.end());
  for (size_t k = 0; k < b.size(); ++k) {
    Dim& merged = out[a.size() - b.size() + k];
    if (is_one(merged))
      merged = b[k];
    else if (!is_one(b[k]) && !structural_equal(merged, b[k]))
      return std::nullopt;
  }
  return out;
}

std::vector<Dim> broadcast_shape(const CallSite& call, size_t first) {
  std::vector<Dim> out = call.in(first).shape;
  for (size_t i = first + 1; i < call.input_count(); ++i) {
    auto merged = broadcast(out, call.in(i).shape);
    if (!merged) call.error(static_cast<int>(i), "broadcast-C1", fmt::format("a shape that broadcasts with {}", to_string(out)));
    out = std::move(*merged);
  }
  return out;
}

DType same_dtype(const CallSite& call, size_t first) {
  DType dtype = call.in(first).dtype;
  for (size_t i = first + 1; i < call.input_count(); ++i)
    if (call.in(i).dtype != dtype) call.error(static_cast<int>(i), "same-dtype", fmt::format("dtype {}", name(dtype)));
  return dtype;
}

std::vector<Expr> broadcast_index(std::span<const Dim> shape, std::span<const Dim> out, const std::vector<Expr>& index) {
  size_t lead = out.size() - shape.size();
  std::vector<Expr> at;
  for (size_t k = 0; k < shape.size(); ++k) at.push_back(structural_equal(shape[k], out[lead + k]) ? index[lead + k] : Expr(0));
  return at;
}

Expr load_broadcast(const te::Tensor& x, std::span<const Dim> out, const std::vector<Expr>& index) {
  return x(broadcast_index(x.shape(), out, index));
}

int64_t resolve_axis(const CallSite& call, int64_t axis, int64_t rank, const char* code) {
  if (axis < -rank || axis >= rank) call.error(0, code, fmt::format("a rank that has axis {}", axis));
  return axis < 0 ? axis + rank : axis;
}

std::vector<int64_t> resolve_axes(const CallSite& call, std::span<const int64_t> axes, int64_t rank, const char* range_code,
                                  const char* repeat_code) {
  std::vector<int64_t> resolved;
  for (int64_t axis : axes) resolved.push_back(resolve_axis(call, axis, rank, range_code));
  std::sort(resolved.begin(), resolved.end());
  if (std::adjacent_find(resolved.begin(), resolved.end()) != resolved.end())
    call.error(0, repeat_code, fmt::format("each axis once, not [{}]", fmt::join(axes, ",")));
  return resolved;
}

bool is_zero(const Dim& extent) {
  const int64_t* known = tir::as_int(extent);
  return known && *known == 0;
}

bool has_no_elements(std::span<const Dim> shape) { return std::any_of(shape.begin(), shape.end(), is_zero); }

DType accumulation_dtype(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16 ? DType::F32 : dtype; }

Expr extent_as(DType dtype, const Dim& extent) {
  const int64_t* k = tir::as_int(extent);
  return k ? tir::imm(dtype, static_cast<double>(*k)) : tir::cast(dtype, extent);
}

te::Tensor cast_tensor(te::Graph& graph, const te::Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return graph.compute("rounded", x.shape(), [&](const std::vector<Expr>& i) { return tir::cast(dtype, x(i)); });
}

}  // namespace tenon::op
