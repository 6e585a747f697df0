// SPDX-License-Identifier: Apache-2.0
// Fusion: limits, options, sharing and size, beside the groupings that stand under tests/golden/fuse.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "passes/graph/functions.h"
#include "passes/graph/passes.h"

namespace tenon {
namespace {

using graph::Builder;
using graph::Function;
using graph::Fusion;
using graph::Module;
using graph::Node;
using graph::NodeKind;
using graph::OpDef;
using graph::ValueId;

std::vector<TensorType> like_first(const graph::CallSite& call) { return {call.in(0)}; }
std::vector<TensorType> like_first_three_times(const graph::CallSite& call) { return {call.in(0), call.in(0), call.in(0)}; }

const OpDef unary{.name = "unary", .inputs = {{"x", ""}}, .fusion = Fusion::ElementWise, .infer = like_first};
const OpDef binary{.name = "binary", .inputs = {{"x", ""}, {"y", ""}}, .fusion = Fusion::Broadcast, .infer = like_first};
const OpDef table{.name = "table", .inputs = {{"x", ""}, {"y", ""}}, .fusion = Fusion::Injective, .infer = like_first};
const OpDef product{.name = "product", .inputs = {{"x", ""}}, .fusion = Fusion::OutputFusable, .infer = like_first};
const OpDef three{.name = "three", .inputs = {{"x", ""}}, .fusion = Fusion::Injective, .infer = like_first_three_times};
const OpDef opaque{.name = "opaque", .inputs = {{"x", ""}}, .fusion = Fusion::Opaque, .infer = like_first};

TensorType f32(std::vector<int64_t> shape) { return TensorType::of(DType::F32, shape); }

/// The operator names of each group in the order of the calls in `main`.
std::vector<std::string> groups(const Module& m) {
  std::vector<std::string> out;
  for (const Node& node : m.functions.at("main").nodes) {
    if (node.kind != NodeKind::Call) continue;
    std::string ops;
    for (const Node& inner : m.functions.at(node.callee).nodes)
      if (inner.kind == NodeKind::Op) ops += (ops.empty() ? "" : " ") + std::string(inner.op->name);
    out.push_back(ops);
  }
  return out;
}

std::vector<size_t> group_sizes(const Module& m) {
  std::vector<size_t> sizes;
  for (const Node& node : m.functions.at("main").nodes)
    if (node.kind == NodeKind::Call) sizes.push_back(m.functions.at(node.callee).nodes.size());
  return sizes;
}

Module chain(int length) {
  Module m;
  Builder b(m, "main");
  ValueId v = b.param("x", f32({8}));
  for (int i = 0; i < length; ++i) v = b.call1(unary, {v});
  m.functions.emplace("main", b.finish({v}));
  return m;
}

TEST(Fuse, LimitCutsAChainInExecutionOrder) {
  EXPECT_EQ(group_sizes(pass::fuse.run(chain(20), {.fuse_max_nodes = 10})), (std::vector<size_t>{10, 10}));
  EXPECT_EQ(group_sizes(pass::fuse.run(chain(300), {})), (std::vector<size_t>{256, 44}));
}

TEST(Fuse, LimitCountsADiamondWhole) {
  Module m;
  Builder b(m, "main");
  ValueId v = b.param("x", f32({8}));
  for (int diamond = 0; diamond < 3; ++diamond) {
    ValueId left = v, right = v;
    for (int i = 0; i < 4; ++i) {
      left = b.call1(unary, {left});
      right = b.call1(unary, {right});
    }
    v = b.call1(binary, {left, right});
  }
  m.functions.emplace("main", b.finish({v}));
  EXPECT_EQ(group_sizes(pass::fuse.run(m, {.fuse_max_nodes = 9})), (std::vector<size_t>{9, 9, 9}));
}

TEST(Fuse, LevelZeroKeepsEveryOperatorAlone) {
  EXPECT_EQ(group_sizes(pass::fuse.run(chain(3), {.opt_level = 0})), (std::vector<size_t>{1, 1, 1}));
}

TEST(Fuse, EqualGroupsShareOneFunctionAndUnequalOnesDoNot) {
  Module m;
  Builder b(m, "main");
  ValueId x = b.param("x", f32({8})), y = b.param("y", f32({4}));
  ValueId a = b.call1(opaque, {b.call1(opaque, {x})});
  ValueId c = b.call1(opaque, {y});
  m.functions.emplace("main", b.finish({a, c}));
  Module fused = pass::fuse.run(m, {});
  std::vector<std::string> callees;
  for (const Node& node : fused.functions.at("main").nodes) callees.push_back(node.callee);
  EXPECT_EQ(callees, (std::vector<std::string>{"fused_opaque", "fused_opaque", "fused_opaque_1"}));
  EXPECT_EQ(fused.functions.size(), 3u);
  EXPECT_TRUE(fused.functions.at("fused_opaque").primitive());
}

TEST(Fuse, NamesAvoidFunctionsThatAreThere) {
  Module m = chain(1);
  Builder b(m, "fused_unary");
  ValueId p = b.param("x", f32({3}));
  Function taken = b.finish({p});
  taken.attrs["primitive"] = true;
  m.functions.emplace("fused_unary", taken);
  Module fused = pass::fuse.run(m, {});
  EXPECT_EQ(fused.functions.at("main").nodes.at(0).callee, "fused_unary_1");
  EXPECT_EQ(fused.functions.at("fused_unary"), taken);
}

TEST(Fuse, LongNamesAreCutAndStayDistinct) {
  Module m;
  Builder b(m, "main");
  ValueId x = b.param("x", f32({2})), y = b.param("y", f32({3}));
  for (int i = 0; i < 40; ++i) {
    x = b.call1(unary, {x});
    y = b.call1(unary, {y});
  }
  m.functions.emplace("main", b.finish({x, y}));
  Module fused = pass::fuse.run(m, {});
  std::vector<std::string> names;
  for (const auto& [name, function] : fused.functions) names.push_back(name);
  ASSERT_EQ(names.size(), 3u);
  EXPECT_EQ(names[0].size(), 80u);
  EXPECT_EQ(names[1], names[0] + "_1");
}

TEST(Fuse, ConstantsGoInsideByRankAndOption) {
  Module m;
  Builder b(m, "main");
  ValueId x = b.param("x", f32({2}));
  ValueId one = b.constant(array_of<float>(DType::F32, {}, {1}), "one");
  ValueId rows = b.constant(array_of<int64_t>(DType::I64, {2}, {1, 0}), "rows");
  m.functions.emplace("main", b.finish({b.call1(table, {b.call1(binary, {x, one}), rows})}));

  Module off = pass::fuse.run(m, {});
  const Function& outside = off.functions.at("fused_binary_table");
  EXPECT_EQ(outside.params.size(), 2u);
  EXPECT_EQ(outside.params.at(1).type, TensorType::of(DType::I64, std::vector<int64_t>{2}));
  EXPECT_EQ(outside.nodes.at(0).callee, "one");
  EXPECT_EQ(off.functions.at("main").nodes.size(), 2u);  // the table and the call; the scalar's node is gone

  Module on = pass::fuse.run(m, {.link_params = true});
  const Function& inside = on.functions.at("fused_binary_table");
  EXPECT_EQ(inside.params.size(), 1u);
  EXPECT_EQ(inside.nodes.size(), 4u);
  EXPECT_EQ(on.functions.at("main").nodes.size(), 1u);
}

TEST(Fuse, OnlyTheResultsThatAreReadLeaveAGroup) {
  Module m;
  Builder b(m, "main");
  auto parts = b.call(three, {b.param("x", f32({2}))});
  ValueId y = b.call1(product, {parts[2]});
  m.functions.emplace("main", b.finish({y}));
  Module fused = pass::fuse.run(m, {});
  EXPECT_EQ(groups(fused), (std::vector<std::string>{"three", "product"}));
  const Function& split = fused.functions.at("fused_three");
  EXPECT_EQ(split.results, (std::vector<ValueId>{{3}}));  // %0 is the parameter, %1 to %3 the parts
}

TEST(Fuse, ProjectionsBelongToTheirReaders) {
  Module m;
  Builder b(m, "main");
  auto parts = b.call(three, {b.call1(product, {b.param("x", f32({2}))})});
  ValueId y =
      b.call1(binary, {b.call1(unary, {parts[0]}), b.call1(binary, {b.call1(unary, {parts[1]}), b.call1(unary, {parts[2]})})});
  m.functions.emplace("main", b.finish({y}));
  EXPECT_EQ(groups(pass::fuse.run(m, {})), (std::vector<std::string>{"product", "three unary unary unary binary binary"}));
}

TEST(Fuse, LeavesItsInputAloneAndIsIdempotent) {
  Module m = chain(300);
  Module copy = m;
  Module once = pass::fuse.run(m, {});
  EXPECT_EQ(m, copy);
  EXPECT_EQ(pass::fuse.run(once, {}), once);
}

TEST(Fuse, ParametersAndConstantsMayBeResults) {
  Module m;
  Builder b(m, "main");
  ValueId x = b.param("x", f32({2}));
  ValueId c = b.constant(array_of<float>(DType::F32, {}, {1}), "one");
  ValueId y = b.call1(binary, {x, c});
  m.functions.emplace("main", b.finish({y, x, c, y}));
  Module fused = pass::fuse.run(m, {});
  const Function& main = fused.functions.at("main");
  EXPECT_EQ(main.nodes.size(), 2u);
  EXPECT_EQ(main.results, (std::vector<ValueId>{{2}, {0}, {1}, {2}}));
}

// A value read by every node of a long chain: each reader needs a common ancestor.
TEST(Fuse, LongChainsWithFarReadersTakeLinearTime) {
  constexpr int kLength = 40'000;
  Module m;
  Builder b(m, "main");
  ValueId x = b.param("x", f32({2}));
  ValueId v = b.call1(unary, {x});
  ValueId first = v;
  for (int i = 0; i < kLength; ++i) v = b.call1(binary, {b.call1(unary, {v}), first});
  m.functions.emplace("main", b.finish({v}));
  EXPECT_EQ(groups(pass::fuse.run(m, {})).size(), 1u + 2 * kLength / 256 + 1);
}

TEST(EliminateDead, TakesNodesFunctionsAndConstants) {
  Module m;
  Builder b(m, "main");
  ValueId x = b.param("x", f32({2}));
  ValueId used = b.constant(array_of<float>(DType::F32, {}, {1}), "used");
  ValueId unused = b.constant(array_of<float>(DType::F32, {}, {2}), "unused");
  b.call1(binary, {x, unused});
  auto parts = b.call(three, {b.call1(binary, {x, used})});
  m.functions.emplace("main", b.finish({parts[1]}));
  m.functions.emplace("unreached", chain(1).functions.at("main")).first->second.name = "unreached";
  Module live = pass::eliminate_dead.run(m, {});
  EXPECT_EQ(live.functions.size(), 1u);
  EXPECT_EQ(live.functions.at("main").nodes.size(), 3u);
  EXPECT_EQ(live.constants.size(), 1u);
  EXPECT_TRUE(live.constants.contains("used"));
  EXPECT_EQ(pass::eliminate_dead.run(live, {}), live);
}

TEST(EliminateDead, KeepsAllFunctionsOfALibrary) {
  Module m = chain(1);
  auto node = m.functions.extract("main");
  node.key() = node.mapped().name = "helper";
  m.functions.insert(std::move(node));
  EXPECT_EQ(pass::eliminate_dead.run(m, {}), m);
}

TEST(Infer, ReportsATypeThatDoesNotFollow) {
  Module m = chain(1);
  EXPECT_EQ(pass::infer.run(m, {}), m);
  m.functions.at("main").nodes.at(0).types.at(0) = f32({9});
  try {
    pass::infer.run(m, {});
    FAIL();
  } catch (const CompileError& error) {
    EXPECT_EQ(error.diagnostics().at(0).code, "type-mismatch");
    EXPECT_EQ(error.diagnostics().at(0).expected, "f32[8]");
    EXPECT_EQ(error.diagnostics().at(0).found, "f32[9]");
  }
}

}  // namespace
}  // namespace tenon
