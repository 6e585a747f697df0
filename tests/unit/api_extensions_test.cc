// SPDX-License-Identifier: Apache-2.0
// A program's own passes and schedules through the public header: where they run, what is refused, and that builds do not see
// each other's.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "support/text_cases.h"
#include "tenon/compiler.h"
#include "tenon/runtime.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModel = R"(fn @main(%0: f32[4,8] "a", %1: f32[8,8] "b") -> ("c") {
  %2 = matmul(%0, %1) : f32[4,8] "mm"
  %3 = softmax(%2) {axes = [-1]} : f32[4,8] "soft"
  return %3
}
)";
constexpr const char* kProduct = R"(fn @main(%0: f32[4,8] "a", %1: f32[8,8] "b") -> ("c") {
  %2 = matmul(%0, %1) : f32[4,8] "mm"
  return %2
}
)";
/// Of more sums than a function may have that is run on three sets of numbers, or on any.
constexpr const char* kLargeProduct = R"(fn @main(%0: f32[256,512] "a", %1: f32[512,520] "b") -> ("c") {
  %2 = matmul(%0, %1) : f32[256,520] "mm"
  return %2
}
)";
constexpr const char* kHugeProduct = R"(fn @main(%0: f32[1024,1024] "a", %1: f32[1024,1040] "b") -> ("c") {
  %2 = matmul(%0, %1) : f32[1024,1040] "mm"
  return %2
}
)";
constexpr const char* kSum = R"(fn @main(%0: f32[4] "a", %1: f32[4] "b") -> ("c") {
  %2 = add(%0, %1) : f32[4]
  return %2
}
)";

class Extensions : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("tenon_extensions_" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  std::string read(const fs::path& path) const {
    std::ostringstream out;
    out << std::ifstream(path).rdbuf();
    return out.str();
  }

  fs::path folder_;
};

