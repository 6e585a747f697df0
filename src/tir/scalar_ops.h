// SPDX-License-Identifier: Apache-2.0
// The arithmetic of tir::interpret: one function per operation and dtype, on values at their native width.
#pragma once

#include "tir/expr.h"

namespace tenon::tir {

/// Values are the bits of one element, zero-extended; unused operands are ignored.
using ScalarOp = uint64_t (*)(uint64_t a, uint64_t b, uint64_t c);

/// Each throws InternalError when the dtype has no such operation.
ScalarOp scalar_binary(BinaryOp op, DType dtype);
ScalarOp scalar_cast(DType to, DType from);
/// `dtype` is that of the operands.
ScalarOp scalar_intrinsic(Intrinsic op, DType dtype);

/// A constant's bits.
uint64_t scalar_bits(const IntImm& e);
uint64_t scalar_bits(const FloatImm& e);

}  // namespace tenon::tir
