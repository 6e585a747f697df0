// SPDX-License-Identifier: Apache-2.0
// Reads what print.cc writes. The grammar is in docs/graph-ir.md.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "graph/text.h"

namespace tenon::graph {
namespace {

/// Adds to a finding what is known where it is kept.
Diagnostic placed(Diagnostic d, const TextCursor& cursor, const std::string& function) {
  if (d.function.empty()) d.function = function;
  if (d.excerpt.empty()) d.excerpt = cursor.excerpt(d.span);
  return d;
}

/// One function. A node that could not be read is reported once; the nodes that read its results are passed over.
class FunctionParser {
 public:
  FunctionParser(TextCursor& cursor, const OpTable& ops, Module& module, const std::string& name)
      : cursor_(cursor), ops_(ops), module_(module), name_(name), builder_(module, name) {}
  /// Throws every error of the function at its end.
  Function function();

 private:
  /// A line of the body as written.
  struct Line {
    std::vector<Token> results;
    Token verb;  // the operator, `constant`, `call` or `call_lowered`
    std::string callee;
    std::vector<ValueId> inputs;
    bool inputs_known = true;
    Attrs attrs;
    std::vector<TensorType> types;
    Token types_at;
    std::string name;
  };

  void parameter();
  void node();
  void read_results(Line& line);
  void read_rest(Line& line);
  void build(const Line& line);
  std::vector<ValueId> build_op(const Line& line);
  std::vector<ValueId> build_reference(const Line& line, NodeKind kind);
  void check_types(const Line& line, const std::vector<TensorType>& computed) const;
  TensorType type(bool declare);
  Function whole();
  void body();
  std::vector<std::string> names_of_results();
  Token value_token(std::string_view what = "a value such as `%1`");
  void define(const Token& at, std::optional<ValueId> value);
  std::optional<ValueId> use(const Token& at) const;
  std::vector<ValueId> values_until(std::string_view close, bool& known);

