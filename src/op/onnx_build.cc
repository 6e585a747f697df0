// SPDX-License-Identifier: Apache-2.0
// What the ONNX rules of several families share.
#include "op/onnx_build.h"

#include <fmt/format.h>

#include "op/fold.h"
#include "op/ops.h"

namespace tenon::op {

std::optional<DType> dtype_from_onnx(int64_t number) {
  switch (number) {
    case 1: return DType::F32;
    case 2: return DType::U8;
    case 3: return DType::I8;
    case 4: return DType::U16;
    case 5: return DType::I16;
    case 6: return DType::I32;
    case 7: return DType::I64;
    case 9: return DType::Bool;
    case 10: return DType::F16;
    case 11: return DType::F64;
    case 12: return DType::U32;
    case 13: return DType::U64;
    case 16: return DType::BF16;
    default: return std::nullopt;
  }
}

ValueId full(Builder& builder, DType dtype, Shape shape, double value) {
  MutableArray array(dtype, std::move(shape));
  for (int64_t i = 0, count = element_count(array.shape); i < count; ++i) {
    if (is_float(dtype)) {
      narrow(&value, 1, array, i);
    } else {
      auto integer = static_cast<int64_t>(value);
      narrow(&integer, 1, array, i);
    }
  }
  return builder.constant(std::move(array).freeze());
}

ValueId scalar(Builder& builder, DType dtype, double value) { return full(builder, dtype, {}, value); }

ValueId cast_to(Builder& builder, ValueId x, DType dtype) {
  if (builder.type(x).dtype == dtype) return x;
  return builder.call1(cast, {x}, {{"to", std::string(name(dtype))}});
}

std::vector<ValueId> all_inputs(OnnxNode& node) {
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < node.input_count(); ++i) {
    if (!node.has(i)) node.malformed(fmt::format("input {} is left out", i));
    inputs.push_back(node.in(i));
  }
  return inputs;
}

}  // namespace tenon::op
