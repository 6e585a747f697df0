// SPDX-License-Identifier: Apache-2.0
// Reading the inputs and attributes of a node.
#include "import/onnx/node.h"

#include <fmt/format.h>

namespace tenon::onnx {
namespace {

double float_at(const Array& array, int64_t i) {
  switch (array.dtype) {
    case DType::F16: return half_to_float(array.read<uint16_t>(i));
    case DType::BF16: return bfloat_to_float(array.read<uint16_t>(i));
    case DType::F32: return array.read<float>(i);
    case DType::F64: return array.read<double>(i);
    case DType::U64: return static_cast<double>(array.read<uint64_t>(i));
    default: return static_cast<double>(integer_at(array, i));
  }
}

}  // namespace

int64_t integer_at(const Array& array, int64_t i) {
  switch (array.dtype) {
    case DType::Bool:
    case DType::U8: return array.read<uint8_t>(i);
    case DType::I8: return array.read<int8_t>(i);
    case DType::I16: return array.read<int16_t>(i);
    case DType::U16: return array.read<uint16_t>(i);
    case DType::I32: return array.read<int32_t>(i);
    case DType::U32: return array.read<uint32_t>(i);
    case DType::I64:
    case DType::U64: return array.read<int64_t>(i);
    default: fail_internal("integer_at reads integers");
  }
}

ImportedNode::ImportedNode(const NodeContext& context, const Node& node, int opset,
                           std::vector<std::optional<graph::ValueId>> inputs)
    : context_(context), node_(node), opset_(opset), inputs_(std::move(inputs)), read_(node.attributes.size()) {}

Diagnostic ImportedNode::error(ErrorKind kind, std::string code, std::string_view message) const {
  Diagnostic d = context_.source.error(std::move(code), fmt::format("{}: {}", node_.op_type, message));
  d.kind = kind;
  d.node = node_.label();
  return d;
}

void ImportedNode::unsupported(std::string reason) const {
  throw CompileError(error(ErrorKind::Unsupported, "onnx-unsupported", reason));
}

void ImportedNode::malformed(std::string message, std::string expected, std::string found) const {
  Diagnostic d = error(ErrorKind::Malformed, "onnx-node", message);
  d.expected = std::move(expected);
  d.found = std::move(found);
  throw CompileError(d);
}

graph::ValueId ImportedNode::in(size_t input) const {
  if (!has(input))
    malformed(fmt::format("input {} is missing", input), fmt::format("at least {} inputs", input + 1),
              fmt::format("{} inputs", inputs_.size()));
  return *inputs_[input];
}

const Attribute* ImportedNode::take(std::string_view name, AttrType type) {
  const Attribute* found = node_.find(name);
  if (!found) return nullptr;
  read_[static_cast<size_t>(found - node_.attributes.data())] = true;
  if (!found->reference.empty())
    unsupported(fmt::format("attribute `{}` refers to attribute `{}` of a function", name, found->reference));
  const bool empty_list =
      found->type == AttrType::Undefined && (type == AttrType::Ints || type == AttrType::Floats || type == AttrType::Strings);
  if (found->type != type && !empty_list)
    malformed(fmt::format("attribute `{}` is of type {}", name, onnx::name(found->type)),
              fmt::format("type {}", onnx::name(type)), std::string(onnx::name(found->type)));
  return found;
}

int64_t ImportedNode::attr(std::string_view name, int64_t fallback) {
  const Attribute* a = take(name, AttrType::Int);
  return a ? a->i : fallback;
}

double ImportedNode::attr(std::string_view name, double fallback) {
  const Attribute* a = take(name, AttrType::Float);
  return a ? a->f : fallback;
}

std::string ImportedNode::attr(std::string_view name, const char* fallback) {
  const Attribute* a = take(name, AttrType::String);
  return a ? std::string(a->s) : fallback;
}

std::vector<int64_t> ImportedNode::ints(std::string_view name, std::vector<int64_t> fallback) {
  const Attribute* a = take(name, AttrType::Ints);
  return a ? a->ints : fallback;
}

std::vector<double> ImportedNode::floats(std::string_view name, std::vector<double> fallback) {
  const Attribute* a = take(name, AttrType::Floats);
  return a ? std::vector<double>(a->floats.begin(), a->floats.end()) : fallback;
}

std::vector<std::string> ImportedNode::strings(std::string_view name, std::vector<std::string> fallback) {
  const Attribute* a = take(name, AttrType::Strings);
  return a ? std::vector<std::string>(a->strings.begin(), a->strings.end()) : fallback;
}

std::optional<Array> ImportedNode::tensor(std::string_view name) {
  const Attribute* a = take(name, AttrType::Tensor);
  if (!a) return std::nullopt;
  return context_.tensors.read(a->tensors[0]);
}

void ImportedNode::ignore(std::string_view name) {
  if (const Attribute* found = node_.find(name)) read_[static_cast<size_t>(found - node_.attributes.data())] = true;
}

const Array* ImportedNode::constant(size_t input) {
  return has(input) ? context_.builder.constant_value(*inputs_[input]) : nullptr;
}

const Array& ImportedNode::known(size_t input) {
  in(input);
  if (const Array* value = constant(input)) return *value;
  Diagnostic d = error(ErrorKind::Unsupported, "onnx-not-constant",
                       fmt::format("the value of input {} (`{}`) is only known at run time", input, node_.inputs[input]));
  d.input = node_.inputs[input];
  d.expected = "a value that is known when compiling";
  d.found = to_string(type(input));
  d.hint = context_.shape_hint.empty() ? "make it a constant of the model" : context_.shape_hint;
  throw CompileError(d);
}

std::vector<int64_t> ImportedNode::constant_ints(size_t input) {
  const Array& value = known(input);
  if (is_float(value.dtype))
    malformed(fmt::format("input {} is {}", input, to_string(type(input))), "integers", to_string(type(input)));
  std::vector<int64_t> out;
  for (int64_t i = 0, n = value.elements(); i < n; ++i) out.push_back(integer_at(value, i));
  return out;
}

std::vector<double> ImportedNode::constant_floats(size_t input) {
  const Array& value = known(input);
  std::vector<double> out;
  for (int64_t i = 0, n = value.elements(); i < n; ++i) out.push_back(float_at(value, i));
  return out;
}

std::vector<Diagnostic> ImportedNode::unread() const {
  std::vector<Diagnostic> out;
  for (size_t i = 0; i < read_.size(); ++i)
    if (!read_[i]) {
      const std::string_view attribute = node_.attributes[i].name;
      out.push_back(error(ErrorKind::Unsupported, "onnx-attribute", fmt::format("attribute `{}` is not supported", attribute)));
      out.back().input = attribute;
    }
  return out;
}

}  // namespace tenon::onnx
