// SPDX-License-Identifier: Apache-2.0
// Placement and steps of small `main` functions, worked out by hand.
#include <gtest/gtest.h>

#include "link/link.h"
#include "support/error_of.h"
#include "tir/text.h"

namespace tenon::link {
namespace {

using graph::Module;
using graph::Node;
using graph::NodeKind;
using graph::ValueId;
using runtime::Argument;
using runtime::Place;
using runtime::Step;

/// `main` with inputs and results of type f32[100] (400 bytes, so 448 apart).
class Main {
 public:
  explicit Main(int params) : builder_(module_, "main") {
    module_.attrs["target"] = std::string("llvm -mcpu=x86-64");
    for (int i = 0; i < params; ++i) builder_.param("in" + std::to_string(i), type_);
  }
  ValueId call(const std::string& callee, std::vector<ValueId> inputs, bool view = false) {
    module_.prim_funcs[callee].name = callee;
    Node node;
    node.kind = NodeKind::CallLowered;
    node.callee = callee;
    node.inputs = std::move(inputs);
    node.types = {type_};
    node.name = "node of " + callee;
    if (view) node.attrs["view"] = true;
    return builder_.append(node)[0];
  }
  /// A kernel that adds one to each element.
  ValueId call_add_one(ValueId input) {
    module_.prim_funcs["add_one"] = tir::parse_prim_func("test", R"(primfunc @add_one(x: f32[100]) -> (y: f32[100]) {
      for i = 0 extent 100 { y[i] = (x[i] + 1.0:f32) } })");
    Node node;
    node.kind = NodeKind::CallLowered;
    node.callee = "add_one";
    node.inputs = {input};
    node.types = {type_};
    return builder_.append(node)[0];
  }
  ValueId constant(float value) {
    return builder_.constant(array_of<float>(DType::F32, {100}, std::vector<float>(100, value)), "w");
  }
  Linked link(std::vector<ValueId> results, const GivenScratch& scratch = {}, const LivenessOptions& options = {}) {
    std::vector<std::string> names;
    for (size_t i = 0; i < results.size(); ++i) names.push_back("out:" + std::to_string(i));
    module_.functions["main"] = builder_.finish(std::move(results), std::move(names));
    return link_program(module_, analyse_liveness(module_, options), scratch);
  }

  Module module_;

