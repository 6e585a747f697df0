// SPDX-License-Identifier: Apache-2.0
// Orders of small functions, and what they need, worked out by hand.
#include "link/order.h"

#include <gtest/gtest.h>

#include "graph/text.h"
#include "op/all_ops.h"

namespace tenon::link {
namespace {

using graph::Module;

// No result can overwrite an operand.
Module module_of(const std::string& main) {
  return graph::parse("test", "module {target = \"llvm -mcpu=x86-64\"}\n" + main + R"(
    primfunc @widen(x: f32[32]) -> (y: f32[128]) { for i = 0 extent 128 { y[i] = x[floormod((i * 5), 32)] } }
    primfunc @narrow(x: f32[128]) -> (y: f32[32]) { for i = 0 extent 32 { y[i] = (x[(127 - i)] * 2.0:f32) } }
    primfunc @turn(x: f32[32]) -> (y: f32[32]) { for i = 0 extent 32 { y[i] = (x[(31 - i)] * 2.0:f32) } }
    primfunc @mix(x: f32[128]) -> (y: f32[128]) { for i = 0 extent 128 { y[i] = (x[(127 - i)] * 2.0:f32) } }
    primfunc @join(a: f32[128], b: f32[32]) -> (y: f32[32]) { for i = 0 extent 32 { y[i] = (a[(127 - i)] + b[(31 - i)]) } }
    primfunc @sum(a: f32[32], b: f32[32]) -> (y: f32[32]) { for i = 0 extent 32 { y[i] = (a[(31 - i)] + b[(31 - i)]) } }
  )",
                      op::all_ops());
}

std::vector<std::string> names(const Module& module) {
  std::vector<std::string> out;
  for (const graph::Node& node : module.functions.at("main").nodes) out.push_back(node.name.empty() ? node.callee : node.name);
  return out;
}

// Both wide values at once need 1024 bytes; one after the other 512 and what is left of the first.
constexpr const char* kTwoBranches = R"(fn @main(%0: f32[32] "x") -> ("y") {
  %1 = call_lowered @widen(%0) : f32[128] "wide 1"
  %2 = call_lowered @widen(%0) : f32[128] "wide 2"
  %3 = call_lowered @narrow(%1) : f32[32] "narrow 1"
  %4 = call_lowered @narrow(%2) : f32[32] "narrow 2"
  %5 = call_lowered @sum(%3, %4) : f32[32] "sum"
  return %5
})";

TEST(Order, OneBranchIsFinishedBeforeTheNextBegins) {
  Module ordered = order_for_memory(module_of(kTwoBranches));
  EXPECT_EQ(names(ordered), (std::vector<std::string>{"wide 1", "narrow 1", "wide 2", "narrow 2", "sum"}));
  graph::verify(ordered);
  EXPECT_EQ(order_for_memory(ordered), ordered) << "idempotent";
}

// "side" and "wide" add as much, but what follows "wide" is narrow. With "side" first three wide values meet, 1536 bytes; with it
// last, two and a narrow one, 1152.
TEST(Order, ABranchThatEndsNarrowGoesFirst) {
  Module ordered = order_for_memory(module_of(R"(fn @main(%0: f32[32] "x") -> ("y") {
    %1 = call_lowered @widen(%0) : f32[128] "base"
    %2 = call_lowered @mix(%1) : f32[128] "side"
    %3 = call_lowered @mix(%1) : f32[128] "wide"
    %4 = call_lowered @narrow(%3) : f32[32] "narrow"
    %5 = call_lowered @join(%2, %4) : f32[32] "join"
    return %5
  })"));
  EXPECT_EQ(names(ordered), (std::vector<std::string>{"base", "wide", "narrow", "side", "join"}));
}

TEST(Order, AnOrderThatIsAsGoodStays) {
  Module module = module_of(R"(fn @main(%0: f32[32] "x") -> ("y") {
    %1 = call_lowered @turn(%0) : f32[32] "a"
    %2 = call_lowered @turn(%0) : f32[32] "b"
    %3 = call_lowered @turn(%2) : f32[32] "c"
    %4 = call_lowered @sum(%1, %3) : f32[32] "sum"
    return %4
  })");
  EXPECT_EQ(order_for_memory(module), module);
}

TEST(Order, ConstantsStandBeforeTheirFirstReader) {
  Module module = module_of("constant @c : f32[32] = bytes \"" + std::string(256, '0') + R"("
    fn @main(%0: f32[32] "x") -> ("y", "c") {
      %1 = constant @c : f32[32]
      %2 = call_lowered @widen(%0) : f32[128] "wide 1"
      %3 = call_lowered @widen(%1) : f32[128] "wide 2"
      %4 = call_lowered @narrow(%2) : f32[32] "narrow 1"
      %5 = call_lowered @narrow(%3) : f32[32] "narrow 2"
      %6 = call_lowered @sum(%4, %5) : f32[32] "sum"
      return %6, %1
    })");
  Module ordered = order_for_memory(module);
  EXPECT_EQ(names(ordered), (std::vector<std::string>{"wide 1", "narrow 1", "c", "wide 2", "narrow 2", "sum"}));
  graph::verify(ordered);
}

TEST(Order, AResultInTheCallersMemoryCountsForNothing) {
  // The wide result is not planned, so nothing is gained by making it last.
  Module module = module_of(R"(fn @main(%0: f32[32] "x") -> ("y", "z") {
    %1 = call_lowered @widen(%0) : f32[128] "wide"
    %2 = call_lowered @turn(%0) : f32[32] "a"
    %3 = call_lowered @turn(%2) : f32[32] "b"
    return %1, %3
  })");
  EXPECT_EQ(order_for_memory(module), module);
}

TEST(Order, WhatIsNotLoweredStays) {
  Module module = graph::parse("test", "fn @main(%0: f32[4] \"x\") -> (\"y\") {\n %1 = relu(%0)\n return %1 }", op::all_ops());
  EXPECT_EQ(order_for_memory(module), module);
  EXPECT_EQ(order_for_memory({}), Module{});
}

}  // namespace
}  // namespace tenon::link
