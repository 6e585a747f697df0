// SPDX-License-Identifier: Apache-2.0
// Reads what print.cc writes. The grammar is in docs/tir.md.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "tir/parse_expr.h"

namespace tenon::tir {
namespace {

/// Thrown where a name is used whose declaration was already reported as wrong: nothing more to say.
struct AlreadyReported {};

[[noreturn]] void fail_reserved(const TextCursor& cursor, const Token& name) {
  throw CompileError(
      cursor.error(name, "reserved-name", fmt::format("`{}` has a meaning in this grammar", name.text), "another name"));
}

class FunctionParser : ExprParser {
 public:
  FunctionParser(TextCursor& cursor, const ConstantBytes& constants) : ExprParser(cursor), constants_(constants) {}
  PrimFunc function();

 protected:
  Expr variable(const Token& name) override;
  Buffer buffer(const Token& name) override;

 private:
  /// What a name means; neither for one whose declaration could not be read.
  struct Meaning {
    Expr var;
    Buffer buffer;
    bool in_scope = true;
  };
  struct BlockParts {
    std::vector<IterVar> iters;
    std::vector<Region> reads, writes;
    Stmt init, body;
  };

  const Meaning& meaning(const Token& name, std::string_view what) const;
  void declare(const Token& name, Meaning meaning);
  void leave_scope(size_t mark);
  Token name_token(std::string_view what);
  Buffer declaration();
  void parameters(std::vector<Buffer>& params);

  void head(PrimFunc& f);
  bool attributes_follow() const;

  template <class F>
  void recovering(F&& read);

  std::vector<Stmt> statements();
  Stmt body();
  Stmt statement();
  Stmt loop();
  Stmt block_statement();
  void block_part(BlockParts& parts);
  void iter(BlockParts& parts);
  void region(std::vector<Region>& regions);
  Stmt conditional();
  Stmt let_statement();
  Stmt allocate_const_statement();
  Stmt store_statement(const Token& name);
  Stmt prefetch_statement();
  std::vector<Expr> indices_of(const Token& name, const Buffer& target);

