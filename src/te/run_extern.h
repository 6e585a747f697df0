// SPDX-License-Identifier: Apache-2.0
// Runs the statements of an Extern stage for te::evaluate.
#pragma once

#include "te/lane_program.h"

namespace tenon::te {

/// Runs `body` once, writing the writable tensors of the table. Buffers that it allocates are its own.
void run_extern(const tir::Stmt& body, const tir::VarMap& symbols, const TensorTable& tensors);

}  // namespace tenon::te
