// SPDX-License-Identifier: Apache-2.0
// Runs one operator on arrays.
#include "support/op_run.h"

#include <gtest/gtest.h>

#include <type_traits>

#include "support/onnx_tensor.h"

namespace tenon::test {

namespace {

template <class T>
void store(MutableArray& to, const std::vector<double>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if constexpr (std::is_floating_point_v<T>)
      to.as<T>()[i] = static_cast<T>(values[i]);
    else
      to.as<T>()[i] = static_cast<T>(static_cast<int64_t>(values[i]));
  }
}

}  // namespace

Array array(DType dtype, Shape shape, const std::vector<double>& values) {
  MutableArray to(dtype, std::move(shape));
  EXPECT_EQ(static_cast<int64_t>(values.size()), element_count(to.shape));
  switch (dtype) {
    case DType::Bool:
    case DType::U8: store<uint8_t>(to, values); break;
    case DType::I8: store<int8_t>(to, values); break;
    case DType::U16: store<uint16_t>(to, values); break;
    case DType::I16: store<int16_t>(to, values); break;
    case DType::U32: store<uint32_t>(to, values); break;
    case DType::I32: store<int32_t>(to, values); break;
    case DType::U64: store<uint64_t>(to, values); break;
    case DType::I64: store<int64_t>(to, values); break;
    case DType::F32: store<float>(to, values); break;
    case DType::F64: store<double>(to, values); break;
    case DType::F16:
      for (size_t i = 0; i < values.size(); ++i) to.as<uint16_t>()[i] = float_to_half(static_cast<float>(values[i]));
      break;
    case DType::BF16:
      for (size_t i = 0; i < values.size(); ++i) to.as<uint16_t>()[i] = float_to_bfloat(static_cast<float>(values[i]));
      break;
  }
  return std::move(to).freeze();
}

Array f32(Shape shape, const std::vector<double>& values) { return array(DType::F32, std::move(shape), values); }

std::vector<Array> run_op(const graph::OpDef& op, const std::vector<Array>& inputs, graph::Attrs attrs) {
  graph::Module module;
  graph::Builder builder(module, "main");
  std::vector<graph::ValueId> params;
  for (const Array& input : inputs) params.push_back(builder.param("x" + std::to_string(params.size()), type_of(input)));
  std::vector<graph::ValueId> results = builder.call(op, params, attrs);
  std::vector<TensorType> types;
  for (graph::ValueId result : results) types.push_back(builder.type(result));
  graph::Function function = builder.finish(results);
  graph::Attrs filled = function.nodes.back().attrs;
  module.functions["main"] = std::move(function);
  std::vector<Array> found = graph::interpret(module, "main", inputs);
  if (auto folded = graph::fold_node(op, inputs, types, filled, 1 << 20)) {
    for (size_t i = 0; i < found.size(); ++i) {
      std::string differs = difference((*folded)[i], found[i], 1e-6);
      EXPECT_TRUE(differs.empty()) << op.name << " folds differently: " << differs;
    }
  }
  return found;
}

Array run_op1(const graph::OpDef& op, const std::vector<Array>& inputs, graph::Attrs attrs) {
  return run_op(op, inputs, std::move(attrs))[0];
}

std::vector<TensorType> infer_op(const graph::OpDef& op, const std::vector<TensorType>& inputs, graph::Attrs attrs) {
  return graph::infer_types(op, inputs, attrs, "", {});
}

std::string infer_error(const graph::OpDef& op, const std::vector<TensorType>& inputs, graph::Attrs attrs) {
  try {
    infer_op(op, inputs, std::move(attrs));
  } catch (const CompileError& error) {
    return error.diagnostics().front().code;
  }
  return {};
}

void expect_array(const Array& found, const Array& expected, double rtol, double atol) {
  std::string differs = difference(found, expected, rtol, atol);
  EXPECT_TRUE(differs.empty()) << differs;
}

}  // namespace tenon::test
