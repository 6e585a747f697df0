// SPDX-License-Identifier: Apache-2.0
// Turns one loop function into LLVM functions: the kernel itself and one more for each parallel loop.
//
// LLVM gets finished code: vectors are explicit, register buffers are SSA values, and every pure index value is emitted
// once, at the outermost loop where its variables are known. No IR pass runs afterwards, so what is written here is what
// runs; statements are emitted in the order in which they stand.
#pragma once

#include <llvm/IR/Module.h>

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/target.h"
#include "codegen/backend.h"
#include "codegen/llvm/arithmetic.h"
#include "codegen/llvm/registers.h"
#include "tir/affine.h"
#include "tir/scratch.h"
#include "tir/stmt.h"

namespace tenon::codegen {

/// What all LLVM functions of one kernel share.
struct Kernel {
  llvm::Module& module;
  const tir::PrimFunc& function;
  const tir::Scratch& scratch;
  ArithmeticOptions options;
  llvm::AttributeList attributes;
  int vector_registers = 16;
  llvm::MDNode* alias_domain = nullptr;
  std::map<std::string, int64_t, std::less<>> register_widths;
  int parallel_loops = 0;
};

class Emitter {
 public:
  /// Emits the function `kernel.function.name` and what it calls.
  static void emit_kernel(Kernel& kernel);

 private:
  static constexpr int kLocal = 1 << 30;  // a level: not known before the point of emission

  /// What a variable stands for: another expression, or a value known from the scope `level` on.
  struct Binding {
    tir::Expr alias;
    llvm::Value* value = nullptr;
    int level = 0;
    std::optional<tir::Range> range;
  };

  /// A buffer in memory.
  struct Memory {
    llvm::Value* base = nullptr;
    std::vector<tir::Expr> strides;  // in elements
    size_t alias_scope = 0;
    bool read_only = false;
  };

  /// The accesses of one buffer.
  struct AliasScope {
    llvm::MDNode* scope = nullptr;
    const tir::ScratchBlock* block = nullptr;  // null: a parameter or a constant, which nothing else overlaps
    llvm::MDNode* noalias = nullptr;           // of the scopes disjoint with this one, the first `noalias_of`
    size_t noalias_of = 0;
  };

  struct PointerKey {
    llvm::Value* base;
    std::vector<tir::Affine::Term> terms;
    llvm::Value* pointer;
  };
  struct Bump {
    llvm::PHINode* phi;
    int64_t bytes;
  };

  /// A place from which values can be used: the function's entry, a loop's head, or the point after a Let. Pure values
  /// of this level are emitted before the terminator of `hoist`.
  struct Scope {
    llvm::BasicBlock* hoist = nullptr;
    std::unordered_map<tir::Expr, llvm::Value*, tir::ExprHash, tir::ExprEqual> values;
    std::vector<PointerKey> pointers;
    // Only for a loop with no loop inside: pointers that move with its variable are phis.
    llvm::BasicBlock* preheader = nullptr;
    std::string variable;
    llvm::Value* first = nullptr;
    std::vector<Bump> bumps;
  };

  /// A register row that a loop carries.
  struct RowPhi {
    llvm::PHINode* phi;
    std::string buffer;
    size_t row;
  };

  struct LoadedValue {
    llvm::Value* base;
    int64_t displacement;
    int64_t lanes;
    llvm::Value* mask;
    llvm::Value* value;
  };

  Emitter(Kernel& kernel, llvm::Function* function);

  // Functions (emit_function.cc).
  struct Captures;
  static llvm::Function* new_function(Kernel& kernel, const std::string& name, bool external, unsigned pointers,
                                      unsigned integers);
  void emit_parallel(const tir::For& loop);
  Captures captures(const tir::For& loop);
  void emit_range_body(const Emitter& outer, const tir::For& loop, const Captures& captured);
  llvm::Value* context_field(int64_t offset, llvm::Type* type, const char* name);
  llvm::Value* workspace(size_t index, const std::string& name);
  llvm::Value* worker_scratch();
  bool may_overlap(const tir::ScratchBlock* a, const tir::ScratchBlock* b) const;
  size_t new_alias_scope(const std::string& name, const tir::ScratchBlock* block);
  void mark_alias(llvm::Instruction* access, size_t alias_scope);
  void declare_memory(const tir::Buffer& buffer, llvm::Value* base, size_t alias_scope, bool read_only);

  // Statements (emit_stmt.cc).
  void emit(const tir::Stmt& s);
  void emit_seq(const tir::Seq& seq);
  void emit_for(const tir::For& loop);
  void emit_serial(const tir::For& loop);
  void emit_unrolled(const tir::For& loop);
  void emit_vectorized(const tir::For& loop);
  void emit_loop(const std::string& variable, std::optional<tir::Range> range, llvm::Value* first, llvm::Value* end,
                 bool may_be_empty, const tir::Stmt& body);
  std::vector<RowPhi> carry_registers(const tir::Stmt& body, llvm::BasicBlock* preheader);
  llvm::Value* next_trip(llvm::PHINode* counter, llvm::Value* end, llvm::BasicBlock* latch);
  llvm::BasicBlock* close_loop(llvm::PHINode* counter, llvm::Value* end, llvm::BasicBlock* exit,
                               std::span<const RowPhi> row_phis);
  void emit_block(const tir::Block& block);
  void emit_let(const tir::Let& let);
  void emit_if(const tir::Expr& condition, const tir::Stmt& then_case, const tir::Stmt& else_case);
  void emit_masked_if(llvm::Value* condition, const tir::Stmt& then_case, const tir::Stmt& else_case);
  void merge_registers(llvm::BasicBlock* from, const Registers& state, llvm::BasicBlock* other);
  void emit_allocate(const tir::Buffer& buffer);
  void emit_constant(const tir::AllocateConst& constant);
  void bind(const std::string& name, Binding binding);
  void unbind(size_t mark);
  void set_binding(const std::string& name, std::optional<Binding> binding);

