// SPDX-License-Identifier: Apache-2.0
// External code in a build: the three kinds of results, every check of them, and the two generators that come with Tenon.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/mapped_file.h"
#include "codegen/backend.h"
#include "driver/driver.h"
#include "graph/interpret.h"
#include "graph/text.h"
#include "op/all_ops.h"
#include "op/ops.h"
#include "runtime/component.h"
#include "runtime/session.h"
#include "schedule/schedule.h"
#include "support/error_of.h"
#include "support/op_run.h"
#include "support/paths.h"

namespace tenon {
namespace {

using driver::CompileOptions;
using external::CodeResult;
using external::ComponentKernel;
using external::LoopResult;
using external::NothingResult;
using external::Region;
using external::Result;
using graph::Function;
using graph::Module;
using graph::Node;
using graph::NodeKind;

Module read(const std::string& text) { return graph::parse("test.tenon", text, op::all_ops()); }

std::vector<Array> run(std::shared_ptr<const runtime::Executable> executable, const std::vector<Array>& inputs, int threads = 1) {
  runtime::Session session(std::move(executable), {.threads = threads});
  for (size_t i = 0; i < inputs.size(); ++i) session.bind_input(i, inputs[i].bytes.data());
  session.run();
  std::vector<Array> results;
  for (size_t i = 0; i < session.program().outputs.size(); ++i) results.push_back(session.output(i));
  return results;
}

driver::Built built(const Module& module, const CompileOptions& options) {
  return driver::build(driver::run_pipeline(module, options), options);
}

std::vector<Array> run(const Module& module, const CompileOptions& options, const std::vector<Array>& inputs) {
  return run(driver::load(built(module, options)), inputs);
}

CompileOptions with(const std::string& external) {
  CompileOptions options;
  options.verify_each = true;
  driver::add_external(options.external, external);
  return options;
}

/// A generator that takes adds of equal operators and is told what to give.
class Fake : public external::ExternalCodegen {
 public:
  explicit Fake(std::function<Result(const Region&)> give) : give_(std::move(give)) {}
  std::string_view name() const override { return "fake"; }
  const std::vector<external::Pattern>& patterns() const override { return patterns_; }
  bool merges() const override { return false; }
  Result compile(const Region& region) const override { return give_(region); }

 private:
  std::function<Result(const Region&)> give_;
  std::vector<external::Pattern> patterns_{{"add", {{{&op::add}}}}};
};

CompileOptions fake(std::function<Result(const Region&)> give) {
  CompileOptions options;
  options.verify_each = true;
  options.external.generators = {std::make_shared<Fake>(std::move(give))};
  return options;
}

/// The sum of two parameters as a loop function.
tir::PrimFunc sum_loops(const std::string& symbol) {
  Module m = read(R"(fn @f(%0: f32[4], %1: f32[4]) {primitive = true} {
    %2 = add(%0, %1) : f32[4]
    return %2
  })");
  tir::PrimFunc function = lower::lower_to_prim_func(m, m.functions.at("f"));
  function.name = symbol;
  return function;
}

/// As an object with these symbols.
std::string sum_object(const std::vector<std::string>& symbols) {
  std::vector<tir::PrimFunc> functions;
  for (const std::string& symbol : symbols)
    functions.push_back(
        schedule::naive({.func = sum_loops(symbol), .target = host_target(), .constant_params = {false, false, false}}).func);
  std::vector<const tir::PrimFunc*> pointers;
  for (const tir::PrimFunc& function : functions) pointers.push_back(&function);
  return codegen::compile_object(pointers, host_target()).bytes;
}

/// Two regions around a node of our own; the second reads a constant.
const char* const kTwoSums = R"(constant @w : f32[4] = bytes "0000803f0000004000004040000080c0"
fn @main(%0: f32[4] "x", %1: f32[4] "y") -> ("z") {
  %2 = constant @w : f32[4]
  %3 = add(%0, %1) : f32[4] "the sum"
  %4 = neg(%3) : f32[4]
  %5 = add(%4, %2) : f32[4]
  return %5
})";
const std::vector<Array> kTwoInputs{test::f32({4}, {1, 2, 3, 4}), test::f32({4}, {10, 20, 30, 40})};
const Array kTwoSumsResult = test::f32({4}, {-10, -20, -30, -48});

