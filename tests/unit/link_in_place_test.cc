// SPDX-License-Identifier: Apache-2.0
// Which outputs may overwrite an input, decided on loops.
#include "link/in_place.h"

#include <gtest/gtest.h>

#include "tir/text.h"

namespace tenon::link {
namespace {

using Pairs = std::vector<InPlace>;

Pairs pairs(std::string_view text) { return in_place_pairs(tir::parse_prim_func("test", text)); }

TEST(InPlace, TheSameIndexIsSafe) {
  EXPECT_EQ(pairs(R"(primfunc @f(x: f32[6,8], b: f32[8]) -> (y: f32[6,8]) {
    for i = 0 extent 6 parallel { for j = 0 extent 8 vectorized { y[i, j] = (x[i, j] + b[j]) } } })"),
            (Pairs{{0, 0}}));
  EXPECT_EQ(pairs(R"(primfunc @f(x: f32[48], z: f32[48]) -> (y: f32[48]) {
    for t = 0 extent 6 { let begin: i64 = (t * 8) for l = 0 extent 8 vectorized {
      let a: f32 = (x[(begin + l)] + z[(begin + l)]) y[(begin + l)] = max(a, 0.0:f32) } } })"),
            (Pairs{{0, 0}, {1, 0}}));
  EXPECT_EQ(pairs(R"(primfunc @f(x: f32[48]) -> (y: f32[48]) {
    for job = 0 extent 12 { let cut: i64 = floormod(job, 3) let chunk: i64 = floordiv(job, 3)
      for j = 0 extent 4 { y[(((chunk * 12) + (cut * 4)) + j)] = (x[(((chunk * 12) + (cut * 4)) + j)] * 2.0:f32) } } })"),
            (Pairs{{0, 0}}));
}

TEST(InPlace, UnevenChunksAreOneWalk) {
  EXPECT_EQ(pairs(R"(primfunc @f(x: f32[40]) -> (y: f32[40]) {
    for job = 0 extent 4 parallel { for row = 0 extent 2 { for slot = 0 extent min(3, (10 - (job * 3))) {
      for j = 0 extent 2 { y[(((row * 20) + (((job * 3) + slot) * 2)) + j)] = x[(((row * 20) + (((job * 3) + slot) * 2)) + j)] } } } } })"),
            (Pairs{{0, 0}}));
}

TEST(InPlace, AnotherDtypeOfTheSameSizeIsSafe) {
  EXPECT_EQ(pairs("primfunc @f(x: i32[8]) -> (y: f32[8]) { for i = 0 extent 8 { y[i] = cast<f32>(x[i]) } }"), (Pairs{{0, 0}}));
}

TEST(InPlace, AValueThatIsUsedTwiceOverIsReadOnce) {
  std::string body = "let v0: f32 = x[i]\n";
  for (int k = 1; k <= 100; ++k) {
    std::string before = "v" + std::to_string(k - 1);
    body += "let v" + std::to_string(k) + ": f32 = (" + before + " * " + before + ")\n";
  }
  EXPECT_EQ(pairs("primfunc @f(x: f32[8]) -> (y: f32[8]) { for i = 0 extent 8 { " + body + "y[i] = v100 } }"), (Pairs{{0, 0}}));
}

TEST(InPlace, ABlockOfAnUnscheduledFunctionCounts) {
  EXPECT_EQ(pairs(R"(primfunc @f(x: f32[2,3]) -> (y: f32[2,3]) {
    for i = 0 extent 2 { for j = 0 extent 3 { block b { iter vi: spatial 2 = i iter vj: spatial 3 = j
      reads x[vi : 1, vj : 1] writes y[vi : 1, vj : 1] body { y[vi, vj] = (x[vi, vj] + 1.0:f32) } } } } })"),
            (Pairs{{0, 0}}));
}

TEST(InPlace, AResidualOfAProductIsSafeAndItsFactorsAreNot) {
  EXPECT_EQ(pairs(R"(primfunc @f(a: f32[16], b: f32[16], r: f32[16]) -> (y: f32[16]) {
    for i = 0 extent 4 { for j = 0 extent 4 {
      alloc acc: f32[1] reg
      acc[0] = 0.0:f32
      for k = 0 extent 4 { acc[0] = (acc[0] + (a[((i * 4) + k)] * b[((k * 4) + j)])) }
      y[((i * 4) + j)] = (acc[0] + r[((i * 4) + j)]) } } })"),
            (Pairs{{2, 0}}));
}

