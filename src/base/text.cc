// SPDX-License-Identifier: Apache-2.0
// Tokens of the text forms.
#include "base/text.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstring>

namespace tenon {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c) || c == '.'; }

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Reads a whole float as written by C: decimal, or hex with `0x`.
std::errc read_double(std::string_view text, double& value) {
  bool hex = text.starts_with("0x");
  if (hex) text.remove_prefix(2);
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, hex ? std::chars_format::hex : std::chars_format::general);
  return end == text.data() + text.size() ? error : std::errc::invalid_argument;
}

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::End: return "end of the text";
    case TokenKind::At: return fmt::format("`@{}`", token.text);
    case TokenKind::Percent: return fmt::format("`%{}`", token.text);
    case TokenKind::String: return quote(token.text);
    case TokenKind::Bad: return token.text;
    case TokenKind::Name:
    case TokenKind::Integer:
    case TokenKind::Float:
    case TokenKind::Punct: return fmt::format("`{}`", token.text);
  }
  fail_internal("a token of no known kind");
}

}  // namespace

TextCursor::TextCursor(std::string file, std::string_view text)
    : file_(std::make_shared<const std::string>(std::move(file))), text_(text) {
  advance();
}

Token TextCursor::next() {
  Token token = token_;
  advance();
  return token;
}

bool TextCursor::at(std::string_view text) const {
  return (token_.kind == TokenKind::Punct || token_.kind == TokenKind::Name) && token_.text == text;
}

bool TextCursor::accept(std::string_view text) {
  if (!at(text)) return false;
  advance();
  return true;
}

void TextCursor::expect(std::string_view text) {
  if (!accept(text)) fail_unexpected(fmt::format("`{}`", text));
}

std::string TextCursor::expect_kind(TokenKind kind, std::string_view what) {
  if (token_.kind != kind) fail_unexpected(what);
  return next().text;
}

std::string TextCursor::expect_name(std::string_view what) { return expect_kind(TokenKind::Name, what); }
std::string TextCursor::expect_at(std::string_view what) { return expect_kind(TokenKind::At, what); }
std::string TextCursor::expect_string(std::string_view what) { return expect_kind(TokenKind::String, what); }

int64_t TextCursor::expect_integer(std::string_view what) {
  bool negative = accept("-");
  if (token_.kind != TokenKind::Integer) fail_unexpected(what);
  std::string digits = (negative ? "-" : "") + token_.text;
  int64_t value = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc())
    fail("number-range", fmt::format("`{}` does not fit 64 bits", digits), "an integer from -2^63 to 2^63 - 1");
  advance();
  return value;
}

double TextCursor::expect_number(std::string_view what) {
  bool negative = accept("-");
  double value = 0;
  if (at("inf"))
    value = INFINITY;
  else if (at("nan"))
    value = NAN;
  else if (token_.kind != TokenKind::Integer && token_.kind != TokenKind::Float)
    fail_unexpected(what);
  else if (read_double(token_.text, value) != std::errc())
    fail("number-range", fmt::format("`{}` is outside the range of f64", token_.text));
  advance();
  return negative ? -value : value;
}

void TextCursor::skip_item(Item item) {
  while (!at_end()) {
    if (depth_ <= item.depth && (token_.line != item.line || at("}"))) return;
    item.line = next().line;
  }
}

Span TextCursor::span(const Token& token) const { return {file_, token.line, token.column, token.length}; }

std::string TextCursor::excerpt(const Span& span) const {
  constexpr uint32_t kWidest = 200;
  if (span.line == 0 || span.column > kWidest) return {};
  size_t start = 0;
  for (uint32_t line = 1; line < span.line; ++line) {
    size_t end = text_.find('\n', start);
    if (end == std::string_view::npos) return {};
    start = end + 1;
  }
  std::string_view line = text_.substr(start, text_.find('\n', start) - start);
  std::string out(line.substr(0, kWidest));
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return line.size() > kWidest ? out + "…" : out;
}

Diagnostic TextCursor::error(const Token& token, std::string code, std::string message, std::string expected) const {
  Diagnostic d;
  d.code = std::move(code);
  d.message = std::move(message);
  d.expected = std::move(expected);
  d.found = describe(token);
  d.span = span(token);
  d.excerpt = excerpt(d.span);
  return d;
}

Diagnostic TextCursor::error(std::string code, std::string message, std::string expected) const {
  return error(token_, std::move(code), std::move(message), std::move(expected));
}

void TextCursor::fail(std::string code, std::string message, std::string expected) const {
  throw CompileError(error(std::move(code), std::move(message), std::move(expected)));
}

