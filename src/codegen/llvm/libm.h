// SPDX-License-Identifier: Apache-2.0
// The functions of libm that generated code may call.
#pragma once

#include <string_view>

namespace tenon::codegen {

/// The function's address in this process, or null if generated code may not call it.
void* libm_address(std::string_view name);

}  // namespace tenon::codegen
