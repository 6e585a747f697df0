// SPDX-License-Identifier: Apache-2.0
// Random loop functions whose memory is what is interesting about them.
#pragma once

#include <cstdint>
#include <string>

#include "tir/stmt.h"

namespace tenon::test {

/// `(a: f32[6], b: i32[p,5]) -> (c: f32[6], d: i32[p,5])`, so that calls can follow one another. Blocks of every scope, dtype and
/// a few sizes, 0 among them, are declared at the top and inside loops of every kind, branches and plain scopes, filled and then
/// read into other blocks and the results, or left alone. No element is read that was not written before in its scope; iterations
/// of independent loops keep to their own elements; values stay within [-64, 64] and are whole. The same for the same seed
/// everywhere.
tir::PrimFunc random_allocations(uint64_t seed, int64_t workers_extent, std::string name);

}  // namespace tenon::test
