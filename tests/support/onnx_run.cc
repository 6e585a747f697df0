// SPDX-License-Identifier: Apache-2.0
// Runs one ONNX node on arrays.
#include "support/onnx_run.h"

#include "graph/interpret.h"
#include "graph/op_def.h"
#include "import/onnx/import.h"

namespace tenon::test {

graph::Module import_node(const OnnxNodeCase& node) {
  OnnxGraph graph;
  std::vector<std::string> inputs, outputs;
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    const OnnxNodeCase::Input& input = node.inputs[k];
    inputs.push_back(input.array ? "in" + std::to_string(k) : "");
    if (!input.array) continue;
    std::vector<OnnxGraph::Dim> dims(input.array->shape.begin(), input.array->shape.end());
    if (input.constant)
      graph.initializer(inputs.back(), *input.array);
    else
      graph.input(inputs.back(), input.array->dtype, dims);
  }
  for (DType dtype : node.outputs) {
    outputs.push_back("out" + std::to_string(outputs.size()));
    graph.output(outputs.back(), dtype);
  }
  graph.node(node.op, inputs, outputs, node.attrs);
  auto bytes = std::make_shared<const std::string>(onnx_model(graph, node.opset));  // the weights stay views of it
  return onnx::import_bytes("node.onnx", bytes, std::as_bytes(std::span(*bytes)));
}

std::vector<Array> run_node(const OnnxNodeCase& node) {
  std::vector<Array> fed;
  for (const OnnxNodeCase::Input& input : node.inputs)
    if (input.array && !input.constant) fed.push_back(*input.array);
  return graph::interpret(import_node(node), "main", fed);
}

std::optional<ErrorKind> import_error(const OnnxNodeCase& node) {
  try {
    import_node(node);
  } catch (const CompileError& error) {
    return error.kind();
  }
  return std::nullopt;
}

std::string operators_of(const OnnxNodeCase& node) {
  graph::Module module = import_node(node);
  std::string names;
  for (const graph::Node& each : module.functions.at("main").nodes)
    if (each.kind == graph::NodeKind::Op) names += (names.empty() ? "" : " ") + std::string(each.op->name);
  return names;
}

}  // namespace tenon::test