  TextCursor& cursor_;
  const OpTable& ops_;
  Module& module_;
  ErrorList errors_;
  std::string name_;
  Builder builder_;
  tir::VarMap symbols_;
  std::set<std::string> names_;                                     // of the parameters, in the user's model
  std::unordered_map<std::string, std::optional<ValueId>> values_;  // by the number written
};

Token FunctionParser::value_token(std::string_view what) {
  const Token& token = cursor_.peek();
  bool number = token.kind == TokenKind::Percent && token.text.find_first_not_of("0123456789") == std::string::npos;
  if (!number) cursor_.fail_unexpected(what);
  return cursor_.next();
}

void FunctionParser::define(const Token& at, std::optional<ValueId> value) {
  if (!values_.emplace(at.text, value).second)
    throw CompileError(cursor_.error(at, "duplicate-name", fmt::format("`%{}` is defined twice", at.text),
                                     "values that are unique in their function"));
}

/// `%0, %1, %4`, the first eight.
static std::string first_values(const std::unordered_map<std::string, std::optional<ValueId>>& values) {
  constexpr size_t kShown = 8;
  std::vector<std::string_view> names;
  for (const auto& [name, value] : values) names.push_back(name);
  std::sort(names.begin(), names.end(),
            [](std::string_view a, std::string_view b) { return a.size() != b.size() ? a.size() < b.size() : a < b; });
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) text += fmt::format("{}%{}", i ? ", " : "", names[i]);
  return names.empty() ? "none so far" : names.size() > kShown ? text + ", …" : text;
}

std::optional<ValueId> FunctionParser::use(const Token& at) const {
  auto it = values_.find(at.text);
  if (it == values_.end())
    throw CompileError(cursor_.error(at, "undeclared-value", fmt::format("`%{}` is not defined above", at.text),
                                     "a parameter or the result of an earlier node: " + first_values(values_)));
  return it->second;
}

std::vector<ValueId> FunctionParser::values_until(std::string_view close, bool& known) {
  std::vector<ValueId> values;
  if (cursor_.at(close)) return values;
  do {
    std::optional<ValueId> v = use(value_token());
    known &= v.has_value();
    values.push_back(v.value_or(ValueId{}));
  } while (cursor_.accept(","));
  return values;
}

TensorType FunctionParser::type(bool declare) {
  Token at = cursor_.peek();
  DType dtype = tir::parse_dtype(cursor_);
  TensorType type(dtype, tir::parse_shape(cursor_, symbols_, declare));
  Shape known;
  for (const Dim& dim : type.shape)
    if (const int64_t* extent = tir::as_int(dim)) known.push_back(*extent);
  try {
    element_count(known);
  } catch (const CompileError& error) {
    Diagnostic d = error.diagnostics().front();
    d.span = cursor_.span(at);
    throw CompileError(std::move(d));
  }
  return type;
}

/// `%0: f32[n,8] "x"`
void FunctionParser::parameter() {
  Token at = value_token();
  cursor_.expect(":");
  TensorType param_type = type(true);
  Token name_at = cursor_.peek();
  std::string name = name_at.kind == TokenKind::String ? cursor_.next().text : "";
  if (!name.empty() && !names_.insert(name).second)
    throw CompileError(cursor_.error(name_at, "duplicate-name", fmt::format("two parameters are named {}", quote(name)),
                                     "names that are unique in their function"));
  define(at, builder_.param(std::move(name), std::move(param_type)));
}

std::vector<std::string> FunctionParser::names_of_results() {
  std::vector<std::string> names;
  cursor_.expect("(");
  if (cursor_.accept(")")) return names;
  do names.push_back(cursor_.expect_string("the name of a result"));
  while (cursor_.accept(","));
  cursor_.expect(")");
  return names;
}

/// The nodes up to `return`; the reading goes on behind one that is wrong.
void FunctionParser::body() {
  while (!cursor_.at("return")) {
    TextCursor::Item item = cursor_.item();
    try {
      node();
    } catch (const CompileError& error) {
      if (cursor_.at_end() || cursor_.at("}")) throw;
      for (const Diagnostic& d : error.diagnostics()) errors_.add(placed(d, cursor_, name_));
      cursor_.skip_item(item);
    }
  }
}

Function FunctionParser::whole() {
  cursor_.expect("(");
  if (!cursor_.accept(")")) {
    do parameter();
    while (cursor_.accept(","));
    cursor_.expect(")");
  }
  Token names_at = cursor_.peek();
  std::vector<std::string> result_names;
  if (cursor_.accept("->")) result_names = names_of_results();
  Attrs attrs;
  TextCursor ahead = cursor_;
  if (ahead.accept("{") && ahead.peek().kind == TokenKind::Name && !ahead.at("return")) attrs = tir::parse_attrs(cursor_);
  cursor_.expect("{");
  body();
  cursor_.expect("return");
  bool known = true;
  std::vector<ValueId> results = values_until("}", known);
  cursor_.expect("}");
  if (!result_names.empty() && result_names.size() != results.size())
    throw CompileError(cursor_.error(names_at, "result-count", fmt::format("{} names are given", result_names.size()),
                                     fmt::format("none, or one for each of the {} results", results.size())));
  Function f = builder_.finish(std::move(results), std::move(result_names));
  f.attrs = std::move(attrs);
  return f;
}

Function FunctionParser::function() {
  Function f;
  try {
    f = whole();
  } catch (const CompileError& error) {
    for (const Diagnostic& d : error.diagnostics()) errors_.add(placed(d, cursor_, name_));
  }
  errors_.throw_any();
  return f;
}

void FunctionParser::node() {
  Line line;
  try {
    read_results(line);
    read_rest(line);
    if (line.inputs_known) return build(line);
  } catch (const CompileError&) {
    for (const Token& at : line.results) values_.emplace(at.text, std::nullopt);
    throw;
  }
  for (const Token& at : line.results) define(at, std::nullopt);
}

void FunctionParser::read_results(Line& line) {
  do line.results.push_back(value_token("a node such as `%1 = …`, or `return`"));
  while (cursor_.accept(","));
  cursor_.expect("=");
}

void FunctionParser::read_rest(Line& line) {
  line.verb = cursor_.peek();
  cursor_.expect_name("an operator, `constant`, `call` or `call_lowered`");
  if (cursor_.peek().kind == TokenKind::At) line.callee = cursor_.next().text;
  if (line.verb.text != "constant" || line.callee.empty()) {
    cursor_.expect("(");
    line.inputs = values_until(")", line.inputs_known);
    cursor_.expect(")");
  }
  if (cursor_.at("{")) line.attrs = tir::parse_attrs(cursor_);
  line.types_at = cursor_.peek();
  if (cursor_.accept(":")) {
    line.types_at = cursor_.peek();
    do line.types.push_back(type(false));
    while (cursor_.accept(","));
  }
  if (cursor_.peek().kind == TokenKind::String) line.name = cursor_.next().text;
}

void FunctionParser::build(const Line& line) {
  bool reference = !line.callee.empty();
  std::optional<NodeKind> kind;
  if (!reference)
    kind = NodeKind::Op;
  else if (line.verb.text == "constant")
    kind = NodeKind::Constant;
  else if (line.verb.text == "call")
    kind = NodeKind::Call;
  else if (line.verb.text == "call_lowered")
    kind = NodeKind::CallLowered;
  if (!kind)
    throw CompileError(cursor_.error(line.verb, "unexpected-token",
                                     fmt::format("`{}` is given the name `@{}`", line.verb.text, line.callee),
                                     "`constant`, `call` or `call_lowered` before it"));
  std::vector<ValueId> results = reference ? build_reference(line, *kind) : build_op(line);
  for (size_t i = 0; i < results.size(); ++i) define(line.results[i], results[i]);
}

void FunctionParser::check_types(const Line& line, const std::vector<TensorType>& computed) const {
  if (line.results.size() != computed.size())
    throw CompileError(cursor_.error(line.results[0], "result-count", fmt::format("{} results are named", line.results.size()),
                                     std::to_string(computed.size())));
  if (!line.types.empty() && line.types != computed) {
    Diagnostic d = cursor_.error(line.types_at, "type-mismatch", "the result is written as " + print(std::span(line.types)),
                                 print(std::span(computed)));
    d.node = line.verb.text;
    d.found = print(std::span(line.types));
    throw CompileError(std::move(d));
  }
}

std::vector<ValueId> FunctionParser::build_op(const Line& line) {
  const OpDef* op = ops_.find(line.verb.text);
  if (!op)
    throw CompileError(
        cursor_.error(line.verb, "unknown-op", fmt::format("`{}` is no operator", line.verb.text), "one that `tenon ops` lists"));
  Node node;
  node.op = op;
  node.inputs = line.inputs;
  node.attrs = line.attrs;
  node.name = line.name;
  node.span = cursor_.span(line.verb);
  std::vector<const TensorType*> operands;
  for (ValueId v : line.inputs) operands.push_back(&builder_.type(v));
  node.types = infer_types(*op, std::move(operands), node.attrs, node.name, node.span);
  check_types(line, node.types);
  return builder_.append(std::move(node));
}

/// A constant's type is that of its entry; the types of calls are written, and checked when every callee is known.
std::vector<ValueId> FunctionParser::build_reference(const Line& line, NodeKind kind) {
  Node node;
  node.kind = kind;
  node.callee = line.callee;
  node.inputs = line.inputs;
  node.attrs = line.attrs;
  node.types = line.types;
  node.name = line.name;
  node.span = cursor_.span(line.verb);
  if (kind == NodeKind::Constant) {
    auto it = module_.constants.find(line.callee);
    if (it == module_.constants.end())
      throw CompileError(cursor_.error(line.verb, "unknown-constant",
                                       fmt::format("`@{}` is no constant of the module", line.callee),
                                       "a constant declared above"));
    node.types = {type_of(it->second)};
  } else if (line.types.empty()) {
    throw CompileError(cursor_.error(line.verb, "unexpected-token", "a call has no types", "`:` and the types of its results"));
  }
  check_types(line, node.types);
  return builder_.append(std::move(node));
}

class ModuleParser {
 public:
  ModuleParser(std::string_view file, std::string_view text, const OpTable& ops, const tir::ConstantBytes& long_constants)
      : cursor_(std::string(file), text), ops_(ops), long_constants_(long_constants) {}
  Module module();

