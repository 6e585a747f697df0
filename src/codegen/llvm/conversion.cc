// SPDX-License-Identifier: Apache-2.0
// Conversions between dtypes, and the 16-bit floats by integer arithmetic where the target has no instruction.
#include <llvm/IR/Intrinsics.h>

#include "base/array.h"
#include "codegen/llvm/arithmetic.h"

namespace tenon::codegen {

using llvm::Value;

namespace {

bool is_half_width(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16; }

llvm::Constant* constant_like(const Value* value, uint64_t bits) { return llvm::ConstantInt::get(value->getType(), bits); }

}  // namespace

Value* Arithmetic::half_to_float(Value* bits) {
  if (options_.half_conversion)
    return b_.CreateFPExt(b_.CreateBitCast(bits, with_lanes_of(bits, b_.getHalfTy())), with_lanes_of(bits, b_.getFloatTy()));
  llvm::Type* float_type = with_lanes_of(bits, b_.getFloatTy());
  Value* wide = b_.CreateZExt(bits, with_lanes_of(bits, b_.getInt32Ty()));
  auto constant = [&](uint64_t value) { return constant_like(wide, value); };
  Value* sign = b_.CreateShl(b_.CreateAnd(wide, constant(0x8000)), constant(16));
  Value* magnitude = b_.CreateShl(b_.CreateAnd(wide, constant(0x7fff)), constant(13));
  // Multiplying by 2^112 moves the exponent's bias and makes subnormals normal; infinity and NaN keep all exponent bits.
  Value* scaled = b_.CreateFMul(b_.CreateBitCast(magnitude, float_type), llvm::ConstantFP::get(float_type, 0x1p112));
  Value* special = b_.CreateICmpUGE(magnitude, constant(0x1f << 23));
  Value* finite = b_.CreateBitCast(scaled, wide->getType());
  Value* result = b_.CreateSelect(special, b_.CreateOr(magnitude, constant(0x7f800000)), finite);
  return b_.CreateBitCast(b_.CreateOr(result, sign), float_type);
}

Value* Arithmetic::float_to_half(Value* value) {
  llvm::Type* half_bits = with_lanes_of(value, b_.getInt16Ty());
  if (options_.half_conversion) return b_.CreateBitCast(b_.CreateFPTrunc(value, with_lanes_of(value, b_.getHalfTy())), half_bits);
  Value* bits = b_.CreateBitCast(value, with_lanes_of(value, b_.getInt32Ty()));
  auto constant = [&](uint64_t k) { return constant_like(bits, k); };
  Value* sign = b_.CreateAnd(b_.CreateLShr(bits, constant(16)), constant(0x8000));
  Value* magnitude = b_.CreateAnd(bits, constant(0x7fffffff));
  // Subnormals: adding 0.5 rounds to a multiple of 2^-24.
  Value* shifted = b_.CreateFAdd(b_.CreateBitCast(magnitude, value->getType()), llvm::ConstantFP::get(value->getType(), 0.5));
  Value* subnormal = b_.CreateSub(b_.CreateBitCast(shifted, bits->getType()), constant(0x3f000000));
  Value* even = b_.CreateAnd(b_.CreateLShr(magnitude, constant(13)), constant(1));
  Value* rounded = b_.CreateAdd(magnitude, b_.CreateAdd(even, constant(0xfff)));
  Value* normal = b_.CreateLShr(b_.CreateSub(rounded, constant(0x38000000)), constant(13));
  Value* nan = b_.CreateOr(constant(0x7e00), b_.CreateAnd(b_.CreateLShr(magnitude, constant(13)), constant(0x3ff)));
  Value* result = b_.CreateSelect(b_.CreateICmpULT(magnitude, constant(0x38800000)), subnormal, normal);
  result = b_.CreateSelect(b_.CreateICmpUGE(magnitude, constant(0x477ff000)), constant(0x7c00), result);
  result = b_.CreateSelect(b_.CreateICmpUGT(magnitude, constant(0x7f800000)), nan, result);
  return b_.CreateTrunc(b_.CreateOr(result, sign), half_bits);
}

Value* Arithmetic::float_to_bfloat(Value* value) {
  Value* bits = b_.CreateBitCast(value, with_lanes_of(value, b_.getInt32Ty()));
  auto constant = [&](uint64_t k) { return constant_like(bits, k); };
  Value* high = b_.CreateLShr(bits, constant(16));
  Value* rounded = b_.CreateAdd(bits, b_.CreateAdd(b_.CreateAnd(high, constant(1)), constant(0x7fff)));
  Value* quiet = b_.CreateOr(high, constant(0x40));
  Value* result = b_.CreateSelect(b_.CreateFCmpUNO(value, value), quiet, b_.CreateLShr(rounded, constant(16)));
  return b_.CreateTrunc(result, with_lanes_of(value, b_.getInt16Ty()));
}

Value* Arithmetic::widen(DType dtype, Value* value) {
  if (dtype == DType::F16) return half_to_float(value);
  Value* wide = b_.CreateZExt(value, with_lanes_of(value, b_.getInt32Ty()));
  return b_.CreateBitCast(b_.CreateShl(wide, constant_like(wide, 16)), with_lanes_of(value, b_.getFloatTy()));
}

Value* Arithmetic::narrow(DType dtype, Value* value) {
  return dtype == DType::F16 ? float_to_half(value) : float_to_bfloat(value);
}

/// Rounds once: the step through f32 keeps an odd last bit where it was inexact, which the second step then sees.
Value* Arithmetic::narrow_double(DType dtype, Value* value) {
  Value* nearest = b_.CreateFPTrunc(value, with_lanes_of(value, b_.getFloatTy()));
  Value* back = b_.CreateFPExt(nearest, value->getType());
  Value* bits = b_.CreateBitCast(nearest, with_lanes_of(value, b_.getInt32Ty()));
  auto magnitude = [&](Value* v) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v); };
  Value* away = b_.CreateFCmpOGT(magnitude(back), magnitude(value));
  Value* toward_zero = b_.CreateSub(bits, b_.CreateZExt(away, bits->getType()));
  Value* odd = b_.CreateOr(toward_zero, constant_like(bits, 1));
  Value* exact = b_.CreateFCmpUEQ(back, value);
  return narrow(dtype, b_.CreateBitCast(b_.CreateSelect(exact, bits, odd), nearest->getType()));
}

