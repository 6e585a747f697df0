// SPDX-License-Identifier: Apache-2.0
// The reference meaning of loop IR: runs a PrimFunc one element at a time, at the declared dtypes, in program order.
// An oracle for lowering, scheduling and code generation; it shares no arithmetic with them.
#pragma once

#include <span>
#include <vector>

#include "base/array.h"
#include "tir/stmt.h"

namespace tenon::tir {

/// One array per input parameter; returns one per output parameter. Every load and store is checked against its
/// buffer; a violation is a CompileError (`interpret-bounds`) naming function, buffer, indices and shape.
/// Parallel, vectorized and unrolled loops run serially. Reg and Local buffers start filled with a poison pattern.
std::vector<Array> interpret(const PrimFunc& function, std::span<const Array> inputs);

/// As interpret, and shows that iterations of parallel and vectorized loops are independent in this run: two of one loop that
/// touch one element, one of them writing, are a CompileError (`interpret-race`) naming function, buffer and loop. Of such loops
/// inside of each other the outermost three are watched.
std::vector<Array> interpret_independent(const PrimFunc& function, std::span<const Array> inputs);

}  // namespace tenon::tir
