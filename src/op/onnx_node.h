// SPDX-License-Identifier: Apache-2.0
// ONNX rules: how an operator family reads ONNX nodes. The importer (import/onnx) implements OnnxNode.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace tenon::op {

using graph::Builder;
using graph::ValueId;

/// Attributes that no rule read are refused by the importer once the rule returns, so a rule reads every attribute it
/// honours, with the default of the node's opset.
class OnnxNode {
 public:
  virtual ~OnnxNode() = default;
  virtual std::string_view op_type() const = 0;
  /// The version of the node's domain that the model imports.
  virtual int opset() const = 0;
  virtual size_t input_count() const = 0;
  virtual size_t output_count() const = 0;
  /// Whether an optional input is given (present and not the empty name).
  virtual bool has(size_t input) const = 0;
  /// Whether a declared output is used by name.
  virtual bool wants(size_t output) const = 0;
  virtual ValueId in(size_t input) const = 0;
  virtual const TensorType& type(size_t input) const = 0;

  virtual bool has_attr(std::string_view name) const = 0;
  virtual int64_t attr(std::string_view name, int64_t fallback) = 0;
  int64_t attr(std::string_view name, int fallback) { return attr(name, int64_t{fallback}); }
  virtual double attr(std::string_view name, double fallback) = 0;
  virtual std::string attr(std::string_view name, const char* fallback) = 0;
  virtual std::vector<int64_t> ints(std::string_view name, std::vector<int64_t> fallback) = 0;
  virtual std::vector<double> floats(std::string_view name, std::vector<double> fallback) = 0;
  virtual std::vector<std::string> strings(std::string_view name, std::vector<std::string> fallback) = 0;
  virtual std::optional<Array> tensor(std::string_view name) = 0;
  /// Reads and drops an attribute that has no effect on inference.
  virtual void ignore(std::string_view name) = 0;

  /// The values of an input that must be known when compiling (a shape, an axis, a count): its i64 elements. Refuses
  /// with a hint (exit 4) when the input is not constant.
  virtual std::vector<int64_t> constant_ints(size_t input) = 0;
  /// As above for a float scalar or list.
  virtual std::vector<double> constant_floats(size_t input) = 0;
  /// Null when the input is not constant.
  virtual const Array* constant(size_t input) = 0;

  /// The node is well-formed, but this build cannot do it (exit 4). Names the node.
  [[noreturn]] virtual void unsupported(std::string reason) const = 0;
  /// The node breaks the ONNX specification (exit 3). Names the node.
  [[noreturn]] virtual void malformed(std::string message, std::string expected = {}, std::string found = {}) const = 0;
};

/// Builds the meaning of one node; returns a value per declared output (trailing unused ones may be missing).
using OnnxRuleFn = std::vector<ValueId> (*)(OnnxNode& node, Builder& builder);

/// Holds from opset `since` of the default domain until a later rule for the same name.
struct OnnxRule {
  std::string_view op_type;
  int since;
  OnnxRuleFn build;
};

}  // namespace tenon::op
