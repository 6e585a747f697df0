// SPDX-License-Identifier: Apache-2.0
// Statements: sequences, loops of every kind, branches and declarations.
#include <llvm/IR/Constants.h>

#include <algorithm>

#include "codegen/llvm/emitter.h"

namespace tenon::codegen {

using llvm::BasicBlock;
using llvm::Value;
using tir::Expr;
using tir::ForKind;

void Emitter::bind(const std::string& name, Binding binding) {
  auto it = bindings_.find(name);
  undo_.emplace_back(name, it == bindings_.end() ? std::optional<Binding>() : std::optional(it->second));
  set_binding(name, std::move(binding));
}

void Emitter::set_binding(const std::string& name, std::optional<Binding> binding) {
  ranges_.erase(name);
  if (binding && binding->range) ranges_[name] = *binding->range;
  if (binding)
    bindings_[name] = std::move(*binding);
  else
    bindings_.erase(name);
}

void Emitter::unbind(size_t mark) {
  for (; undo_.size() > mark; undo_.pop_back()) {
    auto& [name, old] = undo_.back();
    set_binding(name, std::move(old));
  }
}

void Emitter::emit(const tir::Stmt& s) {
  switch (s->kind) {
    case tir::StmtKind::Seq: return emit_seq(*tir::as<tir::Seq>(s));
    case tir::StmtKind::For: return emit_for(*tir::as<tir::For>(s));
    case tir::StmtKind::Block: return emit_block(*tir::as<tir::Block>(s));
    case tir::StmtKind::Store: return store(*tir::as<tir::Store>(s));
    case tir::StmtKind::Prefetch: return prefetch(*tir::as<tir::Prefetch>(s));
    case tir::StmtKind::Let: return emit_let(*tir::as<tir::Let>(s));
    case tir::StmtKind::If: {
      const auto& n = *tir::as<tir::If>(s);
      return emit_if(n.condition, n.then_case, n.else_case);
    }
    case tir::StmtKind::Allocate: return;  // declares for the rest of its sequence: emit_seq
    case tir::StmtKind::AllocateConst: return emit_constant(*tir::as<tir::AllocateConst>(s));
  }
}

void Emitter::emit_seq(const tir::Seq& seq) {
  size_t undo = undo_.size(), scopes = scopes_.size();
  for (const tir::Stmt& s : seq.stmts)
    if (const auto* n = tir::as<tir::Allocate>(s))
      emit_allocate(n->buffer);
    else
      emit(s);
  for (const tir::Stmt& s : seq.stmts)
    if (const auto* n = tir::as<tir::Allocate>(s)) registers_.erase(n->buffer->name);
  scopes_.resize(scopes);
  unbind(undo);
}

void Emitter::emit_for(const tir::For& loop) {
  switch (loop.loop_kind) {
    case ForKind::Serial:
    case ForKind::ThreadX:
    case ForKind::ThreadY:
    case ForKind::ThreadZ: return emit_serial(loop);
    case ForKind::Unrolled: return emit_unrolled(loop);
    case ForKind::Vectorized: return emit_vectorized(loop);
    case ForKind::BlockX:
    case ForKind::BlockY:
    case ForKind::BlockZ:
    case ForKind::Parallel: {
      bool serial = worker_ || lanes_ > 0 || !tir::runs_on_workers(loop);
      return serial ? emit_serial(loop) : emit_parallel(loop);
    }
  }
}

void Emitter::emit_serial(const tir::For& loop) {
  const std::string& variable = tir::as<tir::Var>(loop.var)->name;
  Expr min = resolve(loop.min), extent = resolve(loop.extent);
  std::optional<tir::Range> trips = range(extent), start = range(min), last = range(resolve(loop.min + loop.extent - Expr(1)));
  if (trips && trips->high <= 0) return;
  if (trips && trips->low == 1 && trips->high == 1) {
    size_t undo = undo_.size();
    bind(variable, {.alias = min, .range = start});
    emit(loop.body);
    return unbind(undo);
  }
  std::optional<tir::Range> values;
  if (start && last) values = tir::Range{start->low, last->high};
  emit_loop(variable, values, index_value(min), index_value(resolve(loop.min + loop.extent)), !trips || trips->low < 1,
            loop.body);
}

namespace {

bool has_unrolled_loop(const tir::Stmt& s) {
  bool found = false;
  tir::visit(s, [&](const tir::Stmt& part) {
    const auto* loop = tir::as<tir::For>(part);
    found = found || (loop && loop->loop_kind == ForKind::Unrolled);
  });
  return found;
}

/// Whether a loop that is not unrolled stands inside.
bool has_loop(const tir::Stmt& s) {
  bool found = false;
  tir::visit(s, [&](const tir::Stmt& part) {
    const auto* loop = tir::as<tir::For>(part);
    bool serial = loop && loop->loop_kind != ForKind::Unrolled && loop->loop_kind != ForKind::Vectorized;
    const int64_t* extent = serial ? tir::as_int(loop->extent) : nullptr;
    found = found || (serial && !(extent && *extent <= 1));
  });
  return found;
}

/// Whether lanes can run a loop's body together: nothing in it needs memory or a trip count of one lane's own.
bool vectorizable(const tir::For& vectorized) {
  bool possible = true;
  std::set<std::string, std::less<>> lane_names = names_dependent_on(vectorized);
  tir::visit(vectorized.body, [&](const tir::Stmt& s) {
    if (const auto* n = tir::as<tir::Allocate>(s); n && n->buffer->scope != tir::Scope::Reg) possible = false;
    const auto* loop = tir::as<tir::For>(s);
    if (!loop) return;
    for (const Expr* bound : {&loop->min, &loop->extent})
      tir::visit_exprs(*bound, [&](const Expr& part) {
        const auto* v = tir::as<tir::Var>(part);
        if (v && lane_names.contains(v->name)) possible = false;
      });
  });
  return possible;
}

/// Tells later passes to leave the loop alone.
llvm::MDNode* loop_metadata(llvm::LLVMContext& context) {
  auto flag = [&](const char* name) { return llvm::MDNode::get(context, llvm::MDString::get(context, name)); };
  llvm::Metadata* no = llvm::ConstantAsMetadata::get(llvm::ConstantInt::getFalse(context));
  auto* vectorize = llvm::MDNode::get(context, {llvm::MDString::get(context, "llvm.loop.vectorize.enable"), no});
  llvm::MDNode* id = llvm::MDNode::getDistinct(context, {nullptr, flag("llvm.loop.unroll.disable"), vectorize});
  id->replaceOperandWith(0, id);
  return id;
}

}  // namespace

/// Phis at the head of a loop for every register row that its body may write.
std::vector<Emitter::RowPhi> Emitter::carry_registers(const tir::Stmt& body, BasicBlock* preheader) {
  std::vector<RowPhi> carried;
  for (const std::string& name : written_registers(body)) {
    auto it = registers_.find(name);
    if (it == registers_.end()) continue;
    std::vector<Value*>& rows = it->second.rows();
    for (size_t i = 0; i < rows.size(); ++i) {
      llvm::PHINode* phi = b_.CreatePHI(rows[i]->getType(), 2);
      phi->addIncoming(rows[i], preheader);
      rows[i] = phi;
      carried.push_back({phi, name, i});
    }
  }
  return carried;
}

void Emitter::emit_loop(const std::string& variable, std::optional<tir::Range> range, Value* first, Value* end, bool may_be_empty,
                        const tir::Stmt& body) {
  llvm::LLVMContext& context = b_.getContext();
  BasicBlock* guard = b_.GetInsertBlock();
  BasicBlock* header = BasicBlock::Create(context, variable, function_);
  BasicBlock* inside = BasicBlock::Create(context, variable + ".body", function_);
  BasicBlock* exit = BasicBlock::Create(context, variable + ".end", function_);
  BasicBlock* preheader = guard;
  if (may_be_empty) {
    preheader = BasicBlock::Create(context, variable + ".start", function_, header);
    b_.CreateCondBr(b_.CreateICmpSLT(first, end), preheader, exit);
    b_.SetInsertPoint(preheader);
  }
  b_.CreateBr(header);
  b_.SetInsertPoint(header);
  llvm::PHINode* counter = b_.CreatePHI(b_.getInt64Ty(), 2, variable);
  counter->addIncoming(first, preheader);
  Registers before;
  if (may_be_empty) before = registers_;
  std::vector<RowPhi> row_phis = carry_registers(body, preheader);
  b_.CreateBr(inside);

  Scope scope;
  scope.hoist = header;
  if (!has_loop(body)) scope.preheader = preheader, scope.variable = variable, scope.first = first;
  size_t undo = undo_.size();
  bind(variable, {.value = counter, .level = static_cast<int>(scopes_.size()), .range = range});
  scopes_.push_back(std::move(scope));
  b_.SetInsertPoint(inside);
  forget_loads();
  emit(body);
  BasicBlock* latch = close_loop(counter, end, exit, row_phis);
  unbind(undo);
  if (may_be_empty) merge_registers(guard, before, latch);
}

/// Counts a loop and tells whether it goes round again. A counter that nothing reads runs up to zero, which costs no compare.
Value* Emitter::next_trip(llvm::PHINode* counter, Value* end, BasicBlock* latch) {
  bool unread = counter->use_empty();
  if (unread) {
    llvm::IRBuilder<>::InsertPointGuard guard(b_);
    b_.SetInsertPoint(counter->getIncomingBlock(0)->getTerminator());
    counter->setIncomingValue(0, b_.CreateSub(counter->getIncomingValue(0), end));
  }
  Value* next = b_.CreateNSWAdd(counter, arithmetic_.integer(DType::I64, 1));
  counter->addIncoming(next, latch);
  return unread ? b_.CreateICmpNE(next, arithmetic_.integer(DType::I64, 0)) : b_.CreateICmpSLT(next, end);
}

/// Closes the innermost scope, a loop: its counter, moving pointers and register rows go round.
BasicBlock* Emitter::close_loop(llvm::PHINode* counter, Value* end, BasicBlock* exit, std::span<const RowPhi> row_phis) {
  BasicBlock* latch = b_.GetInsertBlock();
  for (const Bump& bump : scopes_.back().bumps)
    bump.phi->addIncoming(b_.CreatePtrAdd(bump.phi, arithmetic_.integer(DType::I64, bump.bytes)), latch);
  llvm::BranchInst* branch = b_.CreateCondBr(next_trip(counter, end, latch), counter->getParent(), exit);
  branch->setMetadata(llvm::LLVMContext::MD_loop, loop_metadata(b_.getContext()));
  for (const RowPhi& carried : row_phis) {
    Value* after = registers_.at(carried.buffer).rows()[carried.row];
    carried.phi->addIncoming(after, latch);
  }
  for (const RowPhi& carried : row_phis) {
    if (carried.phi->getIncomingValue(1) != carried.phi) continue;  // the loop changes it
    Value* same = carried.phi->getIncomingValue(0);
    for (auto& [name, registers] : registers_) std::ranges::replace(registers.rows(), carried.phi, same);
    carried.phi->replaceAllUsesWith(same);
    carried.phi->eraseFromParent();
  }
  scopes_.pop_back();
  b_.SetInsertPoint(exit);
  forget_loads();
  return latch;
}

void Emitter::emit_unrolled(const tir::For& loop) {
  const std::string& variable = tir::as<tir::Var>(loop.var)->name;
  // Inside the innermost of nested loops, what the iterations share has just been loaded.
  bool relieve = unrolled_around_ == 0 || has_unrolled_loop(loop.body);
  ++unrolled_around_;
  Expr min = resolve(loop.min);
  int64_t extent = tir::int_value(resolve(loop.extent));
  for (int64_t i = 0; i < extent; ++i) {
    size_t undo = undo_.size();
    Expr value = resolve(min + Expr(i));
    bind(variable, {.alias = value, .range = range(value)});
    if (relieve) relieve_registers();
    emit(loop.body);
    unbind(undo);
  }
  --unrolled_around_;
}

void Emitter::emit_vectorized(const tir::For& loop) {
  int64_t extent = tir::int_value(resolve(loop.extent));
  if (extent <= 1 || lanes_ > 0) return emit_unrolled(loop);
  if (!vectorizable(loop)) return written_registers(loop.body).empty() ? emit_serial(loop) : emit_unrolled(loop);
  llvm::SmallVector<llvm::Constant*, 16> lanes;
  for (int64_t lane = 0; lane < extent; ++lane) lanes.push_back(arithmetic_.integer(DType::I64, lane));
  lanes_ = extent;
  lane_variable_ = "%lane" + std::to_string(extent);
  size_t undo = undo_.size();
  bind(lane_variable_, {.value = llvm::ConstantVector::get(lanes), .level = 0, .range = tir::Range{0, extent - 1}});
  Expr value = resolve(loop.min + tir::var(lane_variable_));
  bind(tir::as<tir::Var>(loop.var)->name, {.alias = value, .range = range(value)});
  emit(loop.body);
  unbind(undo);
  lanes_ = 0;
}

void Emitter::emit_block(const tir::Block& block) {
  size_t undo = undo_.size();
  Expr first = tir::bool_imm(true);
  for (const tir::IterVar& iter : block.iters) {
    Expr value = resolve(iter.binding);
    bind(tir::as<tir::Var>(iter.var)->name, {.alias = value, .range = range(value)});
    if (iter.kind == tir::IterKind::Reduce) first = tir::logical_and(first, tir::eq(iter.var, Expr(0)));
  }
  if (block.init) emit_if(first, block.init, {});
  emit(block.body);
  unbind(undo);
}

void Emitter::emit_let(const tir::Let& let) {
  constexpr int64_t kLongestAlias = 64;  // nodes; a longer expression is computed once instead of at each use
  const std::string& variable = tir::as<tir::Var>(let.var)->name;
  if (let.value->dtype != DType::I64)
    return bind(variable, {.value = eval(let.value), .level = kLocal, .range = range(let.value)});
  Expr value = resolve(let.value);
  std::optional<tir::Range> values = range(value);
  int64_t nodes = 0;
  tir::visit_exprs(value, [&](const Expr&) { ++nodes; });
  if (level_of(value) != kLocal && nodes <= kLongestAlias) return bind(variable, {.alias = value, .range = values});
  Value* known = eval(value);
  if (lanes_of(known) > 0 || mask_) return bind(variable, {.value = known, .level = kLocal, .range = values});
  // From here on the value can be used by whatever is emitted ahead of inner loops.
  Scope scope;
  scope.hoist = b_.GetInsertBlock();
  BasicBlock* rest = BasicBlock::Create(b_.getContext(), variable, function_);
  b_.CreateBr(rest);
  b_.SetInsertPoint(rest);
  bind(variable, {.value = known, .level = static_cast<int>(scopes_.size()), .range = values});
  scopes_.push_back(std::move(scope));
}

void Emitter::emit_if(const Expr& condition, const tir::Stmt& then_case, const tir::Stmt& else_case) {
  Value* chosen = eval(condition);
  if (lanes_of(chosen) > 0) return emit_masked_if(chosen, then_case, else_case);
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(chosen)) {
    if (known->isOne())
      emit(then_case);
    else if (else_case)
      emit(else_case);
    return;
  }
  llvm::LLVMContext& context = b_.getContext();
  BasicBlock* before = b_.GetInsertBlock();
  BasicBlock* then_block = BasicBlock::Create(context, "then", function_);
  BasicBlock* else_block = else_case ? BasicBlock::Create(context, "else", function_) : nullptr;
  BasicBlock* end = BasicBlock::Create(context, "endif", function_);
  b_.CreateCondBr(chosen, then_block, else_block ? else_block : end);
  Registers old = registers_;
  b_.SetInsertPoint(then_block);
  forget_loads();
  emit(then_case);
  BasicBlock* then_end = b_.GetInsertBlock();
  b_.CreateBr(end);
  Registers then_state = std::exchange(registers_, std::move(old));
  BasicBlock* else_end = before;
  if (else_block) {
    b_.SetInsertPoint(else_block);
    forget_loads();
    emit(else_case);
    else_end = b_.GetInsertBlock();
    b_.CreateBr(end);
  }
  b_.SetInsertPoint(end);
  forget_loads();
  merge_registers(then_end, then_state, else_end);
}

