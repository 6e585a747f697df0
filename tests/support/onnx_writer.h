// SPDX-License-Identifier: Apache-2.0
// Writing small ONNX models for tests: the same wire format, from the other side.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/array.h"

namespace tenon::test {

/// Appends protobuf fields to `bytes`.
struct WireWriter {
  std::string bytes;
  WireWriter& varint(uint32_t field, uint64_t value);
  WireWriter& float32(uint32_t field, float value);
  WireWriter& message(uint32_t field, std::string_view value);
};

/// TensorProto with raw data.
std::string onnx_tensor(std::string_view name, const Array& array);

/// An AttributeProto.
struct OnnxAttr {
  OnnxAttr(std::string_view name, int value);
  OnnxAttr(std::string_view name, double value);
  OnnxAttr(std::string_view name, const char* value);
  OnnxAttr(std::string_view name, const std::vector<int64_t>& values);
  OnnxAttr(std::string_view name, const std::vector<double>& values);
  OnnxAttr(std::string_view name, const std::vector<std::string>& values);
  OnnxAttr(std::string_view name, const Array& value);
  OnnxAttr(std::string_view name, const class OnnxGraph& graph);
  std::string bytes;
};

/// A GraphProto, built by chaining.
class OnnxGraph {
 public:
  using Dim = std::variant<int64_t, std::string>;  // a text is a symbol; an empty one leaves the dimension open
  OnnxGraph& input(std::string_view name, DType dtype, const std::vector<Dim>& dims);
  OnnxGraph& output(std::string_view name, DType dtype);
  OnnxGraph& initializer(std::string_view name, const Array& array);
  OnnxGraph& node(std::string_view op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                  const std::vector<OnnxAttr>& attrs = {}, std::string_view name = "", std::string_view domain = "");
  /// A field as it stands: `writer().message(11, …)`.
  WireWriter& writer() { return writer_; }
  const std::string& bytes() const { return writer_.bytes; }

 private:
  WireWriter writer_;
};

/// ModelProto, IR version 8.
std::string onnx_model(const OnnxGraph& graph, int opset = 17);
/// TypeProto of a tensor.
std::string onnx_tensor_type(DType dtype, const std::vector<OnnxGraph::Dim>* dims);

}  // namespace tenon::test
