// SPDX-License-Identifier: Apache-2.0
// The register tile of a sum of products, chosen from the machine and the shape by counting cycles (performance.md 3.4).
#pragma once

#include "base/target.h"

namespace tenon::schedule {

struct RegisterTile {
  int64_t rows = 1;     // of the operand that is broadcast
  int64_t vectors = 1;  // of the operand that is read as vectors
  int64_t lanes = 1;
};

/// The tile with the fewest estimated cycles for an m x n result, whose accumulators, operands and broadcasts fit the
/// vector registers. `element_bytes` is the accumulator's.
RegisterTile choose_register_tile(int64_t m, int64_t n, int element_bytes, const Machine& machine);

}  // namespace tenon::schedule
