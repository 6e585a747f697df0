// SPDX-License-Identifier: Apache-2.0
// The invariants of fused and of mixed modules, one check each.
#include "lower/invariants.h"

#include <fmt/format.h>

#include "graph/op_def.h"
#include "lower/lower.h"
#include "tir/text.h"

namespace tenon::lower {
namespace {

using graph::Function;
using graph::Module;
using graph::Node;
using graph::NodeKind;

/// Only of static types: a symbolic one is refused where memory is planned.
bool same_bytes(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype && (!a.is_static() || !b.is_static() || a.elements() == b.elements());
}

class Invariants {
 public:
  explicit Invariants(const Module& module) : module_(module) {}

  void fused() {
    for (const auto& [name, function] : module_.functions) {
      function_ = &function;
      if (!function.primitive() && !is_external(function)) operators();
    }
    errors_.throw_any();
  }

  void lowered() {
    for (const auto& [name, function] : module_.functions) {
      function_ = &function;
      if (is_external(function)) continue;
      if (function.primitive())
        report("not-lowered", fmt::format("the primitive function `@{}` is left", name), "a loop function in its place", nullptr);
      else
        operators();
      for (const Node& node : function.nodes) {
        if (node.kind == NodeKind::Call) graph_call(node);
        if (node.kind == NodeKind::CallLowered) metadata(node);
      }
    }
    errors_.throw_any();
  }

 private:
  void operators() {
    for (const Node& node : function_->nodes)
      if (node.kind == NodeKind::Op)
        report("op-outside-group", fmt::format("`{}` stands in `@{}`, which is not primitive", node.op->name, function_->name),
               "operators inside of primitive functions only", &node);
  }

  void graph_call(const Node& node) {
    auto callee = module_.functions.find(node.callee);
    if (callee != module_.functions.end() && is_external(callee->second))
      report("not-lowered", fmt::format("the external function `@{}` is called as a graph function", node.callee),
             "call_lowered @" + node.callee, &node);
  }

  void metadata(const Node& node) {
    bool view = false;
    for (const auto& [name, value] : node.attrs) {
      const bool* flag = std::get_if<bool>(&value);
      if (name != "view" || !flag)
        report("call-metadata", fmt::format("the call of `@{}` carries {}", node.callee, tir::print_attrs({{name, value}})),
               "{view = true}, {view = false} or nothing", &node);
      else
        view = *flag;
    }
    if (!view) return;
    bool holds = node.inputs.size() == 1 && node.types.size() == 1 && same_bytes(function_->type(node.inputs[0]), node.types[0]);
    if (!holds)
      report("view-moves", fmt::format("the call of `@{}` is marked as a view", node.callee),
             "one operand and one result of the same dtype and number of elements", &node);
  }

  void report(std::string code, std::string message, std::string expected, const Node* node) {
    errors_.add(Diagnostic{.code = std::move(code),
                           .message = std::move(message),
                           .node = node ? node->name : "",
                           .expected = std::move(expected),
                           .function = function_->name,
                           .span = node ? node->span : Span{}});
  }

  const Module& module_;
  const Function* function_ = nullptr;
  ErrorList errors_;
};

}  // namespace

void verify_fused(const Module& module) { Invariants(module).fused(); }

void verify_lowered(const Module& module) { Invariants(module).lowered(); }

}  // namespace tenon::lower
