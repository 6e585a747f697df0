// SPDX-License-Identifier: Apache-2.0
// The fields of onnx.proto that tests write.
#include "support/onnx_writer.h"

#include <cstring>

namespace tenon::test {
namespace {

void append_varint(std::string& out, uint64_t value) {
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  out += static_cast<char>(value);
}

uint64_t elem_type(DType dtype) {
  switch (dtype) {
    case DType::F32: return 1;
    case DType::U8: return 2;
    case DType::I8: return 3;
    case DType::U16: return 4;
    case DType::I16: return 5;
    case DType::I32: return 6;
    case DType::I64: return 7;
    case DType::Bool: return 9;
    case DType::F16: return 10;
    case DType::F64: return 11;
    case DType::U32: return 12;
    case DType::U64: return 13;
    case DType::BF16: return 16;
  }
  return 0;
}

std::string value_info(std::string_view name, DType dtype, const std::vector<OnnxGraph::Dim>* dims) {
  return WireWriter().message(1, name).message(2, onnx_tensor_type(dtype, dims)).bytes;
}

/// Starts an AttributeProto of an AttributeType.
WireWriter attribute(std::string_view name, uint64_t type) { return WireWriter().message(1, name).varint(20, type); }

}  // namespace

WireWriter& WireWriter::varint(uint32_t field, uint64_t value) {
  append_varint(bytes, field << 3);
  append_varint(bytes, value);
  return *this;
}

WireWriter& WireWriter::float32(uint32_t field, float value) {
  append_varint(bytes, field << 3 | 5);
  char data[4];
  std::memcpy(data, &value, 4);
  bytes.append(data, 4);
  return *this;
}

WireWriter& WireWriter::message(uint32_t field, std::string_view value) {
  append_varint(bytes, field << 3 | 2);
  append_varint(bytes, value.size());
  bytes += value;
  return *this;
}

std::string onnx_tensor(std::string_view name, const Array& array) {
  WireWriter w;
  for (int64_t dim : array.shape) w.varint(1, static_cast<uint64_t>(dim));
  w.varint(2, elem_type(array.dtype)).message(8, name);
  return w.message(9, {reinterpret_cast<const char*>(array.bytes.data()), array.bytes.size()}).bytes;
}

OnnxAttr::OnnxAttr(std::string_view name, int value)
    : bytes(attribute(name, 2).varint(3, static_cast<uint64_t>(int64_t{value})).bytes) {}
OnnxAttr::OnnxAttr(std::string_view name, double value) : bytes(attribute(name, 1).float32(2, static_cast<float>(value)).bytes) {}
OnnxAttr::OnnxAttr(std::string_view name, const char* value) : bytes(attribute(name, 3).message(4, value).bytes) {}
OnnxAttr::OnnxAttr(std::string_view name, const std::vector<int64_t>& values) {
  WireWriter w = attribute(name, 7);
  for (int64_t v : values) w.varint(8, static_cast<uint64_t>(v));
  bytes = w.bytes;
}
OnnxAttr::OnnxAttr(std::string_view name, const std::vector<double>& values) {
  WireWriter w = attribute(name, 6);
  for (double v : values) w.float32(7, static_cast<float>(v));
  bytes = w.bytes;
}
OnnxAttr::OnnxAttr(std::string_view name, const std::vector<std::string>& values) {
  WireWriter w = attribute(name, 8);
  for (const std::string& v : values) w.message(9, v);
  bytes = w.bytes;
}
OnnxAttr::OnnxAttr(std::string_view name, const Array& value)
    : bytes(attribute(name, 4).message(5, onnx_tensor("", value)).bytes) {}
OnnxAttr::OnnxAttr(std::string_view name, const OnnxGraph& graph) : bytes(attribute(name, 5).message(6, graph.bytes()).bytes) {}

std::string onnx_tensor_type(DType dtype, const std::vector<OnnxGraph::Dim>* dims) {
  WireWriter tensor;
  tensor.varint(1, elem_type(dtype));
  if (dims) {
    WireWriter shape;
    for (const OnnxGraph::Dim& dim : *dims) {
      WireWriter d;
      if (auto* value = std::get_if<int64_t>(&dim))
        d.varint(1, static_cast<uint64_t>(*value));
      else if (const auto& symbol = std::get<std::string>(dim); !symbol.empty())
        d.message(2, symbol);
      shape.message(1, d.bytes);
    }
    tensor.message(2, shape.bytes);
  }
  return WireWriter().message(1, tensor.bytes).bytes;
}

OnnxGraph& OnnxGraph::input(std::string_view name, DType dtype, const std::vector<Dim>& dims) {
  writer_.message(11, value_info(name, dtype, &dims));
  return *this;
}

OnnxGraph& OnnxGraph::output(std::string_view name, DType dtype) {
  writer_.message(12, value_info(name, dtype, nullptr));
  return *this;
}

OnnxGraph& OnnxGraph::initializer(std::string_view name, const Array& array) {
  writer_.message(5, onnx_tensor(name, array));
  return *this;
}

OnnxGraph& OnnxGraph::node(std::string_view op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                           const std::vector<OnnxAttr>& attrs, std::string_view name, std::string_view domain) {
  WireWriter w;
  for (const std::string& input : inputs) w.message(1, input);
  for (const std::string& output : outputs) w.message(2, output);
  w.message(3, name).message(4, op);
  for (const OnnxAttr& attr : attrs) w.message(5, attr.bytes);
  if (!domain.empty()) w.message(7, domain);
  writer_.message(1, w.bytes);
  return *this;
}

std::string onnx_model(const OnnxGraph& graph, int opset) {
  const std::string opset_id = WireWriter().varint(2, static_cast<uint64_t>(opset)).bytes;
  return WireWriter().varint(1, 8).message(7, graph.bytes()).message(8, opset_id).bytes;
}

}  // namespace tenon::test
