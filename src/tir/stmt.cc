// SPDX-License-Identifier: Apache-2.0
// Construction, equality, walks and substitution of statements; the one switch over every kind.
#include "tir/stmt.h"

namespace tenon::tir {
namespace {

template <class T, class... Fields>
Stmt make_node(Fields&&... fields) {
  return Stmt::adopt(new T{{T::kKind}, std::forward<Fields>(fields)...});
}

template <class T>
bool all_equal(const std::vector<T>& a, const std::vector<T>& b, bool (*equal)(const T&, const T&)) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!equal(a[i], b[i])) return false;
  return true;
}

bool equal_expr(const Expr& a, const Expr& b) { return structural_equal(a, b); }
bool equal_buffer(const Buffer& a, const Buffer& b) { return structural_equal(a, b); }
bool equal_stmt(const Stmt& a, const Stmt& b) { return structural_equal(a, b); }
bool equal_iter(const IterVar& a, const IterVar& b) {
  return a.kind == b.kind && structural_equal(a.var, b.var) && structural_equal(a.extent, b.extent) &&
         structural_equal(a.binding, b.binding);
}
bool equal_region(const Region& a, const Region& b) {
  return structural_equal(a.buffer, b.buffer) && all_equal(a.min, b.min, equal_expr) && all_equal(a.extent, b.extent, equal_expr);
}

}  // namespace

void Stmt::destroy(const StmtNode* node) {
  switch (node->kind) {
    case StmtKind::Seq: delete static_cast<const Seq*>(node); return;
    case StmtKind::For: delete static_cast<const For*>(node); return;
    case StmtKind::Block: delete static_cast<const Block*>(node); return;
    case StmtKind::Store: delete static_cast<const Store*>(node); return;
    case StmtKind::Prefetch: delete static_cast<const Prefetch*>(node); return;
    case StmtKind::Let: delete static_cast<const Let*>(node); return;
    case StmtKind::If: delete static_cast<const If*>(node); return;
    case StmtKind::Allocate: delete static_cast<const Allocate*>(node); return;
    case StmtKind::AllocateConst: delete static_cast<const AllocateConst*>(node); return;
  }
}

Stmt scoped(std::vector<Stmt> stmts) { return make_node<Seq>(std::move(stmts)); }

Stmt seq(std::vector<Stmt> stmts) {
  std::vector<Stmt> flat;
  for (Stmt& s : stmts) {
    if (!s) continue;
    const Seq* inner = as<Seq>(s);
    bool declares = false;
    if (inner)
      for (const Stmt& child : inner->stmts)
        declares |= child->kind == StmtKind::Let || child->kind == StmtKind::Allocate || child->kind == StmtKind::AllocateConst;
    if (inner && !declares)
      flat.insert(flat.end(), inner->stmts.begin(), inner->stmts.end());
    else
      flat.push_back(std::move(s));
  }
  if (flat.size() == 1) return flat[0];
  return scoped(std::move(flat));
}

Stmt for_loop(const Expr& v, const Expr& min, const Expr& extent, ForKind kind, const Stmt& body) {
  check(as<Var>(v) && v->dtype == DType::I64, "a loop variable is an i64 variable");
  check(bool{body}, "a loop has a body");
  return make_node<For>(v, min, extent, kind, body);
}

Stmt block(std::string name, std::vector<IterVar> iters, std::vector<Region> reads, std::vector<Region> writes, const Stmt& init,
           const Stmt& body) {
  check(bool{body}, "a block has a body");
  return make_node<Block>(std::move(name), std::move(iters), std::move(reads), std::move(writes), init, body);
}

Stmt store(const Buffer& buffer, std::vector<Expr> indices, const Expr& value) {
  check(indices.size() == buffer.rank(), "a store has one index for each axis of its buffer");
  check(value->dtype == buffer->dtype, "a store keeps the buffer's dtype");
  return make_node<Store>(buffer, std::move(indices), value);
}

Stmt prefetch(const Buffer& buffer, std::vector<Expr> indices) {
  check(indices.size() == buffer.rank(), "a prefetch has one index for each axis of its buffer");
  return make_node<Prefetch>(buffer, std::move(indices));
}

Stmt let(const Expr& v, const Expr& value) {
  check(as<Var>(v) && v->dtype == value->dtype, "a let binds a variable of the value's dtype");
  return make_node<Let>(v, value);
}

Stmt if_then(const Expr& condition, const Stmt& then_case, const Stmt& else_case) {
  check(condition->dtype == DType::Bool, "an if's condition is bool");
  if (const int64_t* k = as_int(condition)) {
    if (*k) return then_case;
    return else_case ? else_case : scoped({});
  }
  return make_node<If>(condition, then_case, else_case);
}

