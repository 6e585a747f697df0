// SPDX-License-Identifier: Apache-2.0
// What every form of a linked module reads of `main`, with its errors.
#pragma once

#include <string>

#include "graph/graph.h"

namespace tenon::link {

/// An attribute, or `otherwise` when it is missing or of another kind.
template <class T>
T attribute(const tir::Attrs& attrs, std::string_view name, T otherwise) {
  auto it = attrs.find(name);
  if (it == attrs.end() || !std::holds_alternative<T>(it->second)) return otherwise;
  return std::get<T>(it->second);
}

/// Throws CompileError (unsupported) about a node of `main`, or about no node.
[[noreturn]] void fail(std::string code, std::string message, const graph::Node* node, std::string input, std::string hint);
/// Throws CompileError (`not-lowered`) for a node that is no call of a loop function.
[[noreturn]] void fail_not_lowered(const graph::Node& node);

/// Throws CompileError (`no-main`) when there is none.
const graph::Function& main_of(const graph::Module& module);
/// Throws CompileError (`unknown-kernel`) when the module lacks the loop function that a node calls.
const tir::PrimFunc& kernel_of(const graph::Module& module, const graph::Node& node);
/// Throws CompileError (`dynamic-shape`) naming the tensor.
Shape static_shape(const TensorType& type, const graph::Node* node, const std::string& name);
/// Whether a call only gives its operand's memory another type.
bool is_view(const graph::Node& node);

}  // namespace tenon::link