  const ConstantBytes& constants_;
  ErrorList errors_;
  std::string function_;
  std::unordered_map<const StmtNode*, Span> places_;
  std::unordered_map<std::string, Meaning> names_;
  std::vector<std::string> declared_;  // in scope, in order
  bool declare_symbols_ = false;
};

const FunctionParser::Meaning& FunctionParser::meaning(const Token& name, std::string_view what) const {
  auto it = names_.find(name.text);
  if (it == names_.end() || !it->second.in_scope) fail_undeclared(cursor_, name, what);
  if (!it->second.var && !it->second.buffer) throw AlreadyReported();
  return it->second;
}

Expr FunctionParser::variable(const Token& name) {
  if (declare_symbols_ && !names_.contains(name.text)) declare(name, {tir::var(name.text), {}});
  const Meaning& found = meaning(name, "a variable");
  if (!found.var) fail_undeclared(cursor_, name, "a variable");
  return found.var;
}

Buffer FunctionParser::buffer(const Token& name) {
  const Meaning& found = meaning(name, "a buffer");
  if (!found.buffer) fail_undeclared(cursor_, name, "a buffer");
  return found.buffer;
}

/// Declares the name even when it may not stand here, so that its uses are not reported too.
void FunctionParser::declare(const Token& name, Meaning meaning) {
  auto [it, fresh] = names_.try_emplace(name.text, meaning);
  bool reusable = !it->second.in_scope && !it->second.buffer && !meaning.buffer;
  it->second = std::move(meaning);
  declared_.push_back(name.text);
  if (!is_printable_name(name.text)) fail_reserved(cursor_, name);
  if (!fresh && !reusable)
    throw CompileError(cursor_.error(name, "duplicate-name", fmt::format("`{}` is declared twice", name.text),
                                     "a name that is free here, and one of its own for a buffer"));
}

void FunctionParser::leave_scope(size_t mark) {
  for (; declared_.size() > mark; declared_.pop_back()) names_[declared_.back()].in_scope = false;
}

Token FunctionParser::name_token(std::string_view what) {
  if (cursor_.peek().kind != TokenKind::Name) cursor_.fail_unexpected(what);
  return cursor_.next();
}

/// `name: f32[4,16] reg strides [16,1]`
Buffer FunctionParser::declaration() {
  Token name = name_token("a buffer's name");
  try {
    cursor_.expect(":");
    BufferData data{.name = name.text, .dtype = parse_dtype(cursor_), .shape = {}, .strides = {}};
    cursor_.expect("[");
    data.shape = indices_until("]");
    for (Scope scope : {Scope::Local, Scope::Reg})
      if (cursor_.accept(tir::name(scope))) data.scope = scope;
    if (Token at = cursor_.peek(); cursor_.accept("strides")) {
      cursor_.expect("[");
      data.strides = indices_until("]");
      if (data.strides.size() != data.shape.size())
        throw CompileError(cursor_.error(at, "rank-mismatch", fmt::format("`{}` has {} strides", name.text, data.strides.size()),
                                         fmt::format("one for each of its {} axes", data.shape.size())));
    }
    Buffer buffer(std::move(data));
    declare(name, {{}, buffer});
    return buffer;
  } catch (const CompileError&) {
    if (names_.emplace(name.text, Meaning{}).second) declared_.push_back(name.text);
    throw;
  }
}

void FunctionParser::parameters(std::vector<Buffer>& params) {
  cursor_.expect("(");
  if (cursor_.accept(")")) return;
  declare_symbols_ = true;
  do params.push_back(declaration());
  while (cursor_.accept(","));
  declare_symbols_ = false;
  cursor_.expect(")");
}

void FunctionParser::head(PrimFunc& f) {
  f.name = cursor_.expect_at("the function's name");
  function_ = f.name;
  parameters(f.params);
  f.num_inputs = static_cast<int64_t>(f.params.size());
  cursor_.expect("->");
  parameters(f.params);
  if (attributes_follow()) f.attrs = parse_attrs(cursor_);
  cursor_.expect("{");
}

/// Whether a `{` opens attributes, not the body: no statement starts with a name and `=`.
bool FunctionParser::attributes_follow() const {
  TextCursor ahead = cursor_;
  if (!ahead.accept("{") || ahead.peek().kind != TokenKind::Name) return false;
  ahead.next();
  return ahead.at("=");
}

PrimFunc FunctionParser::function() {
  PrimFunc f;
  cursor_.expect("primfunc");
  Span name = cursor_.span();
  recovering([&] { head(f); });
  if (errors_.empty()) recovering([&] { f.body = body(); });
  errors_.throw_any();
  verify(f, [&](const Stmt& s, Diagnostic& d) {
    auto place = places_.find(s.get());
    d.span = place == places_.end() ? name : place->second;
    d.excerpt = cursor_.excerpt(d.span);
  });
  return f;
}

/// Reads one item of a list between braces; an error in it is kept and the reading goes on behind it.
template <class F>
void FunctionParser::recovering(F&& read) {
  TextCursor::Item item = cursor_.item();
  try {
    read();
    return;
  } catch (const CompileError& error) {
    for (Diagnostic d : error.diagnostics()) {
      d.function = function_;
      errors_.add(std::move(d));
    }
  } catch (const AlreadyReported&) {
  }
  cursor_.skip_item(item);
}

std::vector<Stmt> FunctionParser::statements() {
  Level level(*this);
  std::vector<Stmt> list;
  size_t mark = declared_.size();
  while (!cursor_.accept("}")) {
    if (cursor_.at_end()) cursor_.fail_unexpected("a statement or `}`");
    recovering([&] {
      Span place = cursor_.span();
      list.push_back(statement());
      places_.emplace(list.back().get(), std::move(place));
    });
  }
  leave_scope(mark);
  return list;
}

/// The statements behind a `{`: one stands for itself, any other number is a Seq.
Stmt FunctionParser::body() {
  std::vector<Stmt> list = statements();
  return list.size() == 1 ? list[0] : scoped(std::move(list));
}

Stmt FunctionParser::statement() {
  if (cursor_.accept("{")) return scoped(statements());
  Token first = name_token("a statement or `}`");
  if (cursor_.at("[")) return store_statement(first);
  if (first.text == "for") return loop();
  if (first.text == "block") return block_statement();
  if (first.text == "prefetch") return prefetch_statement();
  if (first.text == "let") return let_statement();
  if (first.text == "if") return conditional();
  if (first.text == "alloc") return allocate(declaration());
  if (first.text == "allocate_const") return allocate_const_statement();
  throw CompileError(cursor_.error(first, "unexpected-token", fmt::format("unexpected `{}`", first.text), "a statement"));
}

/// `for i = 0 extent 4 parallel { … }`
Stmt FunctionParser::loop() {
  Token name = name_token("the loop's variable");
  cursor_.expect("=");
  Expr min = expr_of(DType::I64, "the first index");
  cursor_.expect("extent");
  Expr extent = expr_of(DType::I64, "the extent");
  ForKind kind = ForKind::Serial;
  for (int k = 1; k < kForKinds && kind == ForKind::Serial; ++k)
    if (cursor_.accept(tir::name(static_cast<ForKind>(k)))) kind = static_cast<ForKind>(k);
  cursor_.expect("{");
  size_t mark = declared_.size();
  Expr v = tir::var(name.text);
  recovering([&] { declare(name, {v, {}}); });
  Stmt inner = body();
  leave_scope(mark);
  return for_loop(v, min, extent, kind, inner);
}

Stmt FunctionParser::block_statement() {
  Level level(*this);
  Token name = name_token("the block's name");
  cursor_.expect("{");
  size_t mark = declared_.size();
  BlockParts parts;
  while (!cursor_.accept("}")) {
    if (cursor_.at_end()) cursor_.fail_unexpected("a part of the block or `}`");
    recovering([&] { block_part(parts); });
  }
  leave_scope(mark);
  if (!parts.body)
    throw CompileError(cursor_.error(name, "unexpected-token", fmt::format("block `{}` ends", name.text), "its `body { … }`"));
  return block(name.text, std::move(parts.iters), std::move(parts.reads), std::move(parts.writes), parts.init, parts.body);
}

void FunctionParser::block_part(BlockParts& parts) {
  Token first = cursor_.peek();
  if (cursor_.accept("iter")) return iter(parts);
  if (cursor_.accept("reads")) return region(parts.reads);
  if (cursor_.accept("writes")) return region(parts.writes);
  Stmt* part = first.text == "init" ? &parts.init : &parts.body;
  if (!cursor_.accept("init") && !cursor_.accept("body")) cursor_.fail_unexpected("`iter`, `reads`, `writes`, `init` or `body`");
  if (*part)
    throw CompileError(cursor_.error(first, "duplicate-name", fmt::format("`{}` stands twice", first.text), "one in a block"));
  cursor_.expect("{");
  *part = body();
}

/// `iter vi: spatial 4 = i`
void FunctionParser::iter(BlockParts& parts) {
  Token name = name_token("the block variable's name");
  Expr v = tir::var(name.text);
  declare(name, {v, {}});
  cursor_.expect(":");
  IterKind kind = cursor_.at("reduce") ? IterKind::Reduce : IterKind::Spatial;
  if (!cursor_.accept("reduce") && !cursor_.accept("spatial")) cursor_.fail_unexpected("`spatial` or `reduce`");
  Expr extent = expr_of(DType::I64, "the extent");
  cursor_.expect("=");
  parts.iters.push_back({v, extent, kind, expr_of(DType::I64, "the binding")});
}

/// `x[0 : 4, i : 1]`
void FunctionParser::region(std::vector<Region>& regions) {
  Token at = name_token("a buffer");
  Region r{buffer(at), {}, {}};
  cursor_.expect("[");
  while (!cursor_.accept("]")) {
    if (!r.min.empty()) cursor_.expect(",");
    r.min.push_back(expr_of(DType::I64, "the first index"));
    cursor_.expect(":");
    r.extent.push_back(expr_of(DType::I64, "the extent"));
  }
  if (r.min.size() != r.buffer.rank())
    throw CompileError(cursor_.error(at, "rank-mismatch", fmt::format("a region of `{}` has {} ranges", at.text, r.min.size()),
                                     fmt::format("one for each of its {} axes", r.buffer.rank())));
  regions.push_back(std::move(r));
}

Stmt FunctionParser::conditional() {
  Expr condition = expr_of(DType::Bool, "the condition");
  cursor_.expect("{");
  Stmt then_case = body();
  if (!cursor_.accept("else")) return if_then(condition, then_case);
  cursor_.expect("{");
  return if_then(condition, then_case, body());
}

Stmt FunctionParser::let_statement() {
  Token name = name_token("the variable's name");
  cursor_.expect(":");
  Expr v = tir::var(name.text, parse_dtype(cursor_));
  cursor_.expect("=");
  try {
    Expr value = expr_of(v->dtype, "the value");
    declare(name, {v, {}});
    return let(v, value);
  } catch (const CompileError&) {
    if (names_.emplace(name.text, Meaning{v, {}}).second) declared_.push_back(name.text);
    throw;
  }
}

Stmt FunctionParser::allocate_const_statement() {
  Buffer buffer = declaration();
  cursor_.expect("=");
  return allocate_const(buffer, parse_constant(cursor_, buffer->dtype, buffer->shape, constants_));
}

Stmt FunctionParser::store_statement(const Token& name) {
  Buffer target = buffer(name);
  std::vector<Expr> indices = indices_of(name, target);
  cursor_.expect("=");
  return store(target, std::move(indices), expr_of(target->dtype, "the value"));
}

/// `prefetch x[(i + 64)]`
Stmt FunctionParser::prefetch_statement() {
  Token name = name_token("a buffer");
  Buffer target = buffer(name);
  return prefetch(target, indices_of(name, target));
}

std::vector<Expr> FunctionParser::indices_of(const Token& name, const Buffer& target) {
  cursor_.expect("[");
  std::vector<Expr> indices = indices_until("]");
  if (indices.size() != target.rank())
    throw CompileError(cursor_.error(name, "rank-mismatch", fmt::format("`{}` has {} indices", name.text, indices.size()),
                                     fmt::format("one for each of its {} axes", target.rank())));
  return indices;
}

/// Expressions over given variables, which `declare` may add to.
class SymbolParser : public ExprParser {
 public:
  SymbolParser(TextCursor& cursor, const VarMap& vars, VarMap* declared) : ExprParser(cursor), vars_(vars), declared_(declared) {}

