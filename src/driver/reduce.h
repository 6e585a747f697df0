// SPDX-License-Identifier: Apache-2.0
// The smallest part of a graph that still fails.
#pragma once

#include "base/function_ref.h"
#include "graph/graph.h"

namespace tenon::driver {

/// Makes `main` smaller for as long as `fails` holds: fewer results, or values before them instead; nodes left out with their
/// results as parameters, or with an operand of the same type in their place (delta debugging: Zeller and Hildebrandt, IEEE TSE
/// 28(2), 2002). The module must fail itself. Functions and constants that nothing reads any more are left out. Deterministic.
graph::Module reduce(const graph::Module& module, function_ref<bool(const graph::Module&)> fails);

}  // namespace tenon::driver
