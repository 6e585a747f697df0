// SPDX-License-Identifier: Apache-2.0
// Which values of small functions share memory, and the places that the user chose, worked out by hand.
#include "link/liveness.h"

#include <gtest/gtest.h>

#include "graph/text.h"
#include "link/link.h"
#include "op/all_ops.h"
#include "support/error_of.h"

namespace tenon::link {
namespace {

using graph::Module;
using runtime::Argument;
using runtime::Place;

/// Loop functions on vectors of 32 numbers (128 bytes), a concatenation and a split of them.
constexpr std::string_view kFunctions = R"(
primfunc @make(x: f32[32]) -> (y: f32[32]) { for i = 0 extent 32 { y[i] = (x[(31 - i)] * 2.0:f32) } }
primfunc @join(a: f32[32], b: f32[32]) -> (y: f32[64]) { for i = 0 extent 64 { y[i] = select((i < 32), a[i], b[(i - 32)]) } }
primfunc @cut(x: f32[64]) -> (y: f32[32], z: f32[32]) {
  for i = 0 extent 32 { y[i] = x[i] }
  for j = 0 extent 32 { z[j] = x[(j + 32)] }
}
primfunc @turn(x: f32[64]) -> (y: f32[64]) { for i = 0 extent 64 { y[i] = (x[(63 - i)] * 2.0:f32) } }
primfunc @add_one(x: f32[64]) -> (y: f32[64]) { for i = 0 extent 64 { y[i] = (x[i] + 1.0:f32) } }
primfunc @fold(x: f32[64]) -> (y: f32[32]) { for i = 0 extent 32 { y[i] = (x[i] + x[(i + 32)]) } }
)";

Module module_of(const std::string& main) {
  return graph::parse("test", "module {target = \"llvm -mcpu=x86-64\"}\n" + main + std::string(kFunctions), op::all_ops());
}

Linked link(const Module& module, const LinkOptions& options = {}) {
  Liveness liveness = analyse_liveness(module);
  return link_program(module, liveness, {}, options);
}

std::vector<std::string> labels(const Linked& linked) {
  std::vector<std::string> all;
  for (const runtime::Step& step : linked.program.steps) all.push_back(step.label);
  return all;
}

TEST(Parts, OperandsOfAConcatenationAreWrittenIntoItsResult) {
  Linked linked = link(module_of(R"(fn @main(%0: f32[32] "x") -> ("y") {
    %1 = call_lowered @make(%0) : f32[32] "a"
    %2 = call_lowered @make(%0) : f32[32] "b"
    %3 = call_lowered @join(%1, %2) : f32[64] "joined"
    %4 = call_lowered @turn(%3) : f32[64] "last"
    return %4
  })"));
  EXPECT_EQ(labels(linked), (std::vector<std::string>{"a", "b", "last"}));
  EXPECT_EQ(linked.program.steps[0].args[1], (Argument{Place::Arena, 0, 0, 128}));
  EXPECT_EQ(linked.program.steps[1].args[1], (Argument{Place::Arena, 0, 128, 128}));
  EXPECT_EQ(linked.program.steps[2].args[0], (Argument{Place::Arena, 0, 0, 256}));
  EXPECT_EQ(linked.program.arena_bytes(), 256u);
  ASSERT_EQ(linked.problem.buffers.size(), 3u);
  EXPECT_EQ(linked.problem.buffers[0].id, "joined");
  EXPECT_EQ(linked.problem.buffers[2].id, "b");
  EXPECT_EQ(linked.problem.buffers[2].alias->offset, 128);
}

TEST(Parts, AResultOfMainIsPutTogetherInItsOutput) {
  Linked linked = link(module_of(R"(fn @main(%0: f32[32] "x") -> ("y") {
    %1 = call_lowered @make(%0) : f32[32] "a"
    %2 = call_lowered @make(%0) : f32[32] "b"
    %3 = call_lowered @join(%1, %2) : f32[64] "joined"
    return %3
  })"));
  EXPECT_EQ(labels(linked), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(linked.program.steps[1].args[1], (Argument{Place::Output, 0, 128, 128}));
  EXPECT_EQ(linked.program.arena_bytes(), 0u);
}

TEST(Parts, ASplitReadsItsOperand) {
  Linked linked = link(module_of(R"(fn @main(%0: f32[64] "x") -> ("y", "z") {
    %1 = call_lowered @turn(%0) : f32[64] "whole"
    %2, %3 = call_lowered @cut(%1) : f32[32], f32[32] "cut"
    %4 = call_lowered @make(%3) : f32[32] "a"
    %5, %6 = call_lowered @cut(%0) : f32[32], f32[32] "cut of an input"
    %7 = call_lowered @make(%6) : f32[32] "b"
    return %4, %7
  })"));
  EXPECT_EQ(labels(linked), (std::vector<std::string>{"whole", "a", "b"}));
  EXPECT_EQ(linked.program.steps[1].args[0], (Argument{Place::Arena, 0, 128, 128}));
  EXPECT_EQ(linked.program.steps[2].args[0], (Argument{Place::Input, 0, 128, 128}));
}

TEST(Parts, APartThatIsAResultIsCopied) {
  Linked linked = link(module_of(R"(fn @main(%0: f32[64] "x") -> ("y", "z") {
    %1 = call_lowered @turn(%0) : f32[64] "whole"
    %2, %3 = call_lowered @cut(%1) : f32[32], f32[32] "cut"
    %4 = call_lowered @make(%2) : f32[32] "a"
    return %3, %4
  })"));
  EXPECT_EQ(labels(linked), (std::vector<std::string>{"whole", "a", "copy to output y"}));
  EXPECT_EQ(linked.program.steps[2].args[0], (Argument{Place::Arena, 0, 128, 128}));
  EXPECT_EQ(linked.problem.buffers[0].end, 3) << "alive until the copy";
}

TEST(Parts, WhatIsNotTheCallersOwnOrIsReadTwiceIsJoinedByACopy) {
  for (const char* operands : {"%0, %1", "%1, %1", "%1, %2"}) {
    Linked linked = link(module_of(R"(
      constant @c : f32[32] = bytes ")" +
                                   std::string(256, '0') + R"("
      fn @main(%0: f32[32] "x") -> ("y") {
        %1 = call_lowered @make(%0) : f32[32] "a"
        %2 = constant @c : f32[32]
        %3 = call_lowered @join()" +
                                   operands + R"() : f32[64] "joined"
        %4 = call_lowered @turn(%3) : f32[64] "last"
        return %4
      })"));
    EXPECT_EQ(labels(linked), (std::vector<std::string>{"a", "joined", "last"})) << operands;
  }
}

TEST(Parts, AJoinThatWouldRaiseThePeakIsACopy) {
  // `early` would take 256 bytes, not 128, while `big` and `bigger` are alive.
  Linked linked = link(module_of(R"(fn @main(%0: f32[32] "x", %1: f32[64] "w") -> ("y", "z") {
    %2 = call_lowered @make(%0) : f32[32] "early"
    %3 = call_lowered @turn(%1) : f32[64] "big"
    %4 = call_lowered @turn(%3) : f32[64] "bigger"
    %5 = call_lowered @fold(%4) : f32[32] "small"
    %6 = call_lowered @make(%5) : f32[32] "late"
    %7 = call_lowered @join(%2, %6) : f32[64] "joined"
    %8 = call_lowered @turn(%7) : f32[64] "out"
    %9 = call_lowered @fold(%8) : f32[32] "last"
    return %9, %5
  })"));
  EXPECT_EQ(labels(linked)[5], "joined");
  EXPECT_EQ(linked.program.arena_lower_bound, 640u);
}

TEST(Parts, TheWholeMayBeOverwrittenAndAPartMayNot) {
  Linked linked = link(module_of(R"(fn @main(%0: f32[32] "x") -> ("y") {
    %1 = call_lowered @make(%0) : f32[32] "a"
    %2 = call_lowered @make(%0) : f32[32] "b"
    %3 = call_lowered @join(%1, %2) : f32[64] "joined"
    %4 = call_lowered @add_one(%3) : f32[64] "in place"
    %5 = call_lowered @turn(%4) : f32[64] "last"
    return %5
  })"));
  EXPECT_EQ(linked.program.steps[2].args[0], linked.program.steps[2].args[1]);
  EXPECT_EQ(linked.program.arena_bytes(), 256u);
}

TEST(Parts, OffMeansThatEveryCallRuns) {
  Module module = module_of(R"(fn @main(%0: f32[64] "x") -> ("y") {
    %1, %2 = call_lowered @cut(%0) : f32[32], f32[32] "cut"
    %3 = call_lowered @make(%2) : f32[32] "a"
    return %3
  })");
  EXPECT_EQ(analyse_liveness(module).steps.size(), 1u);
  EXPECT_EQ(analyse_liveness(module, {.parts = false}).steps.size(), 2u);
}

// Places that the user chose.

constexpr const char* kChain = R"(fn @main(%0: f32[64] "x") -> ("y") {
    %1 = call_lowered @turn(%0) : f32[64] "a"
    %2 = call_lowered @turn(%1) MEMORY : f32[64] "b"
    %3 = call_lowered @turn(%2) : f32[64] "c"
    return %3
  })";