/// What the build throws.
Error error_of(const std::string& model, const BuildOptions& options) {
  try {
    module_after(model, options.passes.empty() ? "schedule" : options.passes.back().name, options);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {0, "", ""};
}

BuildOptions with_pass(PassSlot slot, std::function<std::string(std::string)> edit) {
  BuildOptions options;
  options.passes.push_back({"own", slot, [edit](const PassInput& input) { return edit(std::string(input.module)); }});
  return options;
}

BuildOptions with_provider(std::function<ScheduleAnswer(const ScheduleRequest&)> schedule) {
  BuildOptions options;
  options.schedules.push_back({"mine", std::move(schedule)});
  return options;
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  size_t at = text.find(what);
  EXPECT_NE(at, text.npos) << what << " is not in\n" << text;
  return at == text.npos ? text : text.replace(at, what.size(), with);
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

TEST_F(Extensions, PassesSeeTheModuleOfTheirSlot) {
  std::string model = file("m.tenon", kModel), out = folder_ / "m.so";
  std::vector<std::string> seen(4), plans(4);
  BuildOptions options;
  options.dump_dir = folder_ / "dump";
  for (PassSlot slot : {PassSlot::AfterPlan, PassSlot::BeforePlan, PassSlot::AfterLower, PassSlot::AfterFuse}) {
    auto i = static_cast<size_t>(slot);
    options.passes.push_back({"see_" + std::to_string(i), slot, [&, i](const PassInput& input) {
                                seen[i] = input.module;
                                plans[i] = input.plan;
                                return seen[i];
                              }});
  }
  compile(model, out, options);
  EXPECT_TRUE(contains(seen[0], "{primitive = true}") && contains(seen[0], "call @fused_matmul")) << seen[0];
  EXPECT_TRUE(contains(seen[1], "call_lowered @fused_matmul") && !contains(seen[1], "scheduled = true")) << seen[1];
  EXPECT_TRUE(contains(seen[2], "scheduled = true")) << seen[2];
  auto functions = [](const std::string& module) { return module.substr(module.find('\n')); };
  EXPECT_EQ(functions(seen[3]), functions(seen[2]));
  EXPECT_TRUE(contains(plans[3], "offset")) << plans[3];
  EXPECT_EQ(plans[0] + plans[1] + plans[2], "");
  EXPECT_TRUE(fs::exists(folder_ / "dump/008.1-see_0.tenon"));
}

TEST_F(Extensions, WhatAPassReturnsIsBuilt) {
  std::string model = file("m.tenon", kModel);
  BuildOptions options = with_pass(PassSlot::AfterFuse, [](std::string m) { return replaced(m, "axes = [-1]", "axes = [0]"); });
  EXPECT_TRUE(contains(module_after(model, "own", options), "softmax(%0) {axes = [0]}"));
  EXPECT_NE(module_after(model, "schedule", options), module_after(model, "schedule"));
  // New constants come as bytes, long ones too.
  std::string zeros(4 * 32 * 2, '0');
  options = with_pass(PassSlot::AfterFuse, [&](std::string m) {
    m = replaced(m, "fn @fused", "constant @new : f32[4,8] = bytes \"" + zeros + "\"\nfn @fused");
    return replaced(m, "return %2", "%3 = constant @new : f32[4,8]\n  return %3");
  });
  EXPECT_TRUE(contains(module_after(model, "own", options), "constant @new : f32[4,8] = hash"));
}

TEST_F(Extensions, ADumpGoesOnWhereItStands) {
  std::string model = file("m.tenon", kModel);
  int runs = 0;
  BuildOptions options = with_pass(PassSlot::AfterFuse, [&](std::string m) {
    ++runs;
    return replaced(m, "axes = [-1]", "axes = [0]");
  });
  options.dump_dir = folder_ / "dump";
  std::string whole = module_after(model, "schedule", options);
  EXPECT_EQ(runs, 1);
  BuildOptions again = options;
  again.dump_dir.clear();
  EXPECT_EQ(module_after(folder_ / "dump/008-fuse.tenon", "schedule", again), whole) << "before the pass";
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(module_after(folder_ / "dump/008.1-own.tenon", "schedule", again), whole) << "behind it";
  EXPECT_EQ(runs, 2);
}

TEST_F(Extensions, ExternalCodeTakesPart) {
  std::string model = file("m.tenon", kModel);
  BuildOptions options;
  options.external = {"onednn"};
  EXPECT_TRUE(contains(module_after(model, "partition", options), "external = \"onednn\""));
  options.external = {"nothing"};
  EXPECT_EQ(error_of(model, options).code(), "component-missing");
}

TEST_F(Extensions, NamesAreWordsOfTheirOwn) {
  std::string model = file("m.tenon", kModel);
  auto same = [](const PassInput& input) { return std::string(input.module); };
  for (std::string name : {"", "a b", "fuse", "import", "twice"}) {
    BuildOptions options;
    options.passes.push_back({name, PassSlot::AfterFuse, same});
    if (name == "twice") options.passes.push_back({name, PassSlot::AfterLower, same});
    EXPECT_EQ(error_of(model, options).code(), "pass-name") << name;
  }
}

struct BrokenCase {
  PassSlot slot;
  const char *what, *with, *code;
};

TEST_F(Extensions, ABrokenModuleIsRefusedWithThePassThatMadeIt) {
  std::string model = file("m.tenon", kModel);
  const char* call = "call_lowered @fused_matmul(%0, %1)";
  const BrokenCase cases[] = {
      {PassSlot::AfterFuse, "= softmax", "= sofmax", "unknown-op"},
      {PassSlot::AfterFuse, ", %1) : f32[4,8]", ", %1) : f32[4,9]", "signature-mismatch"},
      {PassSlot::AfterFuse, "  return %3\n}\n", "  %4 = relu(%3) : f32[4,8]\n  return %4\n}\n", "op-outside-group"},
      {PassSlot::AfterFuse, "\"a\"", "\"z\"", "pass-interface"},
      {PassSlot::AfterFuse, "-> (\"c\")", "-> (\"d\")", "pass-interface"},
      {PassSlot::AfterFuse, "opt_level = 3", "opt_level = 2", "pass-interface"},
      {PassSlot::AfterLower, call, "call_lowered @nothing(%0, %1)", "unknown-callee"},
      {PassSlot::AfterLower, "fn @main", "fn @own(%0: f32[2]) {primitive = true} {\n  return %0\n}\nfn @main", "not-lowered"},
      {PassSlot::AfterLower, call, "call_lowered @fused_matmul(%0, %1) {speed = 9}", "call-metadata"},
      {PassSlot::AfterLower, call, "call_lowered @fused_matmul(%0, %1) {view = 1}", "call-metadata"},
      {PassSlot::AfterLower, call, "call_lowered @fused_matmul(%0, %1) {view = true}", "view-moves"},
      {PassSlot::BeforePlan, "(%0, %1)", "(%0, %9)", "undeclared-value"},
  };
  for (const BrokenCase& c : cases) {
    BuildOptions options = with_pass(c.slot, [&](std::string m) {
      size_t last = m.rfind(c.what);
      EXPECT_NE(last, m.npos) << c.what << "\n" << m;
      return last == m.npos ? m : m.replace(last, std::string(c.what).size(), c.with);
    });
    Error error = error_of(model, options);
    EXPECT_EQ(error.code(), c.code) << c.with << "\n" << error.what();
    EXPECT_EQ(error.kind(), 3) << error.what();
    EXPECT_TRUE(contains(error.what(), "own")) << "names the pass: " << error.what();
  }
}

TEST_F(Extensions, APassAfterPlanningKeepsThePlan) {
  std::string model = file("m.tenon", kModel), out = folder_ / "m.so";
  // Another loop kind changes no buffer.
  compile(model, out, with_pass(PassSlot::AfterPlan, [](std::string m) {
            return replaced(m, "scheduled = true", "note = 1, scheduled = true");
          }));
  // Without the softmax there is one buffer less.
  BuildOptions options = with_pass(PassSlot::AfterPlan, [](std::string m) { return replaced(m, "return %3", "return %2"); });
  try {
    compile(model, out, options);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), "pass-plan") << error.what();
  }
}

