// SPDX-License-Identifier: Apache-2.0
// Compiles a loop function for the interpreter.
#include "tir/interpret_code.h"

#include <unordered_map>

namespace tenon::tir {
namespace {

class CodeCompiler {
 public:
  CodeCompiler(const PrimFunc& function, const VarMap& symbols) : symbols_(symbols) {
    for (const auto& [symbol, value] : symbols) variables_[symbol] = constant(as<IntImm>(value));
    for (const Buffer& param : function.params) declare(param);
    statement(function.body);
  }

  CompiledFunction finish() { return std::move(out_); }

 private:
  int new_register(uint64_t bits = 0) {
    out_.registers.push_back(bits);
    return static_cast<int>(out_.registers.size()) - 1;
  }
  template <class T>
  int constant(const T* e) {
    return new_register(scalar_bits(*e));
  }
  Instr& emit(Action action) {
    out_.code.emplace_back().action = action;
    return out_.code.back();
  }
  int here() const { return static_cast<int>(out_.code.size()); }

  int64_t number(const Expr& e) const { return int_value(substitute(e, symbols_)); }

  BufferSlot& declare(const Buffer& buffer) {
    slots_[buffer->name] = static_cast<int>(out_.buffers.size());
    BufferSlot& slot = out_.buffers.emplace_back();
    slot.name = buffer->name;
    slot.dtype = buffer->dtype;
    for (const Expr& extent : buffer->shape) slot.shape.push_back(number(extent));
    for (const Expr& stride : buffer->strides) slot.strides.push_back(number(stride));
    slot.elements = element_count(slot.shape);
    if (buffer->strides.empty()) {
      slot.strides.assign(slot.shape.size(), 1);
      for (size_t k = slot.shape.size(); k-- > 1;) slot.strides[k - 1] = slot.strides[k] * slot.shape[k];
    } else if (slot.elements > 0) {
      slot.elements = 1;
      for (size_t k = 0; k < slot.shape.size(); ++k) slot.elements += (slot.shape[k] - 1) * slot.strides[k];
    }
    return slot;
  }

  int slot(const Buffer& buffer) const {
    auto it = slots_.find(buffer->name);
    if (it == slots_.end()) fail_internal("buffer `" + buffer->name + "` is used before it is declared");
    return it->second;
  }

  int index_list(const std::vector<Expr>& indices) {
    std::vector<int> registers;
    for (const Expr& index : indices) registers.push_back(expression(index));
    int first = static_cast<int>(out_.indices.size());
    out_.indices.insert(out_.indices.end(), registers.begin(), registers.end());
    return first;
  }

  int apply(ScalarOp op, int a, int b = 0, int c = 0) {
    int dst = new_register();
    Instr& i = emit(Action::Apply);
    i.op = op;
    i.dst = dst;
    i.a = a;
    i.b = b;
    i.c = c;
    return dst;
  }

  /// Values are shared inside one statement, where nothing changes.
  int expression(const Expr& e) {
    if (auto it = known_.find(e); it != known_.end()) return it->second;
    int result = compute(e);
    known_.emplace(e, result);
    order_.push_back(e);
    return result;
  }

  int compute(const Expr& e) {
    switch (e->kind) {
      case ExprKind::IntImm: return constant(as<IntImm>(e));
      case ExprKind::FloatImm: return constant(as<FloatImm>(e));
      case ExprKind::Var: {
        auto it = variables_.find(as<Var>(e)->name);
        if (it == variables_.end()) fail_internal("variable `" + as<Var>(e)->name + "` is read before it is declared");
        return it->second;
      }
      case ExprKind::Cast: {
        const Expr& value = as<Cast>(e)->value;
        return apply(scalar_cast(e->dtype, value->dtype), expression(value));
      }
      case ExprKind::Binary: {
        const auto* n = as<Binary>(e);
        int a = expression(n->a), b = expression(n->b);
        return apply(scalar_binary(n->op, n->a->dtype), a, b);
      }
      case ExprKind::Select: return compute_select(*as<Select>(e));
      case ExprKind::Load: {
        const auto* n = as<Load>(e);
        int first = index_list(n->indices), dst = new_register();
        Instr& i = emit(Action::Load);
        i.dst = dst;
        i.buffer = slot(n->buffer);
        i.first_index = first;
        return dst;
      }
      case ExprKind::Call: {
        const auto* n = as<Call>(e);
        int args[3] = {0, 0, 0};
        for (size_t k = 0; k < n->args.size(); ++k) args[k] = expression(n->args[k]);
        return apply(scalar_intrinsic(n->op, n->args[0]->dtype), args[0], args[1], args[2]);
      }
    }
    fail_internal("an expression of no known kind");
  }