Module chain(const std::string& memory) {
  std::string text = kChain;
  text.replace(text.find("MEMORY"), 6, memory.empty() ? "" : "{memory = \"" + memory + "\"}");
  return module_of(text);
}

const LinkOptions kTwoPools{.pools = {{.name = "slow"}, {.name = "fast", .limit = 1024, .alignment = 256}}};

TEST(Places, AValueLiesInThePoolAndAtTheOffsetOfItsAttribute) {
  Linked linked = link(chain("fast@512"), kTwoPools);
  EXPECT_EQ(linked.program.steps[0].args[1], (Argument{Place::Arena, 0, 0, 256}));
  EXPECT_EQ(linked.program.steps[1].args[1], (Argument{Place::Arena, 1, 512, 256}));
  ASSERT_EQ(linked.program.arenas.size(), 2u);
  EXPECT_EQ(linked.program.arenas[0].bytes, 256u);
  EXPECT_EQ(linked.program.arenas[1], (runtime::Arena{"fast", 768, 768}));
  EXPECT_EQ(link(chain("fast"), kTwoPools).program.steps[1].args[1], (Argument{Place::Arena, 1, 0, 256}));
}

TEST(Places, APinnedResultOfMainIsCopiedToItsOutput) {
  Module module = module_of(R"(fn @main(%0: f32[64] "x") -> ("y") {
    %1 = call_lowered @turn(%0) {memory = "fast"} : f32[64] "a"
    return %1
  })");
  Linked linked = link(module, kTwoPools);
  EXPECT_EQ(labels(linked), (std::vector<std::string>{"a", "copy to output y"}));
  EXPECT_EQ(linked.program.steps[0].args[1].index, 1u);
}