/// The names of all constants of a region.
std::vector<std::string> names(const Region& region) {
  std::vector<std::string> all;
  for (const external::RegionConstant& constant : region.constants) all.push_back(constant.name);
  return all;
}

TEST(External, CodeLoopIrAndComponentsGiveTheSame) {
  std::map<std::string, std::function<Result(const Region&)>> kinds{
      {"object",
       [](const Region& r) { return CodeResult{.object = sum_object({r.symbol}), .kernel = {}, .constants = names(r)}; }},
      {"component",
       [](const Region& r) {
         return CodeResult{.object = {}, .kernel = ComponentKernel{"test", "add 4"}, .constants = names(r)};
       }},
      {"loops", [](const Region& r) { return LoopResult{sum_loops("any name"), names(r)}; }},
  };
  for (const auto& [kind, give] : kinds) {
    driver::Built made = built(read(kTwoSums), fake(give));
    EXPECT_EQ(made.external.at("fake"), 2u) << kind;
    EXPECT_EQ(made.program.component_kernels.size(), kind == "component" ? 2u : 0u);
    test::expect_array(run(driver::load(made), kTwoInputs)[0], kTwoSumsResult, 0, 0);
  }
}

TEST(External, OneObjectMayDefineTheSymbolsOfSeveralRegions) {
  auto give = [](const Region& r) -> Result {
    if (r.symbol == "fake_0") return CodeResult{.object = sum_object({"fake_0", "fake_1"}), .kernel = {}, .constants = names(r)};
    return NothingResult{names(r)};
  };
  test::expect_array(run(read(kTwoSums), fake(give), kTwoInputs)[0], kTwoSumsResult, 0, 0);
}

TEST(External, ConstantsAreHandedOverAndWorkspaceIsThere) {
  std::vector<std::vector<std::string>> seen(2);
  auto give = [&](const Region& r) {
    auto& list = seen[r.symbol == "fake_1"];
    list = names(r);
    for (const external::RegionConstant& constant : r.constants) EXPECT_EQ(constant.data.read<float>(3), -4);
    return CodeResult{.object = sum_object({r.symbol}), .kernel = {}, .constants = list, .shared_scratch_bytes = 1000};
  };
  driver::Built made = built(read(kTwoSums), fake(give));
  EXPECT_EQ(seen, (std::vector<std::vector<std::string>>{{}, {"w"}}));
  EXPECT_GE(made.program.arena_bytes(), 1024u);
  EXPECT_EQ(made.program.constants_bytes, 64u);
}

TEST(External, StagesReadBackAndGoOn) {
  auto give = [](const Region& r) { return LoopResult{sum_loops("f"), names(r)}; };
  for (const char* stage : {"partition", "lower", "schedule"}) {
    CompileOptions options = fake(give);
    options.stop_after = stage;
    Module stopped = read(graph::print(driver::run_pipeline(read(kTwoSums), options)));
    options.stop_after.clear();
    test::expect_array(run(stopped, options, kTwoInputs)[0], kTwoSumsResult, 0, 0);
    test::expect_array(graph::interpret(stopped, "main", kTwoInputs)[0], kTwoSumsResult, 0, 0);
    options.external.off = true;
    EXPECT_EQ(error_of([&] { built(stopped, options); }).code, "stage-mismatch") << stage;
    Diagnostic unknown = error_of([&] { built(stopped, {}); });
    EXPECT_EQ(unknown.code, "component-missing") << stage;
    EXPECT_EQ(unknown.found, "fake");
  }
}

