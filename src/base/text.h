// SPDX-License-Identifier: Apache-2.0
// Reading our text forms: a cursor over tokens with positions, shared by every parser.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/diagnostic.h"

namespace tenon {

enum class TokenKind : uint8_t { End, Name, At, Percent, Integer, Float, String, Punct, Bad };

/// `@name` and `%12` come as one token whose text is what follows the sign; a string's text is unescaped, a number's is
/// as written, and that of characters that form no token (Bad) says what is wrong with them.
struct Token {
  TokenKind kind = TokenKind::End;
  std::string text;
  uint32_t line = 0, column = 0, length = 0;
};

/// A tokenizer with one token of look-ahead; copying it marks a place to return to. `#` starts a comment to the end of
/// the line. Names may hold `.`, `_` and digits. Numbers: decimal integers, decimal and hex floats, `inf`, `nan` (as
/// names), each with an optional minus sign before it where a number is read by `expect_integer` or `expect_number`.
/// Every failure is a CompileError at the current token; a Bad token fails when something else is expected there.
class TextCursor {
 public:
  /// `text` must outlive the cursor.
  TextCursor(std::string file, std::string_view text);

  const Token& peek() const { return token_; }
  Token next();
  bool at_end() const { return token_.kind == TokenKind::End; }
  /// Whether this punctuation or name comes next.
  bool at(std::string_view text) const;
  /// Consumes the punctuation or the name if it comes next.
  bool accept(std::string_view text);
  /// As accept, else throws naming what was expected and found.
  void expect(std::string_view text);
  /// A name, `@name` or string; `what` describes it in the error.
  std::string expect_name(std::string_view what);
  std::string expect_at(std::string_view what);
  std::string expect_string(std::string_view what);
  int64_t expect_integer(std::string_view what);
  double expect_number(std::string_view what);

  /// Where an item of a list of lines starts.
  struct Item {
    uint32_t line;
    int depth;
  };
  Item item() const { return {token_.line, depth_}; }
  /// Goes on behind an item that could not be read: skips the rest of its line with the braces opened there, but not a
  /// closing brace around it.
  void skip_item(Item item);

  Span span() const { return span(token_); }
  Span span(const Token& token) const;
  /// The line of the text that a span points into, control characters as spaces; nothing for a column past 200.
  std::string excerpt(const Span& span) const;
  /// A diagnostic at the current token, or at one read before.
  Diagnostic error(std::string code, std::string message, std::string expected = {}) const;
  Diagnostic error(const Token& token, std::string code, std::string message, std::string expected = {}) const;
  [[noreturn]] void fail(std::string code, std::string message, std::string expected = {}) const;
  /// The current token is not what was expected (`unexpected-token`, or `bad-token` if it is no token at all).
  [[noreturn]] void fail_unexpected(std::string_view expected) const;

 private:
  void advance();
  void skip_blanks();
  void read_string();
  void read_number();
  void read_punctuation();
  std::string expect_kind(TokenKind kind, std::string_view what);

  std::shared_ptr<const std::string> file_;
  std::string_view text_;
  size_t position_ = 0;
  uint32_t line_ = 1;
  size_t line_start_ = 0;
  int depth_ = 0;  // of braces around the current token
  Token token_;
};

/// `"…"` with `\"`, `\\`, `\n`, `\t`, and `\xNN` for each byte that is not printable ASCII.
std::string quote(std::string_view text);
/// The shortest decimal that reads back to the same double; always with a `.`, an exponent, `inf` or `nan`.
std::string print_double(double value);

}  // namespace tenon
