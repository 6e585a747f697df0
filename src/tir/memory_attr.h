// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tir/stmt.h"

namespace tenon::tir {

/// The attribute with which a loop function says where its buffers are to lie (link/places.h).
inline constexpr std::string_view kMemoryAttr = "memory";

struct BufferPlace {
  std::string buffer, place;
};

/// What it says, in order; nothing without it. Throws CompileError (malformed, `memory-place`) about an entry without a buffer.
std::vector<BufferPlace> buffer_places(const PrimFunc& function);

}  // namespace tenon::tir