TEST(External, WhatAGeneratorGivesIsChecked) {
  auto code_of = [](std::function<Result(const Region&)> give) {
    Diagnostic error = error_of([&] { built(read(kTwoSums), fake(std::move(give))); });
    EXPECT_NE(error.message.find("fake"), std::string::npos) << error.message;
    EXPECT_FALSE(error.function.empty());
    return error.code;
  };
  EXPECT_EQ(code_of([](const Region& r) { return NothingResult{names(r)}; }), "missing-symbol");
  EXPECT_EQ(
      code_of([](const Region& r) { return CodeResult{.object = sum_object({"other"}), .kernel = {}, .constants = names(r)}; }),
      "duplicate-symbol");
  EXPECT_EQ(code_of([](const Region& r) {
              return CodeResult{
                  .object = sum_object({r.symbol == "fake_0" ? "elsewhere" : "fake_1"}), .kernel = {}, .constants = names(r)};
            }),
            "missing-symbol");
  EXPECT_EQ(code_of([](const Region& r) {
              return CodeResult{.object = sum_object({r.symbol, "fused_neg"}), .kernel = {}, .constants = names(r)};
            }),
            "duplicate-symbol");
  EXPECT_EQ(code_of([](const Region&) { return CodeResult{.object = "no object"}; }), "external-object");
  EXPECT_EQ(
      code_of([](const Region& r) { return CodeResult{.object = sum_object({r.symbol}), .kernel = {}, .constants = {"v"}}; }),
      "external-constant");
  EXPECT_EQ(code_of([](const Region&) { return LoopResult{sum_loops("f"), {}}; }), "external-signature");
}

TEST(External, AnObjectThatCallsWhatNothingDefinesIsRefused) {
  auto give = [](const Region&) {
    MappedFile object = map_file(test_undefined_object());
    return CodeResult{.object = {reinterpret_cast<const char*>(object.bytes.data()), object.bytes.size()}};
  };
  Module m = read("fn @main(%0: f32[4]) {\n  %1 = add(%0, %0) : f32[4]\n  return %1\n}");
  Diagnostic error = error_of([&] { built(m, fake(give)); });
  EXPECT_EQ(error.code, "missing-symbol");
  EXPECT_EQ(error.found, "nowhere");
}

TEST(External, SymbolsAreNeverRenamedAndMustBeFree) {
  std::string text = R"(fn @one(%0: f32[4]) {external = "fake", primitive = true, symbol = "FIRST"} {
    %1 = relu(%0) : f32[4]
    return %1
  }
  fn @two(%0: f32[4]) {external = "fake", primitive = true, symbol = "SECOND"} {
    %1 = relu(%0) : f32[4]
    return %1
  }
  fn @fused_relu(%0: f32[4]) {primitive = true} {
    %1 = relu(%0) : f32[4]
    return %1
  }
  fn @main(%0: f32[4]) {
    %1 = call @one(%0) : f32[4]
    %2 = call @two(%1) : f32[4]
    %3 = call @fused_relu(%2) : f32[4]
    return %3
  })";
  auto lowered = [&](const std::string& from, const std::string& to) {
    std::string edited = text;
    for (size_t at; (at = edited.find(from)) != edited.npos;) edited.replace(at, from.size(), to);
    return lower::lower_module(read(edited));
  };
  Module plain = lowered("FIRST", "first.symbol");
  EXPECT_EQ(plain.functions.at("main").nodes[0].callee, "first.symbol");
  EXPECT_TRUE(plain.functions.contains("SECOND"));
  EXPECT_FALSE(plain.functions.contains("one"));
  Module taken = lowered("FIRST", "fused_relu_1");
  EXPECT_TRUE(taken.functions.contains("fused_relu_1"));
  EXPECT_EQ(error_of([&] { lowered("FIRST", "SECOND"); }).code, "duplicate-symbol");
  EXPECT_EQ(error_of([&] { lowered("FIRST", "main"); }).code, "duplicate-symbol");
  EXPECT_EQ(lowered("FIRST", "fused_relu").prim_funcs.count("fused_relu"), 0u) << "the kernel takes another name";
  Diagnostic nameless = error_of([&] { lowered(", symbol = \"FIRST\"", ""); });
  EXPECT_EQ(nameless.code, "external-symbol");
  EXPECT_EQ(nameless.function, "one");
  EXPECT_NE(nameless.message.find("`fake`"), std::string::npos);
  EXPECT_EQ(error_of([&] { lowered("external = \"fake\"", "external = \"\""); }).code, "external-symbol");
}

