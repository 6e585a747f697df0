// SPDX-License-Identifier: Apache-2.0
// LLVM functions between TVM's packed calls and kernels. A wrapper
//
//   checks the number of arguments and each rule of each argument, one branch to a failure with its text for each,
//   puts the data pointers one after the other, as kernels take them,
//   asks for one piece of memory for all the kernel's workspaces, calls it with a context, gives the memory back,
//   returns the status that parallel loops left in the context.
//
// The context's parallel_for launches `run_task` on TVM's threads. A task allocates its scratch itself: the context says that
// workers' scratch starts at address 0 with one byte for each worker, and the task gives the kernel the address as its number.
#include "codegen/llvm/packed.h"

#include <fmt/format.h>
#include <llvm/IR/IRBuilder.h>

#include "base/array.h"

namespace tenon::codegen {
namespace {

using llvm::BasicBlock;
using llvm::Function;
using llvm::Value;

// Codes and offsets of runtime/tvm_abi.h.
constexpr int kOpaque = 3, kTensor = 7, kNdArray = 13, kCpu = 1;
constexpr uint64_t kData = 0, kDeviceType = 8, kRank = 16, kType = 20, kShape = 24, kStrides = 32, kByteOffset = 40;
constexpr uint64_t kTasks = 8;  // in the environment of a task

/// Code, bits and lanes of an element type as the 32 bits that a tensor holds.
uint32_t type_word(DType dtype) {
  uint32_t code = dtype == DType::BF16 ? 4 : is_float(dtype) ? 2 : is_signed_integer(dtype) ? 0 : 1;
  return code | static_cast<uint32_t>(bit_width(dtype)) << 8 | 1u << 16;
}

class PackedEmitter {
 public:
  PackedEmitter(llvm::Module& module, llvm::AttributeList attributes)
      : module_(module), attributes_(attributes), b_(module.getContext()) {
    set_last_error_ = callback("__TVMAPISetLastError");
    alloc_workspace_ = callback("__TVMBackendAllocWorkspace");
    free_workspace_ = callback("__TVMBackendFreeWorkspace");
    parallel_launch_ = callback("__TVMBackendParallelLaunch");
    context_type_ = llvm::StructType::get(ptr(), ptr(), ptr(), i64(), ptr(), i64(), i32());
    job_type_ = llvm::StructType::get(ptr(), ptr(), i64(), i64());
    emit_fail();
    emit_run_task();
    emit_parallel_for();
  }

  void emit(const PackedWrapper& wrapper) {
    function_ = new_function(wrapper.symbol, true, i32(), {ptr(), ptr(), i32(), ptr(), ptr(), ptr()});
    Value *args = function_->getArg(0), *codes = function_->getArg(1);
    auto count = static_cast<uint32_t>(wrapper.parameters.size());
    auto* data_type = llvm::ArrayType::get(ptr(), count);
    Value *data = b_.CreateAlloca(data_type, nullptr, "data"), *context = b_.CreateAlloca(context_type_, nullptr, "context");
    require(b_.CreateICmpEQ(function_->getArg(2), b_.getInt32(count)),
            fmt::format("{}: expected {} arguments", wrapper.symbol, count));
    for (uint32_t i = 0; i < count; ++i) {
      Value* code = b_.CreateLoad(i32(), b_.CreateConstGEP1_64(i32(), codes, i));
      Value* tensor = b_.CreateLoad(ptr(), b_.CreateConstGEP1_64(i64(), args, i));
      subject_ = fmt::format("{}: argument {}", wrapper.symbol, i);
      b_.CreateStore(checked_data(code, tensor, wrapper.parameters[i]), b_.CreateConstGEP2_64(data_type, data, 0, i));
    }
    subject_ = wrapper.symbol;
    call_kernel(wrapper, data, context);
  }

 private:
  // The fields of `context_type_`, of which the first five are tenon_kernel_context, and of `job_type_`.
  enum ContextField { ParallelFor, Workspaces, WorkerScratch, WorkerStride, Pool, TaskScratchBytes, Status };
  enum JobField { Body, Closure, Extent, ScratchBytes };

  llvm::PointerType* ptr() { return b_.getPtrTy(); }
  llvm::IntegerType* i32() { return b_.getInt32Ty(); }
  llvm::IntegerType* i64() { return b_.getInt64Ty(); }
  Value* null() { return llvm::ConstantPointerNull::get(ptr()); }
  BasicBlock* block(const char* name) { return BasicBlock::Create(module_.getContext(), name, function_); }

