// SPDX-License-Identifier: Apache-2.0
// How often this program has asked for heap memory through `new`.
#pragma once

#include <cstdint>

namespace tenon::test {

int64_t allocation_count();

}  // namespace tenon::test
