// SPDX-License-Identifier: Apache-2.0
// Loop IR's arithmetic as LLVM instructions: types, integers, comparisons and intrinsics.
#include "codegen/llvm/arithmetic.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

#include "base/array.h"

namespace tenon::codegen {

using llvm::Value;
using tir::BinaryOp;
using tir::Intrinsic;

int64_t lanes_of(const Value* value) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  return vector ? vector->getNumElements() : 0;
}

llvm::Type* with_lanes_of(const Value* value, llvm::Type* scalar) {
  int64_t lanes = lanes_of(value);
  return lanes ? llvm::FixedVectorType::get(scalar, static_cast<unsigned>(lanes)) : scalar;
}

llvm::Type* Arithmetic::type(DType dtype, int64_t lanes) const {
  llvm::Type* scalar = nullptr;
  switch (dtype) {
    case DType::F32: scalar = b_.getFloatTy(); break;
    case DType::F64: scalar = b_.getDoubleTy(); break;
    default: scalar = b_.getIntNTy(static_cast<unsigned>(bit_width(dtype))); break;
  }
  return lanes ? llvm::FixedVectorType::get(scalar, static_cast<unsigned>(lanes)) : scalar;
}

llvm::Type* Arithmetic::memory_type(DType dtype, int64_t lanes) const {
  return type(dtype == DType::Bool ? DType::U8 : dtype, lanes);
}

Value* Arithmetic::from_memory(DType dtype, Value* stored) {
  return dtype == DType::Bool ? b_.CreateICmpNE(stored, llvm::Constant::getNullValue(stored->getType())) : stored;
}

Value* Arithmetic::to_memory(DType dtype, Value* value) {
  return dtype == DType::Bool ? b_.CreateZExt(value, with_lanes_of(value, b_.getInt8Ty())) : value;
}

llvm::Constant* Arithmetic::integer(DType dtype, int64_t value) const {
  return llvm::ConstantInt::get(type(dtype), static_cast<uint64_t>(value), true);
}

llvm::Constant* Arithmetic::floating(DType dtype, double value) const {
  if (dtype == DType::F16) return integer(dtype, tenon::float_to_half(static_cast<float>(value)));
  if (dtype == DType::BF16) return integer(dtype, tenon::float_to_bfloat(static_cast<float>(value)));
  return llvm::ConstantFP::get(type(dtype), value);
}

Value* Arithmetic::binary(BinaryOp op, DType dtype, Value* a, Value* b) {
  if (op == BinaryOp::And) return b_.CreateAnd(a, b);
  if (op == BinaryOp::Or) return b_.CreateOr(a, b);
  if (!is_float(dtype)) return integer_binary(op, is_signed_integer(dtype), a, b);
  if (dtype == DType::F32 || dtype == DType::F64) return float_binary(op, a, b);
  Value* result = float_binary(op, widen(dtype, a), widen(dtype, b));
  return tir::gives_bool(op) ? result : narrow(dtype, result);
}

Value* Arithmetic::integer_binary(BinaryOp op, bool is_signed, Value* a, Value* b) {
  using llvm::Intrinsic::smax, llvm::Intrinsic::smin, llvm::Intrinsic::umax, llvm::Intrinsic::umin;
  switch (op) {
    case BinaryOp::Add: return b_.CreateAdd(a, b);
    case BinaryOp::Sub: return b_.CreateSub(a, b);
    case BinaryOp::Mul: return b_.CreateMul(a, b);
    case BinaryOp::Div:
    case BinaryOp::FloorDiv:
    case BinaryOp::FloorMod:
    case BinaryOp::TruncMod: return division(op, is_signed, a, b);
    case BinaryOp::Min: return b_.CreateBinaryIntrinsic(is_signed ? smin : umin, a, b);
    case BinaryOp::Max: return b_.CreateBinaryIntrinsic(is_signed ? smax : umax, a, b);
    case BinaryOp::Eq: return b_.CreateICmpEQ(a, b);
    case BinaryOp::Ne: return b_.CreateICmpNE(a, b);
    case BinaryOp::Lt: return is_signed ? b_.CreateICmpSLT(a, b) : b_.CreateICmpULT(a, b);
    case BinaryOp::Le: return is_signed ? b_.CreateICmpSLE(a, b) : b_.CreateICmpULE(a, b);
    case BinaryOp::BitAnd: return b_.CreateAnd(a, b);
    case BinaryOp::BitOr: return b_.CreateOr(a, b);
    case BinaryOp::BitXor: return b_.CreateXor(a, b);
    case BinaryOp::Shl:
    case BinaryOp::Shr: return shift(op, is_signed, a, b);
    default: fail_internal("an integer operation of no known kind");
  }
}

