// SPDX-License-Identifier: Apache-2.0
// The rules of loop functions that the builders cannot check: names, scopes, regions.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "tir/parse_expr.h"

namespace tenon::tir {
namespace {

class Verifier {
 public:
  Verifier(const PrimFunc& function, function_ref<void(const Stmt&, Diagnostic&)> place) : function_(function), place_(place) {}
  void run();

 private:
  struct Meaning {
    DType dtype;    // of a variable
    Buffer buffer;  // null for a variable
    bool read_only = false;
    bool in_scope = true;
  };
  /// The buffers that the block around us may touch; those declared inside are added as they come.
  struct OpenBlock {
    const Block* block;
    std::vector<std::string> own;
  };

  void report(std::string code, std::string message, std::string expected);
  void declare(const std::string& name, Meaning meaning);
  void declare_symbols(const Expr& e);
  void declare_buffer(const Buffer& buffer, bool read_only);
  void leave_scope(size_t mark);
  void expr(const Expr& e);
  void exprs(const std::vector<Expr>& list);
  void indices(const Buffer& buffer, const std::vector<Expr>& list);
  void operands(const Expr& e, std::string_view operation, const char* rule);
  bool use_buffer(const Buffer& buffer);
  void touch(const Buffer& buffer, bool write);
  void stmt(const Stmt& s);
  void in_scope(const Stmt& s);
  void loop(const For& loop);
  void bind_axis(const For& loop);
  void block(const Block& block);
  void regions(const std::vector<Region>& list);
  void constant(const AllocateConst& s);
  bool enter();

