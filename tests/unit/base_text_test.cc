// SPDX-License-Identifier: Apache-2.0
// Tokens, their places, and the errors of a wrong one.
#include "base/text.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/round_trip.h"

namespace tenon {

using testing::compile_error;

TEST(TextCursor, SplitsTextIntoTokensWithTheirPlaces) {
  TextCursor c("t", "fn @main.1(%12) -> \"a\\\"\\x41\\n\" # gone\n  <= == 3:f32 x_1.y");
  struct Want {
    TokenKind kind;
    std::string text;
    uint32_t line, column, length;
  };
  const Want want[] = {
      {TokenKind::Name, "fn", 1, 1, 2},         {TokenKind::At, "main.1", 1, 4, 7}, {TokenKind::Punct, "(", 1, 11, 1},
      {TokenKind::Percent, "12", 1, 12, 3},     {TokenKind::Punct, ")", 1, 15, 1},  {TokenKind::Punct, "->", 1, 17, 2},
      {TokenKind::String, "a\"A\n", 1, 20, 11}, {TokenKind::Punct, "<=", 2, 3, 2},  {TokenKind::Punct, "==", 2, 6, 2},
      {TokenKind::Integer, "3", 2, 9, 1},       {TokenKind::Punct, ":", 2, 10, 1},  {TokenKind::Name, "f32", 2, 11, 3},
      {TokenKind::Name, "x_1.y", 2, 15, 5},     {TokenKind::End, "", 2, 20, 1}};
  for (const Want& w : want) {
    Token t = c.next();
    EXPECT_EQ(t.kind, w.kind) << w.text;
    EXPECT_EQ(t.text, w.text);
    EXPECT_EQ(t.line, w.line) << w.text;
    EXPECT_EQ(t.column, w.column) << w.text;
    EXPECT_EQ(t.length, w.length) << w.text;
  }
  EXPECT_TRUE(c.at_end());
}

TEST(TextCursor, ReadsIntegersToTheLimitsOf64Bits) {
  TextCursor c("t", "-9223372036854775808 9223372036854775807 9223372036854775808");
  EXPECT_EQ(c.expect_integer("x"), INT64_MIN);
  EXPECT_EQ(c.expect_integer("x"), INT64_MAX);
  EXPECT_NE(compile_error([&] { c.expect_integer("x"); }).find("[number-range]"), std::string::npos);
}

TEST(TextCursor, ReadsFloats) {
  TextCursor c("t", "-1.5 2e3 0x1.8p-1 0x3p+2 7 -inf nan 5e-324 1e999");
  EXPECT_EQ(c.expect_number("x"), -1.5);
  EXPECT_EQ(c.expect_number("x"), 2000.0);
  EXPECT_EQ(c.expect_number("x"), 0.75);
  EXPECT_EQ(c.expect_number("x"), 12.0);
  EXPECT_EQ(c.expect_number("x"), 7.0);
  EXPECT_EQ(c.expect_number("x"), -INFINITY);
  EXPECT_TRUE(std::isnan(c.expect_number("x")));
  EXPECT_EQ(c.expect_number("x"), 4.9406564584124654e-324);
  EXPECT_NE(compile_error([&] { c.expect_number("x"); }).find("[number-range]"), std::string::npos);
}

TEST(TextCursor, PrintedDoublesReadBackToTheSameBits) {
  for (double value : {0.0, -0.0, 0.1, 1e300, 5e-324, 123456789.0, 1e16, -2.5e-7, 3.0}) {
    std::string text = print_double(value);
    TextCursor c("t", text);
    double again = c.expect_number("x");
    EXPECT_EQ(std::signbit(again), std::signbit(value)) << text;
    EXPECT_EQ(again, value) << text;
  }
}

TEST(TextCursor, QuotedTextReadsBackByteForByte) {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  std::string text = quote(all);
  TextCursor c("t", text);
  EXPECT_EQ(c.expect_string("x"), all);
}

TEST(TextCursor, AnErrorShowsTheLineAndTheToken) {
  TextCursor c("dir/a.tenon", "ok\n\tx ==  y");
  c.next();
  c.next();
  EXPECT_EQ(compile_error([&] { c.expect("="); }),
            "dir/a.tenon:2:4: error: unexpected `==`, expected `=`  [unexpected-token]\n"
            "  2 |  x ==  y\n"
            "    |    ^~\n");
}

TEST(TextCursor, MalformedTokensAreReportedWhereTheyAreReached) {
  for (const char* text :
       {"\"open", "\"open\n\"", "\"\\q\"", "\"\\x4\"", "\"\\", "0x", "1.2.3", "12ab", "$", "@", "% 1", "\x80", "1e"}) {
    TextCursor c("t", text);
    EXPECT_EQ(c.peek().kind, TokenKind::Bad) << text;
    EXPECT_NE(compile_error([&] { c.expect("x"); }).find("[bad-token]"), std::string::npos) << text;
    for (int i = 0; i < 8; ++i) c.next();
    EXPECT_TRUE(c.at_end()) << text;
  }
}

TEST(TextCursor, AVeryLongLineIsNotRepeatedWhole) {
  std::string text = std::string(150, 'a') + ' ' + std::string(100000, 'b') + " c";
  TextCursor c("t", text);
  c.next();
  EXPECT_LT(c.error("x", "y").excerpt.size(), 300u);
  c.next();
  EXPECT_EQ(c.error("x", "y").excerpt, "");
}

TEST(ErrorList, ThrowsEveryFindingAtOnce) {
  ErrorList list;
  list.throw_any();
  list.add(Diagnostic{.code = "a", .message = "first"});
  list.add(CompileError(Diagnostic{.code = "b", .message = "second"}));
  EXPECT_EQ(compile_error([&] { list.throw_any(); }), "error: first  [a]\nerror: second  [b]\n");
  EXPECT_TRUE(list.empty());
}

TEST(ErrorList, GivesUpAtAHundred) {
  ErrorList list;
  for (int i = 0; i < 99; ++i) list.add(Diagnostic{.message = "x"});
  EXPECT_THROW(list.add(Diagnostic{.message = "x"}), CompileError);
}

}  // namespace tenon