TEST_F(Extensions, AnExtensionMayRefuseAModel) {
  std::string model = file("m.tenon", kModel);
  Error error = error_of(
      model, with_pass(PassSlot::AfterFuse, [](std::string) -> std::string { throw Error(4, "too-soft", "no softmax here"); }));
  EXPECT_EQ(error.code(), "too-soft");
  EXPECT_EQ(error.kind(), 4);
  EXPECT_TRUE(contains(error.what(), "no softmax here") && contains(error.what(), "`own`")) << error.what();
}

TEST_F(Extensions, AFailingPassLeavesAReproducer) {
  std::string model = file("m.tenon", kModel);
  bool fails = true;
  BuildOptions options = with_pass(PassSlot::AfterLower, [&](std::string m) -> std::string {
    if (fails) throw std::runtime_error("a bug of mine");
    return m;
  });
  options.dump_dir = folder_ / "dump";
  Error error = error_of(model, options);
  EXPECT_EQ(error.kind(), 70);
  fs::path left = folder_ / "dump/reproducer/module.tenon";
  EXPECT_TRUE(contains(error.what(), "pass `own` failed: a bug of mine")) << error.what();
  EXPECT_TRUE(contains(error.what(), left.string())) << error.what();
  EXPECT_EQ(read(left), module_after(model, "lower")) << "the module before the pass";
  options.dump_dir.clear();
  Error again = error_of(left, options);
  EXPECT_TRUE(contains(again.what(), "a bug of mine")) << "and it fails again";
  std::string text = again.what();
  fs::path other = text.substr(text.find("/"), text.find("/module.tenon") - text.find("/"));
  EXPECT_TRUE(fs::exists(other / "module.tenon")) << "without a folder of dumps: in the temporary folder: " << other;
  fs::remove_all(other);
  fails = false;
  EXPECT_EQ(module_after(left, "schedule", options).size(), module_after(model, "schedule", options).size());
}

TEST_F(Extensions, AFailureBehindPlanningLeavesAReproducerToo) {
  std::string model = file("m.tenon", kModel);
  BuildOptions options = with_pass(PassSlot::AfterPlan, [](std::string) -> std::string { throw std::runtime_error("late"); });
  options.dump_dir = folder_ / "dump";
  try {
    compile(model, folder_ / "m.so", options);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), 70);
    EXPECT_TRUE(contains(error.what(), "pass `own` failed: late")) << error.what();
    EXPECT_TRUE(contains(error.what(), "give it to the same program")) << error.what();
  }
  EXPECT_EQ(read(folder_ / "dump/reproducer/module.tenon"), module_after(model, "order"));
}

TEST_F(Extensions, ACacheOnDiskChangesNoByte) {
  std::string model = file("m.tenon", kModel);
  compile(model, folder_ / "plain.so");
  for (const char* name : {"cold.so", "warm.so"}) {
    compile(model, folder_ / name, {.cache_dir = folder_ / "cache"});
    EXPECT_EQ(read(folder_ / name), read(folder_ / "plain.so"));
  }
  EXPECT_FALSE(fs::is_empty(folder_ / "cache"));
}

