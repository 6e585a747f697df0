// SPDX-License-Identifier: Apache-2.0
// The line language of traces.
#include "schedule/primitives/trace.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"

namespace tenon::schedule {

namespace {

/// Whether an argument reads back as one name or integer.
bool is_word(std::string_view text) {
  if (text.empty()) return false;
  bool number = std::isdigit(static_cast<unsigned char>(text[0]));
  return std::all_of(text.begin(), text.end(),
                     [&](unsigned char c) { return number ? std::isdigit(c) != 0 : std::isalnum(c) || c == '_' || c == '.'; });
}

std::string word(std::string_view text) { return is_word(text) ? std::string(text) : quote(text); }

/// A name, an integer or a string.
std::string expect_argument(TextCursor& cursor) {
  TokenKind kind = cursor.peek().kind;
  if (kind != TokenKind::Name && kind != TokenKind::Integer && kind != TokenKind::String)
    cursor.fail_unexpected("a name, a number or a string");
  return cursor.next().text;
}

}  // namespace

std::string print(const Step& step) {
  std::string out = step.primitive;
  for (const std::string& arg : step.args) out += ' ' + word(arg);
  for (const auto& [key, value] : step.named) out += ' ' + key + '=' + word(value);
  return out;
}

std::string print(const Trace& trace) {
  std::string out;
  for (const Step& step : trace) out += print(step) + '\n';
  return out;
}

Trace parse_trace(std::string_view file, std::string_view text) {
  TextCursor cursor{std::string(file), text};
  Trace out;
  while (!cursor.at_end()) {
    Step step;
    step.span = cursor.span();
    uint32_t line = cursor.peek().line;
    step.primitive = cursor.expect_name("the name of a primitive");
    while (!cursor.at_end() && cursor.peek().line == line) {
      std::string value = expect_argument(cursor);
      if (cursor.peek().line == line && cursor.accept("="))
        step.named[value] = expect_argument(cursor);
      else
        step.args.push_back(std::move(value));
    }
    out.push_back(std::move(step));
  }
  return out;
}

}  // namespace tenon::schedule