Value* Arithmetic::division(BinaryOp op, bool is_signed, Value* a, Value* b) {
  llvm::Type* type = a->getType();
  llvm::Constant* zero = llvm::Constant::getNullValue(type);
  llvm::Constant* one = llvm::ConstantInt::get(type, 1);
  bool remainder = op == BinaryOp::TruncMod || op == BinaryOp::FloorMod;
  Value* by_zero = b_.CreateICmpEQ(b, zero);
  Value* avoided = by_zero;
  if (is_signed) {  // MIN / -1 traps; dividing by 1 instead gives MIN, remainder 0
    llvm::Constant* lowest = llvm::ConstantInt::get(type, llvm::APInt::getSignedMinValue(type->getScalarSizeInBits()));
    Value* minus_one = b_.CreateICmpEQ(b, llvm::Constant::getAllOnesValue(type));
    avoided = b_.CreateOr(by_zero, b_.CreateAnd(minus_one, b_.CreateICmpEQ(a, lowest)));
  }
  Value* divisor = b_.CreateSelect(avoided, one, b);
  Value* result = nullptr;
  if (!is_signed) {
    result = remainder ? b_.CreateURem(a, divisor) : b_.CreateUDiv(a, divisor);
  } else if (op == BinaryOp::Div) {
    result = b_.CreateSDiv(a, divisor);
  } else {
    Value* rest = b_.CreateSRem(a, divisor);
    Value* off = b_.CreateAnd(b_.CreateICmpNE(rest, zero), b_.CreateICmpSLT(b_.CreateXor(rest, divisor), zero));
    if (op == BinaryOp::TruncMod)
      result = rest;
    else if (op == BinaryOp::FloorMod)
      result = b_.CreateSelect(off, b_.CreateAdd(rest, divisor), rest);
    else
      result = b_.CreateSub(b_.CreateSDiv(a, divisor), b_.CreateZExt(off, type));
  }
  return b_.CreateSelect(by_zero, zero, result);
}

Value* Arithmetic::shift(BinaryOp op, bool is_signed, Value* a, Value* b) {
  llvm::Type* type = a->getType();
  unsigned bits = type->getScalarSizeInBits();
  llvm::Constant* last = llvm::ConstantInt::get(type, bits - 1);
  if (op == BinaryOp::Shr && is_signed) return b_.CreateAShr(a, b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, b, last));
  Value* far = b_.CreateICmpUGT(b, last);
  Value* count = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, b, last);
  Value* shifted = op == BinaryOp::Shl ? b_.CreateShl(a, count) : b_.CreateLShr(a, count);
  return b_.CreateSelect(far, llvm::Constant::getNullValue(type), shifted);
}

Value* Arithmetic::float_binary(BinaryOp op, Value* a, Value* b) {
  switch (op) {
    case BinaryOp::Add: return b_.CreateFAdd(a, b);
    case BinaryOp::Sub: return b_.CreateFSub(a, b);
    case BinaryOp::Mul: return b_.CreateFMul(a, b);
    case BinaryOp::Div: return b_.CreateFDiv(a, b);
    case BinaryOp::FloorDiv: return b_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, b_.CreateFDiv(a, b));
    case BinaryOp::FloorMod: return b_.CreateFSub(a, b_.CreateFMul(float_binary(BinaryOp::FloorDiv, a, b), b));
    case BinaryOp::TruncMod: return library_call("fmod", {a, b});
    case BinaryOp::Min: return float_extremum(false, a, b);
    case BinaryOp::Max: return float_extremum(true, a, b);
    case BinaryOp::Eq: return b_.CreateFCmpOEQ(a, b);
    case BinaryOp::Ne: return b_.CreateFCmpUNE(a, b);
    case BinaryOp::Lt: return b_.CreateFCmpOLT(a, b);
    case BinaryOp::Le: return b_.CreateFCmpOLE(a, b);
    default: fail_internal("a float operation of no known kind");
  }
}

/// One machine instruction gives its second operand where either is NaN, so a constant goes first and costs nothing more.
Value* Arithmetic::float_extremum(bool maximum, Value* a, Value* b) {
  auto pick = [&](Value* x, Value* y) {
    return b_.CreateSelect(maximum ? b_.CreateFCmpOGT(x, y) : b_.CreateFCmpOLT(x, y), x, y);
  };
  auto is_number = [](Value* v) {
    auto* constant = llvm::dyn_cast<llvm::Constant>(v);
    auto* scalar = constant && lanes_of(v) ? constant->getSplatValue() : constant;
    auto* number = llvm::dyn_cast_or_null<llvm::ConstantFP>(scalar);
    return number && !number->isNaN();
  };
  if (is_number(a)) return pick(a, b);
  if (is_number(b)) return pick(b, a);
  return b_.CreateSelect(b_.CreateFCmpUNO(a, a), a, pick(a, b));
}

