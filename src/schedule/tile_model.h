// SPDX-License-Identifier: Apache-2.0
// The register tile of a sum of products, chosen from the machine and the shape by counting cycles (performance.md 3.4).
#pragma once

#include "base/target.h"

namespace tenon::schedule {

struct RegisterTile {
  int64_t rows = 1;     // of the operand that is broadcast
  int64_t vectors = 1;  // of the operand that is read as vectors
  int64_t lanes = 1;
  double cycles = 0;  // estimated, of one reduce point of the whole result
};

/// An m x n result of a sum of products.
struct TileShape {
  int64_t m = 1;           // of the broadcast operand
  int64_t n = 1;           // of the vector operand
  int element_bytes = 4;   // of the accumulator
  bool unaligned = false;  // vectors are read in place, at any alignment
  bool whole = false;      // tiles that divide the result are worth a little: nothing is computed twice
};

/// The tile with the fewest estimated cycles whose accumulators, operands and broadcasts fit the vector registers.
RegisterTile choose_register_tile(const TileShape& shape, const Machine& machine);

}  // namespace tenon::schedule
