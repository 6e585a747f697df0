// SPDX-License-Identifier: Apache-2.0
// The passes over graph functions. Their order in a build is in driver/pipelines.cc.
#pragma once

#include <span>

#include "passes/pass.h"

namespace tenon::pass {

extern const Pass infer;            // recompute every type and check it against what stands there
extern const Pass fold_constants;   // evaluate operators whose operands are constants, with native kernels, bounded
extern const Pass simplify;         // cast chains, transpose and reshape chains, neutral arithmetic
extern const Pass fold_batch_norm;  // scale and shift into the weights of the convolution or product before it
extern const Pass eliminate_common_subexpressions;
extern const Pass eliminate_dead;  // nodes, functions and constants that nothing reaches
extern const Pass fuse;            // groups become functions marked `primitive` (spec.md 7.1)

extern const Pass measure_workspace;  // bytes that loop functions allocate and that `main` needs beside its inputs and results

/// All of them, sorted by name.
std::span<const Pass* const> graph_passes();

}  // namespace tenon::pass
