// SPDX-License-Identifier: Apache-2.0
// The rules of modules: what holds between every two passes, whoever built the module.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "graph/text.h"

namespace tenon::graph {
namespace {

/// What a callee takes and gives; dimensions may name symbols of its own.
struct Signature {
  std::vector<TensorType> inputs, outputs;
};

Signature signature(const Function& f) {
  Signature s;
  for (const Param& p : f.params) s.inputs.push_back(p.type);
  for (ValueId v : f.results) s.outputs.push_back(f.type(v));
  return s;
}

Signature signature(const tir::PrimFunc& f) {
  Signature s;
  for (size_t i = 0; i < f.params.size(); ++i)
    (static_cast<int64_t>(i) < f.num_inputs ? s.inputs : s.outputs).push_back({f.params[i]->dtype, f.params[i]->shape});
  return s;
}

std::vector<TensorType> with_symbols(std::vector<TensorType> types, const tir::VarMap& symbols) {
  for (TensorType& t : types)
    for (Dim& dim : t.shape) dim = tir::substitute(dim, symbols);
  return types;
}

/// What a callee's dimensions that are plain symbols stand for in a call on these operands.
tir::VarMap bind_symbols(std::span<const TensorType> params, std::span<const TensorType> operands) {
  tir::VarMap symbols;
  for (size_t i = 0; i < params.size(); ++i)
    for (size_t axis = 0; axis < std::min(params[i].shape.size(), operands[i].shape.size()); ++axis)
      if (const auto* symbol = tir::as<tir::Var>(params[i].shape[axis]))
        symbols.try_emplace(symbol->name, operands[i].shape[axis]);
  return symbols;
}

bool is_word(std::string_view name) {
  return !name.empty() && name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.") == name.npos;
}

class ModuleVerifier {
 public:
  explicit ModuleVerifier(const Module& module) : module_(module) {}
  void run();

 private:
  void report(std::string code, std::string message, std::string expected, const Node* node = nullptr);
  void report_all(const CompileError& error, const Node* node = nullptr);
  void names();
  void function(const Function& f);
  void parameters(const Function& f);
  bool inputs_in_order(const Node& node);
  void type(const TensorType& t, const Node* node);
  void node(const Node& n);
  void op_node(const Node& n);
  void call(const Node& n);
  bool scheduled(const Node& n) const;
  std::optional<Signature> callee(const Node& n);
  void results(const Function& f);
  void recursion();