TEST(InPlace, AStoreInTheLastBlockOfAReductionCounts) {
  EXPECT_EQ(pairs(R"(primfunc @f(r: f32[8]) -> (y: f32[8]) {
    for block = 0 extent 3 { for j = 0 extent 8 { if (block == 2) { y[j] = (r[j] + 1.0:f32) } } } })"),
            (Pairs{{0, 0}}));
}

struct Unsafe {
  const char* name;
  const char* text;
};

class InPlaceUnsafe : public testing::TestWithParam<Unsafe> {};

TEST_P(InPlaceUnsafe, IsRefused) { EXPECT_EQ(pairs(GetParam().text), Pairs{}); }

INSTANTIATE_TEST_SUITE_P(
    Functions, InPlaceUnsafe,
    testing::Values(Unsafe{"shifted", R"(primfunc @f(x: f32[8]) -> (y: f32[8]) {
      for i = 0 extent 8 { y[i] = x[max((i - 1), 0)] } })"},
                    Unsafe{"reversed", R"(primfunc @f(x: f32[8]) -> (y: f32[8]) { for i = 0 extent 8 { y[i] = x[(7 - i)] } })"},
                    Unsafe{"broadcast", R"(primfunc @f(x: f32[8]) -> (y: f32[8]) {
      for i = 0 extent 8 { y[i] = (x[i] + x[0]) } })"},
                    Unsafe{"read_again_later", R"(primfunc @f(x: f32[8]) -> (y: f32[8], z: f32[9]) {
      for i = 0 extent 8 { y[i] = x[i] } for j = 0 extent 8 { z[j] = x[j] } })"},
                    Unsafe{"kept_for_another_store", R"(primfunc @f(x: f32[8]) -> (y: f32[8], z: f32[9]) {
      for i = 0 extent 8 { let t: f32 = x[i] y[i] = 1.0:f32 z[i] = t } })"},
                    Unsafe{"a_tile_computed_twice", R"(primfunc @f(x: f32[12]) -> (y: f32[12]) {
      for t = 0 extent 2 { let begin: i64 = min((t * 8), 4) for l = 0 extent 8 vectorized { y[(begin + l)] = (x[(begin + l)] + 1.0:f32) } } })"},
                    Unsafe{"a_loop_that_repeats", R"(primfunc @f(x: f32[8]) -> (y: f32[8]) {
      for k = 0 extent 2 { for i = 0 extent 8 { y[i] = (x[i] + 1.0:f32) } } })"},
                    Unsafe{"overlapping_digits", R"(primfunc @f(x: f32[8]) -> (y: f32[8]) {
      for i = 0 extent 4 { for j = 0 extent 5 { y[(i + j)] = (x[(i + j)] + 1.0:f32) } } })"},
                    Unsafe{"a_digit_left_out", R"(primfunc @f(x: f32[8]) -> (y: f32[8]) {
      for i = 0 extent 16 { y[floormod(i, 8)] = (x[floormod(i, 8)] + 1.0:f32) } })"},
                    Unsafe{"stored_twice", R"(primfunc @f(x: f32[8]) -> (y: f32[8]) {
      for i = 0 extent 8 { y[i] = 0.0:f32 } for j = 0 extent 8 { y[j] = x[j] } })"},
                    Unsafe{"output_read_back", R"(primfunc @f(x: f32[8]) -> (y: f32[8], z: f32[9]) {
      for i = 0 extent 8 { y[i] = x[i] } for j = 0 extent 8 { z[j] = y[j] } })"},
                    Unsafe{"decides_a_branch", R"(primfunc @f(x: f32[8]) -> (y: f32[8]) {
      for i = 0 extent 8 { if (x[7] < 0.0:f32) { y[i] = x[i] } } })"},
                    Unsafe{"other_bytes", R"(primfunc @f(x: f32[8]) -> (y: f32[4]) { for i = 0 extent 4 { y[i] = x[i] } })"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tenon::link
