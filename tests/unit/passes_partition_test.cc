// SPDX-License-Identifier: Apache-2.0
// Pattern tables, regions without cycles, and the way back.
#include "passes/graph/partition.h"

#include <gtest/gtest.h>

#include "external/pattern.h"
#include "graph/interpret.h"
#include "graph/text.h"
#include "op/all_ops.h"
#include "op/ops.h"
#include "support/op_run.h"

namespace tenon {
namespace {

using external::find_matches;
using external::Match;
using external::Pattern;
using graph::Function;
using graph::Module;
using graph::Node;
using graph::NodeKind;

Module read(const std::string& text) { return graph::parse("test.tenon", text, op::all_ops()); }

/// Every relu, exp and add by itself.
const std::vector<Pattern> kSingle{{"single", {{{&op::relu, &op::exp, &op::add}}}}};

Module partitioned(const Module& module, bool merge, const std::vector<Pattern>& table = kSingle) {
  auto units = [&](const Function& function) { return find_matches(function, table); };
  Module out = pass::partition(module, {"tool", merge, units});
  graph::verify(out);
  return out;
}

/// The operators of each call in `main`, external ones in brackets; `;` between the results of several.
std::string shape(const Module& module) {
  std::string out;
  for (const Node& node : module.functions.at("main").nodes) {
    out += out.empty() ? "" : " ";
    if (node.kind == NodeKind::Op) out += node.op->name;
    if (node.kind != NodeKind::Call) continue;
    const Function& region = module.functions.at(node.callee);
    out += "[";
    for (const Node& inner : region.nodes)
      if (inner.kind == NodeKind::Op) out += (out.back() == '[' ? "" : " ") + std::string(inner.op->name);
    out += "]";
    if (region.results.size() > 1) out += std::to_string(region.results.size());
  }
  return out;
}

void expect_same_meaning(const Module& a, const Module& b, const std::vector<Array>& inputs) {
  std::vector<Array> want = graph::interpret(a, "main", inputs), got = graph::interpret(b, "main", inputs);
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i) test::expect_array(got[i], want[i], 0, 0);
}

TEST(Patterns, TheFirstOfTheTableThatFitsIsTaken) {
  Module m = read(R"(fn @main(%0: f32[4]) {
    %1 = exp(%0) : f32[4]
    %2 = relu(%1) : f32[4]
    %3 = neg(%2) : f32[4]
    %4 = exp(%3) : f32[4]
    return %4
  })");
  std::vector<Pattern> table{{"two", {{{&op::exp}}, {{&op::relu}}}}, {"one", {{{&op::exp}}}}};
  EXPECT_EQ(find_matches(m.functions.at("main"), table), (std::vector<Match>{{0, 1}, {3}}));
  std::swap(table[0], table[1]);
  EXPECT_EQ(find_matches(m.functions.at("main"), table), (std::vector<Match>{{0}, {3}}));
}

TEST(Patterns, AnOptionalOperatorIsTakenWhereItFits) {
  Module m = read(R"(fn @main(%0: f32[4], %1: f32[4]) {
    %2 = exp(%0) : f32[4]
    %3 = add(%2, %1) : f32[4]
    %4 = relu(%3) : f32[4]
    %5 = exp(%4) : f32[4]
    %6 = relu(%5) : f32[4]
    return %6
  })");
  std::vector<Pattern> table{{"chain", {{{&op::exp}}, {{&op::add}, {}, true}, {{&op::relu}, {}, true}}}};
  EXPECT_EQ(find_matches(m.functions.at("main"), table), (std::vector<Match>{{0, 1, 2}, {3, 4}}));
}

TEST(Patterns, WhatIsReadElsewhereEndsAChain) {
  Module m = read(R"(fn @main(%0: f32[4]) {
    %1 = exp(%0) : f32[4]
    %2 = relu(%1) : f32[4]
    %3 = exp(%2) : f32[4]
    %4 = add(%3, %3) : f32[4]
    return %1, %4
  })");
  std::vector<Pattern> table{{"chain", {{{&op::exp}}, {{&op::relu, &op::add}, {}, true}}}};
  EXPECT_EQ(find_matches(m.functions.at("main"), table), (std::vector<Match>{{0}, {2}}));
}

TEST(Patterns, ConditionsSeeOperandsAndDynamicShapesNeverMatch) {
  Module m = read(R"(constant @c : f32[] = bytes "0000803f"
  fn @main(%0: f32[4], %1: f32[n]) {
    %2 = constant @c : f32[]
    %3 = add(%0, %2) : f32[4]
    %4 = add(%0, %0) : f32[4]
    %5 = add(%1, %2) : f32[n]
    return %3, %4, %5
  })");
  auto constant = [](const external::Candidate& c) { return c.constant(1); };
  EXPECT_EQ(find_matches(m.functions.at("main"), std::vector<Pattern>{{"c", {{{&op::add}, constant}}}}),
            (std::vector<Match>{{1}}));
}

TEST(Patterns, AValueThatTheUserPlacedStaysOurs) {
  Module m = read(R"(fn @main(%0: f32[4]) {
    %1 = exp(%0) : f32[4]
    %2 = relu(%1) {memory = "fast"} : f32[4]
    return %2
  })");
  std::vector<Pattern> table{{"chain", {{{&op::exp}}, {{&op::relu}, {}, true}}}};
  EXPECT_EQ(find_matches(m.functions.at("main"), table), (std::vector<Match>{{0}}));
}