TEST(External, ALoweredFunctionIsCalledByItsSymbol) {
  Module m = read(R"(module {stage = "schedule"}
  fn @f(%0: f32[4]) {external = "csource", primitive = true, symbol = "g"} {
    %1 = relu(%0) : f32[4]
    return %1
  }
  fn @main(%0: f32[4]) {
    %1 = call_lowered @f(%0) : f32[4]
    return %1
  })");
  EXPECT_EQ(error_of([&] { driver::build(m, {}); }).code, "external-symbol");
}

TEST(External, TheSelfTestNamesWhatIsWrong) {
  Module m = read(R"(fn @main(%0: f32[4] "x", %1: f32[4] "y") -> ("z") {
    %2 = add(%0, %1) : f32[4]
    return %2
  })");
  auto wrong = [](const Region& region) -> Result {  // the first operand twice
    LoopResult result{sum_loops(region.symbol), {}};
    Module twice = read(R"(fn @f(%0: f32[4], %1: f32[4]) {primitive = true} {
      %2 = add(%0, %0) : f32[4]
      return %2
    })");
    result.func = lower::lower_to_prim_func(twice, twice.functions.at("f"));
    return result;
  };
  CompileOptions options = fake(wrong);
  Diagnostic error = error_of([&] { built(m, options); });
  EXPECT_EQ(error.kind, ErrorKind::CheckFailed);
  EXPECT_EQ(error.code, "external-self-test");
  EXPECT_EQ(error.function, "fake_0");
  options.external.self_test = false;
  test::expect_array(run(m, options, kTwoInputs)[0], test::f32({4}, {2, 4, 6, 8}), 0, 0);
}

// Case C76 of the reference's bug reports: one region with two users.
TEST(CSource, OneRegionWithTwoUsersRunsOnce) {
  const char* text = R"(constant @one : f32[] = bytes "0000803f"
  constant @two : f32[] = bytes "00000040"
  fn @region(%0: f32[2]) {external = "csource", primitive = true, symbol = "region"} {
    %1 = constant @two : f32[]
    %2 = multiply(%0, %1) : f32[2]
    return %2
  }
  fn @main(%0: f32[2] "x") {
    %1 = call @region(%0) : f32[2]
    %2 = constant @one : f32[]
    %3 = add(%1, %2) : f32[2]
    %4 = subtract(%1, %2) : f32[2]
    return %3, %4
  })";
  for (const std::string& external : {std::string("csource"), std::string("none")}) {
    CompileOptions options = with(external);
    options.external.generators.clear();  // the module says which
    driver::Built made = built(read(text), options);
    EXPECT_EQ(made.external.size(), external == "none" ? 0u : 1u);
    size_t calls = 0;
    for (const runtime::Step& step : made.program.steps)
      if (step.kernel != runtime::Step::kCopy) calls += made.program.kernels[step.kernel] == "region";
    EXPECT_EQ(calls, external == "none" ? 0u : 1u);
    std::vector<Array> results = run(driver::load(std::move(made)), {test::f32({2}, {1, 2})});
    test::expect_array(results[0], test::f32({2}, {3, 5}), 0, 0);
    test::expect_array(results[1], test::f32({2}, {1, 3}), 0, 0);
  }
}

