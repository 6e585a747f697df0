// SPDX-License-Identifier: Apache-2.0
// Loop nests for operators whose meaning is an order of writes: scatter, sort, recurrences.
#pragma once

#include "te/te.h"

namespace tenon::op {

/// Serial loops over a box, outermost first, around `body`, which gets their variables. Names come from the graph.
tir::Stmt loop_nest(te::Graph& graph, std::span<const tir::Expr> extents,
                    function_ref<tir::Stmt(const std::vector<tir::Expr>&)> body);

/// A loop that copies every element of `from` into a buffer of its shape.
tir::Stmt copy_loop(te::Graph& graph, const te::Tensor& from, const tir::Buffer& to);

/// An index as ONNX gives it: a negative one counts from the end. One out of range becomes the nearest inside, so that
/// no index of the model's data can reach outside a tensor.
tir::Expr safe_index(const tir::Expr& index, const tir::Expr& extent);

}  // namespace tenon::op
