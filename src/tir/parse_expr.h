// SPDX-License-Identifier: Apache-2.0
// Reads expressions; what a name means is left to the reader of the text around them.
#pragma once

#include "tir/text.h"

namespace tenon::tir {

/// Says of a name that nothing in scope declares it as a `what`.
[[noreturn]] void fail_undeclared(const TextCursor& cursor, const Token& name, std::string_view what);

class ExprParser {
 public:
  explicit ExprParser(TextCursor& cursor) : cursor_(cursor) {}
  virtual ~ExprParser() = default;

  Expr expr();
  Expr expr_of(DType dtype, std::string_view what);
  /// Expressions between commas up to the closing punctuation, which is consumed.
  std::vector<Expr> list_until(std::string_view close);
  /// i64 expressions up to the closing punctuation.
  std::vector<Expr> indices_until(std::string_view close);

 protected:
  /// The variable of this name; throws if there is none.
  virtual Expr variable(const Token& name) = 0;
  virtual Buffer buffer(const Token& name) = 0;

  /// Counts one level of nesting while it lives.
  class Level {
   public:
    explicit Level(ExprParser& parser) : depth_(parser.depth_) {
      if (depth_ >= kMaxNesting) parser.cursor_.fail("nesting-too-deep", "this nests too deep", limit());
      ++depth_;
    }
    Level(const Level&) = delete;
    ~Level() { --depth_; }

   private:
    static std::string limit();
    int& depth_;
  };

  TextCursor& cursor_;

 private:
  Expr literal();
  Expr typed_integer(const Token& at, int64_t value);
  Expr in_parentheses();
  Expr checked_binary(const Token& at, BinaryOp op, const Expr& a, const Expr& b);
  Expr named();
  Expr converted(bool keep_bits);
  Expr selection(const Token& at);
  Expr intrinsic(const Token& at, Intrinsic op);
  Expr element(const Token& name);
  bool accept_dtype_suffix(DType& dtype);
  int depth_ = 0;
};

/// Null if an operation takes operands of this dtype, else what it takes in words.
const char* operand_rule(BinaryOp op, DType dtype);
const char* operand_rule(Intrinsic op, DType dtype);

}  // namespace tenon::tir
