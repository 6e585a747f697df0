// SPDX-License-Identifier: Apache-2.0
// The graph that TVM's graph executor reads, as a value, and its JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/array.h"

namespace tenon::runtime::tvm {

/// One result of a node.
struct Entry {
  uint32_t node = 0, index = 0;
  bool operator==(const Entry&) const = default;
};

/// Functions that are no kernels.
inline constexpr std::string_view kNop = "__nop", kCopy = "__copy";

struct GraphNode {
  std::string name;
  std::string function;  // empty: an input or a parameter
  std::vector<Entry> inputs;
  uint32_t outputs = 1;
  bool flatten = false;  // the kernel sees each tensor with one dimension
  bool operator==(const GraphNode&) const = default;
};

struct GraphTensor {
  DType dtype = DType::F32;
  Shape shape;
  uint32_t storage = 0;  // tensors of one storage share memory from its start
  size_t bytes() const { return static_cast<size_t>(element_count(shape)) * static_cast<size_t>(byte_size(dtype)); }
  bool operator==(const GraphTensor&) const = default;
};

struct Graph {
  std::vector<GraphNode> nodes;  // each after those it reads
  std::vector<Entry> heads;      // the outputs
  std::vector<uint32_t> rows;    // per node, where its results stand in `tensors`; one more at the end
  std::vector<GraphTensor> tensors;

  const GraphTensor& tensor(Entry entry) const { return tensors[rows[entry.node] + entry.index]; }
  bool operator==(const Graph&) const = default;
};

std::string print(const Graph& graph);
/// Checks everything that the executor relies on: order, counts, and that a `__nop` shares its operand's storage. Throws
/// CompileError: malformed (`tvm-graph`) naming the node, what was found and expected; unsupported (`tvm-unsupported`) for
/// element types, devices and memory scopes that we do not have. `path` is what errors name.
Graph parse_graph(std::string_view text, const std::string& path);

}  // namespace tenon::runtime::tvm
