// SPDX-License-Identifier: Apache-2.0
//
// Removes what no result of the program depends on: nodes, then functions and loop functions that `main` does not
// reach, then constants that no remaining node reads.
//
//   %1 = relu(%0)
//   %2 = exp(%0)                 =>   %1 = relu(%0)
//   return %1                         return %1
//
// Every operator is a pure function, so a node whose results nobody reads is dead. A module without `main` is a library:
// all its functions stay. Needs and leaves nothing else; parameters stay, since callers count on them.
#include <unordered_set>

#include "passes/graph/functions.h"
#include "passes/graph/passes.h"

namespace tenon::pass {
namespace {

using graph::Function;
using graph::Module;
using graph::Node;
using graph::NodeKind;
using graph::ValueId;

/// Names of the functions, loop functions and constants that are reached.
struct Reached {
  std::unordered_set<std::string_view> functions, constants;
};

Reached reach(const Module& module) {
  Reached reached;
  std::vector<const Function*> work;
  auto add = [&](const Function& function) {
    if (reached.functions.insert(function.name).second) work.push_back(&function);
  };
  auto main = module.functions.find("main");
  for (const auto& [name, function] : module.functions)
    if (main == module.functions.end() || name == "main") add(function);
  while (!work.empty()) {
    const Function& function = *work.back();
    work.pop_back();
    for (const Node& node : function.nodes) {
      if (node.kind == NodeKind::Op) continue;
      if (node.kind == NodeKind::Constant) {
        reached.constants.insert(node.callee);
      } else if (auto callee = module.functions.find(node.callee); callee != module.functions.end()) {
        add(callee->second);
      } else {
        reached.functions.insert(node.callee);
      }
    }
  }
  return reached;
}

Module run(Module module, const PassOptions&) {
  Module live = map_functions(std::move(module), [](Module&, Function f) { return remove_dead_nodes(std::move(f)); });
  Reached reached = reach(live);
  auto unreached = [&](const auto& entry) { return !reached.functions.contains(entry.first); };
  if (live.functions.contains("main")) {
    std::erase_if(live.functions, unreached);
    std::erase_if(live.prim_funcs, unreached);
  }
  std::erase_if(live.constants, [&](const auto& entry) { return !reached.constants.contains(entry.first); });
  return live;
}

}  // namespace

const Pass eliminate_dead{"eliminate-dead", "remove nodes, functions and constants that nothing reaches", run};

}  // namespace tenon::pass
