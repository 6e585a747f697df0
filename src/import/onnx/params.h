// SPDX-License-Identifier: Apache-2.0
// The types of a model's inputs: what the file fixes, what the options give, and symbols for the rest.
#pragma once

#include <string>
#include <vector>

#include "import/onnx/import.h"
#include "import/onnx/model.h"

namespace tenon::onnx {

struct InputTypes {
  struct Input {
    const ValueInfo* info;
    TensorType type;
    const Array* value;  // set for an input that is known when compiling
  };
  std::vector<Input> inputs;  // those without an initializer, in the file's order
  std::string shape_hint;     // the option that would fix what is left symbolic; empty if nothing is
};

/// A symbol that several inputs share takes one value. Throws CompileError `onnx-input` when the options name an unknown
/// input or disagree with the file or each other, and (4) when an input's rank is unknown.
InputTypes input_types(const Source& source, const Graph& graph, const ImportOptions& options);

}  // namespace tenon::onnx