  /// A pointer that whoever loads the library fills.
  llvm::GlobalVariable* callback(const char* name) {
    return new llvm::GlobalVariable(module_, ptr(), false, llvm::GlobalValue::WeakAnyLinkage,
                                    llvm::ConstantPointerNull::get(ptr()), name);
  }

  Function* new_function(const std::string& name, bool external, llvm::Type* result, llvm::ArrayRef<llvm::Type*> parameters) {
    auto linkage = external ? llvm::GlobalValue::ExternalLinkage : llvm::GlobalValue::InternalLinkage;
    auto* function = Function::Create(llvm::FunctionType::get(result, parameters, false), linkage, name, module_);
    function->setAttributes(attributes_);
    b_.SetInsertPoint(BasicBlock::Create(module_.getContext(), "entry", function));
    return function;
  }

  Value* call(llvm::GlobalVariable* callback, llvm::Type* result, llvm::ArrayRef<Value*> arguments) {
    std::vector<llvm::Type*> types;
    for (Value* argument : arguments) types.push_back(argument->getType());
    return b_.CreateCall(llvm::FunctionType::get(result, types, false), b_.CreateLoad(ptr(), callback), arguments);
  }

  Value* load(llvm::Type* type, Value* base, uint64_t offset, const char* name = "") {
    return b_.CreateLoad(type, b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), base, offset), name);
  }
  Value* load_field(llvm::StructType* type, Value* base, unsigned field) {
    return b_.CreateLoad(type->getElementType(field), b_.CreateStructGEP(type, base, field));
  }
  void store_field(llvm::StructType* type, Value* base, unsigned field, Value* value) {
    b_.CreateStore(value, b_.CreateStructGEP(type, base, field));
  }

  Value* allocate(Value* bytes) {
    return call(alloc_workspace_, ptr(), {b_.getInt32(kCpu), b_.getInt32(0), bytes, b_.getInt32(0), b_.getInt32(8)});
  }
  void free(Value* workspace) { call(free_workspace_, i32(), {b_.getInt32(kCpu), b_.getInt32(0), workspace}); }

  /// int fail(const char* text): -1, with the text for whoever called.
  void emit_fail() {
    fail_ = function_ = new_function("tenon_packed_fail", false, i32(), {ptr()});
    BasicBlock *tell = block("tell"), *done = block("done");
    b_.CreateCondBr(b_.CreateIsNull(b_.CreateLoad(ptr(), set_last_error_)), done, tell);
    b_.SetInsertPoint(tell);
    call(set_last_error_, b_.getVoidTy(), {function_->getArg(0)});
    b_.CreateBr(done);
    b_.SetInsertPoint(done);
    b_.CreateRet(b_.getInt32(-1));
  }

  Value* failed(const std::string& text) {
    Value*& message = messages_[text];
    if (!message) message = b_.CreateGlobalString(text);
    return b_.CreateCall(fail_, {message});
  }

  /// Goes on only if the condition holds.
  void require(Value* condition, const std::string& text) {
    BasicBlock *bad = block("bad"), *good = block("good");
    b_.CreateCondBr(condition, good, bad);
    b_.SetInsertPoint(bad);
    b_.CreateRet(failed(text));
    b_.SetInsertPoint(good);
  }

