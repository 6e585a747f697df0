// SPDX-License-Identifier: Apache-2.0
// A program's own code generators through the public header: what they see, what is refused, and that builds do not see each
// other's.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "codegen/backend.h"
#include "schedule/schedule.h"
#include "tenon/compiler.h"
#include "tenon/runtime.h"
#include "tir/text.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

/// Two regions around a node of our own; the second reads a constant.
constexpr const char* kTwoSums = R"(constant @w : f32[4] = bytes "0000803f0000004000004040000080c0"
fn @main(%0: f32[4] "x", %1: f32[4] "y") -> ("z") {
  %2 = constant @w : f32[4]
  %3 = add(%0, %1) : f32[4]
  %4 = neg(%3) : f32[4]
  %5 = add(%4, %2) : f32[4]
  return %5
})";
constexpr float kX[] = {1, 2, 3, 4}, kY[] = {10, 20, 30, 40};
const std::vector<float> kResult = {-10, -20, -30, -48};

using Compile = std::function<ExternalAnswer(const ExternalRegion&)>;

/// A generator of sums.
ExternalCodegen sums(Compile compile) { return {"own", {{"sum", {{{"add"}}}}}, false, std::move(compile)}; }

BuildOptions with(Compile compile) {
  BuildOptions options;
  options.generators.push_back(sums(std::move(compile)));
  return options;
}

std::vector<std::string> names(const ExternalRegion& region) {
  std::vector<std::string> all;
  for (const ExternalRegion::Constant& constant : region.constants) all.push_back(constant.name);
  return all;
}

std::string sum_loops(const std::string& symbol, const std::string& right = "b") {
  return "primfunc @" + symbol + "(a: f32[4], b: f32[4]) -> (c: f32[4]) { for i = 0 extent 4 { c[i] = (a[i] + " + right +
         "[i]) } }";
}

std::string sum_object(const std::vector<std::string>& symbols) {
  std::vector<tir::PrimFunc> functions;
  for (const std::string& symbol : symbols)
    functions.push_back(schedule::naive({.func = tir::parse_prim_func("sum", sum_loops(symbol)),
                                         .target = host_target(),
                                         .constant_params = {false, false, false}})
                            .func);
  std::vector<const tir::PrimFunc*> pointers;
  for (const tir::PrimFunc& function : functions) pointers.push_back(&function);
  return codegen::compile_object(pointers, host_target()).bytes;
}

ExternalAnswer sum(const ExternalRegion& r) { return ExternalLoops{sum_loops("any"), names(r)}; }