  const PrimFunc& function_;
  function_ref<void(const Stmt&, Diagnostic&)> place_;
  Stmt current_;
  ErrorList errors_;
  std::unordered_map<std::string, Meaning> names_;
  std::vector<std::string> declared_;
  std::vector<OpenBlock> blocks_;
  std::set<std::string> block_names_;
  std::set<ForKind> open_axes_;  // of the bound loops around us
  std::map<ForKind, int64_t> axis_extents_;
  int depth_ = 0;
};

void Verifier::report(std::string code, std::string message, std::string expected) {
  Diagnostic d;
  d.code = std::move(code);
  d.message = std::move(message);
  d.expected = std::move(expected);
  d.function = function_.name;
  if (!blocks_.empty()) d.node = fmt::format("block `{}`", blocks_.back().block->name);
  place_(current_, d);
  errors_.add(std::move(d));
}

/// Counts a level of nesting; false, with an error, where no text may go deeper. Callers leave with `--depth_`.
bool Verifier::enter() {
  if (depth_ == kMaxNesting)
    report("nesting-too-deep", "expressions and statements nest too deep", fmt::format("at most {} levels", kMaxNesting));
  return depth_++ < kMaxNesting;
}

void Verifier::declare(const std::string& name, Meaning meaning) {
  if (!is_printable_name(name))
    report("reserved-name", fmt::format("{} cannot be a name", quote(name)), "a word without other meaning");
  auto [it, fresh] = names_.try_emplace(name, meaning);
  bool reusable = !it->second.in_scope && !it->second.buffer && !meaning.buffer;
  it->second = std::move(meaning);
  if (!fresh && !reusable)
    report("duplicate-name", fmt::format("`{}` is declared twice", name),
           "a name that is free here, and one of its own for a buffer");
  declared_.push_back(name);
}

void Verifier::declare_symbols(const Expr& e) {
  visit_exprs(e, [&](const Expr& part) {
    if (const Var* v = as<Var>(part); v && !names_.contains(v->name)) declare(v->name, {v->dtype, {}});
  });
}

void Verifier::declare_buffer(const Buffer& buffer, bool read_only) {
  for (const auto* list : {&buffer->shape, &buffer->strides})
    for (const Expr& e : *list) {
      expr(e);
      if (e->dtype != DType::I64)
        report("dtype-mismatch", fmt::format("an extent of `{}` is {}", buffer->name, name(e->dtype)), "i64");
    }
  Shape known;
  for (const Expr& e : buffer->shape)
    if (const int64_t* extent = as_int(e)) known.push_back(*extent);
  try {
    element_count(known);
  } catch (const CompileError& error) {
    report("tensor-too-large", fmt::format("`{}`: {}", buffer->name, error.diagnostics()[0].message),
           error.diagnostics()[0].expected);
  }
  if (!buffer->strides.empty() && buffer->strides.size() != buffer.rank())
    report("rank-mismatch", fmt::format("`{}` has {} strides", buffer->name, buffer->strides.size()),
           fmt::format("one for each of its {} axes", buffer.rank()));
  declare(buffer->name, {buffer->dtype, buffer, read_only});
  for (OpenBlock& open : blocks_) open.own.push_back(buffer->name);
}

void Verifier::leave_scope(size_t mark) {
  for (; declared_.size() > mark; declared_.pop_back()) names_[declared_.back()].in_scope = false;
}

void Verifier::exprs(const std::vector<Expr>& list) {
  for (const Expr& e : list) expr(e);
}

void Verifier::operands(const Expr& e, std::string_view operation, const char* rule) {
  if (rule) report("dtype-mismatch", fmt::format("an operand of `{}` is {}", operation, name(e->dtype)), rule);
}

void Verifier::expr(const Expr& e) {
  if (enter()) {
    if (const Var* v = as<Var>(e)) {
      auto it = names_.find(v->name);
      if (it == names_.end() || !it->second.in_scope || it->second.buffer)
        report("undeclared-name", fmt::format("`{}` is not declared here", v->name), "the name of a variable in scope");
      else if (it->second.dtype != v->dtype)
        report("dtype-mismatch", fmt::format("`{}` is used as {}", v->name, name(v->dtype)), std::string(name(it->second.dtype)));
    } else if (const Load* load = as<Load>(e)) {
      touch(load->buffer, false);
    } else if (const Binary* n = as<Binary>(e)) {
      operands(n->a, name(n->op), operand_rule(n->op, n->a->dtype));
    } else if (const Call* n = as<Call>(e)) {
      for (const Expr& a : n->args) operands(a, name(n->op), operand_rule(n->op, a->dtype));
    }
    for_each_child(e, [&](const Expr& child) { expr(child); });
  }
  --depth_;
}

/// Whether the buffer is declared here, as it is used.
bool Verifier::use_buffer(const Buffer& buffer) {
  auto it = names_.find(buffer->name);
  if (it == names_.end() || !it->second.in_scope || !it->second.buffer) {
    report("undeclared-name", fmt::format("`{}` is not declared here", buffer->name), "the name of a buffer in scope");
    return false;
  }
  if (!structural_equal(it->second.buffer, buffer))
    report("buffer-mismatch", fmt::format("`{}` is used with another declaration", buffer->name), "the declaration in scope");
  return true;
}

void Verifier::touch(const Buffer& buffer, bool write) {
  if (!use_buffer(buffer)) return;
  if (write && names_[buffer->name].read_only)
    report("read-only-buffer", fmt::format("`{}` is stored to", buffer->name),
           "a buffer that is neither an input nor a constant");
  auto lists = [&](const std::vector<Region>& regions) {
    for (const Region& r : regions)
      if (r.buffer->name == buffer->name) return true;
    return false;
  };
  for (const OpenBlock& open : blocks_) {
    if (std::find(open.own.begin(), open.own.end(), buffer->name) != open.own.end()) continue;
    if (lists(open.block->writes) || (!write && lists(open.block->reads))) continue;
    report("undeclared-region",
           fmt::format("`{}` is {} in block `{}`", buffer->name, write ? "stored to" : "read", open.block->name),
           fmt::format("a region of it among the block's {}", write ? "`writes`" : "`reads` or `writes`"));
    return;
  }
}

void Verifier::in_scope(const Stmt& s) {
  size_t mark = declared_.size();
  stmt(s);
  leave_scope(mark);
}

void Verifier::stmt(const Stmt& s) {
  Stmt around = std::exchange(current_, s);
  if (enter()) {
    switch (s->kind) {
      case StmtKind::Seq: {
        size_t mark = declared_.size();
        for (const Stmt& child : as<Seq>(s)->stmts) stmt(child);
        leave_scope(mark);
        break;
      }
      case StmtKind::For: loop(*as<For>(s)); break;
      case StmtKind::Block: block(*as<Block>(s)); break;
      case StmtKind::Store: {
        const Store& n = *as<Store>(s);
        touch(n.buffer, true);
        indices(n.buffer, n.indices);
        expr(n.value);
        break;
      }
      case StmtKind::Prefetch:
        use_buffer(as<Prefetch>(s)->buffer);
        indices(as<Prefetch>(s)->buffer, as<Prefetch>(s)->indices);
        break;
      case StmtKind::Let:
        expr(as<Let>(s)->value);
        declare(as<Var>(as<Let>(s)->var)->name, {as<Let>(s)->var->dtype, {}});
        break;
      case StmtKind::If:
        expr(as<If>(s)->condition);
        in_scope(as<If>(s)->then_case);
        if (as<If>(s)->else_case) in_scope(as<If>(s)->else_case);
        break;
      case StmtKind::Allocate: declare_buffer(as<Allocate>(s)->buffer, false); break;
      case StmtKind::AllocateConst: constant(*as<AllocateConst>(s)); break;
    }
  }
  --depth_;
  current_ = std::move(around);
}

void Verifier::indices(const Buffer& buffer, const std::vector<Expr>& list) {
  exprs(list);
  for (const Expr& i : list)
    if (i->dtype != DType::I64)
      report("dtype-mismatch", fmt::format("an index of `{}` is {}", buffer->name, name(i->dtype)), "i64");
}

void Verifier::loop(const For& loop) {
  const std::string& variable = as<Var>(loop.var)->name;
  expr(loop.min);
  expr(loop.extent);
  for (const Expr& e : {loop.min, loop.extent})
    if (e->dtype != DType::I64)
      report("dtype-mismatch", fmt::format("a bound of loop `{}` is {}", variable, name(e->dtype)), "i64");
  bool bound = is_block_axis(loop.loop_kind) || is_thread_axis(loop.loop_kind);
  bool needs_constant = bound || loop.loop_kind == ForKind::Vectorized || loop.loop_kind == ForKind::Unrolled;
  if (needs_constant && !as_int(loop.extent))
    report("loop-extent", fmt::format("the {} loop `{}` has the extent {}", name(loop.loop_kind), variable, print(loop.extent)),
           "a number");
  if (bound) bind_axis(loop);
  size_t mark = declared_.size();
  declare(variable, {DType::I64, {}});
  stmt(loop.body);
  leave_scope(mark);
  if (bound) open_axes_.erase(loop.loop_kind);
}

/// A device is launched once, over one grid: an axis has one extent and each of its places one iteration of a loop.
void Verifier::bind_axis(const For& loop) {
  const std::string& variable = as<Var>(loop.var)->name;
  if (!open_axes_.insert(loop.loop_kind).second)
    report("axis-twice", fmt::format("loop `{}` stands inside another loop over {}", variable, name(loop.loop_kind)),
           "one loop for each axis of the launch grid");
  const int64_t* extent = as_int(loop.extent);
  if (!extent) return;
  int64_t whole = axis_extents_.emplace(loop.loop_kind, *extent).first->second;
  if (whole != *extent)
    report("axis-extent", fmt::format("loop `{}` over {} has the extent {}", variable, name(loop.loop_kind), *extent),
           fmt::format("{}, that of the loop before it over the same axis", whole));
}

void Verifier::block(const Block& block) {
  if (!is_printable_name(block.name))
    report("reserved-name", fmt::format("{} cannot be a block's name", quote(block.name)), "a word without other meaning");
  if (!block_names_.insert(block.name).second)
    report("duplicate-name", fmt::format("block `{}` stands twice", block.name), "block names that are unique in their function");
  for (const IterVar& iter : block.iters) {
    expr(iter.extent);
    expr(iter.binding);
  }
  size_t mark = declared_.size();
  for (const IterVar& iter : block.iters) {
    const std::string& variable = as<Var>(iter.var)->name;
    for (const Expr& e : {iter.var, iter.extent, iter.binding})
      if (e->dtype != DType::I64)
        report("dtype-mismatch", fmt::format("block variable `{}` has a part of {}", variable, name(e->dtype)), "i64");
    declare(variable, {iter.var->dtype, {}});
  }
  regions(block.reads);
  regions(block.writes);
  blocks_.push_back({&block, {}});
  if (block.init) in_scope(block.init);
  in_scope(block.body);
  blocks_.pop_back();
  leave_scope(mark);
}

void Verifier::regions(const std::vector<Region>& list) {
  for (const Region& r : list) {
    if (use_buffer(r.buffer) && (r.min.size() != r.buffer.rank() || r.extent.size() != r.min.size()))
      report("rank-mismatch", fmt::format("a region of `{}` has {} ranges", r.buffer->name, r.min.size()),
             fmt::format("one for each of its {} axes", r.buffer.rank()));
    exprs(r.min);
    exprs(r.extent);
  }
}

void Verifier::constant(const AllocateConst& s) {
  bool same = s.buffer->dtype == s.data.dtype && s.buffer.rank() == s.data.shape.size();
  for (size_t i = 0; same && i < s.data.shape.size(); ++i) {
    const int64_t* extent = as_int(s.buffer->shape[i]);
    same = extent && *extent == s.data.shape[i];
  }
  if (!same)
    report("buffer-mismatch",
           fmt::format("the data of `{}` is {}{}", s.buffer->name, name(s.data.dtype), to_string(s.data.shape)),
           "the type of the buffer, its extents numbers");
  declare_buffer(s.buffer, true);
}

void Verifier::run() {
  for (size_t i = 0; i < function_.params.size(); ++i) {
    const Buffer& param = function_.params[i];
    for (const auto* list : {&param->shape, &param->strides})
      for (const Expr& e : *list) declare_symbols(e);
    if (param->scope != Scope::Global)
      report("parameter-scope", fmt::format("parameter `{}` is {}", param->name, name(param->scope)), "global");
    declare_buffer(param, static_cast<int64_t>(i) < function_.num_inputs);
  }
  if (function_.body)
    in_scope(function_.body);
  else
    report("missing-body", "the function has no body", "a body");
  errors_.throw_any();
}

}  // namespace

void verify(const PrimFunc& function) {
  verify(function, [](const Stmt&, Diagnostic&) {});
}

void verify(const PrimFunc& function, function_ref<void(const Stmt&, Diagnostic&)> place) { Verifier(function, place).run(); }

}  // namespace tenon::tir
