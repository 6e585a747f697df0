// SPDX-License-Identifier: Apache-2.0
// Which result of a loop function may take the memory of which operand, proven on its loops.
#pragma once

#include <vector>

#include "tir/stmt.h"

namespace tenon::link {

struct InPlace {
  size_t input = 0, output = 0;  // indices of parameters, the outputs counted from 0
  bool operator==(const InPlace&) const = default;
};

/// All pairs that are safe. An output may overwrite an input when both have the same bytes, one statement stores the output,
/// each of its elements once, and the input is read for no other purpose than the element of the same index that is being
/// stored. Operators' names play no part; what can't be proven is left out (a tile that is computed twice, for one).
std::vector<InPlace> in_place_pairs(const tir::PrimFunc& function);

}  // namespace tenon::link
