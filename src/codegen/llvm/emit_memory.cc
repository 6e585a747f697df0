// SPDX-License-Identifier: Apache-2.0
// Loads and stores, of memory and of register buffers; no lane touches an element that its mask excludes.
#include <llvm/IR/MDBuilder.h>

#include "codegen/llvm/emitter.h"
#include "tir/text.h"

namespace tenon::codegen {

using llvm::Value;
using tir::Expr;

namespace {
constexpr unsigned kZeroBytes = 1024;  // the widest vector load that may be redirected to zeros
}

void fail_not_promotable(const tir::PrimFunc& function, const tir::Buffer& buffer, const std::string& index) {
  throw CompileError({.kind = ErrorKind::Unsupported,
                      .code = "reg-not-promotable",
                      .message = "register buffer `" + buffer->name + "` can't be kept in registers",
                      .expected = "indices that are constant after unrolling, but for one vectorized innermost axis",
                      .found = index,
                      .function = function.name});
}

std::vector<Expr> Emitter::resolve_all(std::span<const Expr> indices) {
  std::vector<Expr> out;
  out.reserve(indices.size());
  for (const Expr& index : indices) out.push_back(resolve(index));
  return out;
}

Emitter::Access Emitter::access(const tir::Buffer& buffer, std::span<const Expr> indices) {
  const Memory& memory = memories_.at(buffer->name);
  Access out;
  out.in_bounds = in_bounds(buffer, indices);
  Expr offset(0);
  for (size_t axis = 0; axis < indices.size(); ++axis) offset = offset + indices[axis] * resolve(memory.strides[axis]);
  tir::Affine elements = tir::affine(offset);
  int64_t size = byte_size(buffer->dtype);
  out.bytes.constant = elements.constant * size;
  for (const tir::Affine::Term& t : elements.terms) {
    const auto* v = tir::as<tir::Var>(t.expr);
    if (v && lanes_ > 0 && v->name == lane_variable_) {
      out.lane_bytes = t.coefficient * size;
      continue;
    }
    out.irregular = out.irregular || lane_dependent(t.expr);
    out.bytes.terms.push_back({t.expr, t.coefficient * size});
  }
  out.every_other = !out.irregular && out.lane_bytes == 2 * size;
  out.irregular = out.irregular || (out.lane_bytes != 0 && out.lane_bytes != size);
  return out;
}

void Emitter::for_each_lane(function_ref<void(int64_t)> f) {
  int64_t lanes = std::exchange(lanes_, 0);
  Value* mask = mask_;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    size_t undo = undo_.size();
    bind(lane_variable_, {.alias = Expr(lane), .range = tir::Range{lane, lane}});
    scalar_lane_ = lane;
    if (mask && lanes_of(mask) > 0) mask_ = b_.CreateExtractElement(mask, static_cast<uint64_t>(lane));
    f(lane);
    mask_ = mask;
    unbind(undo);
  }
  scalar_lane_ = -1;
  lanes_ = lanes;
}

/// In scalar mode a value that differs between lanes is that of the lane at hand.
Value* Emitter::at_lane(Value* value) {
  bool scalar = lanes_ > 0 || lanes_of(value) == 0 || scalar_lane_ < 0;
  return scalar ? value : b_.CreateExtractElement(value, static_cast<uint64_t>(scalar_lane_));
}

Value* Emitter::zeros() {
  if (llvm::GlobalVariable* known = kernel_.module.getNamedGlobal("zeros")) return known;
  auto* type = llvm::ArrayType::get(b_.getInt8Ty(), kZeroBytes);
  auto* global = new llvm::GlobalVariable(kernel_.module, type, true, llvm::GlobalValue::InternalLinkage,
                                          llvm::ConstantAggregateZero::get(type), "zeros");
  global->setAlignment(llvm::Align(64));
  return global;
}

Value* Emitter::sink() {
  if (sink_) return sink_;
  llvm::BasicBlock& entry = function_->getEntryBlock();
  llvm::IRBuilder<>::InsertPointGuard guard(b_);
  b_.SetInsertPoint(&entry, entry.begin());
  return sink_ = b_.CreateAlloca(b_.getInt64Ty(), nullptr, "sink");
}

void Emitter::forget_loads() {
  loaded_.clear();
  splats_.clear();
  vectors_loaded_ = 0;
}

/// In a long straight line more vectors are loaded than there are registers. Kept for a later use they would be spilled, and
/// a reload from the stack is no faster than the load again, which can be part of its use. The fence is no instruction: it
/// only keeps LLVM from finding the earlier load.
void Emitter::relieve_registers() {
  if (vectors_loaded_ < kernel_.vector_registers) return;
  b_.CreateFence(llvm::AtomicOrdering::AcquireRelease, llvm::SyncScope::SingleThread);
  forget_loads();
}

