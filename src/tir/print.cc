// SPDX-License-Identifier: Apache-2.0
// Prints loop IR. The grammar is in docs/tir.md; parse.cc reads it back.
#include <fmt/format.h>

#include "base/hash.h"
#include "tir/text.h"

namespace tenon::tir {
namespace {

constexpr size_t kLongestInlineConstant = 64;  // bytes

void put(std::string& out, const Expr& e);

void put_list(std::string& out, const std::vector<Expr>& list) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (i) out += ", ";
    put(out, list[i]);
  }
}

bool is_word(std::string_view op) { return std::isalpha(static_cast<unsigned char>(op[0])); }

void put(std::string& out, const Expr& e) {
  switch (e->kind) {
    case ExprKind::IntImm: {
      int64_t value = as<IntImm>(e)->value;
      if (e->dtype == DType::Bool)
        out += value ? "true" : "false";
      else if (e->dtype == DType::I64)
        out += std::to_string(value);
      else
        out += fmt::format("{}:{}", value, name(e->dtype));
      return;
    }
    case ExprKind::FloatImm: out += fmt::format("{}:{}", print_double(as<FloatImm>(e)->value), name(e->dtype)); return;
    case ExprKind::Var: out += as<Var>(e)->name; return;
    case ExprKind::Cast:
      out += fmt::format("cast<{}>(", name(e->dtype));
      put(out, as<Cast>(e)->value);
      out += ')';
      return;
    case ExprKind::Binary: {
      const auto* n = as<Binary>(e);
      bool word = is_word(name(n->op));
      out += word ? fmt::format("{}(", name(n->op)) : "(";
      put(out, n->a);
      out += word ? ", " : fmt::format(" {} ", name(n->op));
      put(out, n->b);
      out += ')';
      return;
    }
    case ExprKind::Select: {
      const auto* n = as<Select>(e);
      out += "select(";
      put(out, n->condition);
      out += ", ";
      put(out, n->a);
      out += ", ";
      put(out, n->b);
      out += ')';
      return;
    }
    case ExprKind::Load:
      out += as<Load>(e)->buffer->name + '[';
      put_list(out, as<Load>(e)->indices);
      out += ']';
      return;
    case ExprKind::Call: {
      const auto* n = as<Call>(e);
      out += n->op == Intrinsic::Reinterpret ? fmt::format("reinterpret<{}>(", name(e->dtype)) : fmt::format("{}(", name(n->op));
      put_list(out, n->args);
      out += ')';
      return;
    }
  }
}

std::string shape_text(const std::vector<Expr>& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i) out += ',';
    put(out, shape[i]);
  }
  return out + ']';
}

/// `name: f32[4,16] reg strides [16,1]`; a global scope is not written.
std::string declaration(const Buffer& b) {
  std::string out = fmt::format("{}: {}{}", b->name, name(b->dtype), shape_text(b->shape));
  if (b->scope != Scope::Global) out += fmt::format(" {}", name(b->scope));
  if (!b->strides.empty()) out += " strides " + shape_text(b->strides);
  return out;
}

class Printer {
 public:
  explicit Printer(ConstantBytes* constants) : constants_(constants) {}
  std::string out;

  void line(int indent, std::string_view text) {
    out.append(static_cast<size_t>(indent) * 2, ' ');
    out += text;
    out += '\n';
  }

  /// The statements between a pair of braces. A Seq prints as its statements unless it holds exactly one.
  void body(const Stmt& s, int indent) {
    const Seq* list = as<Seq>(s);
    if (list && list->stmts.size() != 1)
      for (const Stmt& child : list->stmts) stmt(child, indent);
    else
      stmt(s, indent);
  }

  void regions(std::string_view word, const std::vector<Region>& list, int indent) {
    for (const Region& r : list) {
      std::string text = fmt::format("{} {}[", word, r.buffer->name);
      for (size_t i = 0; i < r.min.size(); ++i) {
        if (i) text += ", ";
        put(text, r.min[i]);
        text += " : ";
        put(text, r.extent[i]);
      }
      line(indent, text + ']');
    }
  }

