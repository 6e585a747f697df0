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

std::vector<Dim> broadcast_shape(const CallSite& call, size_t first) {
  std::vector<Dim> out;
  for (size_t i = first; i < call.input_count(); ++i) {
    const std::vector<Dim>& shape = call.in(i).shape;
    if (shape.size() > out.size()) out.insert(out.begin(), shape.size() - out.size(), Dim(1));
    size_t lead = out.size() - shape.size();
    for (size_t k = 0; k < shape.size(); ++k) {
      Dim& merged = out[lead + k];
      if (is_one(merged))
        merged = shape[k];
      else if (!is_one(shape[k]) && !structural_equal(merged, shape[k]))
        call.error(
            static_cast<int>(i), "broadcast-C1",
            fmt::format("extent 1 or {} at axis {}, to broadcast with {}", to_string(merged), k, to_string(call.in(first))));
    }
  }
  return out;
}

DType same_dtype(const CallSite& call, size_t first) {
  DType dtype = call.in(first).dtype;
  for (size_t i = first + 1; i < call.input_count(); ++i)
    if (call.in(i).dtype != dtype) call.error(static_cast<int>(i), "same-dtype", fmt::format("dtype {}", name(dtype)));
  return dtype;
}

Expr load_broadcast(const te::Tensor& x, std::span<const Dim> out, const std::vector<Expr>& index) {
  size_t lead = out.size() - x.shape().size();
  std::vector<Expr> at;
  for (size_t k = 0; k < x.shape().size(); ++k)
    at.push_back(structural_equal(x.shape()[k], out[lead + k]) ? index[lead + k] : Expr(0));
  return x(std::move(at));
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

DType accumulation_dtype(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16 ? DType::F32 : dtype; }

te::Tensor cast_tensor(te::Graph& graph, const te::Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return graph.compute("rounded", x.shape(), [&](const std::vector<Expr>& i) { return tir::cast(dtype, x(i)); });
}

}  // namespace tenon::op
