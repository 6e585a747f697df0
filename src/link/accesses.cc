// SPDX-License-Identifier: Apache-2.0
#include "link/accesses.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "base/dtype.h"

namespace tenon::link {

using namespace tir;

Expr flat_index(const Buffer& buffer, const std::vector<Expr>& indices) {
  if (indices.size() == 1 && buffer->strides.empty()) return indices[0];
  Expr flat(0), stride(1);
  for (size_t axis = indices.size(); axis-- > 0;) {
    flat = indices[axis] * (buffer->strides.empty() ? stride : buffer->strides[axis]) + flat;
    stride = stride * buffer->shape[axis];
  }
  return flat;
}

int64_t bytes_of(const Buffer& buffer) {
  if (!buffer->strides.empty()) return -1;
  int64_t bytes = byte_size(buffer->dtype);
  for (const Expr& extent : buffer->shape) {
    const int64_t* n = as_int(extent);
    if (!n) return -1;
    bytes *= *n;
  }
  return bytes;
}

namespace {

class Walk {
 public:
  explicit Walk(const PrimFunc& function) : function_(function) {}

  Accesses walk() {
    run(function_.body);
    return std::move(found_);
  }

 private:
  void run(const Stmt& s) {
    if (const Seq* n = as<Seq>(s)) {
      bool declares = std::any_of(n->stmts.begin(), n->stmts.end(), [](const Stmt& child) { return as<Let>(child) != nullptr; });
      VarMap outer = declares ? values_ : VarMap();
      for (const Stmt& child : n->stmts) run(child);
      if (declares) values_ = std::move(outer);
    } else if (const For* n = as<For>(s)) {
      run_loop(*n);
    } else if (const Block* n = as<Block>(s)) {
      run_block(*n);
    } else if (const Let* n = as<Let>(s)) {
      values_[as<Var>(n->var)->name] = substitute(n->value, values_);
    } else if (const If* n = as<If>(s)) {
      run_branches(*n);
    } else if (const Store* n = as<Store>(s)) {
      Expr index = substitute(flat_index(n->buffer, n->indices), values_);
      add({n->buffer->name, index}, substitute(n->value, values_), {index});
    }
  }

  void run_loop(const For& loop) {
    const std::string& name = as<Var>(loop.var)->name;
    Expr count = substitute(loop.extent, values_);
    std::optional<Range> extent = range_of(count, found_.ranges);
    const int64_t* min = as_int(loop.min);
    if (extent && extent->high < 1) return;
    if (!extent || !min || *min != 0) {
      found_.understood = false;
      return;
    }
    Range range{0, extent->high - 1};
    auto [known, inserted] = found_.ranges.try_emplace(name, range);
    if (!inserted && known->second.high != range.high) found_.understood = false;  // one name, two loops
    if (std::optional<Chunk> chunk = chunk_of(count)) found_.chunks.insert_or_assign(name, std::move(*chunk));
    if (extent->high > 1) loops_.push_back(name);
    run(loop.body);
    if (extent->high > 1) loops_.pop_back();
  }

  static std::optional<Chunk> chunk_of(const Expr& count) {
    const Binary* least = as<Binary>(count);
    const int64_t* size = least && least->op == BinaryOp::Min ? as_int(least->a) : nullptr;
    if (!size) return std::nullopt;
    Affine rest = affine(least->b);
    if (rest.terms.size() != 1 || rest.terms[0].coefficient != -*size) return std::nullopt;
    return Chunk{{rest.terms[0].expr, *size}, rest.constant};
  }

  void run_block(const Block& block) {
    VarMap outer = values_;
    for (const IterVar& iter : block.iters) values_[as<Var>(iter.var)->name] = substitute(iter.binding, values_);
    if (block.init) run(block.init);
    run(block.body);
    values_ = std::move(outer);
  }

  void run_branches(const If& branches) {
    Expr condition = substitute(branches.condition, values_);
    add({}, {}, {condition});
    const Binary* equal = as<Binary>(condition);
    const Var* fixed = equal && equal->op == BinaryOp::Eq && as_int(equal->b) ? as<Var>(equal->a) : nullptr;
    std::vector<std::string> outer = loops_;
    if (fixed) std::erase(loops_, fixed->name);
    run(branches.then_case);
    loops_ = std::move(outer);
    if (branches.else_case) run(branches.else_case);
  }

  void add(Access store, const Expr& value, std::vector<Expr> reads) {
    Update update{std::move(store), value, {}, loops_};
    if (value) reads.push_back(value);
    std::unordered_set<const ExprNode*> seen;
    for (const Expr& e : reads) add_loads(e, update, seen);
    found_.updates.push_back(std::move(update));
  }

  /// Each part once: a value of Lets used twice over, and so on, is a small graph but a huge tree.
  void add_loads(const Expr& e, Update& update, std::unordered_set<const ExprNode*>& seen) {
    if (!contains(e, ExprKind::Load) || !seen.insert(e.get()).second) return;
    const Load* l = as<Load>(e);
    if (l && is_param(l->buffer)) update.loads.push_back({l->buffer->name, flat_index(l->buffer, l->indices)});
    for_each_child(e, [&](const Expr& child) { add_loads(child, update, seen); });
  }

  bool is_param(const Buffer& buffer) const {
    return std::any_of(function_.params.begin(), function_.params.end(),
                       [&](const Buffer& p) { return p->name == buffer->name; });
  }

  const PrimFunc& function_;
  Accesses found_;
  VarMap values_;  // of lets and block variables, over loop variables
  std::vector<std::string> loops_;
};

}  // namespace

Accesses accesses_of(const PrimFunc& function) { return Walk(function).walk(); }

}  // namespace tenon::link