// Chained regions with native nodes between them, two results, broadcasting, and every operator, on integers and floats.
TEST(CSource, ComputesWhatTheInterpreterDoes) {
  for (const char* dtype : {"f32", "f64", "i32", "i64"}) {
    std::string text = R"(fn @main(%0: T[2,3], %1: T[3], %2: T[]) {
      %3 = add(%0, %1) : T[2,3]
      %4 = multiply(%3, %2) : T[2,3]
      %5 = sum(%4) {axes = [0], keepdims = true} : T[1,3]
      %6 = subtract(%5, %4) : T[2,3]
      %7 = maximum(%6, %1) : T[2,3]
      %8 = minimum(%7, %3) : T[2,3]
      %9 = neg(%8) : T[2,3]
      %10 = abs(%9) : T[2,3]
      %11 = relu(%9) : T[2,3]
      %12 = transpose(%11) {axes = [1,0]} : T[3,2]
      return %10, %12, %3
    })";
    for (size_t at; (at = text.find('T')) != text.npos;) text.replace(at, 1, dtype);
    Module m = read(text);
    DType type = *dtype_from_name(dtype);
    std::vector<Array> inputs{test::array(type, {2, 3}, {1, -2, 3, -4, 5, -6}), test::array(type, {3}, {2, -3, 1}),
                              test::array(type, {}, {3})};
    CompileOptions options = with("csource");
    EXPECT_EQ(built(m, options).external.at("csource"), 2u) << dtype;
    std::vector<Array> want = graph::interpret(m, "main", inputs), got = run(m, options, inputs);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) test::expect_array(got[i], want[i], 0, 0);
  }
}

TEST(CSource, CallsLibm) {
  Module m = read(R"(fn @main(%0: f32[3]) {
    %1 = exp(%0) : f32[3]
    %2 = sqrt(%1) : f32[3]
    %3 = tanh(%2) : f32[3]
    %4 = divide(%3, %0) : f32[3]
    return %4
  })");
  std::vector<Array> inputs{test::f32({3}, {-1, 0.5, 2})};
  test::expect_array(run(m, with("csource"), inputs)[0], graph::interpret(m, "main", inputs)[0], 1e-6, 0);
}

/// A region that no generator takes by itself.
Module region_of_sin(const std::string& generator) {
  return read("fn @region(%0: f32[2]) {external = \"" + generator + R"(", primitive = true, symbol = "region"} {
    %1 = sin(%0) : f32[2]
    return %1
  }
  fn @main(%0: f32[2] "x") {
    %1 = call @region(%0) : f32[2]
    return %1
  })");
}

TEST(CSource, RefusesWhatItCannotWriteAndNamesTheCompiler) {
  Module m = region_of_sin("csource");
  Diagnostic error = error_of([&] { built(m, {}); });
  EXPECT_EQ(error.code, "external-region");
  EXPECT_EQ(error.function, "region");
  Module sum = read("fn @main(%0: f32[4]) {\n  %1 = add(%0, %0) : f32[4]\n  return %1\n}");
  Diagnostic absent = error_of([&] { built(sum, with("csource -cc=/no/such/compiler")); });
  EXPECT_EQ(absent.code, "external-compiler");
  EXPECT_EQ(absent.kind, ErrorKind::Missing);
  EXPECT_EQ(error_of([&] { built(sum, with("csource -cc=false")); }).kind, ErrorKind::Unsupported);
  CompileOptions cross = with("csource");
  Module arm = sum;
  arm.attrs["target"] = std::string("llvm -mcpu=neoverse-n1");
  EXPECT_EQ(error_of([&] { built(arm, cross); }).code, "external-compiler");
}

TEST(External, OptionsReachTheGeneratorAndBadOnesAreRefused) {
  for (const char* bad : {"csource -x=1", "csource -O=9", "csource -cc=", "csource fast", "onednn -ops=conv,softmax",
                          "onednn -self-test=1", "none -ops=conv", ""})
    EXPECT_EQ(error_of([&] { with(bad); }).code, "external-option") << bad;
  EXPECT_EQ(error_of([&] { with("nothing"); }).code, "component-missing");
  EXPECT_FALSE(with("onednn -self-test=off").external.self_test);
  EXPECT_EQ(with("csource  -O=0 ").external.generators.size(), 1u);
}

/// Whether the component is there; without it the tests of its results have nothing to run.
bool has_onednn() {
  try {
    runtime::open_component("onednn");
    return true;
  } catch (const CompileError&) {
    return false;
  }
}