TEST_F(Extensions, AProviderAcceptsOrDeclines) {
  std::string model = file("m.tenon", kModel);
  std::vector<std::string> asked;
  BuildOptions options = with_provider([&](const ScheduleRequest& request) -> ScheduleAnswer {
    asked.emplace_back(request.function.substr(0, request.function.find('(')));
    EXPECT_EQ(request.opt_level, 3);
    EXPECT_TRUE(contains(std::string(request.target), "llvm")) << request.target;
    if (!contains(std::string(request.function), "block matmul")) return Declined{};
    return ScheduleSteps{"parallel i0\n"};
  });
  std::string module = module_after(model, "schedule", options);
  EXPECT_EQ(asked, (std::vector<std::string>{"primfunc @fused_matmul", "primfunc @fused_softmax"}));
  EXPECT_EQ(module.find("provider = \"mine\""), module.rfind("provider = \"mine\"")) << "one function is its own";
  EXPECT_TRUE(contains(module, "for i0 = 0 extent 4 parallel")) << module;
  asked.clear();
  options.opt_level = 0;
  module_after(model, "schedule", options);
  EXPECT_TRUE(asked.empty()) << "at level 0 the loops stand as they are";
}

/// Nest steps as `tenon lower --to trace` prints them, with sizes of one's own; what they pack is packed in the module.
TEST_F(Extensions, AProviderPacksConstantsByNestSteps) {
  std::string bytes;
  for (int i = 0; i < 64; ++i) bytes += "0000803f";  // 1.0
  std::string model =
      file("m.tenon", replaced("constant @w : f32[8,8] = bytes \"" + bytes + "\"\n" + kProduct, ", %1: f32[8,8] \"b\")", ")"));
  model = file("m.tenon", replaced(read(model), "{\n", "{\n  %1 = constant @w : f32[8,8]\n"));
  BuildOptions options = with_provider([](const ScheduleRequest&) -> ScheduleAnswer {
    return ScheduleSteps{"contraction matmul rows=2 lanes=3 v=constant block=8\nconstruct\n"};
  });
  std::string module = module_after(model, "schedule", options);
  EXPECT_TRUE(contains(module, "constant @w_packed : f32[72]")) << module;  // three tiles of three columns of eight
  EXPECT_TRUE(contains(module, "p1: f32[72]")) << module;
  // In this model the matrix is an input.
  EXPECT_EQ(error_of(file("product.tenon", kProduct), options).code(), "provider-signature");
}

TEST_F(Extensions, ProvidersAreAskedInOrder) {
  std::string model = file("m.tenon", kProduct);
  BuildOptions options = with_provider([](const ScheduleRequest&) -> ScheduleAnswer { return Declined{}; });
  options.schedules.push_back({"second", [](const ScheduleRequest&) -> ScheduleAnswer { return ScheduleSteps{""}; }});
  options.schedules.push_back({"third", [](const ScheduleRequest&) -> ScheduleAnswer {
                                 ADD_FAILURE() << "asked behind one that accepted";
                                 return Declined{};
                               }});
  EXPECT_TRUE(contains(module_after(model, "schedule", options), "provider = \"second\""));
}

TEST_F(Extensions, AWrongScheduleIsRefusedByName) {
  std::string model = file("m.tenon", kProduct);
  struct Case {
    const char *what, *with, *code;
  };
  const Case cases[] = {
      {"for i1 = 0 extent 8", "for i1 = 0 extent 7", "provider-result"},                 // a column is never written
      {"= 0.0:f32", "= 1.0:f32", "provider-result"},                                     // another sum
      {"for r0 = 0 extent 8", "for r0 = 0 extent 7", "provider-result"},                 // a product is left out
      {"for r0 = 0 extent 8", "for r0 = 0 extent 9", "provider-result"},                 // reads outside
      {"for r0 = 0 extent 8", "for r0 = 0 extent 8 parallel", "provider-result"},        // right in one order, a race in others
      {"p1: f32[8,8]", "p1: f32[8,8], p2: f32[8]", "provider-signature"},                // another parameter
      {"(matmul: f32[4,8])", "(matmul: f32[4,8], more: f32[1])", "provider-signature"},  // another result
      {"p0[v_i0, v_r0] *", "q0[v_i0, v_r0] *", "undeclared-name"},                       // no loop function
  };
  for (const Case& c : cases) {
    Error error = error_of(model, with_provider([&](const ScheduleRequest& request) -> ScheduleAnswer {
                             return ScheduledFunction{replaced(std::string(request.function), c.what, c.with)};
                           }));
    EXPECT_EQ(error.code(), c.code) << error.what();
    EXPECT_TRUE(contains(error.what(), "mine")) << "the provider: " << error.what();
    if (std::string(c.code) != "undeclared-name") EXPECT_TRUE(contains(error.what(), "@fused_matmul")) << error.what();
  }
  Error step =
      error_of(model, with_provider([](const ScheduleRequest&) -> ScheduleAnswer { return ScheduleSteps{"split i7 2\n"}; }));
  EXPECT_EQ(step.code(), "schedule-no-loop");
  EXPECT_TRUE(contains(step.what(), "<provider mine>:1:1")) << step.what();
}