Value* Arithmetic::intrinsic(Intrinsic op, DType dtype, llvm::ArrayRef<Value*> args) {
  Value* x = args[0];
  if (op == Intrinsic::Not || op == Intrinsic::BitNot) return b_.CreateNot(x);
  if (!is_float(dtype)) {
    if (op == Intrinsic::Abs) {
      if (!is_signed_integer(dtype)) return x;
      return b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, b_.getFalse());
    }
    if (op == Intrinsic::Pow) return integer_power(is_signed_integer(dtype), x, args[1]);
    if (op == Intrinsic::Fma) return b_.CreateAdd(b_.CreateMul(x, args[1]), args[2]);
    if (op == Intrinsic::IsNan || op == Intrinsic::IsInf) return llvm::Constant::getNullValue(with_lanes_of(x, b_.getInt1Ty()));
    check(op == Intrinsic::Floor || op == Intrinsic::Ceil || op == Intrinsic::Trunc || op == Intrinsic::RoundEven,
          "an intrinsic that integers do not have");
    return x;
  }
  if (op == Intrinsic::Fma) return fused_multiply_add(dtype, args);
  if (dtype == DType::F32 || dtype == DType::F64) return float_intrinsic(op, args);
  llvm::SmallVector<Value*, 3> wide;
  for (Value* arg : args) wide.push_back(widen(dtype, arg));
  Value* result = float_intrinsic(op, wide);
  return op == Intrinsic::IsNan || op == Intrinsic::IsInf ? result : narrow(dtype, result);
}

Value* Arithmetic::float_intrinsic(Intrinsic op, llvm::ArrayRef<Value*> args) {
  Value* x = args[0];
  switch (op) {
    case Intrinsic::Abs: return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
    case Intrinsic::Floor: return b_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, x);
    case Intrinsic::Ceil: return b_.CreateUnaryIntrinsic(llvm::Intrinsic::ceil, x);
    case Intrinsic::Trunc: return b_.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, x);
    case Intrinsic::RoundEven: return b_.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, x);
    case Intrinsic::Sqrt: return b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x);
    case Intrinsic::IsNan: return b_.CreateFCmpUNO(x, x);
    case Intrinsic::IsInf:
      return b_.CreateFCmpOEQ(b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x), llvm::ConstantFP::getInfinity(x->getType()));
    default: return library_call(std::string(name(op)), args);
  }
}

/// With one rounding: a product of 16-bit floats is exact in f64. A sum that is not keeps an odd last bit, which shows the
/// rounding to 16 bits that something was cut off.
Value* Arithmetic::fused_multiply_add(DType dtype, llvm::ArrayRef<Value*> args) {
  if (dtype == DType::F32 || dtype == DType::F64)
    return b_.CreateIntrinsic(llvm::Intrinsic::fma, {args[0]->getType()}, {args[0], args[1], args[2]});
  Value* wide[3];
  for (int i = 0; i < 3; ++i) wide[i] = b_.CreateFPExt(widen(dtype, args[i]), with_lanes_of(args[i], b_.getDoubleTy()));
  Value *product = b_.CreateFMul(wide[0], wide[1]), *addend = wide[2];
  Value* sum = b_.CreateFAdd(product, addend);
  // Knuth's two-sum: the error of `sum`, exactly.
  Value* part = b_.CreateFSub(sum, product);
  Value* error = b_.CreateFAdd(b_.CreateFSub(product, b_.CreateFSub(sum, part)), b_.CreateFSub(addend, part));
  Value *zero = llvm::Constant::getNullValue(sum->getType()), *bits = b_.CreateBitCast(sum, with_lanes_of(sum, b_.getInt64Ty()));
  Value* one = llvm::ConstantInt::get(bits->getType(), 1);
  Value* grows = b_.CreateICmpEQ(b_.CreateFCmpOGT(error, zero), b_.CreateFCmpOGT(sum, zero));
  Value* next = b_.CreateSelect(grows, b_.CreateAdd(bits, one), b_.CreateSub(bits, one));
  Value* even = b_.CreateICmpEQ(b_.CreateAnd(bits, one), llvm::Constant::getNullValue(bits->getType()));
  Value* inexact = b_.CreateAnd(b_.CreateFCmpONE(error, zero), even);
  return narrow_double(dtype, b_.CreateBitCast(b_.CreateSelect(inexact, next, bits), sum->getType()));
}

