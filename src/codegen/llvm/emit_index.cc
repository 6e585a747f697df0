// SPDX-License-Identifier: Apache-2.0
// Index arithmetic: each pure value is emitted at the level of its innermost variable, once.
#include <algorithm>

#include "codegen/llvm/emitter.h"

namespace tenon::codegen {

using llvm::Value;
using tir::Affine;
using tir::BinaryOp;
using tir::Expr;

Expr Emitter::substitute_bindings(const Expr& e) {
  if (const auto* v = tir::as<tir::Var>(e)) {
    auto it = bindings_.find(v->name);
    return it != bindings_.end() && it->second.alias ? it->second.alias : e;
  }
  return tir::map_children(e, [&](const Expr& child) { return substitute_bindings(child); });
}

/// Whether every variable has a known range, so that no sum of them wraps.
bool Emitter::is_ranged(const Expr& e) const {
  if (const auto* v = tir::as<tir::Var>(e)) return ranges_.contains(v->name);
  bool ranged = e->kind != tir::ExprKind::Load;
  tir::for_each_child(e, [&](const Expr& child) { ranged = ranged && is_ranged(child); });
  return ranged;
}

/// The expression over variables that are values. What is made of ranged variables is simplified; data keeps its meaning.
Expr Emitter::resolve(const Expr& e) {
  auto simplified = [&](const Expr& part, auto&& self) -> Expr {
    if (is_ranged(part)) return tir::simplify(part, ranges_);
    return tir::map_children(part, [&](const Expr& child) { return self(child, self); });
  };
  return simplified(substitute_bindings(e), simplified);
}

bool Emitter::in_bounds(const tir::Buffer& buffer, std::span<const Expr> indices) {
  for (size_t axis = 0; axis < indices.size(); ++axis) {
    const int64_t* extent = tir::as_int(buffer->shape[axis]);
    std::optional<tir::Range> index = range(indices[axis]);
    if (!extent || !index || index->low < 0 || index->high >= *extent) return false;
  }
  return true;
}

bool Emitter::hoistable(const tir::Load& load) {
  auto it = memories_.find(load.buffer->name);
  return it != memories_.end() && it->second.read_only && in_bounds(load.buffer, load.indices);
}

int Emitter::level_of(const Expr& e) {
  if (const auto* v = tir::as<tir::Var>(e)) return bindings_.at(v->name).level;
  const auto* n = tir::as<tir::Load>(e);
  if (n && !hoistable(*n)) return kLocal;
  int level = 0;
  tir::for_each_child(e, [&](const Expr& child) { level = std::max(level, level_of(child)); });
  return level;
}

bool Emitter::lane_dependent(const Expr& e) {
  if (lanes_ == 0) return false;
  if (const auto* v = tir::as<tir::Var>(e)) {
    const Binding& binding = bindings_.at(v->name);
    return binding.alias ? lane_dependent(binding.alias) : lanes_of(binding.value) > 0;
  }
  const auto* n = tir::as<tir::Load>(e);
  auto registers = n ? registers_.find(n->buffer->name) : registers_.end();
  if (registers != registers_.end() && registers->second.is_private()) return true;
  bool found = false;
  tir::for_each_child(e, [&](const Expr& child) { found = found || lane_dependent(child); });
  return found;
}

Value* Emitter::index_value(const Expr& e) {
  if (const int64_t* k = tir::as_int(e)) return arithmetic_.integer(e->dtype, *k);
  int level = level_of(e);
  if (level == kLocal) return eval_node(e);
  if (const auto* v = tir::as<tir::Var>(e)) return bindings_.at(v->name).value;
  auto& values = scopes_[static_cast<size_t>(level)].values;
  if (auto it = values.find(e); it != values.end()) return it->second;
  llvm::IRBuilder<>::InsertPointGuard guard(b_);
  b_.SetInsertPoint(scopes_[static_cast<size_t>(level)].hoist->getTerminator());
  bool outer = std::exchange(hoisting_, true);
  Value* value = eval_node(e);
  hoisting_ = outer;
  scopes_[static_cast<size_t>(level)].values.emplace(e, value);
  return value;
}

/// Adds up outer terms first, so that each loop level adds only its own.
Value* Emitter::sum_value(const Affine& sum) {
  int deepest = 0;
  for (const Affine::Term& t : sum.terms) deepest = std::max(deepest, level_of(t.expr));
  Affine outer;
  outer.constant = sum.constant;
  Value* total = nullptr;
  auto add = [&](Value* value) {
    if (!total) {
      total = value;
      return;
    }
    unify(total, value);
    total = b_.CreateAdd(total, value);
  };
  for (const Affine::Term& t : sum.terms) {
    if (level_of(t.expr) < deepest) {
      outer.terms.push_back(t);
      continue;
    }
    Value* value = index_value(t.expr);
    if (t.coefficient != 1)
      value = b_.CreateMul(value, llvm::ConstantInt::get(value->getType(), static_cast<uint64_t>(t.coefficient), true));
    add(value);
  }
  if (!outer.terms.empty())
    add(index_value(outer.expr()));
  else if (outer.constant != 0)
    add(arithmetic_.integer(DType::I64, outer.constant));
  return total ? total : arithmetic_.integer(DType::I64, 0);
}

Value* Emitter::offset_pointer(Value* base, std::span<const Affine::Term> terms) {
  Affine sum;
  sum.terms.assign(terms.begin(), terms.end());
  return b_.CreatePtrAdd(base, sum_value(sum));
}

/// A pointer that moves by `bytes` with the variable of an innermost loop.
Value* Emitter::bumped(Value* base, Scope& scope, int64_t bytes) {
  llvm::IRBuilder<>::InsertPointGuard guard(b_);
  b_.SetInsertPoint(scope.preheader->getTerminator());
  Value* first = scope.first;
  Value* start = base;
  if (!llvm::isa<llvm::ConstantInt>(first) || !llvm::cast<llvm::ConstantInt>(first)->isZero())
    start = b_.CreatePtrAdd(base, b_.CreateMul(first, arithmetic_.integer(DType::I64, bytes)));
  b_.SetInsertPoint(scope.hoist, scope.hoist->begin());
  llvm::PHINode* phi = b_.CreatePHI(b_.getPtrTy(), 2);
  phi->addIncoming(start, scope.preheader);
  scope.bumps.push_back({phi, bytes});
  return phi;
}

Value* Emitter::advance(Value* base, int level, std::vector<Affine::Term> terms) {
  if (level == kLocal) return offset_pointer(base, terms);
  Scope& scope = scopes_[static_cast<size_t>(level)];
  for (const PointerKey& known : scope.pointers) {
    bool same = known.base == base && std::ranges::equal(known.terms, terms, [](const Affine::Term& a, const Affine::Term& b) {
                  return a.coefficient == b.coefficient && tir::structural_equal(a.expr, b.expr);
                });
    if (same) return known.pointer;
  }
  std::vector<Affine::Term> rest = terms;
  auto moves = std::ranges::find_if(rest, [&](const Affine::Term& t) {
    const auto* v = tir::as<tir::Var>(t.expr);
    return v && scope.preheader && v->name == scope.variable;
  });
  Value* result = base;
  if (moves != rest.end()) {
    Affine::Term own = *moves;
    rest.erase(moves);
    result = rest.empty() ? bumped(base, scope, own.coefficient) : advance(base, level, {own});
  }
  if (!rest.empty()) {
    llvm::IRBuilder<>::InsertPointGuard guard(b_);
    b_.SetInsertPoint(scope.hoist->getTerminator());
    bool outer = std::exchange(hoisting_, true);
    result = offset_pointer(result, rest);
    hoisting_ = outer;
  }
  scopes_[static_cast<size_t>(level)].pointers.push_back({base, std::move(terms), result});
  return result;
}

Value* Emitter::pointer(const Memory& memory, const Affine& bytes) {
  std::map<int, std::vector<Affine::Term>> by_level;
  for (const Affine::Term& t : bytes.terms) by_level[level_of(t.expr)].push_back(t);
  Value* result = memory.base;
  for (auto& [level, terms] : by_level) {
    std::ranges::sort(terms, {}, [](const Affine::Term& t) { return t.expr->hash; });
    result = advance(result, level, std::move(terms));
  }
  return result;
}

/// Compares `lane * c + uniform` with zero in 32 bits, where the interval allows it: wide masks are slow in 64.
Value* Emitter::narrow_comparison(BinaryOp op, const Expr& a, const Expr& b) {
  Affine uniform = tir::affine(b - a);
  if (op == BinaryOp::Le) ++uniform.constant, op = BinaryOp::Lt;  // there is an instruction for less, none for less or equal
  int64_t step = 0;
  for (auto it = uniform.terms.begin(); it != uniform.terms.end(); ++it) {
    const auto* v = tir::as<tir::Var>(it->expr);
    if (!v || v->name != lane_variable_) continue;
    step = -it->coefficient;
    uniform.terms.erase(it);
    break;
  }
  constexpr int64_t kLimit = 1 << 30;
  std::optional<tir::Range> bounds = range(uniform.expr());
  if (step == 0 || !bounds || bounds->low < -kLimit || bounds->high > kLimit || std::abs(step) * lanes_ > kLimit) return nullptr;
  for (const Affine::Term& t : uniform.terms)
    if (lane_dependent(t.expr)) return nullptr;
  llvm::SmallVector<llvm::Constant*, 16> steps;
  for (int64_t lane = 0; lane < lanes_; ++lane) steps.push_back(arithmetic_.integer(DType::I32, step * lane));
  Value* right = b_.CreateTrunc(index_value(uniform.expr()), b_.getInt32Ty());
  return arithmetic_.binary(op, DType::I32, llvm::ConstantVector::get(steps), splat(right, lanes_));
}

}  // namespace tenon::codegen