TEST_F(Extensions, LargeLoopsAreChecked) {
  std::string model = file("m.tenon", kLargeProduct);
  auto with_rows = [](const std::string& rows) {
    return with_provider([=](const ScheduleRequest& request) -> ScheduleAnswer {
      return ScheduledFunction{replaced(std::string(request.function), "for i0 = 0 extent 256 {", rows)};
    });
  };
  EXPECT_TRUE(contains(module_after(model, "schedule", with_rows("for i0 = 0 extent 256 parallel {")), "provider = \"mine\""));
  EXPECT_EQ(error_of(model, with_rows("for i0 = 0 extent 255 parallel {")).code(), "provider-result");
}

TEST_F(Extensions, WhatCannotBeCheckedIsRefused) {
  std::string model = file("m.tenon", kHugeProduct);
  auto loops = [](const ScheduleRequest& request) -> ScheduleAnswer { return ScheduledFunction{std::string(request.function)}; };
  Error error = error_of(model, with_provider(loops));
  EXPECT_EQ(error.code(), "provider-unchecked");
  EXPECT_EQ(error.kind(), 7);
  auto steps = [](const ScheduleRequest&) -> ScheduleAnswer { return ScheduleSteps{"parallel i0\n"}; };
  EXPECT_TRUE(contains(module_after(model, "schedule", with_provider(steps)), "provider")) << "steps are proven, not run";
}

TEST_F(Extensions, TwoBuildsOfOneProcessDoNotAffectEachOther) {
  std::string model = file("m.tenon", kModel);
  BuildOptions first = with_provider([](const ScheduleRequest&) -> ScheduleAnswer { return ScheduleSteps{""}; });
  BuildOptions second = with_pass(PassSlot::AfterFuse, [](std::string m) { return replaced(m, "axes = [-1]", "axes = [0]"); });
  const std::string plain = module_after(model, "schedule"), by_first = module_after(model, "schedule", first),
                    by_second = module_after(model, "schedule", second);
  EXPECT_NE(plain, by_first);
  EXPECT_NE(plain, by_second);
  auto repeat = [&](const BuildOptions& options, const std::string& want) {
    for (int i = 0; i < 10; ++i) EXPECT_EQ(module_after(model, "schedule", options), want);
  };
  std::jthread a(repeat, std::cref(first), std::cref(by_first)), b(repeat, std::cref(second), std::cref(by_second));
  repeat({}, plain);
}

/// The reference system's all-C++ build with a schedule of the test's own: run, run on changed data, run on another input.
TEST_F(Extensions, ABuildWithOwnSchedulesRunsOnBoundInputs) {
  std::string model = file("m.tenon", kSum);
  std::string artifact = folder_ / "m.so";
  bool used = false;
  compile(model, artifact, with_provider([&](const ScheduleRequest&) -> ScheduleAnswer {
            used = true;
            return ScheduleSteps{"vectorize i0\n"};
          }));
  EXPECT_TRUE(used);
  tenon_executable* executable = nullptr;
  tenon_session* session = nullptr;
  ASSERT_EQ(tenon_load(artifact.c_str(), &executable), TENON_OK) << tenon_last_error();
  ASSERT_EQ(tenon_session_create(executable, 1, &session), TENON_OK) << tenon_last_error();
  alignas(64) float a[4] = {1, 2, 3, 4}, b[4] = {10, 20, 30, 40}, other[4] = {0, 0, 0, -1};
  auto expect = [&](const std::vector<float>& want) {
    ASSERT_EQ(tenon_run(session), TENON_OK) << tenon_last_error();
    const auto* c = static_cast<const float*>(tenon_output_data(session, 0));
    EXPECT_EQ(std::vector<float>(c, c + 4), want);
  };
  ASSERT_EQ(tenon_bind_input(session, 0, a, sizeof a), TENON_OK);
  ASSERT_EQ(tenon_bind_input(session, 1, b, sizeof b), TENON_OK);
  expect({11, 22, 33, 44});
  a[2] = -30;
  expect({11, 22, 0, 44});
  ASSERT_EQ(tenon_bind_input(session, 1, other, sizeof other), TENON_OK);
  expect({1, 2, -30, 3});
  tenon_session_free(session);
  tenon_release(executable);
}

}  // namespace
}  // namespace tenon
