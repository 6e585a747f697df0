// SPDX-License-Identifier: Apache-2.0
// Runs one ONNX node on arrays, for tests of the rules that read ONNX operators.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "graph/graph.h"
#include "support/onnx_writer.h"

namespace tenon::test {

/// One node of a model. An input without an array is left out; one that is `constant` becomes an initializer.
struct OnnxNodeCase {
  struct Input {
    Input() = default;
    Input(Array array, bool constant = false) : array(std::move(array)), constant(constant) {}
    std::optional<Array> array;
    bool constant = false;
  };
  std::string_view op;
  int opset = 17;
  std::vector<Input> inputs;
  std::vector<OnnxAttr> attrs;
  std::vector<DType> outputs{DType::F32};
};

graph::Module import_node(const OnnxNodeCase& node);
/// The node's results, by the graph interpreter.
std::vector<Array> run_node(const OnnxNodeCase& node);
/// The kind of error that the import ends with; nothing if it succeeds.
std::optional<ErrorKind> import_error(const OnnxNodeCase& node);
/// The operators that the node became, in order, with spaces between.
std::string operators_of(const OnnxNodeCase& node);

}  // namespace tenon::test
