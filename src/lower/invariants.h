// SPDX-License-Identifier: Apache-2.0
// What holds of a module after fusion and after lowering, beside the rules of every module (graph::verify). docs/mixed-modules.md
// lists both.
#pragma once

#include "graph/graph.h"

namespace tenon::lower {

/// Throws CompileError listing each broken invariant of a fused module: `op-outside-group`, an operator in a function that is
/// neither primitive nor external.
void verify_fused(const graph::Module& module);

/// Those of a lowered module: `op-outside-group`; `not-lowered`, a primitive function that is not external, or a call of an
/// external one that is no `call_lowered`; `call-metadata`, an attribute of a `call_lowered` other than `view = true` or
/// `view = false`; `view-moves`, a view with more than one operand or result, or whose result has other bytes.
void verify_lowered(const graph::Module& module);

}  // namespace tenon::lower
