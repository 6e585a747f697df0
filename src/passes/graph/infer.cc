// SPDX-License-Identifier: Apache-2.0
//
// Computes every operator's result types again from its operands and compares them with what stands in the module.
//
//   %1 = relu(%0) : f32[2,3]     =>   unchanged, or an error that names the node, the types expected and found
//
// Types are computed when a node is built, so a difference is either a hand-edited text, which its reader reports, or a
// pass that broke the module. Needs and leaves nothing; the module comes back as it was.
#include <fmt/format.h>

#include "passes/graph/passes.h"

namespace tenon::pass {
namespace {

using graph::Function;
using graph::Module;
using graph::Node;
using graph::NodeKind;

std::string list(std::span<const TensorType> types) {
  std::string out;
  for (const TensorType& t : types) out += fmt::format("{}{}", out.empty() ? "" : ", ", to_string(t));
  return out;
}

void check_function(Function& function, std::vector<Diagnostic>& found) {
  std::vector<const TensorType*> types;  // by value
  for (const graph::Param& p : function.params) types.push_back(&p.type);
  for (Node& node : function.nodes) {
    for (const TensorType& type : node.types) types.push_back(&type);
    if (node.kind != NodeKind::Op) continue;
    std::vector<const TensorType*> operands;
    for (graph::ValueId v : node.inputs) operands.push_back(types[v.index]);
    size_t given = node.attrs.size();  // what is left out is filled in
    std::vector<TensorType> inferred = graph::infer_types(*node.op, std::move(operands), node.attrs, node.name, node.span);
    if (inferred == node.types && node.attrs.size() == given) continue;
    found.push_back({.code = "type-mismatch",
                     .message = fmt::format("%{} has the type {}", node.first_result, list(node.types)),
                     .node = node.name.empty() ? std::string(node.op->name) : fmt::format("{} ({})", node.name, node.op->name),
                     .expected = list(inferred),
                     .found = list(node.types),
                     .function = function.name,
                     .span = node.span});
  }
}

Module run(Module module, const PassOptions&) {
  std::vector<Diagnostic> found;
  for (auto& [name, function] : module.functions) check_function(function, found);
  if (!found.empty()) throw CompileError(std::move(found));
  return module;
}

}  // namespace

const Pass infer{"infer", "recompute every type and check it against what stands in the module", run};

}  // namespace tenon::pass
