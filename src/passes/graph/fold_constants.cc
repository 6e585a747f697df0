// SPDX-License-Identifier: Apache-2.0
//
// Evaluates operators whose operands are all constants, with the operators' native `fold`; nothing is compiled for it.
// Nodes are visited in order, so chains fold from their start.
//
//   %1 = constant @w : f32[64,32]
//   %2 = transpose(%1) {axes = [1,0]}     =>   %2 = constant @w_1 : f32[32,64]
//
// Bounded: no result larger than `fold_max_bytes`, and no large growth. Folding trades memory and artifact size for
// time; where a result has more than twice the bytes of its operands, it is folded only from operands of at most 1 MiB
// to a result of at most 8 MiB. So weights kept as int8 behind a cast stay int8, and a scalar spread over a large
// shape stays a scalar, while transposed, reshaped or equally wide weights fold at any size below the bound.
//
// Needs inferred types. Leaves the operands' nodes and table entries to `eliminate-dead`.
#include "passes/graph/functions.h"
#include "passes/graph/passes.h"

namespace tenon::pass {
namespace {

using graph::Module;
using graph::Node;
using graph::NodeKind;

constexpr int64_t kMaxGrowingOperands = int64_t{1} << 20;
constexpr int64_t kMaxGrownResult = int64_t{8} << 20;

bool grows_too_much(int64_t operand_bytes, int64_t result_bytes) {
  return result_bytes > 2 * operand_bytes && (operand_bytes > kMaxGrowingOperands || result_bytes > kMaxGrownResult);
}

/// The results of a renamed node if they are known and small enough.
std::optional<std::vector<Array>> fold(const graph::Builder& builder, const Node& node, int64_t max_bytes) {
  if (node.kind != NodeKind::Op || !node.op->fold) return std::nullopt;
  std::optional<std::vector<Array>> operands = builder.constant_values(node.inputs);
  if (!operands) return std::nullopt;
  int64_t operand_bytes = 0, result_bytes = 0;
  for (const Array& operand : *operands) operand_bytes += static_cast<int64_t>(operand.bytes.size());
  for (const TensorType& type : node.types) {
    if (!type.is_static()) return std::nullopt;
    result_bytes += type.bytes();
  }
  if (grows_too_much(operand_bytes, result_bytes)) return std::nullopt;
  return graph::fold_node(*node.op, *operands, node.types, node.attrs, max_bytes);
}

/// A name for what became of a constant: that of the first operand, or of the operator.
std::string name_hint(const graph::Builder& builder, const Node& node) {
  return node.inputs.empty() ? std::string(node.op->name) : builder.definition(node.inputs[0])->callee;
}

Module run(Module module, const PassOptions& options) {
  return map_functions(std::move(module), [&](Module& whole, graph::Function function) {
    graph::Rewriter rewriter(whole, function);
    graph::Builder& builder = rewriter.builder();
    for (Node& node : function.nodes) {
      rewriter.rename(node);
      std::optional<std::vector<Array>> folded = fold(builder, node, options.fold_max_bytes);
      if (!folded) {
        rewriter.add(std::move(node));
        continue;
      }
      std::string hint = name_hint(builder, node);
      for (uint32_t i = 0; i < folded->size(); ++i)
        rewriter.replace(node.result(i), builder.constant(std::move((*folded)[i]), hint));
    }
    return rewriter.finish();
  });
}

}  // namespace

const Pass fold_constants{"fold-constants", "evaluate operators whose operands are constants", run};

}  // namespace tenon::pass