 protected:
  Expr variable(const Token& name) override {
    if (auto it = vars_.find(name.text); it != vars_.end()) return it->second;
    if (!declared_) fail_undeclared(cursor_, name, "a symbol");
    if (!is_printable_name(name.text)) fail_reserved(cursor_, name);
    return declared_->try_emplace(name.text, var(name.text)).first->second;
  }
  Buffer buffer(const Token& name) override { fail_undeclared(cursor_, name, "a buffer"); }

 private:
  const VarMap& vars_;
  VarMap* declared_;
};

std::vector<std::byte> hex_bytes(TextCursor& cursor) {
  Token at = cursor.peek();
  std::string digits = cursor.expect_string("the bytes in hex");
  auto bad = [&] { throw CompileError(cursor.error(at, "constant-bytes", "the bytes are not hex digits", "two for each byte")); };
  if (digits.size() % 2) bad();
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < digits.size(); i += 2) {
    unsigned value = 0;
    for (char c : {digits[i], digits[i + 1]}) {
      if (!std::isxdigit(static_cast<unsigned char>(c))) bad();
      value = value * 16 + static_cast<unsigned>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    bytes.push_back(static_cast<std::byte>(value));
  }
  return bytes;
}

}  // namespace

DType parse_dtype(TextCursor& cursor) {
  auto dtype = cursor.peek().kind == TokenKind::Name ? dtype_from_name(cursor.peek().text) : std::nullopt;
  if (!dtype) cursor.fail_unexpected("a dtype such as `f32`");
  cursor.next();
  return *dtype;
}

Expr parse_expr(TextCursor& cursor, const VarMap& vars) { return SymbolParser(cursor, vars, nullptr).expr(); }

std::vector<Expr> parse_shape(TextCursor& cursor, VarMap& symbols, bool declare) {
  cursor.expect("[");
  return SymbolParser(cursor, symbols, declare ? &symbols : nullptr).indices_until("]");
}

static AttrValue parse_attr_value(TextCursor& cursor) {
  if (cursor.peek().kind == TokenKind::String) return cursor.next().text;
  if (cursor.at("true") || cursor.at("false")) return cursor.next().text == "true";
  if (cursor.accept("[")) {
    std::vector<int64_t> list;
    if (cursor.accept("]")) return list;
    do list.push_back(cursor.expect_integer("an integer"));
    while (cursor.accept(","));
    cursor.expect("]");
    return list;
  }
  TextCursor before = cursor;
  cursor.accept("-");
  bool integer = cursor.peek().kind == TokenKind::Integer;
  cursor = before;
  if (integer) return cursor.expect_integer("an integer");
  return cursor.expect_number("a value: `true`, a number, a string or a list of integers");
}

Attrs parse_attrs(TextCursor& cursor) {
  Attrs attrs;
  cursor.expect("{");
  if (cursor.accept("}")) return attrs;
  do {
    Token at = cursor.peek();
    std::string key = cursor.expect_name("an attribute's name");
    cursor.expect("=");
    if (!attrs.emplace(key, parse_attr_value(cursor)).second)
      throw CompileError(cursor.error(at, "duplicate-name", fmt::format("attribute `{}` is given twice", key), "one value"));
  } while (cursor.accept(","));
  cursor.expect("}");
  return attrs;
}

/// The extents as numbers whose product is in range.
static Shape static_shape(const TextCursor& cursor, const Token& at, std::span<const Expr> extents) {
  Shape shape;
  for (const Expr& extent : extents) {
    const int64_t* known = as_int(extent);
    if (!known)
      throw CompileError(
          cursor.error(at, "symbolic-constant", fmt::format("a constant has the extent {}", print(extent)), "numbers"));
    shape.push_back(*known);
  }
  try {
    element_count(shape);
  } catch (const CompileError& error) {
    Diagnostic d = error.diagnostics().front();
    d.span = cursor.span(at);
    d.excerpt = cursor.excerpt(d.span);
    throw CompileError(std::move(d));
  }
  return shape;
}

Array parse_constant(TextCursor& cursor, DType dtype, std::span<const Expr> extents, const ConstantBytes& constants) {
  Token at = cursor.peek();
  Shape shape = static_shape(cursor, at, extents);
  auto count = static_cast<size_t>(element_count(shape));
  auto check_bytes = [&](std::span<const std::byte> bytes) {
    size_t width = static_cast<size_t>(byte_size(dtype));
    if (bytes.size() / width != count || bytes.size() % width != 0)
      throw CompileError(
          cursor.error(at, "constant-bytes", fmt::format("{} bytes are given", bytes.size()),
                       fmt::format("{} elements of {} bytes for {}{}", count, width, name(dtype), to_string(shape))));
    if (dtype == DType::Bool && std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; }))
      throw CompileError(cursor.error(at, "constant-bytes", "a bool is neither 0 nor 1", "bytes 00 and 01"));
  };
  if (!cursor.accept("hash")) {
    cursor.expect("bytes");
    at = cursor.peek();
    std::vector<std::byte> bytes = hex_bytes(cursor);
    check_bytes(bytes);
    return make_array(dtype, std::move(shape), bytes);
  }
  at = cursor.peek();
  auto it = constants.find(cursor.expect_string("the hash of the bytes"));
  if (it == constants.end())
    throw CompileError(cursor.error(at, "unknown-constant", fmt::format("no constant with hash {} is given", quote(at.text)),
                                    "its bytes in `constants.bin` beside the text"));
  check_bytes(it->second.bytes);
  return {dtype, std::move(shape), it->second.bytes, it->second.owner};
}

PrimFunc parse_prim_func(TextCursor& cursor, const ConstantBytes& constants) {
  return FunctionParser(cursor, constants).function();
}

PrimFunc parse_prim_func(std::string_view file, std::string_view text, const ConstantBytes& constants) {
  TextCursor cursor{std::string(file), text};
  PrimFunc f = parse_prim_func(cursor, constants);
  if (!cursor.at_end()) cursor.fail_unexpected("the end of the text");
  return f;
}

}  // namespace tenon::tir