TEST(Places, APoolThatIsTooSmallIsAnErrorWithTheValueAndTheShortfall) {
  LinkOptions small{.pools = {{.name = "slow"}, {.name = "fast", .limit = 100}}};
  Diagnostic error = error_of([&] { link(chain("fast"), small); });
  EXPECT_EQ(error.kind, ErrorKind::Limit);
  EXPECT_EQ(error.input, "b");
  EXPECT_NE(error.message.find("156"), std::string::npos) << error.message;
  error = error_of([&] { link(chain("fast@960"), kTwoPools); });
  EXPECT_EQ(error.input, "b");
  EXPECT_EQ(error_of([&] { link(chain("fast@64"), kTwoPools); }).input, "b") << "not at the pool's alignment";
}

TEST(Places, APlaceThatCannotBeReadIsAnError) {
  EXPECT_EQ(error_of([&] { link(chain("tiny"), kTwoPools); }).code, "memory-pool");
  EXPECT_EQ(error_of([&] { link(chain("fast@x"), kTwoPools); }).code, "memory-place");
  EXPECT_EQ(error_of([&] { link(chain("fast@-64"), kTwoPools); }).code, "memory-place");
}

TEST(Places, ALoopFunctionPlacesItsBuffers) {
  std::string text = kChain;
  text.replace(text.find("MEMORY"), 6, "");
  text.replace(text.find("@turn(%1)"), 9, "@own(%1)");
  Module module = module_of(text + R"(
    primfunc @own(x: f32[64]) -> (y: f32[64]) {memory = "y: fast@256, t: fast@768, x: slow@128"} {
      alloc t: f32[64]
      for i = 0 extent 64 { t[i] = x[(63 - i)] }
      for j = 0 extent 64 { y[j] = (t[j] * 3.0:f32) } })");
  Liveness liveness = analyse_liveness(module);
  Linked linked = link_program(module, liveness, {}, kTwoPools);
  EXPECT_EQ(linked.program.steps[1].args[0], (Argument{Place::Arena, 0, 128, 256}));
  EXPECT_EQ(linked.program.steps[1].args[1], (Argument{Place::Arena, 1, 256, 256}));
  EXPECT_EQ(linked.program.steps[1].workspaces, (std::vector<Argument>{{Place::Arena, 1, 768, 256}}));
}

