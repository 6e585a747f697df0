// SPDX-License-Identifier: Apache-2.0
// One walk over `main`: each value becomes an entry of the graph, each root of values that share memory a buffer of the plan.
#include "link/tvm_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "link/main_function.h"

namespace tenon::link {
namespace {

using graph::Node;
using graph::NodeKind;
using graph::ValueId;
using runtime::tvm::Entry;
using runtime::tvm::GraphNode;
using runtime::tvm::GraphTensor;

constexpr int64_t kAlignment = 64;  // of what the executor allocates

/// Names that differ: `name`, `name_1`, ….
class NameSupply {
 public:
  std::string take(const std::string& name) {
    std::string candidate = name;
    for (size_t& next = next_[name]; !taken_.insert(candidate).second;) candidate = fmt::format("{}_{}", name, ++next);
    return candidate;
  }

 private:
  std::set<std::string> taken_;
  std::map<std::string, size_t> next_;
};

class TvmLinker {
  /// A buffer of the plan, or the storage of one input or constant.
  struct Memory {
    bool planned = false;
    size_t index = 0;
    auto operator<=>(const Memory&) const = default;
  };

 public:
  TvmLinker(const graph::Module& module, const Liveness& liveness) : module_(module), main_(main_of(module)), live_(liveness) {}

  TvmLinked run() {
    linked_.graph.rows.push_back(0);
    add_inputs();
    for (const Node& node : main_.nodes) visit(node);
    for (ValueId result : main_.results) {
      linked_.graph.heads.push_back(entries_[result.index]);
      Memory memory = memory_of(entries_[result.index]);
      if (memory.planned) linked_.problem.buffers[memory.index].end = static_cast<int64_t>(live_.steps.size()) + 1;
    }
    assign_storage();
    return std::move(linked_);
  }

 private:
  /// A node of the graph without results yet.
  GraphNode& add_node(std::string name) {
    linked_.graph.rows.push_back(linked_.graph.rows.back());
    GraphNode& node = linked_.graph.nodes.emplace_back();
    node.name = std::move(name);
    node.outputs = 0;
    return node;
  }

  /// One more result of the last node.
  Entry add_tensor(DType dtype, Shape shape, Memory memory) {
    runtime::tvm::Graph& graph = linked_.graph;
    Entry entry{static_cast<uint32_t>(graph.nodes.size() - 1), graph.nodes.back().outputs++};
    ++graph.rows.back();
    graph.tensors.push_back({dtype, std::move(shape)});
    memory_.push_back(memory);
    return entry;
  }

  void define(Entry entry) { entries_.push_back(entry); }

  Memory memory_of(Entry entry) const { return memory_[linked_.graph.rows[entry.node] + entry.index]; }

  /// The user's names first, so that they stay as they are.
  void add_inputs() {
    std::vector<std::string> names;
    for (const graph::Param& param : main_.params) names.push_back(param.name.empty() ? "" : names_.take(param.name));
    for (size_t i = 0; i < names.size(); ++i) {
      const TensorType& type = main_.params[i].type;
      add_node(names[i].empty() ? names_.take("input") : names[i]);
      define(add_tensor(type.dtype, static_shape(type, nullptr, names[i]), {false, own_storage_++}));
    }
  }

  void visit(const Node& node) {
    switch (node.kind) {
      case NodeKind::Constant: return add_constant(node);
      case NodeKind::CallLowered: return is_view(node) ? add_view(node) : add_call(node);
      case NodeKind::Op:
      case NodeKind::Call: fail_not_lowered(node);
    }
  }

  void add_constant(const Node& node) {
    if (uses_[node.first_result] == 0) return define({});
    auto known = constants_.find(node.callee);
    if (known == constants_.end()) {
      const Array& data = module_.constants.at(node.callee);
      linked_.params[add_node(names_.take(node.callee)).name] = data;
      known = constants_.emplace(node.callee, add_tensor(data.dtype, data.shape, {false, own_storage_++})).first;
    }
    define(known->second);
  }

  void add_view(const Node& node) {
    Entry from = entries_[node.inputs[0].index];
    GraphNode& nop = add_node(names_.take("reshape_nop"));
    nop.function = runtime::tvm::kNop;
    nop.inputs = {from};
    define(add_tensor(node.types[0].dtype, static_shape(node.types[0], &node, node.callee), memory_of(from)));
  }

  void add_call(const Node& node) {
    kernel_of(module_, node);
    TvmKernel kernel{.function = node.callee};
    for (ValueId input : node.inputs) {
      const GraphTensor& tensor = linked_.graph.tensor(entries_[input.index]);
      kernel.parameters.push_back({tensor.dtype, tensor.shape});
    }
    for (const TensorType& type : node.types) kernel.parameters.push_back({type.dtype, static_shape(type, &node, node.callee)});
    GraphNode& call = add_node(names_.take("tvmgen_default_" + node.callee));
    for (ValueId input : node.inputs) call.inputs.push_back(entries_[input.index]);
    for (size_t i = node.inputs.size(); i < kernel.parameters.size(); ++i) {
      std::vector<plan::Buffer>& buffers = linked_.problem.buffers;
      const Region& region = live_.regions[live_.values[entries_.size()].region];
      buffers.push_back({.id = fmt::format("%{}", entries_.size()),
                         .begin = region.begin,
                         .end = region.end,
                         .size = region.bytes,
                         .alignment = kAlignment});
      define(add_tensor(kernel.parameters[i].dtype, kernel.parameters[i].shape, {true, buffers.size() - 1}));
    }
    call.function = symbol_of(std::move(kernel));
  }

  std::string symbol_of(TvmKernel kernel) {
    std::vector<size_t>& known = kernels_[kernel.function];
    for (size_t i : known)
      if (linked_.kernels[i].parameters == kernel.parameters) return linked_.kernels[i].symbol;
    known.push_back(linked_.kernels.size());
    kernel.symbol = symbols_.take("tvmgen_default_" + kernel.function);
    return linked_.kernels.emplace_back(std::move(kernel)).symbol;
  }

  /// Numbers the storage of inputs, constants and slots by their first tensor.
  void assign_storage() {
    linked_.plan = plan::make_plan(linked_.problem, plan::find_planner("best_fit_tokens"));
    std::map<Memory, uint32_t> numbers;
    for (size_t i = 0; i < memory_.size(); ++i) {
      Memory key = memory_[i];
      if (key.planned) key.index = linked_.plan.assignment[key.index].slot;
      linked_.graph.tensors[i].storage = numbers.try_emplace(key, static_cast<uint32_t>(numbers.size())).first->second;
    }
  }

  const graph::Module& module_;
  const graph::Function& main_;
  const Liveness& live_;
  TvmLinked linked_;
  NameSupply names_, symbols_;
  std::vector<uint32_t> uses_ = graph::use_counts(main_);
  std::vector<Entry> entries_;  // by value id
  std::vector<Memory> memory_;  // by tensor of the graph
  size_t own_storage_ = 0;
  std::map<std::string, Entry, std::less<>> constants_;
  std::map<std::string, std::vector<size_t>, std::less<>> kernels_;
};

}  // namespace

TvmLinked link_tvm(const graph::Module& module, const Liveness& liveness) { return TvmLinker(module, liveness).run(); }

}  // namespace tenon::link