Array filled(Shape shape, uint64_t seed) { return runtime::random_input({"x", DType::F32, std::move(shape)}, 0, seed); }

/// `regions` of a model, and its results against the interpreter.
void check_onednn(const std::string& text, const std::vector<Array>& inputs, size_t regions,
                  const std::string& options = "onednn", std::map<std::string, Array> constants = {}) {
  Module m = read(text);
  for (auto& [name, data] : constants) m.constants.at(name) = data;
  driver::Built made = built(m, with(options));
  EXPECT_EQ(made.external["onednn"], regions) << text;
  std::vector<Array> want = graph::interpret(m, "main", inputs);
  auto executable = driver::load(std::move(made));
  for (int threads : {1, 2}) {
    std::vector<Array> got = run(executable, inputs, threads);
    for (size_t i = 0; i < want.size(); ++i) test::expect_array(got[i], want[i], 1e-4, 1e-5);
  }
}

TEST(OneDnn, Convolutions) {
  if (!has_onednn()) GTEST_SKIP() << "component `onednn` is not built";
  struct Case {
    int64_t channels, outputs, groups, kernel, stride, dilation, pad;
  };
  for (const Case& c : {Case{3, 16, 1, 3, 1, 1, 1}, Case{16, 32, 1, 1, 1, 1, 0}, Case{16, 16, 16, 3, 2, 1, 1},
                        Case{8, 12, 4, 3, 1, 2, 2}, Case{5, 7, 1, 2, 1, 1, 0}}) {
    Module m;
    graph::Builder b(m, "main");
    Shape weights{c.outputs, c.channels / c.groups, c.kernel, c.kernel};
    graph::ValueId x = b.param("x", TensorType::of(DType::F32, Shape{2, c.channels, 9, 8}));
    graph::Attrs attrs{{"strides", Shape{c.stride, c.stride}},
                       {"dilations", Shape{c.dilation, c.dilation}},
                       {"pads", Shape{c.pad, 0, c.pad, c.pad}},
                       {"groups", c.groups}};
    graph::ValueId y = b.call1(op::conv, {x, b.constant(filled(weights, 2))}, attrs);
    y = b.call1(op::add, {y, b.constant(filled({c.outputs, 1, 1}, 3))});
    y = b.call1(op::relu, {b.call1(op::add, {y, b.call1(op::tanh, {y})})});  // no residual: the sum is read twice
    m.functions.emplace("main", b.finish({y}));
    std::vector<Array> inputs{filled({2, c.channels, 9, 8}, 1)};
    driver::Built made = built(m, with("onednn"));
    EXPECT_EQ(made.external.at("onednn"), 1u);
    test::expect_array(run(driver::load(std::move(made)), inputs)[0], graph::interpret(m, "main", inputs)[0], 1e-4, 1e-5);
  }
}

/// A convolution with bias, what `follows` it up to `%9`, and the result.
std::string conv_text(const std::string& follows) {
  return R"(constant @w : f32[4,3,1,1] = bytes ")" + std::string(96, '0') + R"("
  constant @b : f32[4,1,1] = bytes "0000803f0000004000004040000080c0"
  constant @low : f32[] = bytes "000000bf"
  constant @high : f32[] = bytes "0000803f"
  fn @main(%0: f32[1,3,4,4], %1: f32[1,4,4,4]) {
    %2 = constant @w : f32[4,3,1,1]
    %3 = constant @b : f32[4,1,1]
    %4 = constant @low : f32[]
    %5 = constant @high : f32[]
    %6 = conv(%0, %2) {dilations = [1,1], groups = 1, pads = [0,0,0,0], strides = [1,1]} : f32[1,4,4,4]
    %7 = add(%6, %3) : f32[1,4,4,4]
    )" + follows +
         "\n    return %9\n  }";
}

