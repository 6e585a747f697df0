// SPDX-License-Identifier: Apache-2.0
// Every operator and every ONNX rule. A family file defines two functions and is listed once in all_ops.cc.
#pragma once

#include <vector>

#include "graph/op_def.h"
#include "op/onnx_node.h"

namespace tenon::op {

/// What one file of this folder contributes.
struct Family {
  std::vector<const graph::OpDef*> ops;
  std::vector<OnnxRule> onnx;
};

const graph::OpTable& all_ops();

/// The rule for an ONNX operator at an opset: the one with the largest `since` not above it; null if none.
const OnnxRule* find_onnx_rule(std::string_view op_type, int opset);
/// Sorted by name, then opset.
const std::vector<OnnxRule>& all_onnx_rules();

// One per file, in the order of all_ops.cc.
// clang-format off
Family elementwise_family();  // elementwise.cc: unary and binary math, comparison, logic, cast, where, clip
Family reduce_family();  // reduce.cc: sum, mean, max, min, prod, arg reductions
Family matmul_family();  // matmul.cc: matrix products
Family conv_family();  // conv.cc
Family conv_transpose_family();  // conv_transpose.cc
Family pool_family();  // pool.cc
Family norm_family();  // norm.cc: batch, layer, instance and group norm, LRN
Family softmax_family();  // softmax.cc
Family shape_family();  // shape.cc: reshape, transpose, broadcast_to, tile, repeat
Family join_family();  // join.cc: concat, split
Family slice_family();  // slice.cc: strided_slice, reverse_sequence, trilu
Family pad_family();  // pad.cc
Family fill_family();  // fill.cc: constants, ranges, windows
Family gather_family();  // gather.cc: gather, gather_elements, gather_nd, one_hot
Family scatter_family();  // scatter.cc: scatter_elements, scatter_nd
Family sort_family();  // sort.cc: top_k, cumsum
Family resize_family();  // resize.cc: resample
Family grid_sample_family();  // grid_sample.cc
Family recurrent_family();  // recurrent.cc: LSTM, GRU, RNN, taken apart over time
Family quantize_family();  // quantize.cc: quantize, dequantize, integer products
Family einsum_family();  // einsum.cc
Family loss_family();  // loss.cc: likelihood and cross entropy losses
Family signal_family();  // signal.cc: Fourier transforms
Family determinant_family();  // determinant.cc
Family tfidf_family();  // tfidf.cc: n-gram counts
// clang-format on

}  // namespace tenon::op
