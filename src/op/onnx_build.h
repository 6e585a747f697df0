// SPDX-License-Identifier: Apache-2.0
// What the ONNX rules of several families share.
#pragma once

#include <initializer_list>

#include "op/onnx_node.h"

namespace tenon::op {

/// The dtype behind a number of TensorProto.DataType; nothing for strings, complex and narrow types.
std::optional<DType> dtype_from_onnx(int64_t number);

/// A constant with one value everywhere.
ValueId full(Builder& builder, DType dtype, Shape shape, double value);
/// A rank-0 constant.
ValueId scalar(Builder& builder, DType dtype, double value);

/// `x` as another dtype; itself if it has it.
ValueId cast_to(Builder& builder, ValueId x, DType dtype);

/// The values of all inputs, of which none may be missing.
std::vector<ValueId> all_inputs(OnnxNode& node);

/// A rule for a node that means one operator without attributes.
template <const graph::OpDef& op>
std::vector<ValueId> direct(OnnxNode& node, Builder& builder) {
  return {builder.call1(op, all_inputs(node))};
}

}  // namespace tenon::op