Value* Arithmetic::integer_to_float(DType from, DType to, Value* value) {
  bool is_signed = is_signed_integer(from);
  auto convert = [&](Value* v, DType dtype) {
    llvm::Type* type = with_lanes_of(v, this->type(dtype));
    return is_signed ? b_.CreateSIToFP(v, type) : b_.CreateUIToFP(v, type);
  };
  if (!is_half_width(to)) return convert(value, to);
  if (bit_width(from) <= 16) return narrow(to, convert(value, DType::F32));
  if (bit_width(from) == 32) return narrow_double(to, convert(value, DType::F64));
  // f64 holds 53 bits: of larger values the lowest bits are gathered into one, which is enough for rounding.
  Value* sticky =
      b_.CreateZExt(b_.CreateICmpNE(b_.CreateAnd(value, constant_like(value, 0x7ff)), constant_like(value, 0)), value->getType());
  Value* cut = b_.CreateAnd(value, constant_like(value, ~uint64_t{0x7ff}));
  Value* gathered = b_.CreateOr(cut, b_.CreateShl(sticky, constant_like(value, 11)));
  Value* absolute = is_signed ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, value, b_.getFalse()) : value;
  Value* small = b_.CreateICmpULT(absolute, constant_like(value, uint64_t{1} << 53));
  return narrow_double(to, convert(b_.CreateSelect(small, value, gathered), DType::F64));
}

Value* Arithmetic::cast(DType from, DType to, Value* value) {
  if (from == to) return value;
  if (is_float(from) && is_float(to)) {
    if (from == DType::F64 && is_half_width(to)) return narrow_double(to, value);
    Value* wide = is_half_width(from) ? widen(from, value) : value;
    if (is_half_width(to)) return narrow(to, wide);
    llvm::Type* type = with_lanes_of(value, this->type(to));
    return to == DType::F64 ? b_.CreateFPExt(wide, type) : from == DType::F64 ? b_.CreateFPTrunc(wide, type) : wide;
  }
  llvm::Type* type = with_lanes_of(value, this->type(to));
  if (is_float(from)) {
    Value* wide = is_half_width(from) ? widen(from, value) : value;
    if (to == DType::Bool) return b_.CreateFCmpUNE(wide, llvm::Constant::getNullValue(wide->getType()));
    auto id = is_signed_integer(to) ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
    return b_.CreateIntrinsic(id, {type, wide->getType()}, {wide});
  }
  if (is_float(to)) return integer_to_float(from, to, value);
  if (to == DType::Bool) return b_.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType()));
  return is_signed_integer(from) ? b_.CreateSExtOrTrunc(value, type) : b_.CreateZExtOrTrunc(value, type);
}

}  // namespace tenon::codegen
