// SPDX-License-Identifier: Apache-2.0
// C for element-wise regions.
#pragma once

#include "external/external.h"

namespace tenon::external {

struct CSourceText {
  std::string source;
  int64_t scratch_bytes = 0;  // for what lies between operators
};

/// The operators that have C.
std::vector<const graph::OpDef*> c_operators();
/// Whether a node with one of them can be written: one dtype of f32, f64, i32 and i64 throughout that the operator is exact on.
bool writable_in_c(const Candidate& candidate);
/// A loop over the elements for each node of the region. Takes inputs, all constants in order, outputs.
CSourceText write_c(const Region& region);

}  // namespace tenon::external
