// SPDX-License-Identifier: Apache-2.0
// Loop IR's arithmetic as LLVM instructions, on scalars and vectors alike.
//
// A value of f16 or bf16 is an integer of 16 bits here; each operation widens, computes in f32 and rounds. A bool is i1
// as a value and a byte in memory.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "tir/expr.h"

namespace tenon::codegen {

/// What instructions the target has that change how arithmetic is written.
struct ArithmeticOptions {
  bool half_conversion = false;  // f16 <-> f32 in hardware
};

class Arithmetic {
 public:
  Arithmetic(llvm::IRBuilder<>& builder, ArithmeticOptions options) : b_(builder), options_(options) {}

  /// `lanes` 0 gives the scalar type.
  llvm::Type* type(DType dtype, int64_t lanes = 0) const;
  llvm::Type* memory_type(DType dtype, int64_t lanes = 0) const;
  llvm::Value* from_memory(DType dtype, llvm::Value* stored);
  llvm::Value* to_memory(DType dtype, llvm::Value* value);

  llvm::Constant* integer(DType dtype, int64_t value) const;
  llvm::Constant* floating(DType dtype, double value) const;

  llvm::Value* binary(tir::BinaryOp op, DType dtype, llvm::Value* a, llvm::Value* b);
  llvm::Value* intrinsic(tir::Intrinsic op, DType dtype, llvm::ArrayRef<llvm::Value*> args);
  llvm::Value* cast(DType from, DType to, llvm::Value* value);

 private:
  llvm::Value* widen(DType dtype, llvm::Value* value);   // f16, bf16 to f32
  llvm::Value* narrow(DType dtype, llvm::Value* value);  // and back
  llvm::Value* narrow_double(DType dtype, llvm::Value* value);
  llvm::Value* half_to_float(llvm::Value* bits);
  llvm::Value* float_to_half(llvm::Value* value);
  llvm::Value* float_to_bfloat(llvm::Value* value);

  llvm::Value* float_binary(tir::BinaryOp op, llvm::Value* a, llvm::Value* b);
  llvm::Value* float_extremum(bool maximum, llvm::Value* a, llvm::Value* b);
  llvm::Value* integer_binary(tir::BinaryOp op, bool is_signed, llvm::Value* a, llvm::Value* b);
  llvm::Value* division(tir::BinaryOp op, bool is_signed, llvm::Value* a, llvm::Value* b);
  llvm::Value* shift(tir::BinaryOp op, bool is_signed, llvm::Value* a, llvm::Value* b);
  llvm::Value* float_intrinsic(tir::Intrinsic op, llvm::ArrayRef<llvm::Value*> args);
  llvm::Value* fused_multiply_add(DType dtype, llvm::ArrayRef<llvm::Value*> args);
  llvm::Value* library_call(const std::string& name, llvm::ArrayRef<llvm::Value*> args);
  llvm::Value* integer_power(bool is_signed, llvm::Value* base, llvm::Value* exponent);
  llvm::Value* integer_to_float(DType from, DType to, llvm::Value* value);
  llvm::Function* power_function(bool is_signed, llvm::Type* type);
  /// Calls f for each lane of vector arguments, or once for scalars.
  llvm::Value* per_lane(llvm::ArrayRef<llvm::Value*> args, function_ref<llvm::Value*(llvm::ArrayRef<llvm::Value*>)> f);

  llvm::IRBuilder<>& b_;
  ArithmeticOptions options_;
};

/// The lanes of a vector, or 0 for a scalar.
int64_t lanes_of(const llvm::Value* value);
/// The type with as many lanes as `value`.
llvm::Type* with_lanes_of(const llvm::Value* value, llvm::Type* scalar);

}  // namespace tenon::codegen