  const Module& module_;
  ErrorList errors_;
  const Function* function_ = nullptr;
  std::vector<TensorType> types_;  // of the values so far
  std::set<std::string, std::less<>> symbols_;
};

void ModuleVerifier::report(std::string code, std::string message, std::string expected, const Node* node) {
  Diagnostic d;
  d.code = std::move(code);
  d.message = std::move(message);
  d.expected = std::move(expected);
  if (function_) d.function = function_->name;
  if (node) {
    d.node = node->name;
    d.span = node->span;
  }
  errors_.add(std::move(d));
}

void ModuleVerifier::report_all(const CompileError& error, const Node* node) {
  for (Diagnostic d : error.diagnostics()) {
    if (d.function.empty() && function_) d.function = function_->name;
    if (node && !d.span.file) d.span = node->span;
    errors_.add(std::move(d));
  }
}

void ModuleVerifier::names() {
  auto check_name = [&](const std::string& key, const std::string& own, std::string_view what) {
    if (!is_word(key)) report("bad-name", fmt::format("{} is named {}", what, quote(key)), "letters, digits, `_` and `.`");
    if (key != own) report("bad-name", fmt::format("{} `{}` is listed as `{}`", what, own, key), "its own name");
  };
  for (const auto& [name, data] : module_.constants) check_name(name, name, "a constant");
  for (const auto& [name, f] : module_.prim_funcs) check_name(name, f.name, "a loop function");
  for (const auto& [name, f] : module_.functions) {
    check_name(name, f.name, "a function");
    if (module_.prim_funcs.contains(name))
      report("duplicate-name", fmt::format("`@{}` is both a function and a loop function", name),
             "names that are unique in their module");
  }
}

/// Extents are in range and name only symbols of the parameters.
void ModuleVerifier::type(const TensorType& t, const Node* node) {
  Shape known;
  for (const Dim& dim : t.shape) {
    if (const int64_t* extent = tir::as_int(dim)) {
      known.push_back(*extent);
      continue;
    }
    tir::visit_exprs(dim, [&](const tir::Expr& e) {
      const auto* symbol = tir::as<tir::Var>(e);
      if (symbol && !symbols_.contains(symbol->name))
        report("undeclared-name", fmt::format("`{}` in {} is no symbol of the parameters", symbol->name, to_string(t)),
               "a symbol that a parameter's type names", node);
    });
  }
  try {
    element_count(known);
  } catch (const CompileError& error) {
    report_all(error, node);
  }
}

void ModuleVerifier::parameters(const Function& f) {
  std::set<std::string_view> seen;
  for (const Param& p : f.params) {
    for (const Dim& dim : p.type.shape)
      tir::visit_exprs(dim, [&](const tir::Expr& e) {
        if (const auto* symbol = tir::as<tir::Var>(e)) symbols_.insert(symbol->name);
      });
    if (!p.name.empty() && !seen.insert(p.name).second)
      report("duplicate-name", fmt::format("two parameters are named {}", quote(p.name)),
             "names that are unique in their function");
    type(p.type, nullptr);
    types_.push_back(p.type);
  }
}

void ModuleVerifier::function(const Function& f) {
  function_ = &f;
  types_.clear();
  symbols_.clear();
  parameters(f);
  for (const Node& n : f.nodes) {
    if (n.first_result != types_.size())
      report("value-order", fmt::format("a node's first result is %{}", n.first_result), fmt::format("%{}", types_.size()), &n);
    if (n.types.empty()) report("result-count", "a node has no result", "at least one", &n);
    if (inputs_in_order(n)) node(n);
    for (const TensorType& t : n.types) {
      type(t, &n);
      types_.push_back(t);
    }
  }
  results(f);
  function_ = nullptr;
}

bool ModuleVerifier::inputs_in_order(const Node& n) {
  for (ValueId v : n.inputs)
    if (v.index >= types_.size()) {
      report("undeclared-value", fmt::format("`%{}` is not defined above", v.index),
             types_.empty() ? "a parameter or the result of an earlier node, of which there is none so far"
                            : fmt::format("a parameter or the result of an earlier node, %0 to %{}", types_.size() - 1),
             &n);
      return false;
    }
  return true;
}

void ModuleVerifier::node(const Node& n) {
  switch (n.kind) {
    case NodeKind::Op: op_node(n); return;
    case NodeKind::Constant: {
      auto it = module_.constants.find(n.callee);
      if (it == module_.constants.end())
        report("unknown-constant", fmt::format("`@{}` is no constant of the module", n.callee), "one of the module's constants",
               &n);
      else if (n.types.size() != 1 || !(n.types[0] == type_of(it->second)))
        report("type-mismatch", fmt::format("`@{}` is read as {}", n.callee, print(std::span(n.types))),
               to_string(type_of(it->second)), &n);
      return;
    }
    case NodeKind::Call:
    case NodeKind::CallLowered: call(n); return;
  }
}

void ModuleVerifier::op_node(const Node& n) {
  if (!n.op) return report("unknown-op", "a node has no operator", "an operator", &n);
  std::vector<TensorType> operands;
  for (ValueId v : n.inputs) operands.push_back(types_[v.index]);
  try {
    Attrs attrs = n.attrs;
    std::vector<TensorType> computed = infer_types(*n.op, operands, attrs, n.name, n.span);
    if (computed != n.types)
      report("type-mismatch", fmt::format("`{}` gives {}", n.op->name, print(std::span(n.types))), print(std::span(computed)),
             &n);
    if (attrs != n.attrs)
      report("missing-attribute", fmt::format("`{}` has the attributes {}", n.op->name, tir::print_attrs(n.attrs)),
             tir::print_attrs(attrs), &n);
  } catch (const CompileError& error) {
    report_all(error, &n);
  }
}

/// What a call's callee takes and gives; reports one that may not be called so.
std::optional<Signature> ModuleVerifier::callee(const Node& n) {
  auto f = module_.functions.find(n.callee);
  bool external = f != module_.functions.end() && f->second.attrs.contains("external");
  if (n.kind == NodeKind::Call) {
    if (f != module_.functions.end()) return signature(f->second);
    report("unknown-callee", fmt::format("`@{}` is no graph function of the module", n.callee), "a function declared by `fn`",
           &n);
    return std::nullopt;
  }
  if (auto p = module_.prim_funcs.find(n.callee); p != module_.prim_funcs.end()) return signature(p->second);
  if (external) return signature(f->second);
  report("unknown-callee", fmt::format("`@{}` is no loop function of the module", n.callee),
         "a function declared by `primfunc`, or by `fn` with the attribute `external`", &n);
  return std::nullopt;
}

bool ModuleVerifier::scheduled(const Node& n) const {
  auto function = module_.prim_funcs.find(n.callee);
  return n.kind == NodeKind::CallLowered && function != module_.prim_funcs.end() && function->second.scheduled();
}

/// Whether the tensors agree in dtypes and bytes.
static bool same_memory(std::span<const TensorType> a, std::span<const TensorType> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const TensorType& x, const TensorType& y) {
    return x == y || (x.dtype == y.dtype && x.is_static() && y.is_static() && x.elements() == y.elements());
  });
}

