// SPDX-License-Identifier: Apache-2.0
// A bound on what unrolled loops may become.
#pragma once

#include "tir/stmt.h"

namespace tenon::codegen {

/// Stores that a loop may be unrolled to, with what is unrolled inside: a second or so of code generation.
inline constexpr int64_t kMostUnrolled = 1 << 14;

/// Loops that would be unrolled to more than that stay loops, the outer ones first.
tir::Stmt limit_unrolling(const tir::Stmt& body);

}  // namespace tenon::codegen
