// SPDX-License-Identifier: Apache-2.0
// The expression half of the loop-IR grammar (docs/tir.md).
#include "tir/parse_expr.h"

#include <fmt/format.h>

#include <optional>

namespace tenon::tir {
namespace {

constexpr int kBinaryOps = static_cast<int>(BinaryOp::Shr) + 1;
constexpr int kIntrinsics = static_cast<int>(Intrinsic::Reinterpret) + 1;

std::optional<BinaryOp> binary_op(std::string_view text) {
  for (int i = 0; i < kBinaryOps; ++i)
    if (name(static_cast<BinaryOp>(i)) == text) return static_cast<BinaryOp>(i);
  return std::nullopt;
}

std::optional<Intrinsic> intrinsic_op(std::string_view text) {
  for (int i = 0; i < kIntrinsics; ++i)
    if (name(static_cast<Intrinsic>(i)) == text) return static_cast<Intrinsic>(i);
  return std::nullopt;
}

}  // namespace

const char* operand_rule(BinaryOp op, DType dtype) {
  switch (op) {
    case BinaryOp::And:
    case BinaryOp::Or: return dtype == DType::Bool ? nullptr : "bool operands";
    case BinaryOp::BitAnd:
    case BinaryOp::BitOr:
    case BinaryOp::BitXor: return !is_float(dtype) ? nullptr : "integer or bool operands";
    case BinaryOp::Shl:
    case BinaryOp::Shr: return is_integer(dtype) ? nullptr : "integer operands";
    case BinaryOp::Min:
    case BinaryOp::Max:
    case BinaryOp::Eq:
    case BinaryOp::Ne:
    case BinaryOp::Lt:
    case BinaryOp::Le: return nullptr;
    case BinaryOp::Add:
    case BinaryOp::Sub:
    case BinaryOp::Mul:
    case BinaryOp::Div:
    case BinaryOp::FloorDiv:
    case BinaryOp::FloorMod:
    case BinaryOp::TruncMod: return dtype != DType::Bool ? nullptr : "operands of a number's dtype";
  }
  fail_internal("a binary operation of no known kind");
}

const char* operand_rule(Intrinsic op, DType dtype) {
  switch (op) {
    case Intrinsic::Not: return dtype == DType::Bool ? nullptr : "a bool operand";
    case Intrinsic::BitNot: return is_integer(dtype) ? nullptr : "an integer operand";
    case Intrinsic::Abs:
    case Intrinsic::Pow: return dtype != DType::Bool ? nullptr : "operands of a number's dtype";
    case Intrinsic::Reinterpret: return nullptr;
    default: return is_float(dtype) ? nullptr : "float operands";
  }
}

void fail_undeclared(const TextCursor& cursor, const Token& name, std::string_view what) {
  throw CompileError(cursor.error(name, "undeclared-name", fmt::format("`{}` is not declared here", name.text),
                                  fmt::format("the name of {} in scope", what)));
}

std::string ExprParser::Level::limit() { return fmt::format("at most {} levels of expressions and statements", kMaxNesting); }

Expr ExprParser::expr() {
  Level level(*this);
  const Token& token = cursor_.peek();
  switch (token.kind) {
    case TokenKind::Integer:
    case TokenKind::Float: return literal();
    case TokenKind::Name: return token.text == "inf" || token.text == "nan" ? literal() : named();
    case TokenKind::Punct:
      if (token.text == "-") return literal();
      if (token.text == "(") return in_parentheses();
      break;
    default: break;
  }
  cursor_.fail_unexpected("an expression");
}

Expr ExprParser::expr_of(DType dtype, std::string_view what) {
  Token at = cursor_.peek();
  Expr e = expr();
  if (e->dtype != dtype)
    throw CompileError(
        cursor_.error(at, "dtype-mismatch", fmt::format("{} is {}", what, name(e->dtype)), std::string(name(dtype))));
  return e;
}

std::vector<Expr> ExprParser::list_until(std::string_view close) {
  std::vector<Expr> list;
  if (cursor_.accept(close)) return list;
  do list.push_back(expr());
  while (cursor_.accept(","));
  cursor_.expect(close);
  return list;
}

std::vector<Expr> ExprParser::indices_until(std::string_view close) {
  std::vector<Expr> list;
  if (cursor_.accept(close)) return list;
  do list.push_back(expr_of(DType::I64, "this index"));
  while (cursor_.accept(","));
  cursor_.expect(close);
  return list;
}

/// Consumes `:dtype` after a number. In a region, `:` may be followed by an extent instead.
bool ExprParser::accept_dtype_suffix(DType& dtype) {
  if (!cursor_.at(":")) return false;
  TextCursor before = cursor_;
  cursor_.next();
  if (cursor_.peek().kind == TokenKind::Name)
    if (auto found = dtype_from_name(cursor_.peek().text)) {
      dtype = *found;
      cursor_.next();
      return true;
    }
  cursor_ = before;
  return false;
}

Expr ExprParser::typed_integer(const Token& at, int64_t value) {
  DType dtype = DType::I64;
  accept_dtype_suffix(dtype);
  if (is_float(dtype)) return float_imm(dtype, static_cast<double>(value));
  Expr e = int_imm(dtype, value);
  if (int_value(e) != value)
    throw CompileError(cursor_.error(at, "number-range", fmt::format("{} is outside the range of {}", value, name(dtype))));
  return e;
}

Expr ExprParser::literal() {
  Token at = cursor_.peek();
  if (at.kind == TokenKind::Integer) return typed_integer(at, cursor_.expect_integer("an integer"));
  if (cursor_.at("-")) {
    TextCursor before = cursor_;
    cursor_.next();
    bool integer = cursor_.peek().kind == TokenKind::Integer;
    cursor_ = before;
    if (integer) return typed_integer(at, cursor_.expect_integer("an integer"));
  }
  double value = cursor_.expect_number("a number");
  DType dtype = DType::F32;
  if (!accept_dtype_suffix(dtype)) cursor_.fail_unexpected("`:` and the float's dtype");
  if (!is_float(dtype))
    throw CompileError(cursor_.error(at, "dtype-mismatch", fmt::format("a float constant is {}", name(dtype)), "a float dtype"));
  return float_imm(dtype, value);
}

Expr ExprParser::in_parentheses() {
  cursor_.expect("(");
  Expr a = expr();
  Token at = cursor_.peek();
  auto op = at.kind == TokenKind::Punct ? binary_op(at.text) : std::nullopt;
  if (!op) cursor_.fail_unexpected("an operator such as `+`");
  cursor_.next();
  Expr b = expr();
  cursor_.expect(")");
  return checked_binary(at, *op, a, b);
}

Expr ExprParser::checked_binary(const Token& at, BinaryOp op, const Expr& a, const Expr& b) {
  if (a->dtype != b->dtype)
    throw CompileError(cursor_.error(at, "dtype-mismatch",
                                     fmt::format("the sides of `{}` are {} and {}", at.text, name(a->dtype), name(b->dtype)),
                                     "one dtype"));
  if (const char* rule = operand_rule(op, a->dtype))
    throw CompileError(
        cursor_.error(at, "dtype-mismatch", fmt::format("the sides of `{}` are {}", at.text, name(a->dtype)), rule));
  return binary(op, a, b);
}

Expr ExprParser::named() {
  Token at = cursor_.next();
  if (at.text == "true" || at.text == "false") return bool_imm(at.text == "true");
  if (cursor_.at("[")) return element(at);
  if ((at.text == "cast" || at.text == "reinterpret") && cursor_.at("<")) return converted(at.text == "reinterpret");
  if (!cursor_.at("(")) return variable(at);
  if (at.text == "select") return selection(at);
  if (auto op = binary_op(at.text)) {
    cursor_.expect("(");
    Expr a = expr();
    cursor_.expect(",");
    Expr b = expr();
    cursor_.expect(")");
    return checked_binary(at, *op, a, b);
  }
  if (auto op = intrinsic_op(at.text)) return intrinsic(at, *op);
  fail_undeclared(cursor_, at, "an operation");
}

Expr ExprParser::converted(bool keep_bits) {
  cursor_.expect("<");
  Token at = cursor_.peek();
  DType dtype = parse_dtype(cursor_);
  cursor_.expect(">");
  cursor_.expect("(");
  Expr value = expr();
  cursor_.expect(")");
  if (!keep_bits) return cast(dtype, value);
  if (byte_size(dtype) != byte_size(value->dtype))
    throw CompileError(cursor_.error(at, "dtype-mismatch",
                                     fmt::format("the bits of {} are read as {}", name(value->dtype), name(dtype)),
                                     "a dtype of the same width"));
  return reinterpret(dtype, value);
}

Expr ExprParser::selection(const Token& at) {
  cursor_.expect("(");
  Expr condition = expr_of(DType::Bool, "the condition");
  cursor_.expect(",");
  Expr a = expr();
  cursor_.expect(",");
  Expr b = expr();
  cursor_.expect(")");
  if (a->dtype != b->dtype)
    throw CompileError(
        cursor_.error(at, "dtype-mismatch", fmt::format("the sides are {} and {}", name(a->dtype), name(b->dtype)), "one dtype"));
  return select(condition, a, b);
}

Expr ExprParser::intrinsic(const Token& at, Intrinsic op) {
  cursor_.expect("(");
  std::vector<Expr> args = list_until(")");
  if (op == Intrinsic::Reinterpret || static_cast<int>(args.size()) != arity(op))
    throw CompileError(cursor_.error(at, "argument-count", fmt::format("`{}` has {} arguments", at.text, args.size()),
                                     op == Intrinsic::Reinterpret ? "`reinterpret<dtype>(…)`" : std::to_string(arity(op))));
  for (const Expr& a : args) {
    const char* rule = a->dtype != args[0]->dtype ? "arguments of one dtype" : operand_rule(op, a->dtype);
    if (rule)
      throw CompileError(
          cursor_.error(at, "dtype-mismatch", fmt::format("an argument of `{}` is {}", at.text, name(a->dtype)), rule));
  }
  return call(op, std::move(args));
}

Expr ExprParser::element(const Token& at) {
  Buffer b = buffer(at);
  cursor_.expect("[");
  std::vector<Expr> indices = indices_until("]");
  if (indices.size() != b.rank())
    throw CompileError(cursor_.error(at, "rank-mismatch", fmt::format("`{}` has {} indices", at.text, indices.size()),
                                     fmt::format("one for each of its {} axes", b.rank())));
  return load(b, std::move(indices));
}

}  // namespace tenon::tir
