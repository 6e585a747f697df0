// SPDX-License-Identifier: Apache-2.0
// The pass `lower` over modules: each case of a callee, what is left alone, targets, tasks and constants.
#include <gtest/gtest.h>

#include "driver/driver.h"
#include "graph/interpret.h"
#include "graph/text.h"
#include "lower/invariants.h"
#include "lower/lower.h"
#include "op/all_ops.h"
#include "runtime/session.h"

namespace tenon::lower {
namespace {

using graph::Function;
using graph::Module;
using graph::Node;
using graph::NodeKind;

Module parse(const std::string& text) { return graph::parse("test", text, op::all_ops()); }

std::vector<std::string> calls(const Function& function) {
  std::vector<std::string> out;
  for (const Node& node : function.nodes)
    out.push_back((node.kind == NodeKind::Call          ? "call "
                   : node.kind == NodeKind::CallLowered ? "call_lowered "
                                                        : "node ") +
                  node.callee);
  return out;
}

using Calls = std::vector<std::string>;

/// A lowered function, a primitive one called from three functions, an ordinary one, and one that only passes on.
constexpr const char* kEveryCase = R"(fn @branch(%0: f32[2]) {
  %1 = call @prim(%0) : f32[2]
  return %1
}
fn @helper(%0: f32[2]) {
  %1 = call @branch(%0) : f32[2]
  %2 = call @prim(%1) : f32[2]
  return %2
}
fn @main(%0: f32[2] "x") -> ("y", "z") {
  %1 = call_lowered @done(%0) : f32[2]
  %2 = call @helper(%1) : f32[2]
  %3 = call @prim(%2) : f32[2]
  %4, %5 = call @tuple(%3, %0) : f32[2], f32[2]
  return %4, %5
}
fn @plain(%0: f32[2]) {
  return %0
}
fn @prim(%0: f32[2]) {primitive = true} {
  %1 = add(%0, %0) : f32[2]
  return %1
}
fn @tuple(%0: f32[2], %1: f32[2]) {primitive = true} {
  return %1, %0
}
primfunc @done(p0: f32[2]) -> (o: f32[2]) {
  for i = 0 extent 2 {
    o[i] = (p0[i] + 1.0:f32)
  }
}
)";

TEST(LowerModule, EachCallIsTreatedByWhatItCalls) {
  Module module = parse(kEveryCase), lowered = lower_module(module);
  EXPECT_EQ(calls(lowered.functions.at("main")),
            (Calls{"call_lowered done", "call helper", "call_lowered fused_add", "call_lowered fused"}));
  EXPECT_EQ(calls(lowered.functions.at("helper")), (Calls{"call branch", "call_lowered fused_add"}));
  EXPECT_EQ(calls(lowered.functions.at("branch")), (Calls{"call_lowered fused_add"}));
  EXPECT_EQ(lowered.functions.at("plain"), module.functions.at("plain"));
  EXPECT_FALSE(lowered.functions.contains("prim") || lowered.functions.contains("tuple"));
  EXPECT_EQ(lowered.prim_funcs.size(), 3u);
  EXPECT_TRUE(lowered.prim_funcs.at("done").body.same_as(module.prim_funcs.at("done").body)) << "already lowered";
  EXPECT_NO_THROW(graph::verify(lowered));
  EXPECT_NO_THROW(verify_lowered(lowered));
  std::vector<Array> inputs{array_of<float>(DType::F32, {2}, {1, -2})};
  EXPECT_EQ(graph::interpret(lowered, "main", inputs), graph::interpret(module, "main", inputs));
  EXPECT_EQ(graph::interpret(lowered, "main", inputs)[1], array_of<float>(DType::F32, {2}, {16, -8})) << "((x + 1) * 2 * 2) * 2";
}

TEST(LowerModule, AFunctionWithoutOperatorsCopies) {
  Module lowered = lower_module(parse(kEveryCase));
  const tir::PrimFunc& copies = lowered.prim_funcs.at("fused");
  EXPECT_EQ(copies.params.size(), 4u);
  EXPECT_FALSE(lowered.functions.at("main").nodes[3].attrs.contains("view")) << "two results, in another order";
}

constexpr const char* kOneMore = R"(fn @more(%0: f32[2]) {primitive = true} {
  %1 = relu(%0) : f32[2]
  return %1
}
)";

TEST(LowerModule, OnlyANewPrimitiveCallIsLowered) {
  Module once = lower_module(parse(kEveryCase));
  Module more = once;
  Module source = parse(kOneMore);
  more.functions.emplace("more", source.functions.at("more"));
  Function& main = more.functions.at("main");
  Node call{.kind = NodeKind::Call, .callee = "more", .inputs = {main.results[0]}, .types = {main.type(main.results[0])}};
  call.first_result = main.value_count();
  main.nodes.push_back(call);
  main.results[0] = main.nodes.back().result();
  Module twice = lower_module(more);
  EXPECT_EQ(twice.prim_funcs.size(), once.prim_funcs.size() + 1);
  for (const auto& [name, function] : once.prim_funcs) {
    EXPECT_TRUE(twice.prim_funcs.at(name).body.same_as(function.body)) << name;
    EXPECT_EQ(twice.prim_funcs.at(name).attrs, function.attrs) << name;
  }
  for (const char* name : {"helper", "branch", "plain"}) EXPECT_EQ(twice.functions.at(name), once.functions.at(name)) << name;
  EXPECT_EQ(calls(twice.functions.at("main")).back(), "call_lowered fused_relu");
  EXPECT_EQ(lower_module(twice), twice);
}

