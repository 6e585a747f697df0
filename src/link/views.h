// SPDX-License-Identifier: Apache-2.0
// Loop functions that only move bytes as they stand, proven on their loops: such a call needs no step.
#pragma once

#include <optional>
#include <vector>

#include "tir/stmt.h"

namespace tenon::link {

/// Some bytes of an input, one after another.
struct Part {
  size_t input = 0;
  int64_t offset = 0;  // bytes
  bool operator==(const Part&) const = default;
};

/// For each output the bytes of the input that it repeats (a slice of a leading axis, a split, a reshape); nothing if there is
/// an output of which that can't be shown. Operators' names play no part.
std::optional<std::vector<Part>> outputs_as_parts(const tir::PrimFunc& function);

/// For each input where its bytes lie in the only output, which consists of them (a concatenation along a leading axis);
/// nothing if that can't be shown.
std::optional<std::vector<int64_t>> inputs_as_parts(const tir::PrimFunc& function);

}  // namespace tenon::link
