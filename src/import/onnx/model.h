// SPDX-License-Identifier: Apache-2.0
// The messages of onnx.proto that we read, as plain structs whose text and weights are views of the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "import/onnx/wire.h"

namespace tenon::onnx {

/// TensorProto.DataType. Values without a name here are kept as numbers.
enum class ElemType : int32_t {
  Undefined = 0,
  Float = 1,
  Uint8 = 2,
  Int8 = 3,
  Uint16 = 4,
  Int16 = 5,
  Int32 = 6,
  Int64 = 7,
  String = 8,
  Bool = 9,
  Float16 = 10,
  Double = 11,
  Uint32 = 12,
  Uint64 = 13,
  Complex64 = 14,
  Complex128 = 15,
  Bfloat16 = 16,
};

/// TensorProto. Elements lie in `raw`, in one of the typed lists, or in another file.
struct Tensor {
  std::string_view name;
  ElemType type = ElemType::Undefined;
  std::vector<int64_t> dims;
  std::optional<std::string_view> raw;
  std::vector<float> float_data;
  std::vector<int64_t> int32_data, int64_data;
  std::vector<uint64_t> uint64_data;
  std::vector<double> double_data;
  std::vector<std::string_view> string_data;
  bool external = false;
  std::vector<std::pair<std::string_view, std::string_view>> external_data;
  bool segmented = false;
};

/// TypeProto and ValueInfoProto in one.
struct ValueInfo {
  enum class Kind : uint8_t { None, Tensor, SparseTensor, Sequence, Map, Optional, Opaque };
  struct Dim {
    std::optional<int64_t> value;
    std::string_view symbol;  // empty when unnamed
  };
  std::string_view name;
  Kind kind = Kind::None;
  ElemType type = ElemType::Undefined;
  std::optional<std::vector<Dim>> shape;  // nothing: the rank is unknown
};

std::string_view name(ValueInfo::Kind kind);

struct Graph;

/// AttributeProto.AttributeType.
enum class AttrType : int32_t {
  Undefined = 0,
  Float = 1,
  Int = 2,
  String = 3,
  Tensor = 4,
  Graph = 5,
  Floats = 6,
  Ints = 7,
  Strings = 8,
  Tensors = 9,
  Graphs = 10,
  SparseTensor = 11,
  SparseTensors = 12,
  TypeProto = 13,
  TypeProtos = 14,
};
std::string_view name(AttrType type);

struct Attribute {
  std::string_view name, reference;  // `reference`: the attribute of the enclosing function
  AttrType type = AttrType::Undefined;
  float f = 0;
  int64_t i = 0;
  std::string_view s;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string_view> strings;
  std::vector<Tensor> tensors;  // one for a Tensor
  std::vector<Graph> graphs;    // one for a Graph
};

struct Node {
  std::string_view name, op_type, domain;
  std::vector<std::string_view> inputs, outputs;  // an empty name: left out
  std::vector<Attribute> attributes;

  const Attribute* find(std::string_view attribute) const;
  /// The node's name, or its first output's, or its operator.
  std::string_view label() const;
};

struct Graph {
  std::string_view name;
  std::vector<Node> nodes;
  std::vector<Tensor> initializers;
  std::vector<std::string_view> sparse_initializers;
  std::vector<ValueInfo> inputs, outputs;
};

struct Model {
  int64_t ir_version = 0;
  std::vector<std::pair<std::string_view, int64_t>> opset_imports;  // by domain; `ai.onnx` is given as ""
  std::vector<std::pair<std::string_view, std::string_view>> metadata;
  std::vector<std::pair<std::string_view, std::string_view>> functions;  // domain and name of each local function
  std::optional<Graph> graph;
};

/// Throws CompileError `onnx-wire` on damage and `onnx-model` when the bytes are some other message.
Model parse_model(const Source& source);
/// A TensorProto alone, as the files of ONNX's test data hold it.
Tensor parse_tensor(const Source& source);

}  // namespace tenon::onnx