 private:
  void item();
  void constant();
  void keep(const CompileError& error);
  bool at_item() const;
  void check_new(const Token& name) const;

  TextCursor cursor_;
  const OpTable& ops_;
  const tir::ConstantBytes& long_constants_;
  Module module_;
  ErrorList errors_;
};

void ModuleParser::keep(const CompileError& error) {
  for (const Diagnostic& d : error.diagnostics()) errors_.add(placed(d, cursor_, {}));
}

bool ModuleParser::at_item() const {
  return cursor_.peek().column == 1 &&
         (cursor_.at("fn") || cursor_.at("primfunc") || cursor_.at("constant") || cursor_.at("module"));
}

void ModuleParser::check_new(const Token& name) const {
  if (module_.functions.contains(name.text) || module_.prim_funcs.contains(name.text))
    throw CompileError(cursor_.error(name, "duplicate-name", fmt::format("function `@{}` is declared twice", name.text),
                                     "names that are unique in their module"));
}

/// `constant @w : f32[2] = bytes "…"`
void ModuleParser::constant() {
  Token at = cursor_.peek();
  std::string name = cursor_.expect_at("the constant's name");
  cursor_.expect(":");
  DType dtype = tir::parse_dtype(cursor_);
  tir::VarMap no_symbols;
  std::vector<Dim> shape = tir::parse_shape(cursor_, no_symbols, false);
  cursor_.expect("=");
  if (!module_.constants.emplace(name, tir::parse_constant(cursor_, dtype, shape, long_constants_)).second)
    throw CompileError(
        cursor_.error(at, "duplicate-name", fmt::format("constant `@{}` is declared twice", name), "one declaration"));
}

void ModuleParser::item() {
  if (cursor_.accept("module")) {
    module_.attrs = tir::parse_attrs(cursor_);
  } else if (cursor_.accept("constant")) {
    constant();
  } else if (cursor_.accept("fn")) {
    Token at = cursor_.peek();
    std::string name = cursor_.expect_at("the function's name");
    Function f = FunctionParser(cursor_, ops_, module_, name).function();
    check_new(at);
    module_.functions.emplace(name, std::move(f));
  } else if (cursor_.at("primfunc")) {
    TextCursor ahead = cursor_;
    ahead.next();
    tir::PrimFunc f = tir::parse_prim_func(cursor_, long_constants_);
    check_new(ahead.peek());
    module_.prim_funcs.emplace(f.name, std::move(f));
  } else {
    cursor_.fail_unexpected("`fn`, `primfunc`, `constant` or `module`");
  }
}

Module ModuleParser::module() {
  while (!cursor_.at_end()) {
    Token start = cursor_.peek();
    try {
      item();
    } catch (const CompileError& error) {
      keep(error);
      if (cursor_.peek().line == start.line && cursor_.peek().column == start.column) cursor_.next();
      while (!cursor_.at_end() && !at_item()) cursor_.next();
    }
  }
  errors_.throw_any();
  try {
    verify(module_);
  } catch (const CompileError& error) {
    keep(error);
  }
  errors_.throw_any();
  return std::move(module_);
}

}  // namespace

Module parse(std::string_view file, std::string_view text, const OpTable& ops, const tir::ConstantBytes& long_constants) {
  return ModuleParser(file, text, ops, long_constants).module();
}

}  // namespace tenon::graph
