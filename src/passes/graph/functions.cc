// SPDX-License-Identifier: Apache-2.0
// Visiting the functions that a pass may change.
#include "passes/graph/functions.h"

namespace tenon::pass {

graph::Module map_functions(const graph::Module& module,
                            function_ref<graph::Function(graph::Module& out, const graph::Function& function)> rewrite) {
  graph::Module out;
  out.prim_funcs = module.prim_funcs;
  out.constants = module.constants;
  out.attrs = module.attrs;
  for (const auto& [name, function] : module.functions) {
    bool fixed = function.primitive() || is_external(function);
    out.functions.emplace(name, fixed ? function : rewrite(out, function));
  }
  return out;
}

bool is_external(const graph::Function& function) { return function.attrs.contains("external"); }

}  // namespace tenon::pass
