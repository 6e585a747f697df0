// SPDX-License-Identifier: Apache-2.0
// Reading `main`.
#include "link/main_function.h"

#include <fmt/format.h>

#include "graph/op_def.h"

namespace tenon::link {

using graph::Node;

void fail(std::string code, std::string message, const Node* node, std::string input, std::string hint) {
  throw CompileError(Diagnostic{.kind = ErrorKind::Unsupported,
                                .code = std::move(code),
                                .message = std::move(message),
                                .node = node ? node->name : "",
                                .input = std::move(input),
                                .function = "main",
                                .span = node ? node->span : Span{},
                                .hint = std::move(hint)});
}

void fail_not_lowered(const Node& node) {
  std::string found = node.kind == graph::NodeKind::Op ? fmt::format("operator `{}`", node.op->name) : "call @" + node.callee;
  throw CompileError(Diagnostic{.kind = ErrorKind::Unsupported,
                                .code = "not-lowered",
                                .message = fmt::format("{} was not lowered to a loop function", found),
                                .node = node.name,
                                .expected = "`constant` and `call_lowered` only in `main`",
                                .found = found,
                                .function = "main",
                                .span = node.span,
                                .hint = "compile from an earlier stage, or fix the dynamic shapes with --input-shapes"});
}

const graph::Function& main_of(const graph::Module& module) {
  auto it = module.functions.find("main");
  if (it == module.functions.end()) fail("no-main", "the module has no function `main`", nullptr, "", "name the entry `main`");
  return it->second;
}

const tir::PrimFunc& kernel_of(const graph::Module& module, const Node& node) {
  auto function = module.prim_funcs.find(node.callee);
  if (function == module.prim_funcs.end())
    fail("unknown-kernel", fmt::format("the module has no loop function `{}`", node.callee), &node, "", "lower the module first");
  return function->second;
}

Shape static_shape(const TensorType& type, const Node* node, const std::string& name) {
  if (!type.is_static())
    fail("dynamic-shape", fmt::format("`{}` has the shape {}, which is not known when compiling", name, to_string(type)), node,
         name, fmt::format("fix it with --input-shapes \"{}:[...]\"", name));
  return type.static_shape();
}

bool is_view(const Node& node) {
  if (!attribute<bool>(node.attrs, "view", false)) return false;
  check(node.inputs.size() == 1 && node.types.size() == 1, "a view has one operand and one result");
  return true;
}

}  // namespace tenon::link