 private:
  TensorType type_ = TensorType::of(DType::F32, Shape{100});
  graph::Builder builder_;
};

constexpr ValueId kInput{0};

/// Where the arguments of a step begin.
std::vector<Argument> args(const Linked& linked, size_t step) {
  std::vector<Argument> arguments = linked.program.steps.at(step).args;
  for (Argument& argument : arguments) argument.bytes = 0;
  return arguments;
}

TEST(Link, AChainAlternatesBetweenTwoBuffersAndEndsInTheOutput) {
  Main main(1);
  ValueId a = main.call("a", {kInput}), b = main.call("b", {a}), c = main.call("c", {b}), d = main.call("d", {c});
  Linked linked = main.link({d});
  ASSERT_EQ(linked.program.steps.size(), 4u);
  EXPECT_EQ(args(linked, 0), (std::vector<Argument>{{Place::Input, 0}, {Place::Arena, 0, 0}}));
  EXPECT_EQ(args(linked, 1), (std::vector<Argument>{{Place::Arena, 0, 0}, {Place::Arena, 0, 448}}));
  EXPECT_EQ(args(linked, 2), (std::vector<Argument>{{Place::Arena, 0, 448}, {Place::Arena, 0, 0}}));
  EXPECT_EQ(args(linked, 3), (std::vector<Argument>{{Place::Arena, 0, 0}, {Place::Output, 0}}));
  EXPECT_EQ(linked.program.arena_bytes(), 848u);
  EXPECT_EQ(linked.program.arena_lower_bound, 800u);
  EXPECT_EQ(linked.program.steps[1].label, "node of b");
  EXPECT_EQ(linked.program.outputs[0].name, "out:0");
}

TEST(Link, AResultOverwritesAnOperandThatNothingReadsLater) {
  Main main(1);
  ValueId a = main.call("a", {kInput}), b = main.call_add_one(a), c = main.call("c", {b});
  Linked linked = main.link({c});
  EXPECT_EQ(args(linked, 1), (std::vector<Argument>{{Place::Arena, 0, 0}, {Place::Arena, 0, 0}}));
  EXPECT_EQ(linked.program.arena_bytes(), 400u);
}

TEST(Link, AnOperandReadLaterIsNotOverwritten) {
  Main main(1);
  ValueId a = main.call("a", {kInput}), b = main.call_add_one(a), c = main.call("c", {b, a});
  Linked linked = main.link({c});
  EXPECT_NE(args(linked, 1)[0], args(linked, 1)[1]);
}

TEST(Link, AViewReadLaterKeepsItsOperand) {
  Main main(1);
  ValueId a = main.call("a", {kInput}), view = main.call("v", {a}, true), b = main.call_add_one(a);
  Linked linked = main.link({main.call("c", {b, view})});
  EXPECT_NE(args(linked, 1)[0], args(linked, 1)[1]);
}

TEST(Link, InputsConstantsAndOutputsAreNeverOverwritten) {
  Main main(1);
  ValueId of_input = main.call_add_one(kInput), of_constant = main.call_add_one(main.constant(1));
  ValueId a = main.call("a", {of_input, of_constant}), of_output = main.call_add_one(a);
  Linked linked = main.link({a, main.call("b", {of_output})});
  for (size_t step : {0u, 1u, 3u}) EXPECT_NE(args(linked, step)[0], args(linked, step)[1]) << step;
}

TEST(Link, NothingIsOverwrittenWhenTheOptionIsOff) {
  Main main(1);
  Linked linked = main.link({main.call("c", {main.call_add_one(main.call("a", {kInput}))})}, {}, {.in_place = false});
  EXPECT_NE(args(linked, 1)[0], args(linked, 1)[1]);
}

TEST(Link, OneKernelUsedTwiceIsOneSymbol) {
  Main main(1);
  Linked linked = main.link({main.call("f", {main.call("f", {kInput})})});
  EXPECT_EQ(linked.program.kernels, std::vector<std::string>{"f"});
  EXPECT_EQ(linked.program.steps[1].kernel, 0u);
}

TEST(Link, ConstantsAreStoredOnceAndOnlyIfUsed) {
  Main main(1);
  ValueId w = main.constant(1), unused_by_steps = main.constant(2);
  (void)unused_by_steps;
  ValueId a = main.call("a", {kInput, w}), b = main.call("b", {a, w});
  Linked linked = main.link({b});
  EXPECT_EQ(args(linked, 0)[1], (Argument{Place::Constant, 0, 0}));
  EXPECT_EQ(args(linked, 1)[1], (Argument{Place::Constant, 0, 0}));
  EXPECT_EQ(linked.program.constants_bytes, 448u);
  EXPECT_EQ(linked.constants.at(0).read<float>(99), 1.0f);
}

TEST(Link, AViewSharesTheMemoryOfItsOperandAndKeepsItAlive) {
  Main main(1);
  ValueId a = main.call("a", {kInput}), v = main.call("reshape", {a}, true);
  ValueId b = main.call("b", {kInput}), c = main.call("c", {v, b});
  Linked linked = main.link({c});
  ASSERT_EQ(linked.program.steps.size(), 3u);
  EXPECT_EQ(args(linked, 0)[1], (Argument{Place::Arena, 0, 0}));
  EXPECT_EQ(args(linked, 1)[1], (Argument{Place::Arena, 0, 448}));  // not over `a`, which the view still needs
  EXPECT_EQ(args(linked, 2), (std::vector<Argument>{{Place::Arena, 0, 0}, {Place::Arena, 0, 448}, {Place::Output, 0}}));
}

TEST(Link, AViewThatIsAResultIsWrittenThroughItsOperand) {
  Main main(1);
  ValueId a = main.call("a", {kInput}), v = main.call("reshape", {a}, true);
  Linked linked = main.link({v});
  ASSERT_EQ(linked.program.steps.size(), 1u);
  EXPECT_EQ(args(linked, 0), (std::vector<Argument>{{Place::Input, 0}, {Place::Output, 0}}));
}

TEST(Link, ResultsThatAreInputsConstantsViewsOfThemOrDoubledAreCopied) {
  Main main(1);
  ValueId w = main.constant(3), view_of_input = main.call("reshape", {kInput}, true), a = main.call("a", {kInput});
  Linked linked = main.link({kInput, w, view_of_input, a, a});
  ASSERT_EQ(linked.program.steps.size(), 5u);
  EXPECT_EQ(args(linked, 0), (std::vector<Argument>{{Place::Input, 0}, {Place::Output, 3}}));
  EXPECT_EQ(args(linked, 1), (std::vector<Argument>{{Place::Input, 0}, {Place::Output, 0}}));
  EXPECT_EQ(args(linked, 2), (std::vector<Argument>{{Place::Constant, 0, 0}, {Place::Output, 1}}));
  EXPECT_EQ(args(linked, 3), (std::vector<Argument>{{Place::Input, 0}, {Place::Output, 2}}));
  EXPECT_EQ(args(linked, 4), (std::vector<Argument>{{Place::Output, 3}, {Place::Output, 4}}));
  for (size_t i = 1; i < 5; ++i) {
    EXPECT_EQ(linked.program.steps[i].kernel, Step::kCopy);
    EXPECT_EQ(linked.program.steps[i].copy_bytes, 400u);
  }
}

TEST(Link, ScratchLiesInTheArenaBesideWhatIsAlive) {
  Main main(1);
  ValueId a = main.call("a", {kInput}), b = main.call("b", {a}), c = main.call("c", {b});
  Linked linked = main.link({c}, {{"b", tir::opaque_scratch(1024, 128)}, {"c", tir::opaque_scratch(0, 256)}});
  const Step& step = linked.program.steps[1];
  EXPECT_EQ(step.workspaces, (std::vector<Argument>{{Place::Arena, 0, 0, 1024}}));  // the largest is placed first
  EXPECT_EQ(args(linked, 1), (std::vector<Argument>{{Place::Arena, 0, 1024}, {Place::Arena, 0, 1472}}));
  EXPECT_EQ(linked.program.worker_scratch_bytes, 256u);
  EXPECT_EQ(linked.program.arena_bytes(), 1872u);
  EXPECT_EQ(linked.program.arena_lower_bound, 1824u);
}

TEST(Link, AValueThatNobodyReadsStillHasMemoryWhileItIsWritten) {
  Main main(1);
  main.call("a", {kInput});
  ValueId b = main.call("b", {kInput});
  Linked linked = main.link({b});
  EXPECT_EQ(args(linked, 0)[1], (Argument{Place::Arena, 0, 0}));
  EXPECT_EQ(linked.program.arena_bytes(), 400u);
}

TEST(Link, RefusesDynamicInputsUnknownKernelsAndCallsThatWereNotLowered) {
  Module dynamic;
  graph::Builder builder(dynamic, "main");
  builder.param("x", TensorType(DType::F32, {tir::var("n")}));
  dynamic.functions["main"] = builder.finish({kInput}, {"y"});
  Diagnostic error = error_of([&] { link_program(dynamic, analyse_liveness(dynamic), {}); });
  EXPECT_EQ(error.code, "dynamic-shape");
  EXPECT_EQ(error.input, "x");

  Main unknown(1);
  ValueId a = unknown.call("a", {kInput});
  unknown.module_.prim_funcs.clear();
  EXPECT_EQ(error_of([&] { unknown.link({a}); }).code, "unknown-kernel");

  Main call(1);
  ValueId b = call.call("b", {kInput});
  call.link({b});
  call.module_.functions["main"].nodes[0].kind = NodeKind::Call;
  EXPECT_EQ(error_of([&] { analyse_liveness(call.module_); }).code, "not-lowered");
  EXPECT_EQ(error_of([] { analyse_liveness({}); }).code, "no-main");
}

TEST(Link, AChainOfTwoHundredThousandNodesIsPlanned) {
  Main main(1);
  ValueId value = kInput;
  for (int i = 0; i < 200000; ++i) value = main.call("f", {value});
  Linked linked = main.link({value});
  EXPECT_EQ(linked.program.steps.size(), 200000u);
  EXPECT_EQ(linked.program.arena_bytes(), 848u);
}

}  // namespace
}  // namespace tenon::link
