// SPDX-License-Identifier: Apache-2.0
// ONNX files to graph modules, by our own wire reader. Weights stay views of the mapped file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tenon::onnx {

struct ImportOptions {
  /// Shapes by input name; each must agree with what the model fixes.
  std::map<std::string, Shape, std::less<>> input_shapes;
  /// Inputs whose values are known when compiling, by name (shapes, axes): they become constants and are no longer parameters.
  std::map<std::string, Array, std::less<>> constant_inputs;
};

/// Function `main` of the result is the model's graph. Throws CompileError: malformed (3) with a code `onnx-…` for a damaged
/// file, a broken graph, or shapes that do not fit; unsupported (4) with one diagnostic for each node, attribute or type
/// that is not supported, all found before any work.
graph::Module import_file(const std::string& path, const ImportOptions& options = {});
graph::Module import_bytes(std::string name, std::shared_ptr<const void> owner, std::span<const std::byte> bytes,
                           const ImportOptions& options = {});

struct Unsupported {
  std::string node, op, reason;
  int opset = 0;
};

struct ModelInfo {
  struct Value {
    std::string name;
    std::string dtype;
    std::vector<std::string> shape;  // numbers or symbol names, `?` where unnamed
  };
  std::vector<Value> inputs, outputs;     // inputs without initializers
  std::map<std::string, int64_t> opsets;  // by domain, "" is the default one
  int64_t nodes = 0;
  std::map<std::string, int64_t> ops;
  std::vector<Unsupported> unsupported;
  std::map<std::string, std::string> metadata;
};

/// What a file holds, without importing it.
ModelInfo inspect_file(const std::string& path);

}  // namespace tenon::onnx
