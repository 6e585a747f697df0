// SPDX-License-Identifier: Apache-2.0
// What can be said about a model before any of it is built: its opset, its order, and everything that is not supported.
#pragma once

#include <vector>

#include "base/function_ref.h"
#include "import/onnx/import.h"
#include "import/onnx/model.h"

namespace tenon::onnx {

/// The version of the default domain, which a model of other domains or of an early IR version may leave out.
/// Throws CompileError `onnx-opset` when
/// it is missing or outside what we know.
int default_opset(const Source& source, const Model& model);

/// Each node of one graph (not of its subgraphs) that no rule can read.
std::vector<Unsupported> unsupported_nodes(const Model& model, const Graph& graph, int opset);
/// The same as errors, and one for each input, output and initializer whose type is not supported.
std::vector<Diagnostic> find_unsupported(const Source& source, const Model& model, const Graph& graph, int opset);

/// Indices of the nodes so that each comes after what it reads; the file's own order where that serves. Throws CompileError
/// `onnx-graph` on a cycle or a name that is defined twice.
std::vector<uint32_t> node_order(const Source& source, const Graph& graph);

/// Calls f with each name that a node reads, inside its subgraphs too.
void for_each_read(const Node& node, function_ref<void(std::string_view)> f);

}  // namespace tenon::onnx
