// SPDX-License-Identifier: Apache-2.0
// Wrappers of kernels that TVM's run time can call.
#pragma once

#include <llvm/IR/Module.h>

#include <span>

#include "codegen/backend.h"

namespace tenon::codegen {

/// Adds the wrappers, the pointers to call-backs, and the functions that the wrappers share.
void emit_packed_wrappers(llvm::Module& module, llvm::AttributeList attributes, std::span<const PackedWrapper> wrappers);

}  // namespace tenon::codegen
