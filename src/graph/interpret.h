// SPDX-License-Identifier: Apache-2.0
// The reference meaning of graph functions: each operator's own `compute`, evaluated naively; calls of lowered
// functions run in the loop-IR interpreter.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "graph/op_def.h"

namespace tenon::graph {

/// Called with each value of the entry function as it is computed; may be empty.
using ValueObserver = std::function<void(ValueId, const Array&)>;

/// Runs `function` of `module` on one array per parameter. Types must match exactly (CompileError otherwise).
/// A value is released after its last use.
std::vector<Array> interpret(const Module& module, std::string_view function, std::span<const Array> inputs,
                             const ValueObserver& observer = {});

}  // namespace tenon::graph