Value* Arithmetic::per_lane(llvm::ArrayRef<Value*> args, function_ref<Value*(llvm::ArrayRef<Value*>)> f) {
  int64_t lanes = lanes_of(args[0]);
  if (!lanes) return f(args);
  Value* result = nullptr;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    llvm::SmallVector<Value*, 3> scalars;
    for (Value* arg : args) scalars.push_back(b_.CreateExtractElement(arg, static_cast<uint64_t>(lane)));
    Value* one = f(scalars);
    if (!result) result = llvm::PoisonValue::get(with_lanes_of(args[0], one->getType()));
    result = b_.CreateInsertElement(result, one, static_cast<uint64_t>(lane));
  }
  return result;
}

Value* Arithmetic::library_call(const std::string& name, llvm::ArrayRef<Value*> args) {
  llvm::Type* scalar = args[0]->getType()->getScalarType();
  std::string symbol = scalar->isFloatTy() ? name + "f" : name;
  return per_lane(args, [&](llvm::ArrayRef<Value*> scalars) -> Value* {
    llvm::SmallVector<llvm::Type*, 2> types(scalars.size(), scalar);
    llvm::Module* module = b_.GetInsertBlock()->getModule();
    llvm::FunctionCallee callee = module->getOrInsertFunction(symbol, llvm::FunctionType::get(scalar, types, false));
    llvm::CallInst* call = b_.CreateCall(callee, scalars);
    call->setDoesNotThrow();
    call->setDoesNotAccessMemory();
    return call;
  });
}

Value* Arithmetic::integer_power(bool is_signed, Value* base, Value* exponent) {
  llvm::Function* function = power_function(is_signed, base->getType()->getScalarType());
  return per_lane({base, exponent}, [&](llvm::ArrayRef<Value*> args) -> Value* { return b_.CreateCall(function, args); });
}

/// Square and multiply; a negative exponent gives 1 for base 1, ±1 by parity for base -1, else 0.
llvm::Function* Arithmetic::power_function(bool is_signed, llvm::Type* type) {
  llvm::Module* module = b_.GetInsertBlock()->getModule();
  std::string name = std::string(is_signed ? "power.i" : "power.u") + std::to_string(type->getIntegerBitWidth());
  if (llvm::Function* known = module->getFunction(name)) return known;
  auto* function =
      llvm::Function::Create(llvm::FunctionType::get(type, {type, type}, false), llvm::Function::InternalLinkage, name, module);
  function->setAttributes(b_.GetInsertBlock()->getParent()->getAttributes());
  function->addFnAttr(llvm::Attribute::NoUnwind);
  llvm::LLVMContext& context = module->getContext();
  llvm::IRBuilder<> b(context);
  auto block = [&](const char* label) { return llvm::BasicBlock::Create(context, label, function); };
  auto *entry = block("entry"), *loop = block("loop"), *body = block("body"), *done = block("done");
  Value* zero = llvm::ConstantInt::get(type, 0);
  Value* one = llvm::ConstantInt::get(type, 1);
  Value *base = function->getArg(0), *exponent = function->getArg(1);
  b.SetInsertPoint(entry);
  Value* start = one;
  Value* count = exponent;
  if (is_signed) {
    Value* negative = b.CreateICmpSLT(exponent, zero);
    Value* unit = b.CreateOr(b.CreateICmpEQ(base, one), b.CreateICmpEQ(base, llvm::Constant::getAllOnesValue(type)));
    start = b.CreateSelect(b.CreateAnd(negative, b.CreateNot(unit)), zero, one);
    count = b.CreateSelect(negative, b.CreateAnd(exponent, one), exponent);
  }
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  llvm::PHINode *result = b.CreatePHI(type, 2), *square = b.CreatePHI(type, 2), *left = b.CreatePHI(type, 2);
  b.CreateCondBr(b.CreateICmpEQ(left, zero), done, body);
  b.SetInsertPoint(body);
  Value* odd = b.CreateTrunc(left, b.getInt1Ty());
  Value* next = b.CreateSelect(odd, b.CreateMul(result, square), result);
  result->addIncoming(start, entry), result->addIncoming(next, body);
  square->addIncoming(base, entry), square->addIncoming(b.CreateMul(square, square), body);
  left->addIncoming(count, entry), left->addIncoming(b.CreateLShr(left, one), body);
  b.CreateBr(loop);
  b.SetInsertPoint(done);
  b.CreateRet(result);
  return function;
}

}  // namespace tenon::codegen