  int compute_select(const Select& n) {
    int dst = new_register();
    int skip = jump_if_zero(expression(n.condition));
    side(n.a, dst);
    int end = jump();
    land(skip);
    side(n.b, dst);
    land(end);
    return dst;
  }

  /// One side of a select; what it computes is not known outside.
  void side(const Expr& e, int dst) {
    size_t before = order_.size();
    int value = expression(e);
    for (; order_.size() > before; order_.pop_back()) known_.erase(order_.back());
    Instr& move = emit(Action::Move);
    move.dst = dst;
    move.a = value;
  }

  int jump_if_zero(int condition) {
    emit(Action::JumpIfZero).a = condition;
    return here() - 1;
  }
  int jump() {
    emit(Action::Jump);
    return here() - 1;
  }
  void land(int instr) { out_.code[static_cast<size_t>(instr)].target = here(); }

  void forget() {
    known_.clear();
    order_.clear();
  }

  void statement(const Stmt& s) {
    forget();
    switch (s->kind) {
      case StmtKind::Seq:
        for (const Stmt& child : as<Seq>(s)->stmts) statement(child);
        return;
      case StmtKind::For: return loop(*as<For>(s));
      case StmtKind::Block: return block(*as<Block>(s));
      case StmtKind::Store: {
        const auto* n = as<Store>(s);
        int first = index_list(n->indices), value = expression(n->value);
        Instr& i = emit(Action::Store);
        i.a = value;
        i.buffer = slot(n->buffer);
        i.first_index = first;
        return;
      }
      case StmtKind::Prefetch: return;
      case StmtKind::Let: variables_[as<Var>(as<Let>(s)->var)->name] = expression(as<Let>(s)->value); return;
      case StmtKind::If: return conditional(*as<If>(s));
      case StmtKind::Allocate:
        declare(as<Allocate>(s)->buffer);
        emit(Action::Poison).buffer = slot(as<Allocate>(s)->buffer);
        return;
      case StmtKind::AllocateConst: {
        BufferSlot& constant = declare(as<AllocateConst>(s)->buffer);
        constant.constant = true;
        constant.data = as<AllocateConst>(s)->data;
        return;
      }
    }
  }

  void loop(const For& n) {
    int min = expression(n.min), extent = expression(n.extent);
    int index = variables_[as<Var>(n.var)->name] = new_register();
    int end = new_register();
    int start = here();
    Instr& first = emit(Action::LoopStart);
    first.dst = index;
    first.a = min;
    first.b = extent;
    first.c = end;
    const bool independent = n.loop_kind == ForKind::Parallel || n.loop_kind == ForKind::Vectorized;
    const int variable = independent ? named(as<Var>(n.var)->name) : 0;
    first.independent = independent;
    first.buffer = variable;
    statement(n.body);
    Instr& next = emit(Action::LoopNext);
    next.dst = index;
    next.c = end;
    next.target = start + 1;
    next.independent = independent;
    next.buffer = variable;
    land(start);
  }

  int named(const std::string& variable) {
    out_.variable_names.push_back(variable);
    return static_cast<int>(out_.variable_names.size()) - 1;
  }

  void conditional(const If& n) {
    int skip = jump_if_zero(expression(n.condition));
    statement(n.then_case);
    if (!n.else_case) return land(skip);
    int end = jump();
    land(skip);
    statement(n.else_case);
    land(end);
  }

  void block(const Block& n) {
    Expr at_start = bool_imm(true);
    for (const IterVar& iter : n.iters) {
      int value = expression(iter.binding), extent = expression(iter.extent);
      variables_[as<Var>(iter.var)->name] = value;
      Instr& i = emit(Action::CheckRange);
      i.a = value;
      i.b = extent;
      i.buffer = named(as<Var>(iter.var)->name);
      if (iter.kind == IterKind::Reduce) at_start = logical_and(at_start, eq(iter.var, Expr(0)));
    }
    if (n.init) statement(if_then(at_start, n.init));
    statement(n.body);
  }

  const VarMap& symbols_;
  CompiledFunction out_;
  std::map<std::string, int, std::less<>> variables_, slots_;
  std::unordered_map<Expr, int, ExprHash, ExprEqual> known_;
  std::vector<Expr> order_;  // keys of known_ as they came
};

}  // namespace

CompiledFunction compile_for_interpreter(const PrimFunc& function, const VarMap& symbols) {
  return CodeCompiler(function, symbols).finish();
}

}  // namespace tenon::tir