Stmt allocate(const Buffer& buffer) { return make_node<Allocate>(buffer); }

Stmt allocate_const(const Buffer& buffer, Array data) {
  check(buffer->dtype == data.dtype && buffer.rank() == data.shape.size(), "a constant buffer has its data's dtype and rank");
  return make_node<AllocateConst>(buffer, std::move(data));
}

bool PrimFunc::scheduled() const {
  auto it = attrs.find("scheduled");
  return it != attrs.end() && std::holds_alternative<bool>(it->second) && std::get<bool>(it->second);
}

std::string_view name(ForKind kind) {
  constexpr std::string_view kNames[] = {"serial",     "parallel",   "vectorized",  "unrolled",    "blockIdx_x",
                                         "blockIdx_y", "blockIdx_z", "threadIdx_x", "threadIdx_y", "threadIdx_z"};
  static_assert(std::size(kNames) == kForKinds);
  return kNames[static_cast<int>(kind)];
}

bool is_block_axis(ForKind kind) { return kind >= ForKind::BlockX && kind <= ForKind::BlockZ; }
bool is_thread_axis(ForKind kind) { return kind >= ForKind::ThreadX; }

std::string_view name(IterKind kind) { return kind == IterKind::Spatial ? "spatial" : "reduce"; }

bool structural_equal(const Stmt& a, const Stmt& b) {
  if (a.same_as(b)) return true;
  if (!a || !b || a->kind != b->kind) return false;
  switch (a->kind) {
    case StmtKind::Seq: return all_equal(as<Seq>(a)->stmts, as<Seq>(b)->stmts, equal_stmt);
    case StmtKind::For: {
      const auto *x = as<For>(a), *y = as<For>(b);
      return x->loop_kind == y->loop_kind && structural_equal(x->var, y->var) && structural_equal(x->min, y->min) &&
             structural_equal(x->extent, y->extent) && structural_equal(x->body, y->body);
    }
    case StmtKind::Block: {
      const auto *x = as<Block>(a), *y = as<Block>(b);
      return x->name == y->name && all_equal(x->iters, y->iters, equal_iter) && all_equal(x->reads, y->reads, equal_region) &&
             all_equal(x->writes, y->writes, equal_region) && structural_equal(x->init, y->init) &&
             structural_equal(x->body, y->body);
    }
    case StmtKind::Store: {
      const auto *x = as<Store>(a), *y = as<Store>(b);
      return structural_equal(x->buffer, y->buffer) && all_equal(x->indices, y->indices, equal_expr) &&
             structural_equal(x->value, y->value);
    }
    case StmtKind::Prefetch: {
      const auto *x = as<Prefetch>(a), *y = as<Prefetch>(b);
      return structural_equal(x->buffer, y->buffer) && all_equal(x->indices, y->indices, equal_expr);
    }
    case StmtKind::Let:
      return structural_equal(as<Let>(a)->var, as<Let>(b)->var) && structural_equal(as<Let>(a)->value, as<Let>(b)->value);
    case StmtKind::If: {
      const auto *x = as<If>(a), *y = as<If>(b);
      return structural_equal(x->condition, y->condition) && structural_equal(x->then_case, y->then_case) &&
             structural_equal(x->else_case, y->else_case);
    }
    case StmtKind::Allocate: return structural_equal(as<Allocate>(a)->buffer, as<Allocate>(b)->buffer);
    case StmtKind::AllocateConst: {
      const auto *x = as<AllocateConst>(a), *y = as<AllocateConst>(b);
      return structural_equal(x->buffer, y->buffer) && x->data == y->data;
    }
  }
  fail_internal("a statement of no known kind");
}

bool structural_equal(const PrimFunc& a, const PrimFunc& b) {
  return a.name == b.name && a.num_inputs == b.num_inputs && a.attrs == b.attrs && all_equal(a.params, b.params, equal_buffer) &&
         structural_equal(a.body, b.body);
}

