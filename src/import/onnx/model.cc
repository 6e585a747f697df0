// SPDX-License-Identifier: Apache-2.0
// Field numbers of onnx.proto, one function per message.
#include "import/onnx/model.h"

#include <fmt/format.h>

#include <array>

namespace tenon::onnx {
namespace {

// Deeper subgraphs than any real model holds; bounds the recursion.
constexpr int kMaxGraphDepth = 32;

using Pair = std::pair<std::string_view, std::string_view>;

std::string_view default_domain(std::string_view domain) { return domain == "ai.onnx" ? std::string_view() : domain; }

ElemType elem_type(const WireReader& r) {
  const int64_t value = r.integer();
  return value < 0 || value > 1000 ? static_cast<ElemType>(1000) : static_cast<ElemType>(value);
}

Pair parse_string_pair(const Source& source, std::string_view message) {
  Pair out;
  WireReader r(source, message, "StringStringEntryProto");
  while (r.next()) {
    if (r.number() == 1) out.first = r.bytes();
    if (r.number() == 2) out.second = r.bytes();
  }
  return out;
}

Tensor parse_tensor(const Source& source, std::string_view message) {
  Tensor out;
  WireReader r(source, message, "TensorProto");
  while (r.next()) switch (r.number()) {
      case 1: r.append(out.dims); break;
      case 2: out.type = elem_type(r); break;
      case 3: out.segmented = true; break;
      case 4: r.append(out.float_data); break;
      case 5: r.append(out.int32_data); break;
      case 6: out.string_data.push_back(r.bytes()); break;
      case 7: r.append(out.int64_data); break;
      case 8: out.name = r.bytes(); break;
      case 9: out.raw = r.bytes(); break;
      case 10: r.append(out.double_data); break;
      case 11: r.append(out.uint64_data); break;
      case 13: out.external_data.push_back(parse_string_pair(source, r.bytes())); break;
      case 14: out.external = r.integer() == 1; break;
      default: break;
    }
  return out;
}

ValueInfo::Dim parse_dim(const Source& source, std::string_view message) {
  ValueInfo::Dim out;
  WireReader r(source, message, "TensorShapeProto.Dimension");
  while (r.next()) {
    if (r.number() == 1) out.value = r.integer();
    if (r.number() == 2) out.symbol = r.bytes();
  }
  if (out.value && *out.value < 0) out.value.reset();  // some exporters write -1 for "any"
  if (out.symbol == "?") out.symbol = {};              // or `?` for each dimension without a name
  return out;
}

void parse_tensor_type(const Source& source, std::string_view message, ValueInfo& out) {
  WireReader r(source, message, "TypeProto.Tensor");
  while (r.next()) {
    if (r.number() == 1) out.type = elem_type(r);
    if (r.number() != 2) continue;
    out.shape.emplace();
    WireReader shape(source, r.bytes(), "TensorShapeProto");
    while (shape.next())
      if (shape.number() == 1) out.shape->push_back(parse_dim(source, shape.bytes()));
  }
}

void parse_type(const Source& source, std::string_view message, ValueInfo& out) {
  using Kind = ValueInfo::Kind;
  WireReader r(source, message, "TypeProto");
  while (r.next()) switch (r.number()) {
      case 1:
        out.kind = Kind::Tensor;
        parse_tensor_type(source, r.bytes(), out);
        break;
      case 4: out.kind = Kind::Sequence; break;
      case 5: out.kind = Kind::Map; break;
      case 7: out.kind = Kind::Opaque; break;
      case 8: out.kind = Kind::SparseTensor; break;
      case 9: out.kind = Kind::Optional; break;
      default: break;
    }
}

ValueInfo parse_value_info(const Source& source, std::string_view message) {
  ValueInfo out;
  WireReader r(source, message, "ValueInfoProto");
  while (r.next()) {
    if (r.number() == 1) out.name = r.bytes();
    if (r.number() == 2) parse_type(source, r.bytes(), out);
  }
  return out;
}

Graph parse_graph(const Source& source, std::string_view message, int depth);

/// Files of IR version 1 and 2 leave the type out.
AttrType type_of_contents(const Attribute& a, uint32_t last_scalar) {
  if (last_scalar != 0) return static_cast<AttrType>(last_scalar - 1);
  if (!a.floats.empty()) return AttrType::Floats;
  if (!a.ints.empty()) return AttrType::Ints;
  if (!a.strings.empty()) return AttrType::Strings;
  return AttrType::Undefined;
}

Attribute parse_attribute(const Source& source, std::string_view message, int depth) {
  Attribute out;
  uint32_t last_scalar = 0;
  WireReader r(source, message, "AttributeProto");
  while (r.next()) {
    if (r.number() >= 2 && r.number() <= 6) last_scalar = r.number();
    switch (r.number()) {
      case 1: out.name = r.bytes(); break;
      case 2: out.f = r.float32(); break;
      case 3: out.i = r.integer(); break;
      case 4: out.s = r.bytes(); break;
      case 5:
      case 10: out.tensors.push_back(parse_tensor(source, r.bytes())); break;
      case 6:
      case 11: out.graphs.push_back(parse_graph(source, r.bytes(), depth + 1)); break;
      case 7: r.append(out.floats); break;
      case 8: r.append(out.ints); break;
      case 9: out.strings.push_back(r.bytes()); break;
      case 20: out.type = static_cast<AttrType>(r.integer()); break;
      case 21: out.reference = r.bytes(); break;
      default: break;
    }
  }
  if (out.type == AttrType::Undefined) out.type = type_of_contents(out, last_scalar);
  const bool complete =
      (out.type != AttrType::Tensor || out.tensors.size() == 1) && (out.type != AttrType::Graph || out.graphs.size() == 1);
  if (!complete && out.reference.empty())
    r.fail(fmt::format("attribute `{}` of type {} does not hold one", out.name, name(out.type)), "one value", "none or several");
  return out;
}

Node parse_node(const Source& source, std::string_view message, int depth) {
  Node out;
  WireReader r(source, message, "NodeProto");
  while (r.next()) switch (r.number()) {
      case 1: out.inputs.push_back(r.bytes()); break;
      case 2: out.outputs.push_back(r.bytes()); break;
      case 3: out.name = r.bytes(); break;
      case 4: out.op_type = r.bytes(); break;
      case 5: out.attributes.push_back(parse_attribute(source, r.bytes(), depth)); break;
      case 7: out.domain = default_domain(r.bytes()); break;
      default: break;
    }
  return out;
}

std::string_view parse_sparse_name(const Source& source, std::string_view message) {
  WireReader r(source, message, "SparseTensorProto");
  while (r.next())
    if (r.number() == 1) return parse_tensor(source, r.bytes()).name;
  return {};
}

Graph parse_graph(const Source& source, std::string_view message, int depth) {
  Graph out;
  WireReader r(source, message, "GraphProto");
  if (depth > kMaxGraphDepth) r.fail("subgraphs are nested too deeply", fmt::format("at most {} levels", kMaxGraphDepth), "more");
  while (r.next()) switch (r.number()) {
      case 1: out.nodes.push_back(parse_node(source, r.bytes(), depth)); break;
      case 2: out.name = r.bytes(); break;
      case 5: out.initializers.push_back(parse_tensor(source, r.bytes())); break;
      case 11: out.inputs.push_back(parse_value_info(source, r.bytes())); break;
      case 12: out.outputs.push_back(parse_value_info(source, r.bytes())); break;
      case 15: out.sparse_initializers.push_back(parse_sparse_name(source, r.bytes())); break;
      default: break;
    }
  return out;
}

std::pair<std::string_view, int64_t> parse_opset(const Source& source, std::string_view message) {
  std::pair<std::string_view, int64_t> out;
  WireReader r(source, message, "OperatorSetIdProto");
  while (r.next()) {
    if (r.number() == 1) out.first = default_domain(r.bytes());
    if (r.number() == 2) out.second = r.integer();
  }
  return out;
}

Pair parse_function_id(const Source& source, std::string_view message) {
  Pair out;
  WireReader r(source, message, "FunctionProto");
  while (r.next()) {
    if (r.number() == 1) out.second = r.bytes();
    if (r.number() == 10) out.first = default_domain(r.bytes());
  }
  return out;
}

}  // namespace

std::string_view name(AttrType type) {
  static constexpr std::array<std::string_view, 15> kNames = {
      "undefined", "float",   "int",    "string",        "tensor",         "graph", "floats", "ints",
      "strings",   "tensors", "graphs", "sparse tensor", "sparse tensors", "type",  "types"};
  const auto index = static_cast<size_t>(type);
  return index < kNames.size() ? kNames[index] : "unknown";
}

std::string_view name(ValueInfo::Kind kind) {
  switch (kind) {
    case ValueInfo::Kind::None: return "undefined";
    case ValueInfo::Kind::Tensor: return "tensor";
    case ValueInfo::Kind::SparseTensor: return "sparse tensor";
    case ValueInfo::Kind::Sequence: return "sequence";
    case ValueInfo::Kind::Map: return "map";
    case ValueInfo::Kind::Optional: return "optional";
    case ValueInfo::Kind::Opaque: return "opaque";
  }
  return "unknown";
}

const Attribute* Node::find(std::string_view attribute) const {
  for (const Attribute& a : attributes)
    if (a.name == attribute) return &a;
  return nullptr;
}

std::string_view Node::label() const {
  if (!name.empty()) return name;
  for (std::string_view output : outputs)
    if (!output.empty()) return output;
  return op_type;
}

Tensor parse_tensor(const Source& source) { return parse_tensor(source, source.bytes); }

Model parse_model(const Source& source) {
  Model out;
  WireReader r(source, source.bytes, "ModelProto");
  while (r.next()) switch (r.number()) {
      case 1: out.ir_version = r.integer(); break;
      case 7:
        if (out.graph) source.fail("onnx-model", "the model holds two graphs", "one graph", "two");
        out.graph = parse_graph(source, r.bytes(), 0);
        break;
      case 8: out.opset_imports.push_back(parse_opset(source, r.bytes())); break;
      case 14: out.metadata.push_back(parse_string_pair(source, r.bytes())); break;
      case 25: out.functions.push_back(parse_function_id(source, r.bytes())); break;
      default: break;
    }
  if (!out.graph)
    source.fail("onnx-model", "the file holds no ONNX graph", "an ONNX model (ModelProto)",
                fmt::format("{} bytes", source.bytes.size()), "check that this is an .onnx file and that it is complete");
  return out;
}

}  // namespace tenon::onnx