constexpr const char* kTwoTargets = R"(module {target = "llvm -mcpu=haswell"}
fn @main(%0: f32[64] "x") -> ("y") {
  %1 = call @a(%0) : f32[64]
  %2 = call @b(%1) : f32[64]
  %3 = call @c(%2) : f32[64]
  return %3
}
fn @a(%0: f32[64]) {primitive = true} {
  %1 = relu(%0) : f32[64]
  return %1
}
fn @b(%0: f32[64]) {primitive = true, target = "llvm -mcpu=x86-64-v2"} {
  %1 = relu(%0) : f32[64]
  return %1
}
fn @c(%0: f32[64]) {primitive = true, target = "llvm -mcpu=x86-64-v2"} {
  %1 = relu(%0) : f32[64]
  return %1
}
)";

TEST(LowerModule, TwoProcessorsGiveOneLoopModuleEach) {
  Module lowered = lower_module(parse(kTwoTargets));
  std::map<std::string, Module> modules = loop_modules(lowered);
  ASSERT_EQ(modules.size(), 2u) << "two targets of one kind are two targets";
  EXPECT_EQ(modules.at("llvm -mcpu=haswell").prim_funcs.size(), 1u);
  EXPECT_EQ(modules.at("llvm -mcpu=x86-64-v2").prim_funcs.size(), 1u) << "equal functions for one target are one";
  EXPECT_EQ(lowered.prim_funcs.size(), 2u);
  driver::CompileOptions options{.verify_each = true};
  Module scheduled = driver::run_pipeline(parse(kTwoTargets), options);
  int avx = 0;
  for (const auto& [name, function] : scheduled.prim_funcs)
    avx += tir::print(function).find("extent 8 vectorized") != std::string::npos;
  EXPECT_EQ(avx, 1) << "each has the vectors of its own processor";
  driver::Built built = driver::build(scheduled, options);
  const std::vector<std::string>& features = built.program.features;
  EXPECT_NE(std::find(features.begin(), features.end(), "avx2"), features.end()) << "whoever runs it needs all of them";
}

TEST(LowerModule, AFunctionsOwnTargetCountsForTheWholeArtifact) {
  Module module = parse(kTwoTargets);
  module.attrs["target"] = std::string("llvm -mcpu=x86-64-v2");
  module.functions.at("b").attrs["target"] = std::string("llvm -mcpu=haswell");
  driver::Built built = driver::build(driver::run_pipeline(module, {}), {});
  EXPECT_EQ(built.program.target, "llvm -mcpu=x86-64-v2");
  const std::vector<std::string>& features = built.program.features;
  EXPECT_NE(std::find(features.begin(), features.end(), "avx2"), features.end());
}

constexpr const char* kTasks = R"(fn @main(%0: f32[2] "x") -> ("y") {
  %1 = call @z(%0) : f32[2]
  %2 = call @m(%1) : f32[2]
  %3 = call @a(%2) : f32[2]
  %4 = call @a(%3) : f32[2]
  return %4
}
fn @z(%0: f32[2]) {primitive = true} {
  %1 = relu(%0) : f32[2]
  return %1
}
fn @m(%0: f32[2]) {primitive = true} {
  %1 = tanh(%0) : f32[2]
  return %1
}
fn @a(%0: f32[2]) {primitive = true} {
  %1 = relu(%0) : f32[2]
  return %1
}
)";

TEST(LowerModule, ATaskIsNamedAfterTheFirstOfItsFunctions) {
  std::vector<Task> tasks = extract_tasks(parse(kTasks));
  ASSERT_EQ(tasks.size(), 2u);
  EXPECT_EQ(tasks[0].name, "fused_relu");
  EXPECT_EQ(tasks[0].function, "a") << "the first by name, whatever the order";
  EXPECT_EQ(tasks[0].weight, 3);
  EXPECT_EQ(tasks[1].function, "m");
  EXPECT_EQ(tasks[1].weight, 1);
}

TEST(LowerModule, KernelNamesAreNoOneElses) {
  Module module = parse(kTasks);
  Function taken = module.functions.at("z");
  taken.name = "fused.relu";
  taken.attrs.clear();
  taken.nodes.clear();
  taken.results = {{0}};
  module.functions.emplace(taken.name, taken);
  Module lowered = lower_module(module);
  EXPECT_TRUE(lowered.functions.contains("fused.relu"));
  EXPECT_TRUE(lowered.prim_funcs.contains("fused_relu"));
  EXPECT_NO_THROW(graph::verify(lowered));
  tir::NameSupply names;
  names.reserve("name_2");
  EXPECT_EQ(names.fresh("name"), "name");
  EXPECT_EQ(names.fresh("name"), "name_1");
  EXPECT_EQ(names.fresh("name"), "name_3") << "2 is taken";
  EXPECT_EQ(names.fresh("na.me"), "na_me");
  EXPECT_EQ(names.fresh("na_me"), "na_me_1") << "a dot and an underscore are one name";
}

}  // namespace
}  // namespace tenon::lower