void for_each_child(const Stmt& s, function_ref<void(const Stmt&)> on_stmt, function_ref<void(const Expr&)> on_expr) {
  auto exprs = [&](const std::vector<Expr>& list) {
    for (const Expr& e : list) on_expr(e);
  };
  switch (s->kind) {
    case StmtKind::Seq:
      for (const Stmt& child : as<Seq>(s)->stmts) on_stmt(child);
      return;
    case StmtKind::For: {
      const auto* n = as<For>(s);
      on_expr(n->min);
      on_expr(n->extent);
      on_stmt(n->body);
      return;
    }
    case StmtKind::Block: {
      const auto* n = as<Block>(s);
      for (const IterVar& iter : n->iters) {
        on_expr(iter.extent);
        on_expr(iter.binding);
      }
      for (const auto* regions : {&n->reads, &n->writes})
        for (const Region& region : *regions) {
          exprs(region.min);
          exprs(region.extent);
        }
      if (n->init) on_stmt(n->init);
      on_stmt(n->body);
      return;
    }
    case StmtKind::Store:
      exprs(as<Store>(s)->indices);
      on_expr(as<Store>(s)->value);
      return;
    case StmtKind::Prefetch: exprs(as<Prefetch>(s)->indices); return;
    case StmtKind::Let: on_expr(as<Let>(s)->value); return;
    case StmtKind::If:
      on_expr(as<If>(s)->condition);
      on_stmt(as<If>(s)->then_case);
      if (as<If>(s)->else_case) on_stmt(as<If>(s)->else_case);
      return;
    case StmtKind::Allocate:
    case StmtKind::AllocateConst: return;
  }
}

Stmt map_children(const Stmt& s, function_ref<Stmt(const Stmt&)> on_stmt, function_ref<Expr(const Expr&)> on_expr) {
  bool changed = false;
  auto expr = [&](const Expr& e) {
    Expr mapped = on_expr(e);
    changed |= !mapped.same_as(e);
    return mapped;
  };
  auto stmt = [&](const Stmt& child) {
    if (!child) return child;
    Stmt mapped = on_stmt(child);
    changed |= !mapped.same_as(child);
    return mapped;
  };
  auto exprs = [&](const std::vector<Expr>& list) {
    std::vector<Expr> out;
    out.reserve(list.size());
    for (const Expr& e : list) out.push_back(expr(e));
    return out;
  };
  auto regions = [&](const std::vector<Region>& list) {
    std::vector<Region> out;
    out.reserve(list.size());
    for (const Region& r : list) out.push_back({r.buffer, exprs(r.min), exprs(r.extent)});
    return out;
  };
  switch (s->kind) {
    case StmtKind::Seq: {
      auto stmts = map_list(as<Seq>(s)->stmts, on_stmt);
      return stmts ? scoped(std::move(*stmts)) : s;
    }
    case StmtKind::For: {
      const auto* n = as<For>(s);
      Expr min = expr(n->min), extent = expr(n->extent);
      Stmt body = stmt(n->body);
      return changed ? for_loop(n->var, min, extent, n->loop_kind, body) : s;
    }
    case StmtKind::Block: {
      const auto* n = as<Block>(s);
      std::vector<IterVar> iters;
      for (const IterVar& iter : n->iters) iters.push_back({iter.var, expr(iter.extent), iter.kind, expr(iter.binding)});
      auto reads = regions(n->reads);
      auto writes = regions(n->writes);
      Stmt init = stmt(n->init), body = stmt(n->body);
      return changed ? block(n->name, std::move(iters), std::move(reads), std::move(writes), init, body) : s;
    }
    case StmtKind::Store: {
      const auto* n = as<Store>(s);
      auto indices = map_list(n->indices, on_expr);
      Expr value = expr(n->value);
      return changed || indices ? store(n->buffer, indices ? std::move(*indices) : n->indices, value) : s;
    }
    case StmtKind::Prefetch: {
      auto indices = map_list(as<Prefetch>(s)->indices, on_expr);
      return indices ? prefetch(as<Prefetch>(s)->buffer, std::move(*indices)) : s;
    }
    case StmtKind::Let: {
      Expr value = expr(as<Let>(s)->value);
      return changed ? let(as<Let>(s)->var, value) : s;
    }
    case StmtKind::If: {
      const auto* n = as<If>(s);
      Expr condition = expr(n->condition);
      Stmt then_case = stmt(n->then_case), else_case = stmt(n->else_case);
      return changed ? if_then(condition, then_case, else_case) : s;
    }
    case StmtKind::Allocate:
    case StmtKind::AllocateConst: return s;
  }
  fail_internal("a statement of no known kind");
}

void visit(const Stmt& s, function_ref<void(const Stmt&)> f) {
  f(s);
  for_each_child(s, [&](const Stmt& child) { visit(child, f); }, [](const Expr&) {});
}

void visit_exprs(const Expr& e, function_ref<void(const Expr&)> f) {
  f(e);
  for_each_child(e, [&](const Expr& child) { visit_exprs(child, f); });
}

void visit_exprs(const Stmt& s, function_ref<void(const Expr&)> f) {
  for_each_child(s, [&](const Stmt& child) { visit_exprs(child, f); }, [&](const Expr& e) { visit_exprs(e, f); });
}

