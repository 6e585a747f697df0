// SPDX-License-Identifier: Apache-2.0
// Statements as a tree of steps, each with the instructions for the values that it needs.
#include "te/run_extern.h"

#include <deque>

namespace tenon::te {
namespace {

using tir::as;
using tir::Expr;
using tir::Stmt;
using tir::StmtKind;

/// `registers` means: For: variable, min, extent. If: condition. Store: value, then the indices.
struct Step {
  StmtKind kind{};
  Code code = {};
  std::vector<int> registers = {};
  int tensor = -1;
  std::vector<Step> children = {};  // If: then, else
};

const std::string& var_name(const Expr& v) { return as<tir::Var>(v)->name; }

class ExternRunner {
 public:
  ExternRunner(const tir::VarMap& symbols, const TensorTable& tensors)
      : symbols_(symbols), tensors_(tensors), compiler_(tensors_, symbols) {}

  void run(const Stmt& body) {
    Step root = compile(body);
    LaneRegisters registers(compiler_.register_count(), 1);
    run_lanes(once_, registers, tensors_, 1);
    run(root, registers);
  }

 private:
  /// Compiles the values of one statement; nothing is shared with others, since tensors change between them.
  void compile_values(Step& step, std::initializer_list<std::span<const Expr>> lists) {
    compiler_.forget();
    for (std::span<const Expr> values : lists)
      for (const Expr& e : values) step.registers.push_back(compiler_.compile(e));
    step.code = compiler_.take(Level::PerPoint);
    Code once = compiler_.take(Level::Once);
    once_.insert(once_.end(), once.begin(), once.end());
  }
  void compile_value(Step& step, const Expr& e) { compile_values(step, {std::span(&e, 1)}); }

  Step compile(const Stmt& s) {
    Step step{s->kind};
    switch (s->kind) {
      case StmtKind::Seq:
        for (const Stmt& child : as<tir::Seq>(s)->stmts) step.children.push_back(compile(child));
        break;
      case StmtKind::For: {
        const auto* n = as<tir::For>(s);
        step.registers.push_back(compiler_.variable(var_name(n->var), Level::PerPoint));
        const Expr range[] = {n->min, n->extent};
        compile_values(step, {range});
        step.children.push_back(compile(n->body));
        break;
      }
      case StmtKind::Block: return compile_block(*as<tir::Block>(s));
      case StmtKind::Store: {
        const auto* n = as<tir::Store>(s);
        step.tensor = tensors_.index(n->buffer->name);
        compile_values(step, {std::span(&n->value, 1), n->indices});
        break;
      }
      case StmtKind::Prefetch: break;
      case StmtKind::Let:
        compile_value(step, as<tir::Let>(s)->value);
        compiler_.bind(var_name(as<tir::Let>(s)->var), step.registers[0]);
        break;
      case StmtKind::If: {
        const auto* n = as<tir::If>(s);
        compile_value(step, n->condition);
        step.children.push_back(compile(n->then_case));
        if (n->else_case) step.children.push_back(compile(n->else_case));
        break;
      }
      case StmtKind::Allocate: {
        const tir::Buffer& buffer = as<tir::Allocate>(s)->buffer;
        Shape shape;
        for (const Expr& extent : buffer->shape) shape.push_back(tir::int_value(tir::substitute(extent, symbols_)));
        MutableArray& scratch = scratch_.emplace_back(buffer->dtype, shape);
        tensors_.add({buffer->name, buffer->dtype, shape, scratch.data(), scratch.data()});
        break;
      }
      case StmtKind::AllocateConst: {
        const auto* n = as<tir::AllocateConst>(s);
        tensors_.add({n->buffer->name, n->data.dtype, n->data.shape, n->data.bytes.data()});
        break;
      }
    }
    return step;
  }

  Step compile_block(const tir::Block& n) {
    Step step{StmtKind::Seq};
    Expr at_start = tir::bool_imm(true);
    for (const tir::IterVar& iter : n.iters) {
      step.children.push_back(compile(tir::let(iter.var, iter.binding)));
      if (iter.kind == tir::IterKind::Reduce) at_start = tir::logical_and(at_start, tir::eq(iter.var, Expr(0)));
    }
    if (n.init) step.children.push_back(compile(tir::if_then(at_start, n.init)));
    step.children.push_back(compile(n.body));
    return step;
  }

  void run(const Step& step, LaneRegisters& registers) {
    run_lanes(step.code, registers, tensors_, 1);
    auto value = [&](size_t k) { return static_cast<int64_t>(*registers[step.registers[k]]); };
    switch (step.kind) {
      case StmtKind::Seq:
        for (const Step& child : step.children) run(child, registers);
        return;
      case StmtKind::For: {
        int64_t min = value(1), extent = value(2);
        for (int64_t i = 0; i < extent; ++i) {
          *registers[step.registers[0]] = static_cast<uint64_t>(min + i);
          run(step.children[0], registers);
        }
        return;
      }
      case StmtKind::If:
        if (value(0) != 0)
          run(step.children[0], registers);
        else if (step.children.size() > 1)
          run(step.children[1], registers);
        return;
      case StmtKind::Store: {
        const TensorMemory& tensor = tensors_[step.tensor];
        check(tensor.writable != nullptr, "an extern stage writes its own outputs only");
        indices_.clear();
        for (size_t k = 1; k < step.registers.size(); ++k) indices_.push_back(value(k));
        store_lanes(tensor.dtype, tensor.writable, element_number(tensor, indices_), registers[step.registers[0]], 1);
        return;
      }
      case StmtKind::Block:
      case StmtKind::Prefetch:
      case StmtKind::Let:
      case StmtKind::Allocate:
      case StmtKind::AllocateConst: return;
    }
  }

  const tir::VarMap& symbols_;
  TensorTable tensors_;
  LaneCompiler compiler_;
  Code once_;
  std::deque<MutableArray> scratch_;
  std::vector<int64_t> indices_;
};

}  // namespace

void run_extern(const Stmt& body, const tir::VarMap& symbols, const TensorTable& tensors) {
  ExternRunner(symbols, tensors).run(body);
}

}  // namespace tenon::te