class OwnGenerators : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("tenon_generators_" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string model(const std::string& text = kTwoSums) const {
    std::ofstream(folder_ / "m.tenon") << text;
    return folder_ / "m.tenon";
  }

  /// The result of a build on kX and kY.
  std::vector<float> result(const BuildOptions& options, const std::string& name = "m.so") const {
    std::string artifact = folder_ / name;
    compile(folder_ / "m.tenon", artifact, options);
    tenon_executable* executable = nullptr;
    tenon_session* session = nullptr;
    EXPECT_EQ(tenon_load(artifact.c_str(), &executable), TENON_OK) << tenon_last_error();
    EXPECT_EQ(tenon_session_create(executable, 1, &session), TENON_OK) << tenon_last_error();
    tenon_set_input(session, 0, kX, sizeof kX);
    tenon_set_input(session, 1, kY, sizeof kY);
    EXPECT_EQ(tenon_run(session), TENON_OK) << tenon_last_error();
    const auto* data = static_cast<const float*>(tenon_output_data(session, 0));
    std::vector<float> out(data, data + 4);
    tenon_session_free(session);
    tenon_release(executable);
    return out;
  }

  Error error_of(const BuildOptions& options) const {
    try {
      compile(folder_ / "m.tenon", folder_ / "refused.so", options);
    } catch (const Error& error) {
      EXPECT_FALSE(fs::exists(folder_ / "refused.so"));
      return error;
    }
    ADD_FAILURE() << "nothing was thrown";
    return {0, "", ""};
  }

  fs::path folder_;
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

TEST_F(OwnGenerators, GiveAnyKindOfResult) {
  model();
  std::map<std::string, Compile> kinds = {
      {"object", [](const ExternalRegion& r) { return ExternalObject{sum_object({std::string(r.symbol)}), names(r)}; }},
      {"component", [](const ExternalRegion& r) { return ExternalComponent{"test", "add 4", names(r)}; }},
      {"loops", sum},
      {"nothing",
       [](const ExternalRegion& r) -> ExternalAnswer {
         if (r.symbol == "own_1") return ExternalNothing{names(r)};
         return ExternalObject{sum_object({"own_0", "own_1"}), names(r)};
       }},
  };
  for (const auto& [kind, compile] : kinds)
    for (int workers : {1, 3}) {
      BuildOptions options = with(compile);
      options.workers = workers;
      EXPECT_EQ(result(options), kResult) << kind;
    }
}

TEST_F(OwnGenerators, SeeTheRegion) {
  std::vector<std::string> functions;
  BuildOptions options = with([&](const ExternalRegion& r) {
    EXPECT_EQ(r.target, "llvm -mcpu=haswell");
    EXPECT_EQ(r.symbol, functions.empty() ? "own_0" : "own_1");
    EXPECT_EQ(r.outputs.size(), 1u);
    EXPECT_EQ(r.outputs[0].dtype, "f32");
    EXPECT_EQ(r.outputs[0].shape, (std::vector<int64_t>{4}));
    EXPECT_EQ(r.inputs.size(), functions.empty() ? 2u : 1u);
    EXPECT_EQ(names(r), functions.empty() ? std::vector<std::string>{} : std::vector<std::string>{"w"});
    for (const ExternalRegion::Constant& constant : r.constants) {
      EXPECT_EQ(constant.type.shape, (std::vector<int64_t>{4}));
      EXPECT_EQ(constant.bytes.size(), 16u);
      EXPECT_EQ(constant.bytes[15], std::byte{0xc0});
    }
    functions.emplace_back(r.function);
    return sum(r);
  });
  options.target = "llvm -mcpu=haswell";
  compile(model(), folder_ / "m.so", options);
  ASSERT_EQ(functions.size(), 2u);
  EXPECT_TRUE(contains(functions[0], "fn @own_0(%0: f32[4], %1: f32[4])") && contains(functions[0], "= add(%0, %1)"))
      << functions[0];
  EXPECT_TRUE(contains(functions[1], "constant @w : f32[4] = bytes") && contains(functions[1], "fn @own_1(%0: f32[4])"))
      << functions[1];
}

TEST_F(OwnGenerators, PatternsSeeWhatTheyMayTake) {
  std::string text = R"(constant @b : f32[1,2,1,1] = bytes "0000803f00000040"
  fn @main(%0: f32[1,2,4,4]) {
    %1 = constant @b : f32[1,2,1,1]
    %2 = max_pool(%0) {ceil_mode = false, dilations = [1,1], kernel = [2,2], pads = [0,0,0,0], strides = [2,2]} : f32[1,2,2,2]
    %3 = relu(%2) : f32[1,2,2,2]
    %4 = add(%1, %3) : f32[1,2,2,2]
    %5 = max_pool(%4) {ceil_mode = false, dilations = [1,1], kernel = [1,1], pads = [0,0,0,0], strides = [1,1]} : f32[1,2,2,2]
    return %5
  })";
  std::vector<ExternalNode> seen;
  auto look = [&](const ExternalNode& node) {
    seen.push_back(node);
    return !contains(node.attributes, "kernel = [1,1]");
  };
  BuildOptions options;
  options.generators = {{"own", {{"pool", {{{"max_pool"}, look}, {{"exp", "relu"}, {}, true}, {{"add"}, look}}}}, false, sum}};
  std::string module = module_after(model(text), "partition", options);
  EXPECT_TRUE(contains(module, "fn @own_0(%0: f32[1,2,4,4]) {external = \"own\"")) << module;
  EXPECT_FALSE(contains(module, "fn @own_1")) << module;
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].op, "max_pool");
  EXPECT_TRUE(contains(seen[0].attributes, "kernel = [2,2]")) << seen[0].attributes;
  EXPECT_EQ(seen[0].operands[0].type.shape, (std::vector<int64_t>{1, 2, 4, 4}));
  EXPECT_EQ(seen[0].results[0].shape, (std::vector<int64_t>{1, 2, 2, 2}));
  EXPECT_FALSE(seen[0].operands[0].chain || seen[0].operands[0].constant);
  ASSERT_EQ(seen[1].op, "add");
  EXPECT_TRUE(seen[1].operands[0].constant && !seen[1].operands[0].chain);
  EXPECT_TRUE(seen[1].operands[1].chain && !seen[1].operands[1].constant);
}

TEST_F(OwnGenerators, ChooseBeforeTheOnesThatComeWithTenon) {
  model();
  BuildOptions options = with(sum);
  options.external = {"csource"};
  std::string module = module_after(folder_ / "m.tenon", "partition", options);
  EXPECT_TRUE(contains(module, "external = \"own\"") && contains(module, "external = \"csource\"")) << module;
  EXPECT_EQ(result(options), kResult);
  options.external = {"none"};
  EXPECT_FALSE(contains(module_after(folder_ / "m.tenon", "partition", options), "external"));
}

TEST_F(OwnGenerators, AWrongResultIsRefused) {
  model();
  auto twice = [](const ExternalRegion& r) { return ExternalLoops{sum_loops("f", "a"), names(r)}; };
  Error error = error_of(with(twice));
  EXPECT_EQ(error.code(), "external-self-test");
  EXPECT_EQ(error.kind(), 1);
  EXPECT_TRUE(contains(error.what(), "`own`") && contains(error.what(), "@own_0")) << error.what();
  BuildOptions options = with(twice);
  options.external_self_test = false;
  EXPECT_EQ(result(options), (std::vector<float>{-4, -8, -12, -16}));
}

