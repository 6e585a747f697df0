// SPDX-License-Identifier: Apache-2.0
// What the element-wise files share: how an operator is made from the meaning of one element.
#pragma once

#include "op/all_ops.h"
#include "op/ops.h"
#include "op/shape_rules.h"

namespace tenon::op {

using ComputeFn = decltype(graph::OpDef::compute);
using FoldFn = decltype(graph::OpDef::fold);

inline constexpr std::string_view kFloatNote = "a float: the operation is defined on real numbers";
inline constexpr std::string_view kNumberNote = "a number: arithmetic is not defined on bool";
inline constexpr std::string_view kSignedNote = "a signed number: the result may be negative";
inline constexpr std::string_view kIntegerNote = "an integer: the operation works on bits";
inline constexpr std::string_view kBoolNote = "bool: the operation is logical";

/// Operand and result have one shape and dtype.
std::vector<TensorType> infer_same(const CallSite& call);

/// A `compute` that applies F to each element: F(x), or F(call, x) where attributes matter.
template <auto F>
std::vector<te::Tensor> map_unary(const CallSite& call, std::span<const te::Tensor> in, te::Graph& graph) {
  return {graph.compute(call.op().name, call.out().shape, [&](const std::vector<Expr>& i) {
    if constexpr (std::is_invocable_v<decltype(F), const Expr&>)
      return F(in[0](i));
    else
      return F(call, in[0](i));
  })};
}

/// An operator on one tensor whose result has its shape and dtype.
graph::OpDef unary(std::string_view name, std::string_view doc, graph::DTypeSet dtypes, std::string_view dtype_note,
                   ComputeFn compute, FoldFn fold = nullptr, std::vector<graph::AttrSpec> attrs = {});

// The operators of each file.
std::vector<const graph::OpDef*> unary_ops();       // elementwise.cc
std::vector<const graph::OpDef*> activation_ops();  // activation.cc
std::vector<const graph::OpDef*> binary_ops();      // elementwise_binary.cc
std::vector<OnnxRule> elementwise_rules();          // elementwise_onnx.cc

}  // namespace tenon::op
