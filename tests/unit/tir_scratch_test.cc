// SPDX-License-Identifier: Apache-2.0
// Which blocks of memory small functions need, and when, worked out by hand.
#include "tir/scratch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tir/text.h"

namespace tenon::tir {
namespace {

/// `name:bytes[begin,end)@offset`, one after the other.
std::string text(const std::vector<ScratchBlock>& blocks) {
  std::string out;
  for (const ScratchBlock& b : blocks)
    out += fmt::format("{}{}:{}[{},{})@{}", out.empty() ? "" : " ", b.name, b.bytes, b.begin, b.end, b.offset);
  return out;
}

Scratch scratch(const std::string& body) {
  return scratch_of(parse_prim_func("test", "primfunc @f(x: f32[16]) -> (y: f32[16]) {" + body + "}"));
}

TEST(Scratch, ABlockIsNeededFromItsFirstAccessToItsLast) {
  Scratch s = scratch(R"(alloc t: f32[16] alloc u: f32[32] alloc v: f32[8]
    for i = 0 extent 16 { t[i] = x[i] }
    for j = 0 extent 16 { u[j] = t[j] }
    for k = 0 extent 8 { v[k] = u[k] }
    for l = 0 extent 8 { y[l] = v[l] })");
  EXPECT_EQ(text(s.shared), "t:64[0,1)@0 u:128[0,2)@64 v:64[1,2)@0");
  EXPECT_EQ(s.points, 2);
  EXPECT_EQ(s.shared_bytes, 192);
  EXPECT_EQ(s.worker_bytes, 0);
}

TEST(Scratch, TheStatementsOfALoopAreOneForWhatIsDeclaredOutside) {
  Scratch s = scratch(R"(alloc t: f32[16] alloc u: f32[16]
    for i = 0 extent 4 { t[i] = x[i] y[i] = t[i] u[i] = x[i] y[(i + 4)] = u[i] })");
  EXPECT_EQ(text(s.shared), "t:64[0,1)@0 u:64[0,1)@64");
}

TEST(Scratch, WhatIsDeclaredInALoopIsNewInEachIteration) {
  Scratch s = scratch(R"(alloc all: f32[16]
    for i = 0 extent 4 { alloc t: f32[16] alloc u: f32[16] t[i] = x[i] y[i] = t[i] u[i] = x[i] all[i] = u[i] }
    y[8] = all[0])");
  EXPECT_EQ(text(s.shared), "all:64[0,2)@0 t:64[0,1)@64 u:64[1,2)@64");
  EXPECT_EQ(s.shared_bytes, 128);
}

TEST(Scratch, SeparateScopesShareMemory) {
  Scratch s = scratch(R"(
    for i = 0 extent 16 parallel {
      if (i < 3) { alloc t: f32[10] local t[0] = x[i] y[i] = t[0] }
      if (i < 9) { alloc u: f32[20] local u[0] = x[i] y[i] = u[0] } }
    if true { alloc s: f32[100] s[0] = 1.0:f32 }
    if true { alloc r: f32[50] local r[0] = 1.0:f32 })");
  EXPECT_EQ(text(s.worker), "t:64[0,1)@0 u:128[1,2)@0");
  EXPECT_EQ(text(s.shared), "s:448[2,3)@0 r:256[3,4)@0");
  EXPECT_EQ(s.worker_bytes, 128);
  EXPECT_EQ(s.shared_bytes, 448);
  EXPECT_EQ(s.points, 4);
}

TEST(Scratch, WorkersHaveTheirOwnOnlyWhereSeveralRun) {
  Scratch s = scratch(R"(
    for i = 0 extent 1 parallel { alloc t: f32[16] local t[0] = x[i] y[i] = t[0] }
    for j = 0 extent 2 blockIdx_x { alloc u: f32[16] local u[0] = x[j] y[j] = u[0] }
    for k = 0 extent 2 parallel { alloc v: f32[16] v[k] = x[k] y[k] = v[k] }
    for l = 0 extent 2 { alloc w: f32[16] local w[0] = x[l] y[l] = w[0] })");
  EXPECT_EQ(text(s.worker), "u:64[1,2)@0");
  EXPECT_EQ(text(s.shared), "t:64[0,1)@0 v:64[2,3)@0 w:64[3,4)@0");
}

TEST(Scratch, WhatWorkersShareIsNeededAllThroughTheirLoop) {
  Scratch s = scratch(R"(alloc before: f32[16] before[0] = x[0]
    for i = 0 extent 16 parallel {
      alloc t: f32[16] alloc u: f64[16]
      t[i] = (x[i] + before[0])
      u[i] = cast<f64>(t[i])
      for j = 0 extent 2 parallel { if (i < 3) { alloc v: f32[16,2] v[i, j] = x[i] y[i] = v[i, j] } }
      y[i] = cast<f32>(u[i]) }
    for k = 0 extent 16 { alloc after: f32[16] after[k] = x[k] y[k] = after[k] })");
  EXPECT_EQ(text(s.shared), "before:64[0,1)@0 t:64[0,1)@64 u:128[0,1)@128 v:128[0,1)@256 after:64[1,2)@0");
}

TEST(Scratch, AnAllocationMayBeAllThatABodyHolds) {
  Scratch s = scratch(R"(if true { alloc t: f32[16] } else { alloc r: f32[1] reg }
    for i = 0 extent 16 parallel { alloc u: f32[16] local }
    y[0] = x[0])");
  EXPECT_EQ(text(s.shared), "t:64[0,0)@0");
  EXPECT_EQ(text(s.worker), "u:64[0,0)@0");
}

TEST(Scratch, ABlockTakesTheLowestPlaceThatIsFree) {
  Scratch s = scratch(R"(alloc a: f32[16] alloc b: f32[16] alloc c: f32[16]
    a[0] = x[0] b[0] = a[0] c[0] = b[0]
    if true { alloc d: f32[16] alloc e: f32[32] d[0] = c[0] e[0] = d[0] y[0] = e[0] })");
  EXPECT_EQ(text(s.shared), "a:64[0,1)@0 b:64[0,2)@64 c:64[1,3)@0 d:64[2,3)@64 e:128[2,3)@128");
  EXPECT_EQ(s.points, 3);
  EXPECT_EQ(s.shared_bytes, 256);
}

TEST(Scratch, RegistersAndWhatNothingTouchesNeedNone) {
  Scratch s = scratch("alloc r: f32[1] reg alloc t: f32[16] alloc z: f32[0] r[0] = x[0] y[0] = r[0]");
  EXPECT_EQ(text(s.shared), "t:64[0,0)@0 z:0[0,0)@0");
  EXPECT_EQ(s.shared_bytes, 0);
  EXPECT_EQ(s.points, 1);
  EXPECT_TRUE(scratch("y[0] = x[0]").shared.empty());
}

TEST(Scratch, CodeFromElsewhereHasOneBlock) {
  Scratch s = opaque_scratch(1000, 10);
  EXPECT_EQ(text(s.shared), "scratch:1024[0,1)@0");
  EXPECT_EQ(s.shared_bytes, 1024);
  EXPECT_EQ(s.worker_bytes, 64);
  EXPECT_TRUE(opaque_scratch(0, 0).shared.empty());
}

}  // namespace
}  // namespace tenon::tir
