// SPDX-License-Identifier: Apache-2.0
// LLVM functions: the kernel's entry, one more function for each parallel loop, and memory with its alias scopes.
#include <llvm/IR/MDBuilder.h>

#include "codegen/llvm/emitter.h"

namespace tenon::codegen {

using llvm::Value;
using tir::Expr;

namespace {

// Offsets in tenon_kernel_context (tenon/kernel.h).
constexpr int64_t kParallelFor = 0, kWorkspaces = 8, kWorkerScratch = 16, kWorkerStride = 24;

}  // namespace

/// What a parallel loop uses of the code around it, in the order of the closure's fields, which follow the context.
struct Emitter::Captures {
  std::vector<std::string> buffers;
  std::vector<std::string> variables;
  llvm::StructType* closure = nullptr;
  llvm::Function* function = nullptr;
};

Emitter::Emitter(Kernel& kernel, llvm::Function* function)
    : kernel_(kernel), function_(function), b_(kernel.module.getContext()), arithmetic_(b_, kernel.options) {
  llvm::LLVMContext& context = kernel.module.getContext();
  auto* entry = llvm::BasicBlock::Create(context, "entry", function);
  auto* start = llvm::BasicBlock::Create(context, "start", function);
  b_.SetInsertPoint(entry);
  b_.CreateBr(start);
  Scope scope;
  scope.hoist = entry;
  scopes_.push_back(std::move(scope));
  b_.SetInsertPoint(entry->getTerminator());
}

llvm::Function* Emitter::new_function(Kernel& kernel, const std::string& name, bool external, unsigned pointers,
                                      unsigned integers) {
  llvm::LLVMContext& context = kernel.module.getContext();
  std::vector<llvm::Type*> types(pointers, llvm::PointerType::getUnqual(context));
  types.insert(types.end(), integers, llvm::Type::getInt64Ty(context));
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), types, false);
  auto linkage = external ? llvm::GlobalValue::ExternalLinkage : llvm::GlobalValue::InternalLinkage;
  auto* function = llvm::Function::Create(type, linkage, name, kernel.module);
  function->setAttributes(kernel.attributes);
  return function;
}

void Emitter::emit_kernel(Kernel& kernel) {
  const tir::PrimFunc& source = kernel.function;
  kernel.alias_domain = llvm::MDBuilder(kernel.module.getContext()).createAnonymousAliasScopeDomain(source.name);
  kernel.register_widths = register_widths(source.body);
  Emitter emitter(kernel, new_function(kernel, source.name, true, 2, 0));
  llvm::IRBuilder<>& b = emitter.b_;
  Value* args = emitter.function_->getArg(0);
  emitter.context_ = emitter.function_->getArg(1);
  for (size_t i = 0; i < source.params.size(); ++i) {
    const tir::Buffer& param = source.params[i];
    Value* base = b.CreateLoad(b.getPtrTy(), b.CreateConstGEP1_64(b.getPtrTy(), args, i), param->name);
    bool input = static_cast<int64_t>(i) < source.num_inputs;
    emitter.declare_memory(param, base, emitter.new_alias_scope(param->name, nullptr), input);
  }
  b.SetInsertPoint(&emitter.function_->back());
  emitter.emit(source.body);
  b.CreateRetVoid();
}

Value* Emitter::context_field(int64_t offset, llvm::Type* type, const char* name) {
  return b_.CreateLoad(type, b_.CreateConstGEP1_64(b_.getInt8Ty(), context_, static_cast<uint64_t>(offset)), name);
}

/// Where one shared block lies. Both are loaded where the builder stands, in the function's entry.
Value* Emitter::workspace(size_t index, const std::string& name) {
  if (!workspaces_) workspaces_ = context_field(kWorkspaces, b_.getPtrTy(), "workspaces");
  return b_.CreateLoad(b_.getPtrTy(), b_.CreateConstGEP1_64(b_.getPtrTy(), workspaces_, index), name);
}

/// The scratch of the worker that runs this function.
Value* Emitter::worker_scratch() {
  if (worker_scratch_) return worker_scratch_;
  check(worker_ != nullptr, "workers' scratch is used inside a parallel loop");
  Value* first = context_field(kWorkerScratch, b_.getPtrTy(), "workers");
  Value* stride = context_field(kWorkerStride, b_.getInt64Ty(), "stride");
  return worker_scratch_ = b_.CreatePtrAdd(first, b_.CreateMul(worker_, stride), "own");
}

size_t Emitter::new_alias_scope(const std::string& name, const tir::ScratchBlock* block) {
  llvm::MDNode* scope = llvm::MDBuilder(b_.getContext()).createAnonymousAliasScope(kernel_.alias_domain, name);
  alias_scopes_.push_back({.scope = scope, .block = block});
  return alias_scopes_.size() - 1;
}

/// Blocks that are not needed together may share bytes, and a loop that is unrolled declares a block again.
bool Emitter::may_overlap(const tir::ScratchBlock* a, const tir::ScratchBlock* b) const {
  if (!a || !b) return false;
  return a == b || a->end <= b->begin || b->end <= a->begin;
}

void Emitter::mark_alias(llvm::Instruction* access, size_t alias_scope) {
  AliasScope& own = alias_scopes_[alias_scope];
  llvm::LLVMContext& context = b_.getContext();
  if (own.noalias_of != alias_scopes_.size()) {
    std::vector<llvm::Metadata*> others;
    for (size_t i = 0; i < alias_scopes_.size(); ++i) {
      const AliasScope& other = alias_scopes_[i];
      if (i != alias_scope && !may_overlap(own.block, other.block)) others.push_back(other.scope);
    }
    own.noalias = llvm::MDNode::get(context, others);
    own.noalias_of = alias_scopes_.size();
  }
  access->setMetadata(llvm::LLVMContext::MD_alias_scope, llvm::MDNode::get(context, {own.scope}));
  if (own.noalias->getNumOperands() > 0) access->setMetadata(llvm::LLVMContext::MD_noalias, own.noalias);
}

