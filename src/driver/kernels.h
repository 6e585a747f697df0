// SPDX-License-Identifier: Apache-2.0
// Machine code of loop functions, through the cache.
#pragma once

#include <memory>

#include "base/target.h"
#include "codegen/backend.h"
#include "driver/jit.h"
#include "lower/cache.h"
#include "tir/stmt.h"

namespace tenon::driver {

/// The symbol of every function in the objects below; a link renames it.
inline constexpr char kKernelSymbol[] = "kernel";

/// The code of a scheduled function, as an object with the one symbol `kernel`. The key is the function's text without its
/// name, with constants by content, and the target's text.
std::shared_ptr<const codegen::Object> kernel_code(const tir::PrimFunc& scheduled, const Target& target,
                                                   const lower::Caching& caching);

/// Code in memory of a scheduled function. `function` is the unscheduled one: its parameters have the shapes of the arrays that
/// go in and out.
Callable load_kernel(const tir::PrimFunc& function, const tir::PrimFunc& scheduled, const codegen::Object& code);

}  // namespace tenon::driver