TEST_F(OwnGenerators, WhatTheyGiveIsChecked) {
  model();
  struct Case {
    const char* code;
    Compile compile;
  };
  const Case cases[] = {
      {"missing-symbol", [](const ExternalRegion& r) { return ExternalNothing{names(r)}; }},
      {"missing-symbol",
       [](const ExternalRegion& r) { return ExternalObject{sum_object({"at_" + std::string(r.symbol)}), names(r)}; }},
      {"duplicate-symbol", [](const ExternalRegion& r) { return ExternalObject{sum_object({"own_0"}), names(r)}; }},
      {"duplicate-symbol",
       [](const ExternalRegion& r) { return ExternalObject{sum_object({std::string(r.symbol), "fused_neg"}), names(r)}; }},
      {"external-object", [](const ExternalRegion& r) { return ExternalObject{"no object", names(r)}; }},
      {"external-constant", [](const ExternalRegion&) { return ExternalLoops{sum_loops("f"), {"v"}}; }},
      {"external-signature", [](const ExternalRegion&) { return ExternalLoops{sum_loops("f"), {}}; }},
      {"undeclared-name", [](const ExternalRegion& r) { return ExternalLoops{sum_loops("f", "q"), names(r)}; }},
  };
  for (const Case& c : cases) {
    Error error = error_of(with(c.compile));
    EXPECT_EQ(error.code(), c.code) << error.what();
    EXPECT_TRUE(contains(error.what(), "own")) << "the generator: " << error.what();
  }
}

TEST_F(OwnGenerators, HaveNamesOfTheirOwnAndPatternsThatCanMatch) {
  model();
  for (std::string name : {"", "a b", "onednn", "csource", "none"}) {
    BuildOptions options = with(sum);
    options.generators[0].name = name;
    EXPECT_EQ(error_of(options).code(), "external-name") << name;
  }
  BuildOptions twice = with(sum);
  twice.generators.push_back(sums(sum));
  EXPECT_EQ(error_of(twice).code(), "external-name");
  for (const ExternalPattern& pattern : {ExternalPattern{"nothing", {}}, ExternalPattern{"unsure", {{{"add"}, {}, true}}},
                                         ExternalPattern{"unknown", {{{"add"}}, {{"ad"}}}}}) {
    BuildOptions options = with(sum);
    options.generators[0].patterns.push_back(pattern);
    Error error = error_of(options);
    EXPECT_EQ(error.code(), "external-pattern");
    EXPECT_TRUE(contains(error.what(), "`" + pattern.name + "`")) << error.what();
  }
}

TEST_F(OwnGenerators, MayRefuseARegion) {
  model();
  Error refused =
      error_of(with([](const ExternalRegion&) -> ExternalAnswer { throw Error(4, "too-small", "four is not enough"); }));
  EXPECT_EQ(refused.code(), "too-small");
  EXPECT_EQ(refused.kind(), 4);
  EXPECT_TRUE(contains(refused.what(), "four is not enough") && contains(refused.what(), "`own`")) << refused.what();
  BuildOptions options = with([](const ExternalRegion&) -> ExternalAnswer { throw std::runtime_error("a bug of mine"); });
  options.dump_dir = folder_ / "dump";
  Error failed = error_of(options);
  EXPECT_EQ(failed.kind(), 70);
  EXPECT_TRUE(contains(failed.what(), "`own` failed on `@own_0`: a bug of mine")) << failed.what();
  EXPECT_TRUE(contains(failed.what(), "give it to the same program")) << failed.what();
  EXPECT_TRUE(fs::exists(folder_ / "dump/reproducer/module.tenon"));
  auto accepts = [](const ExternalNode&) -> bool { throw std::runtime_error("another bug"); };
  options.generators[0].patterns = {{"sums", {{{"add"}, accepts}}}};
  EXPECT_TRUE(contains(error_of(options).what(), "`own` failed on `add`: another bug")) << error_of(options).what();
}

TEST_F(OwnGenerators, TwoBuildsOfOneProcessDoNotAffectEachOther) {
  model();
  auto repeat = [&](const std::string& name, const BuildOptions& options, const std::vector<float>& want) {
    for (int i = 0; i < 5; ++i) EXPECT_EQ(result(options, name), want);
  };
  BuildOptions right = with(sum),
               wrong = with([](const ExternalRegion& r) {
                 return ExternalLoops{sum_loops("f", "a"), names(r)};  // as the other's name is, so is this one's
               });
  wrong.external_self_test = false;
  std::jthread a(repeat, "a.so", std::cref(right), std::cref(kResult));
  std::jthread b(repeat, "b.so", std::cref(wrong), std::vector<float>{-4, -8, -12, -16});
  repeat("c.so", {}, kResult);
}

}  // namespace
}  // namespace tenon