TEST(Partition, UnitsStayApartOrMerge) {
  Module m = read(R"(fn @main(%0: f32[4] "x") -> ("y") {
    %1 = relu(%0) : f32[4] "first"
    %2 = exp(%1) : f32[4] "second"
    %3 = neg(%2) : f32[4]
    %4 = add(%3, %3) : f32[4]
    return %4
  })");
  EXPECT_EQ(shape(partitioned(m, false)), "[relu] [exp] neg [add]");
  Module merged = partitioned(m, true);
  EXPECT_EQ(shape(merged), "[relu exp] neg [add]");
  const Function& region = merged.functions.at("tool_0");
  EXPECT_EQ(region.attrs,
            (graph::Attrs{{"external", std::string("tool")}, {"primitive", true}, {"symbol", std::string("tool_0")}}));
  EXPECT_EQ(merged.functions.at("main").nodes[0].name, "second");
  EXPECT_EQ(merged.functions.at("main").result_names, std::vector<std::string>{"y"});
  EXPECT_TRUE(partitioned(merged, true) == merged) << "what is external stays";
}

/// relu -> neg -> add and relu -> add: together, relu and add would wait for each other through neg.
TEST(Partition, ARegionNeverReadsWhatDependsOnIt) {
  Module m = read(R"(fn @main(%0: f32[4]) {
    %1 = relu(%0) : f32[4]
    %2 = neg(%1) : f32[4]
    %3 = add(%1, %2) : f32[4]
    %4 = exp(%3) : f32[4]
    return %4
  })");
  Module out = partitioned(m, true);
  EXPECT_EQ(shape(out), "[relu] neg [add exp]");
  expect_same_meaning(m, out, {test::f32({4}, {-1, 0, 1, 2})});
}

/// Two chains that cross: each region would be above and below the other.
TEST(Partition, TwoRegionsDoNotReadEachOther) {
  Module m = read(R"(fn @main(%0: f32[4], %1: f32[4]) {
    %2 = relu(%0) : f32[4]
    %3 = exp(%1) : f32[4]
    %4 = neg(%2) : f32[4]
    %5 = neg(%3) : f32[4]
    %6 = add(%2, %5) : f32[4]
    %7 = add(%3, %4) : f32[4]
    return %6, %7
  })");
  Module out = partitioned(m, true);
  EXPECT_EQ(shape(out), "[relu] [exp] neg neg [add] [add]");
  expect_same_meaning(m, out, {test::f32({4}, {-1, 0, 1, 2}), test::f32({4}, {1, 2, 0, -1})});
}

/// The first operator of the region comes before a node that the region needs.
TEST(Partition, NodesAreOrderedAnew) {
  Module m = read(R"(fn @main(%0: f32[4]) {
    %1 = relu(%0) : f32[4]
    %2 = neg(%0) : f32[4]
    %3 = add(%1, %2) : f32[4]
    return %3
  })");
  Module out = partitioned(m, true);
  EXPECT_EQ(shape(out), "neg [relu add]");
  expect_same_meaning(m, out, {test::f32({4}, {-1, 0, 1, 2})});
}

TEST(Partition, ARegionMayHaveSeveralResultsAndUsers) {
  Module m = read(R"(fn @main(%0: f32[4]) {
    %1 = relu(%0) : f32[4]
    %2 = exp(%1) : f32[4]
    %3 = neg(%1) : f32[4]
    %4 = neg(%2) : f32[4]
    %5 = sin(%2) : f32[4]
    return %3, %4, %5, %2
  })");
  Module out = partitioned(m, true);
  EXPECT_EQ(shape(out), "[relu exp]2 neg neg sin");
  expect_same_meaning(m, out, {test::f32({4}, {-1, 0, 1, 2})});
}

TEST(Partition, ConstantsGoInsideAndNamesAreFree) {
  Module m = read(R"(constant @c : f32[] = bytes "0000803f"
  fn @tool_0(%0: f32[4]) {
    %1 = neg(%0) : f32[4]
    return %1
  }
  fn @main(%0: f32[4]) {
    %1 = constant @c : f32[]
    %2 = add(%0, %1) : f32[4]
    %3 = call @tool_0(%2) : f32[4]
    return %3
  })");
  Module out = partitioned(m, true);
  ASSERT_TRUE(out.functions.contains("tool_1"));
  EXPECT_EQ(out.functions.at("tool_1").params.size(), 1u);
  EXPECT_EQ(out.functions.at("main").nodes.size(), 2u);
  expect_same_meaning(m, out, {test::f32({4}, {-1, 0, 1, 2})});
}

TEST(Partition, InliningIsTheWayBack) {
  Module m = read(R"(fn @main(%0: f32[4]) {
    %1 = relu(%0) : f32[4]
    %2 = exp(%1) : f32[4]
    %3 = neg(%1) : f32[4]
    return %3, %2
  })");
  Module back = pass::inline_external(partitioned(m, true));
  graph::verify(back);
  EXPECT_TRUE(back == m);
}

TEST(Partition, LongChainsAreNoProblem) {
  Module m;
  graph::Builder b(m, "main");
  graph::ValueId v = b.param("x", TensorType::of(DType::F32, Shape{4}));
  constexpr int kLength = 50000;
  for (int i = 0; i < kLength; ++i) v = b.call1(i % 100 == 99 ? op::neg : op::relu, {v});
  m.functions.emplace("main", b.finish({v}));
  Module out = pass::partition(m, {"tool", true, [](const Function& f) { return find_matches(f, kSingle); }});
  EXPECT_EQ(out.functions.at("main").nodes.size(), kLength / 50u);
}

}  // namespace
}  // namespace tenon
