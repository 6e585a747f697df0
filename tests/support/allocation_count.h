// SPDX-License-Identifier: Apache-2.0
// How often this program has asked for heap memory through `new`, and for how much at once.
#pragma once

#include <cstdint>

namespace tenon::test {

int64_t allocation_count();
/// Bytes of the largest request since the last call.
int64_t take_largest_allocation();

}  // namespace tenon::test