void ModuleVerifier::call(const Node& n) {
  std::optional<Signature> s = callee(n);
  if (!s) return;
  std::vector<TensorType> operands;
  for (ValueId v : n.inputs) operands.push_back(types_[v.index]);
  if (operands.size() == s->inputs.size()) {
    tir::VarMap symbols = bind_symbols(s->inputs, operands);
    s->inputs = with_symbols(std::move(s->inputs), symbols);
    s->outputs = with_symbols(std::move(s->outputs), symbols);
  }
  if (scheduled(n)) {
    // A schedule may see a tensor as another shape over the same memory.
    if (same_memory(operands, s->inputs)) s->inputs = operands;
    if (same_memory(n.types, s->outputs)) s->outputs = n.types;
  }
  if (operands != s->inputs)
    report("signature-mismatch", fmt::format("`@{}` is called on {}", n.callee, print(std::span(operands))),
           print(std::span(s->inputs)), &n);
  else if (n.types != s->outputs)
    report("signature-mismatch", fmt::format("`@{}` gives {}", n.callee, print(std::span(n.types))), print(std::span(s->outputs)),
           &n);
}

void ModuleVerifier::results(const Function& f) {
  for (ValueId v : f.results)
    if (v.index >= types_.size())
      report("undeclared-value", fmt::format("the result `%{}` is not defined", v.index), "a parameter or the result of a node");
  if (!f.result_names.empty() && f.result_names.size() != f.results.size())
    report("result-count", fmt::format("{} names are given", f.result_names.size()),
           fmt::format("none, or one for each of the {} results", f.results.size()));
}

/// No function calls itself, directly or through others: a depth-first walk with a stack of its own.
void ModuleVerifier::recursion() {
  enum class State { Open, Done };
  struct Frame {
    const Function* function;
    size_t next = 0;
  };
  std::map<std::string_view, State> states;
  for (const auto& [name, root] : module_.functions) {
    if (!states.emplace(name, State::Open).second) continue;
    std::vector<Frame> stack = {{&root}};
    while (!stack.empty()) {
      auto& [f, next] = stack.back();
      if (next == f->nodes.size()) {
        states[f->name] = State::Done;
        stack.pop_back();
        continue;
      }
      const Node& n = f->nodes[next++];
      auto target = n.kind == NodeKind::Call ? module_.functions.find(n.callee) : module_.functions.end();
      if (target == module_.functions.end()) continue;
      auto [state, fresh] = states.emplace(target->first, State::Open);
      if (fresh) {
        stack.push_back({&target->second});
      } else if (state->second == State::Open) {
        function_ = f;
        report("recursive-call", fmt::format("`@{}` is called while it runs", n.callee), "no recursion", &n);
        function_ = nullptr;
      }
    }
  }
}

void ModuleVerifier::run() {
  names();
  for (const auto& [name, f] : module_.functions) function(f);
  for (const auto& [name, f] : module_.prim_funcs) {
    try {
      tir::verify(f);
    } catch (const CompileError& error) {
      report_all(error);
    }
  }
  recursion();
  errors_.throw_any();
}

}  // namespace

void verify(const Module& module) { ModuleVerifier(module).run(); }

}  // namespace tenon::graph