Value* Emitter::load(const tir::Load& n) {
  if (n.buffer->scope == tir::Scope::Reg) return load_register(n);
  std::vector<Expr> indices = resolve_all(n.indices);
  Access where = access(n.buffer, indices);
  if (!where.irregular) return load_at(n.buffer, where, where.lane_bytes ? lanes_ : 0);
  if (where.every_other && where.in_bounds) return load_every_other(n.buffer, where);
  Value* result = llvm::PoisonValue::get(arithmetic_.type(n.dtype, lanes_));
  for_each_lane([&](int64_t lane) {
    Access element = access(n.buffer, resolve_all(indices));
    element.in_bounds = where.in_bounds;  // guarded in every lane or in none
    Value* one = load_at(n.buffer, element, 0);
    result = b_.CreateInsertElement(result, one, static_cast<uint64_t>(lane));
  });
  return result;
}

Value* Emitter::load_at(const tir::Buffer& buffer, const Access& where, int64_t lanes) {
  const Memory& memory = memories_.at(buffer->name);
  Value* base = pointer(memory, where.bytes);
  Value* mask = where.in_bounds ? nullptr : mask_;
  std::vector<LoadedValue>& known = loaded_[buffer->name];
  if (!hoisting_)
    for (const LoadedValue& k : known)
      if (k.base == base && k.displacement == where.bytes.constant && k.lanes == lanes && k.mask == mask) return k.value;
  Value* address = base;
  if (where.bytes.constant != 0) address = b_.CreatePtrAdd(base, arithmetic_.integer(DType::I64, where.bytes.constant));
  Value* stored = nullptr;
  if (mask) {
    stored = guarded_load(buffer, address, lanes);
  } else {
    llvm::Type* type = arithmetic_.memory_type(buffer->dtype, lanes);
    stored = b_.CreateAlignedLoad(type, address, llvm::Align(static_cast<uint64_t>(byte_size(buffer->dtype))));
  }
  if (auto* instruction = llvm::dyn_cast<llvm::Instruction>(stored)) mark_alias(instruction, memory.alias_scope);
  Value* value = arithmetic_.from_memory(buffer->dtype, stored);
  if (!hoisting_) loaded_[buffer->name].push_back({base, where.bytes.constant, lanes, mask, value});
  if (lanes_ > 0) ++vectors_loaded_;
  return value;
}

/// Elements 0, 2, 4, ... as the even ones of two vectors, the second of which ends at the last element.
Value* Emitter::load_every_other(const tir::Buffer& buffer, Access where) {
  int last = static_cast<int>(lanes_) - 1;
  Value* low = load_at(buffer, where, lanes_);
  where.bytes.constant += last * byte_size(buffer->dtype);
  Value* high = load_at(buffer, where, lanes_);
  llvm::SmallVector<int, 16> picks;
  for (int i = 0; i <= last; ++i) picks.push_back(2 * i <= last ? 2 * i : 2 * i + 1);
  return b_.CreateShuffleVector(low, high, picks);
}

/// A load that gives zero where the mask excludes it. A load that runs for all lanes or none reads zeros instead.
Value* Emitter::guarded_load(const tir::Buffer& buffer, Value* address, int64_t lanes) {
  llvm::Align align(static_cast<uint64_t>(byte_size(buffer->dtype)));
  llvm::Type* type = arithmetic_.memory_type(buffer->dtype, lanes);
  if (lanes > 0 && lanes_of(mask_) > 0)
    return b_.CreateMaskedLoad(type, address, align, mask_, llvm::Constant::getNullValue(type));
  Value* any = lanes_of(mask_) > 0 ? b_.CreateOrReduce(mask_) : mask_;
  check(lanes * byte_size(buffer->dtype) <= kZeroBytes, "a vector is not wider than the zeros that stand in for it");
  return b_.CreateAlignedLoad(type, b_.CreateSelect(any, address, zeros()), align);
}

void Emitter::store(const tir::Store& n) {
  if (n.buffer->scope == tir::Scope::Reg) return store_register(n);
  Value* value = eval(n.value);
  std::vector<Expr> indices = resolve_all(n.indices);
  Access where = access(n.buffer, indices);
  if (lanes_ > 0 && (where.irregular || where.lane_bytes == 0)) {
    for_each_lane([&](int64_t lane) {
      Value* one = lanes_of(value) > 0 ? b_.CreateExtractElement(value, static_cast<uint64_t>(lane)) : value;
      store_at(n.buffer, access(n.buffer, resolve_all(indices)), one);
    });
  } else {
    store_at(n.buffer, where, lanes_ > 0 ? splat(value, lanes_) : value);
  }
  loaded_.erase(n.buffer->name);
}

