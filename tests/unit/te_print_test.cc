// SPDX-License-Identifier: Apache-2.0
// The text of tensor expressions.
#include <gtest/gtest.h>

#include "te/te.h"

namespace tenon::te {

TEST(TePrint, ShowsEveryKindOfStage) {
  Graph g;
  Tensor x = g.placeholder("x", DType::F32, {4, 16});
  Tensor two = g.constant("two", array_of<float>(DType::F32, {}, {2.0f}));
  Tensor y = g.compute("y", {4, 16}, [&](const std::vector<Expr>& i) { return x(i) * two({}); });
  g.sum("s", DType::F32, {4}, {16}, [&](const std::vector<Expr>& i, const std::vector<Expr>& r) { return y({i[0], r[0]}); });
  g.external("t", {TensorType(DType::I64, {2})}, [&](const std::vector<tir::Buffer>& out) {
    return tir::scoped({tir::store(out[0], {0}, 7), tir::store(out[0], {1}, 8)});
  });
  EXPECT_EQ(print(g), R"(placeholder x: f32[4,16]
constant two: f32[] = bytes "00000040"
compute y: f32[4,16]
  y[i0, i1] = (x[i0, i1] * two[])
reduce s: f32[4] over r0 < 16
  acc: f32 = 0.0:f32, then (acc + y[i0_1, r0])
  s[i0_1] = acc
extern t: i64[2] {
  {
    t[0] = 7
    t[1] = 8
  }
}
)");
}

}  // namespace tenon::te
