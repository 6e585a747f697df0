// SPDX-License-Identifier: Apache-2.0
// Expressions as LLVM values: scalars, or vectors with one lane for each iteration of the vectorized loop around.
#include "codegen/llvm/emitter.h"

namespace tenon::codegen {

using llvm::Value;
using tir::BinaryOp;
using tir::Expr;

namespace {

bool has_load(const Expr& e) {
  if (tir::as<tir::Load>(e)) return true;
  bool found = false;
  tir::for_each_child(e, [&](const Expr& child) { found = found || has_load(child); });
  return found;
}

bool is_index_dtype(DType dtype) { return dtype == DType::I64 || dtype == DType::Bool; }

}  // namespace

Value* Emitter::splat(Value* value, int64_t lanes) {
  if (lanes_of(value) > 0) return value;
  if (auto* constant = llvm::dyn_cast<llvm::Constant>(value))
    return llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(static_cast<unsigned>(lanes)), constant);
  Value*& known = splats_[value];
  if (known && !hoisting_ && lanes_of(known) == lanes) return known;
  auto count = static_cast<unsigned>(lanes);
  Value* vector = nullptr;
  if (value->getType()->isIntegerTy(1)) {  // as wide as the masks that narrow_comparison gives, so that they combine unpacked
    Value* wide = b_.CreateVectorSplat(count, b_.CreateSExt(value, b_.getInt32Ty()));
    vector = b_.CreateICmpSLT(wide, llvm::Constant::getNullValue(wide->getType()));
  } else {
    vector = b_.CreateVectorSplat(count, value);
  }
  if (!hoisting_) known = vector;
  return vector;
}

void Emitter::unify(Value*& a, Value*& b) {
  if (lanes_of(a) > lanes_of(b)) b = splat(b, lanes_of(a));
  if (lanes_of(b) > lanes_of(a)) a = splat(a, lanes_of(b));
}

Value* Emitter::eval(const Expr& e) {
  if (!is_index_dtype(e->dtype)) return eval_node(e);
  Expr resolved = resolve(e);
  return has_load(resolved) ? eval_node(resolved) : index_value(resolved);
}

Value* Emitter::eval_node(const Expr& e) {
  switch (e->kind) {
    case tir::ExprKind::IntImm: return arithmetic_.integer(e->dtype, tir::as<tir::IntImm>(e)->value);
    case tir::ExprKind::FloatImm: return arithmetic_.floating(e->dtype, tir::as<tir::FloatImm>(e)->value);
    case tir::ExprKind::Var: {
      auto it = bindings_.find(tir::as<tir::Var>(e)->name);
      check(it != bindings_.end(), "a variable is bound before it is used");
      return it->second.alias ? eval(it->second.alias) : at_lane(it->second.value);
    }
    case tir::ExprKind::Cast: {
      const Expr& value = tir::as<tir::Cast>(e)->value;
      return arithmetic_.cast(value->dtype, e->dtype, eval(value));
    }
    case tir::ExprKind::Binary: return eval_binary(e);
    case tir::ExprKind::Select: return eval_select(*tir::as<tir::Select>(e));
    case tir::ExprKind::Load: return load(*tir::as<tir::Load>(e));
    case tir::ExprKind::Call: return eval_call(*tir::as<tir::Call>(e));
  }
  fail_internal("an expression of no known kind");
}

Value* Emitter::eval_binary(const Expr& e) {
  const auto& n = *tir::as<tir::Binary>(e);
  const DType dtype = n.a->dtype;
  bool pure_index = dtype == DType::I64 && !has_load(n.a) && !has_load(n.b);
  if (pure_index && (n.op == BinaryOp::Add || n.op == BinaryOp::Sub || n.op == BinaryOp::Mul)) {
    tir::Affine sum = tir::affine(e);
    if (sum.terms.size() != 1 || sum.constant != 0 || sum.terms[0].coefficient != 1) return sum_value(sum);
  }
  if (pure_index && tir::gives_bool(n.op) && lanes_ > 0)
    if (Value* narrow = narrow_comparison(n.op, n.a, n.b)) return narrow;
  Value *a = eval(n.a), *b = eval(n.b);
  unify(a, b);
  const int64_t* divisor = dtype == DType::I64 ? tir::as_int(n.b) : nullptr;
  std::optional<tir::Range> dividend = divisor && *divisor > 0 && pure_index ? range(n.a) : std::nullopt;
  if (dividend && dividend->low >= 0) {
    if (n.op == BinaryOp::FloorDiv || n.op == BinaryOp::Div) return b_.CreateUDiv(a, b);
    if (n.op == BinaryOp::FloorMod || n.op == BinaryOp::TruncMod) return b_.CreateURem(a, b);
  }
  return arithmetic_.binary(n.op, dtype, a, b);
}

Value* Emitter::eval_call(const tir::Call& n) {
  llvm::SmallVector<Value*, 3> args;
  for (const Expr& arg : n.args) args.push_back(eval(arg));
  for (size_t i = 1; i < args.size(); ++i) unify(args[0], args[i]);
  for (size_t i = 1; i < args.size(); ++i) unify(args[0], args[i]);
  if (n.op == tir::Intrinsic::Reinterpret) return b_.CreateBitCast(args[0], arithmetic_.type(n.dtype, lanes_of(args[0])));
  return arithmetic_.intrinsic(n.op, n.args[0]->dtype, args);
}

/// Loads that may be out of bounds when they run, and so run only where their Select's condition chose them.
bool Emitter::needs_guard(const Expr& e) {
  if (const auto* n = tir::as<tir::Load>(e)) {
    if (memories_.contains(n->buffer->name) && !in_bounds(n->buffer, resolve_all(n->indices))) return true;
  }
  if (const auto* v = tir::as<tir::Var>(e)) {
    auto it = bindings_.find(v->name);
    return it != bindings_.end() && it->second.alias && needs_guard(it->second.alias);
  }
  bool found = false;
  tir::for_each_child(e, [&](const Expr& child) { found = found || needs_guard(child); });
  return found;
}

Value* Emitter::guarded(Value* condition, bool negated, const Expr& e) {
  if (!needs_guard(e)) return eval(e);
  Value* outer = mask_;
  Value* mask = negated ? b_.CreateNot(condition) : condition;
  if (outer) {
    unify(mask, outer);
    mask = b_.CreateAnd(outer, mask);
  }
  mask_ = mask;
  Value* value = eval(e);
  mask_ = outer;
  return value;
}

Value* Emitter::eval_select(const tir::Select& n) {
  Value* condition = eval(n.condition);
  if (auto* known = llvm::dyn_cast<llvm::Constant>(condition)) {
    if (known->isOneValue() || known->isAllOnesValue()) return eval(n.a);
    if (known->isNullValue()) return eval(n.b);
  }
  Value* outer = mask_;
  Value* a = guarded(condition, false, n.a);
  check(mask_ == outer, "guards are nested");
  Value* b = guarded(condition, true, n.b);
  // A guarded load already gives zero where it does not run.
  auto* zero = llvm::dyn_cast<llvm::Constant>(b);
  if (zero && zero->isNullValue() && n.a->kind == tir::ExprKind::Load && needs_guard(n.a)) return a;
  unify(a, b);
  if (lanes_of(condition) > 0 && lanes_of(a) == 0) a = splat(a, lanes_of(condition)), b = splat(b, lanes_of(condition));
  return b_.CreateSelect(condition, a, b);
}

}  // namespace tenon::codegen