/// x -> t -> u -> y, then v beside y: three blocks, of which no more than two are needed together.
constexpr std::string_view kStages = R"(
  fn @main(%0: f32[64] "x") -> ("y") {
    %1 = call_lowered @turn(%0) : f32[64] "a"
    %2 = call_lowered @stages(%1) : f32[64] "b"
    %3 = call_lowered @stages(%2) : f32[64] "c"
    return %3
  }
  primfunc @stages(x: f32[64]) -> (y: f32[64]) {MEMORY} {
    alloc t: f32[64]
    alloc u: f32[64]
    alloc v: f32[64]
    for i = 0 extent 64 { t[i] = x[(63 - i)] }
    for j = 0 extent 64 { u[j] = (t[(63 - j)] + 1.0:f32) }
    for k = 0 extent 64 { v[k] = (u[(63 - k)] * 2.0:f32) }
    for l = 0 extent 64 { y[l] = (v[(63 - l)] - 1.0:f32) }
  })";

Module stages(const std::string& memory) {
  std::string text(kStages);
  text.replace(text.find("{MEMORY}"), 8, memory.empty() ? "" : "{memory = \"" + memory + "\"}");
  return module_of(text);
}

TEST(Workspaces, AreBuffersOfTheProblemWithPointsInsideTheirStep) {
  Linked linked = link(stages(""));
  std::map<std::string, std::pair<int64_t, int64_t>> lifetimes;
  for (const plan::Buffer& b : linked.problem.buffers) {
    lifetimes[b.id] = {b.begin, b.end};
    EXPECT_EQ(b.kind == plan::BufferKind::Workspace, b.id.find('.') != std::string::npos) << b.id;
  }
  // `a` takes one point, each call of @stages two: t with u, then u with v.
  EXPECT_EQ(lifetimes, (std::map<std::string, std::pair<int64_t, int64_t>>{{"a", {0, 3}},
                                                                           {"b.t", {1, 2}},
                                                                           {"b.u", {1, 3}},
                                                                           {"b.v", {2, 3}},
                                                                           {"b", {1, 5}},
                                                                           {"c.t", {3, 4}},
                                                                           {"c.u", {3, 5}},
                                                                           {"c.v", {4, 5}}}));
  EXPECT_EQ(linked.program.arena_bytes(), 4 * 256u) << "a, b and two of the blocks";
  EXPECT_EQ(linked.program.kernel_memory.at(1).workspace_bytes, 2 * 256u);
  EXPECT_EQ(linked.program.steps[1].workspaces.size(), 3u);
  for (const runtime::Region& region : linked.program.regions)
    if (region.name.starts_with("b.")) EXPECT_EQ(std::pair(region.begin, region.end), std::pair(uint64_t{1}, uint64_t{2}));
}

TEST(Workspaces, ThatNothingTouchesLieNowhere) {
  std::string text(kStages);
  text.replace(text.find("{MEMORY}"), 8, "{memory = \"n: fast@64\"}");
  text.insert(text.find("    alloc t:"), "    alloc n: f32[64]\n    alloc none: f32[0]\n");
  Linked linked = link(module_of(text), kTwoPools);
  for (size_t step : {1, 2}) {
    const std::vector<Argument>& workspaces = linked.program.steps[step].workspaces;
    ASSERT_EQ(workspaces.size(), 5u);
    EXPECT_EQ(workspaces[0], Argument{});
    EXPECT_EQ(workspaces[1], Argument{});
    for (size_t k : {2, 3, 4}) EXPECT_EQ(workspaces[k].bytes, 256u);
  }
}