void TextCursor::fail_unexpected(std::string_view expected) const {
  if (token_.kind == TokenKind::Bad) fail("bad-token", token_.text, std::string(expected));
  fail("unexpected-token", "unexpected " + describe(token_), std::string(expected));
}

void TextCursor::skip_blanks() {
  while (position_ < text_.size()) {
    char c = text_[position_];
    if (c == '#') {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else if (c == '\n') {
      line_start_ = ++position_;
      ++line_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++position_;
    } else {
      return;
    }
  }
}

void TextCursor::advance() {
  if (at("{")) ++depth_;
  if (at("}")) --depth_;
  skip_blanks();
  size_t start = position_;
  token_.line = line_;
  token_.column = static_cast<uint32_t>(start - line_start_ + 1);
  if (start == text_.size()) {
    token_.kind = TokenKind::End;
    token_.text.clear();
    token_.length = 1;
    return;
  }
  char c = text_[start];
  if (c == '"') {
    read_string();
  } else if (is_digit(c)) {
    read_number();
  } else if (is_name_start(c) || ((c == '@' || c == '%') && start + 1 < text_.size() && is_name_part(text_[start + 1]))) {
    token_.kind = c == '@' ? TokenKind::At : c == '%' ? TokenKind::Percent : TokenKind::Name;
    size_t first = is_name_start(c) ? start : start + 1;
    position_ = first + 1;
    while (position_ < text_.size() && is_name_part(text_[position_])) ++position_;
    token_.text.assign(text_.substr(first, position_ - first));
  } else {
    read_punctuation();
  }
  token_.length = static_cast<uint32_t>(position_ - start);
}

void TextCursor::read_string() {
  auto bad = [&](std::string message) {
    token_.kind = TokenKind::Bad;
    token_.text = std::move(message);
    position_ = std::min(text_.find('\n', position_), text_.size());
  };
  token_.kind = TokenKind::String;
  token_.text.clear();
  for (++position_;; ++position_) {
    if (position_ >= text_.size() || text_[position_] == '\n') return bad("a string that does not end on its line");
    char c = text_[position_];
    if (c == '"') break;
    if (c != '\\') {
      token_.text += c;
      continue;
    }
    char escape = ++position_ < text_.size() ? text_[position_] : '\n';
    if (escape == '"' || escape == '\\') {
      token_.text += escape;
    } else if (escape == 'n' || escape == 't') {
      token_.text += escape == 'n' ? '\n' : '\t';
    } else {
      int high = escape == 'x' && position_ + 2 < text_.size() ? hex_value(text_[position_ + 1]) : -1;
      int low = high >= 0 ? hex_value(text_[position_ + 2]) : -1;
      if (low < 0) return bad("an escape in a string other than `\\\"`, `\\\\`, `\\n`, `\\t` and `\\xNN`");
      token_.text += static_cast<char>(high * 16 + low);
      position_ += 2;
    }
  }
  ++position_;
}

void TextCursor::read_number() {
  size_t start = position_;
  bool hex = text_.substr(start).starts_with("0x");
  bool integer = true;
  for (; position_ < text_.size(); ++position_) {
    char c = text_[position_];
    char before = position_ > start ? static_cast<char>(text_[position_ - 1] | 0x20) : '0';
    bool sign = (c == '-' || c == '+') && before == (hex ? 'p' : 'e');
    if (!is_name_part(c) && !sign) break;
    integer &= is_digit(c);
  }
  token_.text.assign(text_.substr(start, position_ - start));
  double ignored = 0;
  bool valid = integer || read_double(token_.text, ignored) != std::errc::invalid_argument;
  token_.kind = !valid ? TokenKind::Bad : integer ? TokenKind::Integer : TokenKind::Float;
  if (!valid) token_.text = fmt::format("`{}`, which is no number", token_.text);
}

void TextCursor::read_punctuation() {
  constexpr std::string_view kLong[] = {"->", "==", "!=", "<=", "&&", "||", "<<", ">>"};
  constexpr std::string_view kShort = "{}[]()<>,:;=+-*/&|^";
  for (std::string_view punctuation : kLong)
    if (text_.substr(position_).starts_with(punctuation)) {
      token_.kind = TokenKind::Punct;
      token_.text = punctuation;
      position_ += 2;
      return;
    }
  char c = text_[position_++];
  bool known = kShort.find(c) != std::string_view::npos;
  token_.kind = known ? TokenKind::Punct : TokenKind::Bad;
  token_.text = known ? std::string(1, c) : fmt::format("the character {}", quote(std::string_view(&c, 1)));
}

std::string print_double(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string out = fmt::format("{}", value);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      out += fmt::format("\\{}", c);
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out + '"';
}

}  // namespace tenon