/// Registers are near. Of lanes, the first one's element stands for all.
void Emitter::prefetch(const tir::Prefetch& n) {
  if (n.buffer->scope == tir::Scope::Reg) return;
  Access where = access(n.buffer, resolve_all(n.indices));
  if (where.irregular) return;
  Value* address = pointer(memories_.at(n.buffer->name), where.bytes);
  address = b_.CreatePtrAdd(address, arithmetic_.integer(DType::I64, where.bytes.constant));
  constexpr int kRead = 0, kSecondCache = 2, kData = 1;
  b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()},
                     {address, b_.getInt32(kRead), b_.getInt32(kSecondCache), b_.getInt32(kData)});
}

void Emitter::store_at(const tir::Buffer& buffer, const Access& where, Value* value) {
  const Memory& memory = memories_.at(buffer->name);
  Value* address = pointer(memory, where.bytes);
  if (where.bytes.constant != 0) address = b_.CreatePtrAdd(address, arithmetic_.integer(DType::I64, where.bytes.constant));
  Value* stored = arithmetic_.to_memory(buffer->dtype, value);
  llvm::Align align(static_cast<uint64_t>(byte_size(buffer->dtype)));
  llvm::Instruction* store = nullptr;
  if (mask_ && lanes_of(value) > 0) {
    store = b_.CreateMaskedStore(stored, address, align, splat(mask_, lanes_of(value)));
  } else {
    if (mask_) address = b_.CreateSelect(mask_, address, sink());
    store = b_.CreateAlignedStore(stored, address, align);
  }
  mark_alias(store, memory.alias_scope);
}

int64_t Emitter::register_position(const tir::Buffer& buffer, std::span<const Expr> indices, int64_t* lane_step) {
  Expr flat(0);
  for (size_t axis = 0; axis < indices.size(); ++axis) flat = flat * buffer->shape[axis] + resolve(indices[axis]);
  tir::Affine position = tir::affine(flat);
  *lane_step = 0;
  for (const tir::Affine::Term& t : position.terms) {
    const auto* v = tir::as<tir::Var>(t.expr);
    bool lane = v && lanes_ > 0 && v->name == lane_variable_;
    if (!lane) fail_not_promotable(kernel_.function, buffer, tir::print(t.expr));
    *lane_step = t.coefficient;
  }
  auto it = registers_.find(buffer->name);
  if (it == registers_.end()) fail_not_promotable(kernel_.function, buffer, "a use in another parallel loop");
  int64_t last = position.constant + *lane_step * std::max<int64_t>(lanes_ - 1, 0);
  if (std::min(position.constant, last) < 0 || std::max(position.constant, last) >= it->second.elements())
    fail_not_promotable(kernel_.function, buffer, "an index out of bounds");
  return position.constant;
}

Value* Emitter::load_register(const tir::Load& n) {
  int64_t step = 0;
  int64_t start = register_position(n.buffer, n.indices, &step);
  const RegisterBuffer& registers = registers_.at(n.buffer->name);
  if (registers.is_private() && step != 0)
    fail_not_promotable(kernel_.function, n.buffer, "a lane of a buffer private to each lane");
  if (step == 0) return at_lane(registers.read(b_, start, 0));
  if (step == 1) return registers.read(b_, start, lanes_);
  Value* result = llvm::PoisonValue::get(arithmetic_.type(n.dtype, lanes_));
  for (int64_t lane = 0; lane < lanes_; ++lane)
    result = b_.CreateInsertElement(result, registers.read(b_, start + lane * step, 0), static_cast<uint64_t>(lane));
  return result;
}

void Emitter::store_register(const tir::Store& n) {
  Value* value = eval(n.value);
  int64_t step = 0;
  int64_t start = register_position(n.buffer, n.indices, &step);
  RegisterBuffer& registers = registers_.at(n.buffer->name);
  bool whole = registers.is_private() || step == 1;
  if (step != 0 && step != 1) fail_not_promotable(kernel_.function, n.buffer, "a stride between lanes");
  if (registers.is_private() && step != 0)
    fail_not_promotable(kernel_.function, n.buffer, "a lane of a buffer private to each lane");
  if (whole)
    value = splat(value, lanes_);
  else if (lanes_of(value) > 0)
    value = b_.CreateExtractElement(value, static_cast<uint64_t>(lanes_of(value) - 1));
  if (mask_) {
    if (!whole) fail_not_promotable(kernel_.function, n.buffer, "one element written by some lanes");
    value = b_.CreateSelect(mask_, value, registers.read(b_, start, lanes_));
  }
  registers.write(b_, start, value);
}

}  // namespace tenon::codegen