TEST(Workspaces, LieWhereTheirFunctionSays) {
  Linked linked = link(stages("t: fast@256, v: fast@256, u: slow@64"), kTwoPools);
  for (size_t step : {1, 2})
    EXPECT_EQ(linked.program.steps[step].workspaces,
              (std::vector<Argument>{{Place::Arena, 1, 256, 256}, {Place::Arena, 0, 64, 256}, {Place::Arena, 1, 256, 256}}));
}

TEST(Workspaces, NeededTogetherCannotShareAPlace) {
  Diagnostic error = error_of([&] { link(stages("t: fast@256, u: fast@256"), kTwoPools); });
  EXPECT_EQ(error.code, "memory-pin");
  EXPECT_TRUE(error.input == "b.t" || error.input == "b.u") << error.input;
}

TEST(Places, ALoopFunctionCannotPlaceWhatItHasNot) {
  auto own = [](const std::string& memory) {
    std::string text = kChain;
    text.replace(text.find("MEMORY"), 6, "");
    text.replace(text.find("@turn(%1)"), 9, "@own(%1)");
    return module_of(text + "primfunc @own(x: f32[64]) -> (y: f32[64]) {memory = \"" + memory + R"("} {
      alloc t: f32[64]
      alloc u: f32[64]
      for i = 0 extent 64 { t[i] = x[(63 - i)] u[i] = x[i] }
      for j = 0 extent 64 { y[j] = (t[j] * u[j]) } })");
  };
  for (const char* memory : {"nothing: fast", "own: fast", "fast"})
    EXPECT_EQ(error_of([&] { link(own(memory), kTwoPools); }).code, "memory-place") << memory;
}

TEST(Places, TwoPlacesForOneMemoryAreAnError) {
  EXPECT_EQ(error_of([&] {
              link(module_of(R"(fn @main(%0: f32[64] "x") -> ("y") {
                %1 = call_lowered @turn(%0) {memory = "fast"} : f32[64] "a"
                %2, %3 = call_lowered @cut(%1) {memory = "slow"} : f32[32], f32[32] "cut"
                %4 = call_lowered @make(%3) : f32[32] "b"
                return %4
              })"),
                   kTwoPools);
            }).code,
            "memory-place");
}

TEST(Places, AResultInAnotherPoolDoesNotOverwriteItsOperand) {
  Module module = module_of(R"(fn @main(%0: f32[64] "x") -> ("y") {
    %1 = call_lowered @turn(%0) : f32[64] "a"
    %2 = call_lowered @add_one(%1) {memory = "fast"} : f32[64] "b"
    %3 = call_lowered @turn(%2) : f32[64] "c"
    return %3
  })");
  Linked linked = link(module, kTwoPools);
  EXPECT_EQ(linked.program.steps[1].args[0].index, 0u);
  EXPECT_EQ(linked.program.steps[1].args[1].index, 1u);
}

TEST(KernelMemory, IsSummedForEachKernel) {
  Module module = module_of(R"(
    constant @c : f32[32] = bytes ")" +
                            std::string(256, '1') + R"("
    fn @main(%0: f32[32] "x") -> ("y") {
      %1 = constant @c : f32[32]
      %2 = call_lowered @join(%0, %1) : f32[64] "joined"
      return %2
    })");
  Liveness liveness = analyse_liveness(module);
  Linked linked = link_program(module, liveness, {{"join", tir::opaque_scratch(4096, 64)}});
  EXPECT_EQ(linked.program.kernel_memory.at(0), (runtime::KernelMemory{128 + 256, 128, 4096, 64}));
}

TEST(KernelMemory, SumsPassFourGigabytes) {
  Module module = graph::parse("test", R"(fn @main(%0: f32[3000000000] "x") -> ("y") {
      %1 = call_lowered @big(%0) : f32[3000000000] "a"
      %2 = call_lowered @big(%1) : f32[3000000000] "b"
      return %2
    }
    primfunc @big(x: f32[3000000000]) -> (y: f32[3000000000]) {
      for i = 0 extent 3000000000 { y[i] = x[(2999999999 - i)] } })",
                               op::all_ops());
  Linked linked = link(module);
  EXPECT_EQ(linked.program.kernel_memory.at(0).io_bytes, 24000000000u);
  EXPECT_EQ(linked.program.arena_bytes(), 12000000000u);
}

}  // namespace
}  // namespace tenon::link
