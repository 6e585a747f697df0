// SPDX-License-Identifier: Apache-2.0
// Matrix products: `matmul` of every rank, and ONNX's Gemm.
#include <fmt/format.h>

#include "op/all_ops.h"
#include "op/onnx_build.h"
#include "op/ops.h"
#include "op/shape_rules.h"

namespace tenon::op {
namespace {

using graph::Fusion;

/// The batch axes of an operand: all but the last two.
std::span<const Dim> batch_of(const std::vector<Dim>& shape) {
  return std::span(shape).first(shape.size() < 2 ? 0 : shape.size() - 2);
}

// matmul-C1  a is not a scalar
// matmul-C2  b is not a scalar
// matmul-C3  the last axis of a is the last but one of b (the only one of a vector)
// matmul-C4  the other leading axes broadcast
// same-dtype
std::vector<TensorType> infer_matmul(const CallSite& call) {
  const std::vector<Dim>&a = call.in(0).shape, &b = call.in(1).shape;
  if (a.empty()) call.error(0, "matmul-C1", "a vector or more axes");
  if (b.empty()) call.error(1, "matmul-C2", "a vector or more axes");
  DType dtype = same_dtype(call);
  const Dim& inner = b.size() == 1 ? b[0] : b[b.size() - 2];
  if (!structural_equal(a.back(), inner))
    call.error(1, "matmul-C3", fmt::format("extent {} at axis {}", to_string(a.back()), b.size() == 1 ? 0 : b.size() - 2));
  std::optional<std::vector<Dim>> out = broadcast(batch_of(a), batch_of(b));
  if (!out) call.error(1, "matmul-C4", "leading axes that broadcast with those of " + to_string(call.in(0)));
  if (a.size() > 1) out->push_back(a[a.size() - 2]);
  if (b.size() > 1) out->push_back(b.back());
  return {{dtype, *out}};
}

/// Sums a[…,m,k] * b[…,k,n] over k; a vector has no m or n.
std::vector<te::Tensor> compute_matmul(const CallSite& call, std::span<const te::Tensor> in, te::Graph& graph) {
  const te::Tensor &a = in[0], &b = in[1];
  const std::vector<Dim>& out = call.out().shape;
  bool has_m = a.rank() > 1, has_n = b.rank() > 1;
  std::span<const Dim> batch = std::span(out).first(out.size() - has_m - has_n);
  DType wide = accumulation_dtype(call.out().dtype);
  auto product = [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
    std::vector<Expr> at_a = broadcast_index(batch_of(a.shape()), batch, i),
                      at_b = broadcast_index(batch_of(b.shape()), batch, i);
    if (has_m) at_a.push_back(i[batch.size()]);
    at_a.push_back(r[0]);
    at_b.push_back(r[0]);
    if (has_n) at_b.push_back(i.back());
    return tir::cast(wide, a(std::move(at_a))) * tir::cast(wide, b(std::move(at_b)));
  };
  return {cast_tensor(graph, graph.sum("matmul", wide, out, {a.shape().back()}, product), call.out().dtype)};
}

/// alpha A' B' + beta C, where ' transposes if asked to; C broadcasts.
std::vector<ValueId> build_gemm(OnnxNode& node, Builder& builder) {
  auto operand = [&](size_t input, const char* flag) {
    if (node.type(input).rank() != 2)
      node.malformed(fmt::format("input {} is {}", input, to_string(node.type(input))), "a matrix");
    ValueId value = node.in(input);
    return node.attr(flag, int64_t{0}) != 0 ? builder.call1(transpose, {value}, {{"axes", Shape{1, 0}}}) : value;
  };
  DType dtype = node.type(0).dtype;
  auto scaled = [&](ValueId value, double factor) {
    return factor == 1 ? value : builder.call1(multiply, {value, scalar(builder, dtype, factor)});
  };
  ValueId a = operand(0, "transA"), b = operand(1, "transB");
  ValueId product = scaled(builder.call1(matmul, {a, b}), node.attr("alpha", 1.0));
  double beta = node.attr("beta", 1.0);
  if (!node.has(2)) return {product};
  return {builder.call1(add, {product, scaled(node.in(2), beta)})};
}

}  // namespace

const OpDef matmul{.name = "matmul",
                   .doc = "the product of the last two axes, leading ones broadcast; 16-bit floats are added at f32",
                   .inputs = {{"a", "[…, m, k], or a vector [k]"}, {"b", "[…, k, n], or a vector [k]"}},
                   .fusion = Fusion::OutputFusable,
                   .dtypes = graph::kNumeric,
                   .dtype_note = "a number: products are not defined on bool",
                   .infer = infer_matmul,
                   .compute = compute_matmul};

Family matmul_family() { return {.ops = {&matmul}, .onnx = {{"MatMul", 1, direct<matmul>}, {"Gemm", 7, build_gemm}}}; }

}  // namespace tenon::op