void visit_loads(const Expr& e, function_ref<void(const Load&)> f) {
  if (!contains(e, ExprKind::Load)) return;
  if (const Load* l = as<Load>(e)) f(*l);
  for_each_child(e, [&](const Expr& child) { visit_loads(child, f); });
}

Expr substitute(const Expr& e, const VarMap& vars) {
  if ((e->names & vars.bits()) == 0) return e;
  if (const Var* v = as<Var>(e)) {
    auto it = vars.find(v->key());
    return it == vars.end() ? e : it->second;
  }
  return map_children(e, [&](const Expr& child) { return substitute(child, vars); });
}

Stmt substitute(const Stmt& s, const VarMap& vars) {
  return map_children(
      s, [&](const Stmt& child) { return substitute(child, vars); }, [&](const Expr& e) { return substitute(e, vars); });
}

Expr replace_buffers(const Expr& e, const BufferMap& buffers) {
  if (!contains(e, ExprKind::Load)) return e;
  Expr mapped = map_children(e, [&](const Expr& child) { return replace_buffers(child, buffers); });
  const Load* n = as<Load>(mapped);
  if (!n) return mapped;
  auto it = buffers.find(n->buffer->name);
  return it == buffers.end() ? mapped : load(it->second, n->indices);
}

Stmt replace_buffers(const Stmt& s, const BufferMap& buffers) {
  auto replaced = [&](const Buffer& b) {
    auto it = buffers.find(b->name);
    return it == buffers.end() ? b : it->second;
  };
  Stmt mapped = map_children(
      s, [&](const Stmt& child) { return replace_buffers(child, buffers); },
      [&](const Expr& e) { return replace_buffers(e, buffers); });
  switch (mapped->kind) {
    case StmtKind::Store: {
      const auto* n = as<Store>(mapped);
      Buffer b = replaced(n->buffer);
      return b.same_as(n->buffer) ? mapped : store(b, n->indices, n->value);
    }
    case StmtKind::Prefetch: {
      const auto* n = as<Prefetch>(mapped);
      Buffer b = replaced(n->buffer);
      return b.same_as(n->buffer) ? mapped : prefetch(b, n->indices);
    }
    case StmtKind::Allocate: {
      Buffer b = replaced(as<Allocate>(mapped)->buffer);
      return b.same_as(as<Allocate>(mapped)->buffer) ? mapped : allocate(b);
    }
    case StmtKind::AllocateConst: {
      const auto* n = as<AllocateConst>(mapped);
      Buffer b = replaced(n->buffer);
      return b.same_as(n->buffer) ? mapped : allocate_const(b, n->data);
    }
    case StmtKind::Block: {
      const auto* n = as<Block>(mapped);
      bool changed = false;
      auto regions = [&](std::vector<Region> list) {
        for (Region& r : list) {
          Buffer b = replaced(r.buffer);
          changed |= !b.same_as(r.buffer);
          r.buffer = b;
        }
        return list;
      };
      auto reads = regions(n->reads), writes = regions(n->writes);
      return changed ? block(n->name, n->iters, std::move(reads), std::move(writes), n->init, n->body) : mapped;
    }
    default: return mapped;
  }
}

NameSupply::NameSupply(const PrimFunc& function) {
  for (const Buffer& b : function.params) reserve(b->name);
  visit(function.body, [&](const Stmt& s) {
    if (const auto* n = as<For>(s)) reserve(as<Var>(n->var)->key());
    if (const auto* n = as<Let>(s)) reserve(as<Var>(n->var)->key());
    if (const auto* n = as<Allocate>(s)) reserve(n->buffer->name);
    if (const auto* n = as<AllocateConst>(s)) reserve(n->buffer->name);
    if (const auto* n = as<Block>(s)) {
      reserve(n->name);
      for (const IterVar& iter : n->iters) reserve(as<Var>(iter.var)->key());
    }
  });
}

std::string NameSupply::fresh(std::string_view base) {
  auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  std::string clean(base);
  for (char& c : clean)
    if (!is_letter(c) && !is_digit(c)) c = '_';
  if (clean.empty() || is_digit(clean[0])) clean.insert(0, "_");
  auto [known, is_new] = used_.try_emplace(clean, 0);
  if (is_new && is_printable_name(clean)) return clean;
  auto index = known - used_.begin();
  int number = known->second;
  size_t stem = clean.append("_").size();
  do {
    clean.resize(stem);
    clean.append(std::to_string(++number));
  } while (!used_.try_emplace(clean, 0).second);
  (used_.begin() + index)->second = number;
  return clean;
}

}  // namespace tenon::tir
