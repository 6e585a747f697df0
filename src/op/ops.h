// SPDX-License-Identifier: Apache-2.0
// Every operator by name, for code that builds graphs: `builder.call1(op::relu, {x})`. Grouped by the file that defines them.
#pragma once

#include "graph/op_def.h"

namespace tenon::op {

using graph::OpDef;

// elementwise.cc
extern const OpDef identity, stop_fusion, neg, abs, floor, ceil, round, sign, reciprocal, sqrt, exp, log, sin, cos, tan, asin,
    acos, atan, sinh, cosh, tanh, asinh, acosh, atanh, erf;
extern const OpDef logical_not, bitwise_not, isnan, isinf, cast;

// activation.cc
extern const OpDef relu, sigmoid, softplus, softsign, leaky_relu, elu, celu, selu, hard_sigmoid, hard_swish, gelu, mish,
    thresholded_relu, shrink;

// elementwise_binary.cc
extern const OpDef add, subtract, multiply, divide, power, maximum, minimum, mod;
extern const OpDef equal, not_equal, less, less_equal, greater, greater_equal;
extern const OpDef logical_and, logical_or, logical_xor, bitwise_and, bitwise_or, bitwise_xor, shift_left, shift_right;
extern const OpDef where, clip, prelu;

// reduce.cc
extern const OpDef sum, mean, max, min, prod, argmax, argmin;

// matmul.cc, conv.cc
extern const OpDef matmul, conv, conv_transpose;

// pool.cc
extern const OpDef max_pool, max_pool_indices, avg_pool, sum_pool;

// norm.cc, softmax.cc
extern const OpDef batch_norm, layer_norm, lrn, softmax, log_softmax, hardmax;

// shape.cc, join.cc, slice.cc, pad.cc
extern const OpDef reshape, transpose, broadcast_to, tile, repeat, concat, split, strided_slice, reverse_sequence, trilu, pad;

// gather.cc, scatter.cc, sort.cc
extern const OpDef gather, gather_elements, gather_nd, one_hot, scatter_elements, scatter_nd, top_k, cumsum;

// resize.cc
extern const OpDef resample;

// grid_sample.cc
extern const OpDef grid_sample;

}  // namespace tenon::op