  // Index arithmetic and where it is emitted (emit_index.cc).
  tir::Expr resolve(const tir::Expr& e);
  tir::Expr substitute_bindings(const tir::Expr& e);
  std::optional<tir::Range> range(const tir::Expr& e) const { return tir::range_of(e, ranges_); }
  bool is_ranged(const tir::Expr& e) const;
  int level_of(const tir::Expr& e);
  bool hoistable(const tir::Load& load);
  bool in_bounds(const tir::Buffer& buffer, std::span<const tir::Expr> indices);
  bool lane_dependent(const tir::Expr& e);
  llvm::Value* index_value(const tir::Expr& resolved);
  llvm::Value* sum_value(const tir::Affine& sum);
  llvm::Value* pointer(const Memory& memory, const tir::Affine& bytes);
  llvm::Value* advance(llvm::Value* base, int level, std::vector<tir::Affine::Term> terms);
  llvm::Value* bumped(llvm::Value* base, Scope& scope, int64_t bytes);
  llvm::Value* offset_pointer(llvm::Value* base, std::span<const tir::Affine::Term> terms);
  llvm::Value* narrow_comparison(tir::BinaryOp op, const tir::Expr& a, const tir::Expr& b);

  // Expressions (emit_expr.cc).
  llvm::Value* eval(const tir::Expr& e);
  llvm::Value* eval_node(const tir::Expr& e);
  llvm::Value* eval_binary(const tir::Expr& e);
  llvm::Value* eval_select(const tir::Select& n);
  llvm::Value* eval_call(const tir::Call& n);
  llvm::Value* guarded(llvm::Value* condition, bool negated, const tir::Expr& e);
  bool needs_guard(const tir::Expr& e);
  llvm::Value* splat(llvm::Value* value, int64_t lanes);
  void unify(llvm::Value*& a, llvm::Value*& b);

  // Loads and stores (emit_memory.cc).
  struct Access {
    tir::Affine bytes;         // from the buffer's first element, at lane 0
    int64_t lane_bytes = 0;    // from one lane to the next
    bool irregular = false;    // lanes do not lie side by side
    bool every_other = false;  // lanes lie at every second element
    bool in_bounds = false;
  };
  Access access(const tir::Buffer& buffer, std::span<const tir::Expr> indices);
  std::vector<tir::Expr> resolve_all(std::span<const tir::Expr> indices);
  llvm::Value* load(const tir::Load& n);
  llvm::Value* load_at(const tir::Buffer& buffer, const Access& where, int64_t lanes);
  llvm::Value* load_every_other(const tir::Buffer& buffer, Access where);
  llvm::Value* guarded_load(const tir::Buffer& buffer, llvm::Value* address, int64_t lanes);
  llvm::Value* load_register(const tir::Load& n);
  void store(const tir::Store& n);
  void prefetch(const tir::Prefetch& n);
  void store_at(const tir::Buffer& buffer, const Access& where, llvm::Value* value);
  void store_register(const tir::Store& n);
  int64_t register_position(const tir::Buffer& buffer, std::span<const tir::Expr> indices, int64_t* lane_step);
  /// Runs f once for each lane with the emitter in scalar mode, the lane's number a constant.
  void for_each_lane(function_ref<void(int64_t)> f);
  llvm::Value* at_lane(llvm::Value* value);
  llvm::Value* zeros();
  llvm::Value* sink();
  void forget_loads();
  void relieve_registers();

  Kernel& kernel_;
  llvm::Function* function_;
  llvm::IRBuilder<> b_;
  Arithmetic arithmetic_;
  llvm::Value* context_ = nullptr;
  llvm::Value* worker_ = nullptr;  // null outside a parallel loop
  std::unordered_map<std::string, Binding> bindings_;
  tir::Ranges ranges_;  // of the bound variables
  std::vector<std::pair<std::string, std::optional<Binding>>> undo_;
  std::map<std::string, Memory, std::less<>> memories_;
  std::vector<AliasScope> alias_scopes_;
  Registers registers_;
  std::vector<Scope> scopes_;
  int64_t lanes_ = 0;  // of the vectorized loop around; 0 outside
  std::string lane_variable_;
  int64_t scalar_lane_ = -1;     // the lane that for_each_lane is at
  llvm::Value* mask_ = nullptr;  // lanes (or, as a scalar, all) that run; null: all
  bool hoisting_ = false;
  std::map<std::string, std::vector<LoadedValue>, std::less<>> loaded_;  // by buffer, valid at the point of emission
  std::unordered_map<llvm::Value*, llvm::Value*> splats_;
  int vectors_loaded_ = 0;   // since loads were last forgotten
  int unrolled_around_ = 0;  // unrolled loops around the place that is emitted
  llvm::Value* sink_ = nullptr;
  llvm::Value *workspaces_ = nullptr, *worker_scratch_ = nullptr;
};

/// Throws: an index of a register buffer is not a constant.
[[noreturn]] void fail_not_promotable(const tir::PrimFunc& function, const tir::Buffer& buffer, const std::string& index);

}  // namespace tenon::codegen