/// registers_ is the state after the other way.
void Emitter::merge_registers(BasicBlock* from, const Registers& state, BasicBlock* other) {
  for (auto& [name, registers] : registers_) {
    const std::vector<Value*>& rows = state.at(name).rows();
    for (size_t i = 0; i < rows.size(); ++i) {
      Value*& row = registers.rows()[i];
      if (row == rows[i]) continue;
      llvm::PHINode* phi = b_.CreatePHI(row->getType(), 2);
      phi->addIncoming(rows[i], from);
      phi->addIncoming(row, other);
      row = phi;
    }
  }
}

/// Both cases run, each for its lanes.
void Emitter::emit_masked_if(Value* condition, const tir::Stmt& then_case, const tir::Stmt& else_case) {
  Value* outer = mask_;
  auto within = [&](Value* mask) {
    if (!outer) return mask;
    Value* all = outer;
    unify(mask, all);
    return b_.CreateAnd(all, mask);
  };
  mask_ = within(condition);
  emit(then_case);
  if (else_case) {
    mask_ = within(b_.CreateNot(condition));
    emit(else_case);
  }
  mask_ = outer;
}

void Emitter::emit_allocate(const tir::Buffer& buffer) {
  if (buffer->scope == tir::Scope::Reg) {
    Shape shape;
    for (const Expr& extent : buffer->shape) shape.push_back(tir::int_value(extent));
    auto width = kernel_.register_widths.find(buffer->name);
    int64_t lanes = width == kernel_.register_widths.end() ? 1 : width->second;
    registers_.erase(buffer->name);
    registers_.emplace(buffer->name, RegisterBuffer(arithmetic_.type(buffer->dtype), element_count(shape), lanes, lanes_));
    return;
  }
  llvm::IRBuilder<>::InsertPointGuard guard(b_);
  b_.SetInsertPoint(function_->getEntryBlock().getTerminator());
  const tir::ScratchBlock* block = kernel_.scratch.worker_block(buffer->name);
  Value* base = nullptr;
  if (block) {
    base = worker_scratch();
    if (block->offset) base = b_.CreatePtrAdd(base, arithmetic_.integer(DType::I64, block->offset), buffer->name);
  } else {
    size_t index = kernel_.scratch.shared_index(buffer->name);
    block = &kernel_.scratch.shared[index];
    base = workspace(index, buffer->name);
  }
  declare_memory(buffer, base, new_alias_scope(buffer->name, block), false);
}

void Emitter::emit_constant(const tir::AllocateConst& constant) {
  std::string name = kernel_.function.name + "." + constant.buffer->name;
  llvm::GlobalVariable* global = kernel_.module.getNamedGlobal(name);
  if (!global) {
    llvm::StringRef bytes(reinterpret_cast<const char*>(constant.data.bytes.data()), constant.data.bytes.size());
    llvm::Constant* data = llvm::ConstantDataArray::getRaw(bytes, bytes.size(), b_.getInt8Ty());
    global = new llvm::GlobalVariable(kernel_.module, data->getType(), true, llvm::GlobalValue::InternalLinkage, data, name);
    global->setAlignment(llvm::Align(64));
  }
  declare_memory(constant.buffer, global, new_alias_scope(constant.buffer->name, nullptr), true);
}

}  // namespace tenon::codegen