void Emitter::declare_memory(const tir::Buffer& buffer, Value* base, size_t alias_scope, bool read_only) {
  Memory memory{.base = base, .strides = buffer->strides, .alias_scope = alias_scope, .read_only = read_only};
  if (memory.strides.empty()) {
    memory.strides.assign(buffer.rank(), Expr(1));
    for (size_t axis = buffer.rank(); axis-- > 1;) memory.strides[axis - 1] = memory.strides[axis] * buffer->shape[axis];
  }
  memories_.insert_or_assign(buffer->name, std::move(memory));
  loaded_.erase(buffer->name);
}

Emitter::Captures Emitter::captures(const tir::For& loop) {
  std::set<std::string> variables, buffers;
  auto on_expr = [&](const Expr& e, auto&& self) -> void {
    tir::visit_exprs(e, [&](const Expr& part) {
      if (const auto* n = tir::as<tir::Load>(part)) buffers.insert(n->buffer->name);
      const auto* v = tir::as<tir::Var>(part);
      auto it = v ? bindings_.find(v->name) : bindings_.end();
      if (it == bindings_.end()) return;
      if (it->second.alias)
        self(it->second.alias, self);
      else
        variables.insert(v->name);
    });
  };
  on_expr(loop.min, on_expr);
  tir::visit(loop.body, [&](const tir::Stmt& s) {
    if (const auto* n = tir::as<tir::Store>(s)) buffers.insert(n->buffer->name);
    if (const auto* n = tir::as<tir::Prefetch>(s)) buffers.insert(n->buffer->name);
    tir::for_each_child(s, [](const tir::Stmt&) {}, [&](const Expr& e) { on_expr(e, on_expr); });
  });
  Captures out;
  std::vector<llvm::Type*> fields = {b_.getPtrTy()};
  for (const std::string& name : buffers) {
    auto it = memories_.find(name);
    if (it == memories_.end() || llvm::isa<llvm::GlobalVariable>(it->second.base)) continue;
    out.buffers.push_back(name);
    fields.push_back(b_.getPtrTy());
  }
  for (const std::string& name : variables) {
    out.variables.push_back(name);
    fields.push_back(bindings_.at(name).value->getType());
  }
  out.closure = llvm::StructType::get(b_.getContext(), fields);
  std::string name = kernel_.function.name + ".range" + std::to_string(kernel_.parallel_loops++);
  out.function = new_function(kernel_, name, false, 1, 3);
  return out;
}

void Emitter::emit_parallel(const tir::For& loop) {
  Captures captured = captures(loop);
  Value* extent = index_value(resolve(loop.extent));
  Value* closure = nullptr;
  {
    llvm::IRBuilder<>::InsertPointGuard guard(b_);
    llvm::BasicBlock& entry = function_->getEntryBlock();
    b_.SetInsertPoint(&entry, entry.begin());
    closure = b_.CreateAlloca(captured.closure, nullptr, "closure");
  }
  unsigned field = 0;
  auto put = [&](Value* value) { b_.CreateStore(value, b_.CreateStructGEP(captured.closure, closure, field++)); };
  put(context_);
  for (const std::string& name : captured.buffers) put(memories_.at(name).base);
  for (const std::string& name : captured.variables) put(bindings_.at(name).value);
  Value* run = context_field(kParallelFor, b_.getPtrTy(), "parallel_for");
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), {b_.getPtrTy(), b_.getInt64Ty(), b_.getPtrTy(), b_.getPtrTy()}, false);
  b_.CreateCall(type, run, {context_, extent, captured.function, closure});
  Emitter inner(kernel_, captured.function);
  inner.emit_range_body(*this, loop, captured);
  forget_loads();
}

/// The loop over a range of iterations, in a function of its own: what it needs is loaded from the closure at the entry.
void Emitter::emit_range_body(const Emitter& outer, const tir::For& loop, const Captures& captured) {
  Value* closure = function_->getArg(0);
  unsigned field = 0;
  auto take = [&](const std::string& name) {
    Value* address = b_.CreateStructGEP(captured.closure, closure, field);
    return b_.CreateLoad(captured.closure->getElementType(field++), address, name);
  };
  context_ = take("context");
  worker_ = function_->getArg(3);
  memories_ = outer.memories_;
  alias_scopes_ = outer.alias_scopes_;
  for (const std::string& name : captured.buffers) memories_.at(name).base = take(name);
  for (const auto& [name, binding] : outer.bindings_)
    if (binding.alias) set_binding(name, binding);
  for (const std::string& name : captured.variables) {
    Binding binding = outer.bindings_.at(name);
    binding.value = take(name);
    binding.level = 0;
    set_binding(name, std::move(binding));
  }
  b_.SetInsertPoint(&function_->back());
  Value* min = index_value(resolve(loop.min));
  Value *begin = b_.CreateAdd(function_->getArg(1), min), *end = b_.CreateAdd(function_->getArg(2), min);
  std::optional<tir::Range> first = range(resolve(loop.min)), last = range(resolve(loop.min + loop.extent - Expr(1))), values;
  if (first && last) values = tir::Range{first->low, last->high};
  emit_loop(tir::as<tir::Var>(loop.var)->name, values, begin, end, true, loop.body);
  b_.CreateRetVoid();
}

}  // namespace tenon::codegen
