// SPDX-License-Identifier: Apache-2.0
// An order of `main` in which less memory is alive at once.
#pragma once

#include "link/liveness.h"

namespace tenon::link {

/// The module with the nodes of its lowered `main` in another order, if the fullest step then has fewer bytes alive: values, and
/// what the scheduled loop functions allocate. Else the module as it is, as if `main` is not lowered yet. The same nodes with the
/// same operands, so the same results; idempotent.
graph::Module order_for_memory(graph::Module module, const LivenessOptions& options = {});

}  // namespace tenon::link
