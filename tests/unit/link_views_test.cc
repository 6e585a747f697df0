// SPDX-License-Identifier: Apache-2.0
// Which loop functions only move bytes as they stand, decided on loops.
#include "link/views.h"

#include <gtest/gtest.h>

#include "tir/text.h"

namespace tenon::link {
namespace {

using Parts = std::vector<Part>;

tir::PrimFunc parse(std::string_view text) { return tir::parse_prim_func("test", text); }

TEST(Views, ASliceOfALeadingAxisIsAPartOfItsOperand) {
  EXPECT_EQ(outputs_as_parts(parse(R"(primfunc @f(x: f32[6,8]) -> (y: f32[2,8]) {
    for i = 0 extent 2 { for j = 0 extent 8 { y[i, j] = x[(i + 3), j] } } })")),
            (Parts{{0, 96}}));
}

TEST(Views, TheLoopsMayBeTiledAndVectorized) {
  EXPECT_EQ(outputs_as_parts(parse(R"(primfunc @f(x: f32[64]) -> (y: f32[32]) {
    for t = 0 extent 2 parallel { for lane = 0 extent 16 vectorized {
      y[((t * 16) + lane)] = x[(((t * 16) + lane) + 32)] } } })")),
            (Parts{{0, 128}}));
}

TEST(Views, ASplitIsAPartForEachResult) {
  EXPECT_EQ(outputs_as_parts(parse(R"(primfunc @f(x: f64[10]) -> (y: f64[4], z: f64[6]) {
    for i = 0 extent 4 { y[i] = x[i] }
    for j = 0 extent 6 { z[j] = x[(j + 4)] } })")),
            (Parts{{0, 0}, {0, 32}}));
}

TEST(Views, AReshapeIsItsWholeOperand) {
  EXPECT_EQ(outputs_as_parts(parse(R"(primfunc @f(x: f32[4,6]) -> (y: f32[24]) {
    for i = 0 extent 24 { y[i] = x[floordiv(i, 6), floormod(i, 6)] } })")),
            (Parts{{0, 0}}));
}

TEST(Views, AnythingElseIsRefused) {
  for (const char* text : {
           "primfunc @f(x: f32[8]) -> (y: f32[8]) { for i = 0 extent 8 { y[i] = x[(7 - i)] } }",        // reversed
           "primfunc @f(x: f32[8]) -> (y: f32[4]) { for i = 0 extent 4 { y[i] = x[(i * 2)] } }",        // strided
           "primfunc @f(x: f32[1]) -> (y: f32[4]) { for i = 0 extent 4 { y[i] = x[0] } }",              // broadcast
           "primfunc @f(x: f32[8]) -> (y: f32[8]) { for i = 0 extent 8 { y[i] = (x[i] + 1.0:f32) } }",  // computed
           "primfunc @f(x: f32[8]) -> (y: f16[8]) { for i = 0 extent 8 { y[i] = cast<f16>(x[i]) } }",   // converted
           "primfunc @f(x: f32[8]) -> (y: f32[8]) { for i = 0 extent 8 { y[i] = select((i < 4), x[i], 0.0:f32) } }",
           "primfunc @f(x: f32[4,6]) -> (y: f32[4,2]) { for i = 0 extent 4 { for j = 0 extent 2 { y[i, j] = x[i, j] } } }",
           "primfunc @f(x: f32[8], k: i64[1]) -> (y: f32[4]) { for i = 0 extent 4 { y[i] = x[(i + k[0])] } }",
       })
    EXPECT_EQ(outputs_as_parts(parse(text)), std::nullopt) << text;
}

TEST(Views, AConcatenationConsistsOfItsOperands) {
  EXPECT_EQ(inputs_as_parts(parse(R"(primfunc @f(a: f32[2,8], b: f32[4,8]) -> (y: f32[6,8]) {
    for i = 0 extent 6 { for j = 0 extent 8 { y[i, j] = select((i < 2), a[i, j], b[(i - 2), j]) } } })")),
            (std::vector<int64_t>{0, 64}));
  EXPECT_EQ(inputs_as_parts(parse(R"(primfunc @f(a: f32[16], b: f32[32]) -> (y: f32[48]) {
    for i = 0 extent 16 { y[(i + 32)] = a[i] }
    for j = 0 extent 32 { y[j] = b[j] } })")),
            (std::vector<int64_t>{128, 0}));
}

TEST(Views, AConcatenationOfWhatIsNotWholeIsRefused) {
  for (const char* text : {
           // rows side by side
           "primfunc @f(a: f32[4,2], b: f32[4,2]) -> (y: f32[4,4]) { for i = 0 extent 4 { for j = 0 extent 4 { "
           "y[i, j] = select((j < 2), a[i, j], b[i, (j - 2)]) } } }",
           // the same operand twice
           "primfunc @f(a: f32[8]) -> (y: f32[16]) { for i = 0 extent 16 { y[i] = select((i < 8), a[i], a[(i - 8)]) } }",
           // one operand is cut
           "primfunc @f(a: f32[8], b: f32[8]) -> (y: f32[12]) { for i = 0 extent 12 { y[i] = select((i < 8), a[i], b[(i - 8)]) } "
           "}",
           // a gap of zeros between them
           "primfunc @f(a: f32[8], b: f32[4]) -> (y: f32[16]) { for i = 0 extent 16 { "
           "y[i] = select((i < 8), a[i], select((i < 12), 0.0:f32, b[(i - 12)])) } }",
       })
    EXPECT_EQ(inputs_as_parts(parse(text)), std::nullopt) << text;
}

}  // namespace
}  // namespace tenon::link