  /// int run_task(int task, Environment* environment, Job* job): its share of the iterations.
  void emit_run_task() {
    run_task_ = function_ = new_function("tenon_packed_run_task", false, i32(), {i32(), ptr(), ptr()});
    Value* job = function_->getArg(2);
    Value *task = b_.CreateSExt(function_->getArg(0), i64()), *extent = load_field(job_type_, job, Extent);
    Value* tasks = b_.CreateSExt(load(i32(), function_->getArg(1), kTasks), i64());
    Value* ranges = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, tasks, extent);
    BasicBlock *work = block("work"), *idle = block("idle"), *scratch = block("scratch"), *run = block("run"),
               *done = block("done");
    b_.CreateCondBr(b_.CreateICmpSLT(task, ranges), work, idle);
    b_.SetInsertPoint(idle);
    b_.CreateRet(b_.getInt32(0));
    b_.SetInsertPoint(work);
    Value *size = b_.CreateSDiv(extent, ranges), *larger = b_.CreateSRem(extent, ranges);
    Value* begin = b_.CreateAdd(b_.CreateMul(task, size), b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, task, larger));
    Value* end = b_.CreateAdd(b_.CreateAdd(begin, size), b_.CreateZExt(b_.CreateICmpSLT(task, larger), i64()));
    Value *bytes = load_field(job_type_, job, ScratchBytes), *needs_scratch = b_.CreateICmpNE(bytes, b_.getInt64(0));
    b_.CreateCondBr(needs_scratch, scratch, run);
    b_.SetInsertPoint(scratch);
    Value* allocated = allocate(bytes);
    require(b_.CreateIsNotNull(allocated), "a task of a parallel loop has no memory for its workspace");
    BasicBlock* from_scratch = b_.GetInsertBlock();
    b_.CreateBr(run);
    b_.SetInsertPoint(run);
    llvm::PHINode* workspace = b_.CreatePHI(ptr(), 2, "workspace");
    workspace->addIncoming(null(), work);
    workspace->addIncoming(allocated, from_scratch);
    auto* type = llvm::FunctionType::get(b_.getVoidTy(), {ptr(), i64(), i64(), i64()}, false);
    b_.CreateCall(type, load_field(job_type_, job, Body),
                  {load_field(job_type_, job, Closure), begin, end, b_.CreatePtrToInt(workspace, i64())});
    BasicBlock* release = block("release");
    b_.CreateCondBr(needs_scratch, release, done);
    b_.SetInsertPoint(release);
    free(workspace);
    b_.CreateBr(done);
    b_.SetInsertPoint(done);
    b_.CreateRet(b_.getInt32(0));
  }

  /// void parallel_for(Context* context, int64_t extent, Body* body, void* closure), as tenon/kernel.h has it.
  void emit_parallel_for() {
    parallel_for_ = function_ = new_function("tenon_packed_parallel_for", false, b_.getVoidTy(), {ptr(), i64(), ptr(), ptr()});
    Value *context = function_->getArg(0), *extent = function_->getArg(1);
    Value* job = b_.CreateAlloca(job_type_, nullptr, "job");
    BasicBlock *work = block("work"), *done = block("done");
    b_.CreateCondBr(b_.CreateICmpSLE(extent, b_.getInt64(0)), done, work);
    b_.SetInsertPoint(work);
    store_field(job_type_, job, Body, function_->getArg(2));
    store_field(job_type_, job, Closure, function_->getArg(3));
    store_field(job_type_, job, Extent, extent);
    store_field(job_type_, job, ScratchBytes, load_field(context_type_, context, TaskScratchBytes));
    Value* status = call(parallel_launch_, i32(), {run_task_, job, b_.getInt32(0)});
    Value* before = load_field(context_type_, context, Status);
    store_field(context_type_, context, Status, b_.CreateOr(before, status));
    b_.CreateBr(done);
    b_.SetInsertPoint(done);
    b_.CreateRetVoid();
  }

  /// Every rule of one argument; returns where its elements are.
  Value* checked_data(Value* code, Value* tensor, const PackedWrapper::Parameter& parameter) {
    std::string type = fmt::format("{}{}", name(parameter.dtype), to_string(parameter.shape));
    auto rule = [&](Value* condition, const std::string& expected) { require(condition, subject_ + ": expected " + expected); };
    auto equal_32 = [&](uint64_t offset, uint32_t value) {
      return b_.CreateICmpEQ(load(i32(), tensor, offset), b_.getInt32(value));
    };
    Value* known = b_.CreateOr(b_.CreateICmpEQ(code, b_.getInt32(kTensor)), b_.CreateICmpEQ(code, b_.getInt32(kNdArray)));
    rule(b_.CreateOr(known, b_.CreateICmpEQ(code, b_.getInt32(kOpaque))), "a tensor");
    rule(b_.CreateIsNotNull(tensor), "a tensor, found null");
    rule(equal_32(kRank, static_cast<uint32_t>(parameter.shape.size())),
         fmt::format("{} dimensions, {}", parameter.shape.size(), type));
    rule(equal_32(kType, type_word(parameter.dtype)), "elements of " + type);
    Value* shape = load(ptr(), tensor, kShape, "shape");
    for (size_t axis = 0; axis < parameter.shape.size(); ++axis)
      rule(equal_64(shape, axis, parameter.shape[axis]),
           fmt::format("extent {} of axis {}, {}", parameter.shape[axis], axis, type));
    rule(is_compact(load(ptr(), tensor, kStrides, "strides"), parameter.shape), "row-major elements without gaps");
    rule(b_.CreateICmpEQ(load(i64(), tensor, kByteOffset), b_.getInt64(0)), "byte offset 0");
    rule(equal_32(kDeviceType, kCpu), "memory of the host, device type 1");
    Value* data = load(ptr(), tensor, kData, "data");
    if (element_count(parameter.shape) > 0) rule(b_.CreateIsNotNull(data), "memory, found null");
    return data;
  }

  Value* equal_64(Value* list, size_t index, int64_t value) {
    return b_.CreateICmpEQ(load(i64(), list, 8 * index), b_.getInt64(static_cast<uint64_t>(value)));
  }

  /// No strides, or those of the shape; an axis of one element or a tensor of none may have any.
  Value* is_compact(Value* strides, const std::vector<int64_t>& shape) {
    BasicBlock *from = b_.GetInsertBlock(), *given = block("strides"), *done = block("compact");
    b_.CreateCondBr(b_.CreateIsNull(strides), done, given);
    b_.SetInsertPoint(given);
    Value* good = b_.getTrue();
    int64_t expected = 1, elements = element_count(shape);
    for (size_t axis = shape.size(); axis-- > 0 && elements > 0; expected *= shape[axis])
      if (shape[axis] != 1) good = b_.CreateAnd(good, equal_64(strides, axis, expected));
    b_.CreateBr(done);
    b_.SetInsertPoint(done);
    llvm::PHINode* compact = b_.CreatePHI(b_.getInt1Ty(), 2);
    compact->addIncoming(b_.getTrue(), from);
    compact->addIncoming(good, given);
    return compact;
  }

  void call_kernel(const PackedWrapper& wrapper, Value* data, Value* context) {
    Value* shared = null();
    if (wrapper.scratch.shared_bytes > 0) {
      shared = allocate(b_.getInt64(static_cast<uint64_t>(wrapper.scratch.shared_bytes)));
      require(b_.CreateIsNotNull(shared), subject_ + ": there is no memory for its workspace");
    }
    Value* workspaces = b_.CreateAlloca(ptr(), b_.getInt32(static_cast<uint32_t>(wrapper.scratch.shared.size())), "workspaces");
    for (size_t i = 0; i < wrapper.scratch.shared.size(); ++i) {
      Value* offset = b_.getInt64(static_cast<uint64_t>(wrapper.scratch.shared[i].offset));
      b_.CreateStore(b_.CreatePtrAdd(shared, offset), b_.CreateConstGEP1_64(ptr(), workspaces, i));
    }
    store_field(context_type_, context, ParallelFor, parallel_for_);
    store_field(context_type_, context, Workspaces, workspaces);
    store_field(context_type_, context, WorkerScratch, null());
    store_field(context_type_, context, WorkerStride, b_.getInt64(1));
    store_field(context_type_, context, Pool, null());
    store_field(context_type_, context, TaskScratchBytes, b_.getInt64(static_cast<uint64_t>(wrapper.scratch.worker_bytes)));
    store_field(context_type_, context, Status, b_.getInt32(0));
    auto* type = llvm::FunctionType::get(b_.getVoidTy(), {ptr(), ptr()}, false);
    b_.CreateCall(module_.getOrInsertFunction(wrapper.kernel, type), {data, context});
    if (wrapper.scratch.shared_bytes > 0) free(shared);
    b_.CreateRet(load_field(context_type_, context, Status));
  }

  llvm::Module& module_;
  llvm::AttributeList attributes_;
  llvm::IRBuilder<> b_;
  llvm::StructType *context_type_ = nullptr, *job_type_ = nullptr;
  llvm::GlobalVariable *set_last_error_ = nullptr, *alloc_workspace_ = nullptr, *free_workspace_ = nullptr,
                       *parallel_launch_ = nullptr;
  Function *fail_ = nullptr, *run_task_ = nullptr, *parallel_for_ = nullptr;
  Function* function_ = nullptr;  // that is emitted
  std::string subject_;           // what its messages are about
  std::map<std::string, Value*, std::less<>> messages_;
};

}  // namespace

void emit_packed_wrappers(llvm::Module& module, llvm::AttributeList attributes, std::span<const PackedWrapper> wrappers) {
  PackedEmitter emitter(module, attributes);
  for (const PackedWrapper& wrapper : wrappers) emitter.emit(wrapper);
}

}  // namespace tenon::codegen
