// SPDX-License-Identifier: Apache-2.0
// One node of a model, as the rules of op/ read it.
#pragma once

#include <string>
#include <vector>

#include "import/onnx/tensor.h"
#include "op/onnx_node.h"

namespace tenon::onnx {

/// What is common to all nodes of one import.
struct NodeContext {
  const Source& source;
  TensorReader& tensors;
  graph::Builder& builder;
  std::string shape_hint;  // how to give the dimensions that are still symbols; empty if there are none
};

class ImportedNode final : public op::OnnxNode {
 public:
  /// `inputs`: nothing for one that is left out.
  ImportedNode(const NodeContext& context, const Node& node, int opset, std::vector<std::optional<graph::ValueId>> inputs);

  std::string_view op_type() const override { return node_.op_type; }
  int opset() const override { return opset_; }
  size_t input_count() const override { return inputs_.size(); }
  size_t output_count() const override { return node_.outputs.size(); }
  bool has(size_t input) const override { return input < inputs_.size() && inputs_[input]; }
  bool wants(size_t output) const override { return output < node_.outputs.size() && !node_.outputs[output].empty(); }
  graph::ValueId in(size_t input) const override;
  const TensorType& type(size_t input) const override { return context_.builder.type(in(input)); }

  bool has_attr(std::string_view name) const override { return node_.find(name) != nullptr; }
  int64_t attr(std::string_view name, int64_t fallback) override;
  double attr(std::string_view name, double fallback) override;
  std::string attr(std::string_view name, const char* fallback) override;
  std::vector<int64_t> ints(std::string_view name, std::vector<int64_t> fallback) override;
  std::vector<double> floats(std::string_view name, std::vector<double> fallback) override;
  std::vector<std::string> strings(std::string_view name, std::vector<std::string> fallback) override;
  std::optional<Array> tensor(std::string_view name) override;
  void ignore(std::string_view name) override;

  std::vector<int64_t> constant_ints(size_t input) override;
  std::vector<double> constant_floats(size_t input) override;
  const Array* constant(size_t input) override;

  [[noreturn]] void unsupported(std::string reason) const override;
  [[noreturn]] void malformed(std::string message, std::string expected, std::string found) const override;

  /// One error (unsupported) for each attribute that nothing read.
  std::vector<Diagnostic> unread() const;

 private:
  const Attribute* take(std::string_view name, AttrType type);
  const Array& known(size_t input);
  Diagnostic error(ErrorKind kind, std::string code, std::string_view message) const;

  const NodeContext& context_;
  const Node& node_;
  int opset_;
  std::vector<std::optional<graph::ValueId>> inputs_;
  std::vector<bool> read_;
};

/// Element i of an integer or bool array; a u64 keeps its bits.
int64_t integer_at(const Array& array, int64_t i);

}  // namespace tenon::onnx
