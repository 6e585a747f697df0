// SPDX-License-Identifier: Apache-2.0
// What a kernel is called, and the text by which equal primitive functions are recognised.
#include <fmt/format.h>

#include <cctype>

#include "base/hash.h"
#include "lower/lower.h"
#include "tir/text.h"

namespace tenon::lower {

using graph::NodeKind;
using graph::ValueId;

std::string candidate_name(const graph::Function& function) {
  constexpr size_t kLongest = 80;
  std::string name = "fused";
  for (const graph::Node& node : function.nodes)
    if (node.kind == NodeKind::Op) name.append("_").append(node.op->name);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  if (name.size() > kLongest) name = fmt::format("{}_{:016x}", name.substr(0, kLongest), hash64(name));
  return name;
}

std::string canonical_text(const graph::Module& module, const graph::Function& function) {
  std::string text = "fn " + tir::print_attrs(function.attrs) + '\n';
  auto print_values = [&](std::span<const ValueId> values) {
    for (ValueId v : values) text.append(" %").append(std::to_string(v.index));
  };
  auto print_types = [&](std::span<const TensorType> types) {
    for (const TensorType& type : types) text += ' ' + to_string(type);
    text += '\n';
  };
  for (const graph::Param& param : function.params) text += "param " + to_string(param.type) + '\n';
  for (const graph::Node& node : function.nodes) {
    switch (node.kind) {
      case NodeKind::Op: text += node.op->name; break;
      case NodeKind::Constant: {
        auto entry = module.constants.find(node.callee);
        text += "constant " + (entry == module.constants.end() ? "@" + node.callee : hash128(entry->second.bytes).hex());
        break;
      }
      case NodeKind::Call: text += "call @" + node.callee; break;
      case NodeKind::CallLowered: text += "call_lowered @" + node.callee; break;
    }
    print_values(node.inputs);
    text += ' ' + tir::print_attrs(node.attrs) + " :";
    print_types(node.types);
  }
  text += "return";
  print_values(function.results);
  return text + '\n';
}

}  // namespace tenon::lower