TEST(OneDnn, WhatFollowsAConvolution) {
  if (!has_onednn()) GTEST_SKIP() << "component `onednn` is not built";
  std::map<std::string, Array> weights{{"w", filled({4, 3, 1, 1}, 5)}};
  std::vector<Array> inputs{filled({1, 3, 4, 4}, 1), filled({1, 4, 4, 4}, 2)};
  std::string sum = "%8 = add(%1, %7) : f32[1,4,4,4]\n    ", two = "%8 = add(%7, %1) : f32[1,4,4,4]\n    ";
  for (const char* last :
       {"relu(%8)", "sigmoid(%8)", "tanh(%8)", "hard_swish(%8)", "clip(%8, %4, %5)", "leaky_relu(%8) {alpha = 0.25}", "exp(%8)"})
    for (const std::string& before : {sum, two})
      check_onednn(conv_text(before + "%9 = " + last + " : f32[1,4,4,4]"), inputs, 1, "onednn", weights);
}

TEST(OneDnn, Products) {
  if (!has_onednn()) GTEST_SKIP() << "component `onednn` is not built";
  auto product = [](const std::string& a, const std::string& b, const std::string& out) {
    return fmt::format("fn @main(%0: f32{0}, %1: f32{1}) {{\n  %2 = matmul(%0, %1) : f32{2}\n  return %2\n}}", a, b, out);
  };
  check_onednn(product("[3,5]", "[5,4]", "[3,4]"), {filled({3, 5}, 1), filled({5, 4}, 2)}, 1);
  check_onednn(product("[2,3,5]", "[5,4]", "[2,3,4]"), {filled({2, 3, 5}, 1), filled({5, 4}, 2)}, 1);
  check_onednn(product("[2,3,5]", "[1,5,4]", "[2,3,4]"), {filled({2, 3, 5}, 1), filled({1, 5, 4}, 2)}, 1);
  check_onednn(product("[1,5]", "[5,4]", "[1,4]"), {filled({1, 5}, 1), filled({5, 4}, 2)}, 0);
  check_onednn(product("[2,3,5]", "[3,2,5,4]", "[3,2,3,4]"), {filled({2, 3, 5}, 1), filled({3, 2, 5, 4}, 2)}, 0);
  check_onednn(R"(constant @w : f32[2,3] = bytes "0000803f0000004000004040000080c00000803f00000040"
  constant @b : f32[3] = bytes "0000803f0000004000004040"
  fn @main(%0: f32[2,4,2], %1: f32[2,4,3]) {
    %2 = constant @w : f32[2,3]
    %3 = constant @b : f32[3]
    %4 = matmul(%0, %2) : f32[2,4,3]
    %5 = add(%4, %3) : f32[2,4,3]
    %6 = add(%5, %1) : f32[2,4,3]
    %7 = relu(%6) : f32[2,4,3]
    return %7
  })",
               {filled({2, 4, 2}, 1), filled({2, 4, 3}, 2)}, 1);
}

TEST(OneDnn, Pools) {
  if (!has_onednn()) GTEST_SKIP() << "component `onednn` is not built";
  for (const char* kind : {"max_pool(%0) {ceil_mode = false,", "avg_pool(%0) {ceil_mode = false, count_include_pad = false,",
                           "avg_pool(%0) {ceil_mode = false, count_include_pad = true,"}) {
    std::string text = fmt::format(
        "fn @main(%0: f32[1,3,7,8]) {{\n  %1 = {} dilations = [1,1], kernel = [3,2], pads = [1,0,1,1], strides = [2,1]}} : "
        "f32[1,3,4,8]\n  return %1\n}}",
        kind);
    check_onednn(text, {filled({1, 3, 7, 8}, 1)}, 1, "onednn -ops=pool");
    check_onednn(text, {filled({1, 3, 7, 8}, 1)}, 0);
  }
}

TEST(OneDnn, RefusesARegionThatItDoesNotKnow) {
  Module m = region_of_sin("onednn");
  EXPECT_EQ(error_of([&] { built(m, {}); }).code, "external-region");
}

}  // namespace
}  // namespace tenon