  void stmt(const Stmt& s, int indent) {
    switch (s->kind) {
      case StmtKind::Seq:
        line(indent, "{");
        for (const Stmt& child : as<Seq>(s)->stmts) stmt(child, indent + 1);
        line(indent, "}");
        return;
      case StmtKind::For: {
        const auto* n = as<For>(s);
        std::string text = fmt::format("for {} = {} extent {}", print(n->var), print(n->min), print(n->extent));
        if (n->loop_kind != ForKind::Serial) text += fmt::format(" {}", name(n->loop_kind));
        line(indent, text + " {");
        body(n->body, indent + 1);
        line(indent, "}");
        return;
      }
      case StmtKind::Block: {
        const auto* n = as<Block>(s);
        line(indent, fmt::format("block {} {{", n->name));
        for (const IterVar& iter : n->iters)
          line(indent + 1,
               fmt::format("iter {}: {} {} = {}", print(iter.var), name(iter.kind), print(iter.extent), print(iter.binding)));
        regions("reads", n->reads, indent + 1);
        regions("writes", n->writes, indent + 1);
        if (n->init) {
          line(indent + 1, "init {");
          body(n->init, indent + 2);
          line(indent + 1, "}");
        }
        line(indent + 1, "body {");
        body(n->body, indent + 2);
        line(indent + 1, "}");
        line(indent, "}");
        return;
      }
      case StmtKind::Store: {
        const auto* n = as<Store>(s);
        std::string text = n->buffer->name + '[';
        put_list(text, n->indices);
        text += "] = ";
        put(text, n->value);
        line(indent, text);
        return;
      }
      case StmtKind::Prefetch: {
        std::string text = "prefetch " + as<Prefetch>(s)->buffer->name + '[';
        put_list(text, as<Prefetch>(s)->indices);
        line(indent, text + ']');
        return;
      }
      case StmtKind::Let: {
        const auto* n = as<Let>(s);
        line(indent, fmt::format("let {}: {} = {}", print(n->var), name(n->var->dtype), print(n->value)));
        return;
      }
      case StmtKind::If: {
        const auto* n = as<If>(s);
        line(indent, fmt::format("if {} {{", print(n->condition)));
        body(n->then_case, indent + 1);
        if (n->else_case) {
          line(indent, "} else {");
          body(n->else_case, indent + 1);
        }
        line(indent, "}");
        return;
      }
      case StmtKind::Allocate: line(indent, "alloc " + declaration(as<Allocate>(s)->buffer)); return;
      case StmtKind::AllocateConst: {
        const auto* n = as<AllocateConst>(s);
        line(indent, fmt::format("allocate_const {} = {}", declaration(n->buffer), print_constant(n->data, constants_)));
        return;
      }
    }
  }

 private:
  ConstantBytes* constants_;
};

std::string attr_text(const AttrValue& value) {
  struct Visitor {
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return print_double(v); }
    std::string operator()(const std::string& v) const { return quote(v); }
    std::string operator()(const std::vector<int64_t>& v) const { return to_string(std::span(v)); }
  };
  return std::visit(Visitor{}, value);
}

}  // namespace

std::string print_attrs(const Attrs& attrs) {
  std::string out = "{";
  for (const auto& [key, value] : attrs) out += fmt::format("{}{} = {}", out.size() > 1 ? ", " : "", key, attr_text(value));
  return out + '}';
}

std::string print_constant(const Array& data, ConstantBytes* constants) {
  if (data.bytes.size() > kLongestInlineConstant) {
    std::string hash = hash128(data.bytes).hex();
    if (constants) constants->emplace(hash, data);
    return fmt::format("hash \"{}\"", hash);
  }
  std::string out = "bytes \"";
  for (std::byte b : data.bytes) out += fmt::format("{:02x}", static_cast<unsigned>(b));
  return out + '"';
}

std::string print(const Expr& e) {
  std::string out;
  put(out, e);
  return out;
}

std::string print(const Stmt& s, int indent) {
  Printer printer(nullptr);
  printer.stmt(s, indent);
  return std::move(printer.out);
}

std::string print(const PrimFunc& f, ConstantBytes* constants) {
  std::string head = fmt::format("primfunc @{}(", f.name);
  for (size_t i = 0; i < f.params.size(); ++i) {
    if (static_cast<int64_t>(i) == f.num_inputs)
      head += ") -> (";
    else if (i > 0)
      head += ", ";
    head += declaration(f.params[i]);
  }
  if (f.num_inputs == static_cast<int64_t>(f.params.size())) head += ") -> (";
  head += ')';
  if (!f.attrs.empty()) head += ' ' + print_attrs(f.attrs);
  Printer printer(constants);
  printer.line(0, head + " {");
  printer.body(f.body, 1);
  printer.line(0, "}");
  return std::move(printer.out);
}

}  // namespace tenon::tir
