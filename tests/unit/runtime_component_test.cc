// SPDX-License-Identifier: Apache-2.0
// Kernels that components make, with the component of tests/kernels/component.c.
#include "runtime/component.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/diagnostic.h"
#include "base/function_ref.h"
#include "runtime/serialize.h"
#include "runtime/session.h"
#include "support/allocation_count.h"
#include "support/error_of.h"

namespace tenon::runtime {
namespace {

/// y = x + w, then y + x, by two kernels of a component.
std::shared_ptr<Executable> sum_twice(const std::string& component, const std::string& description, const float* constants) {
  auto executable = std::make_shared<Executable>();
  Program& program = executable->program;
  program.inputs = {{"x", DType::F32, {4}}};
  program.outputs = {{"y", DType::F32, {4}}};
  program.kernels = {"first", "second"};
  program.component_kernels = {{0, component, description}, {1, component, "add 4"}};
  program.arenas = {{"main", 64, 64}};
  program.constants_bytes = 64;
  program.steps = {Step{.kernel = 0, .args = {{Place::Input, 0}, {Place::Constant, 0}, {Place::Arena, 0}}, .label = "a"},
                   Step{.kernel = 1, .args = {{Place::Arena, 0}, {Place::Input, 0}, {Place::Output, 0}}, .label = "b"}};
  executable->constants = reinterpret_cast<const std::byte*>(constants);
  bind_kernels(*executable, [](const std::string&) -> tenon_kernel { fail_internal("all kernels are the component's"); });
  return executable;
}

TEST(Component, MakesKernelsOncePerSessionAndRunsThem) {
  alignas(64) float constants[16] = {10, 20, 30, 40};
  auto executable = sum_twice("test", "add 4", constants);
  Session session(executable), second(executable);
  constants[0] = 1000;  // read when the sessions were made
  std::vector<float> x{1, 2, 3, 4};
  session.bind_input(0, x.data());
  session.run();
  int64_t before = test::allocation_count();
  session.run();
  EXPECT_EQ(test::allocation_count(), before);
  const auto* y = reinterpret_cast<const float*>(session.output_data(0));
  EXPECT_EQ(std::vector<float>(y, y + 4), (std::vector<float>{12, 24, 36, 48}));
}

TEST(Component, OneThatIsNotInstalledIsNamedWithWhereItWasLookedFor) {
  ::setenv("TENON_COMPONENTS", "/nowhere::/neither", 1);
  Diagnostic missing = error_of([] { open_component("absent"); });
  ::unsetenv("TENON_COMPONENTS");
  EXPECT_EQ(missing.kind, ErrorKind::Missing);
  EXPECT_EQ(missing.code, "component-missing");
  EXPECT_NE(missing.message.find("`absent`"), std::string::npos);
  EXPECT_NE(missing.expected.find("libtenon_absent.so in /nowhere, /neither, "), std::string::npos) << missing.expected;
  EXPECT_EQ(error_of([] { open_component("../test"); }).code, "component-missing");
}

TEST(Component, OneOfAnotherVersionIsRefused) {
  Diagnostic old = error_of([] { open_component("test_old"); });
  EXPECT_EQ(old.kind, ErrorKind::Mismatch);
  EXPECT_EQ(old.code, "component-version");
}

TEST(Component, ItsFailuresAreToldInItsWords) {
  alignas(64) float constants[16] = {};
  Diagnostic refused = error_of([&] { Session session(sum_twice("test", "refuse", constants)); });
  EXPECT_EQ(refused.kind, ErrorKind::Device);
  EXPECT_EQ(refused.code, "component-failed");
  EXPECT_NE(refused.message.find("not today"), std::string::npos);
  EXPECT_EQ(refused.node, "first");
  Session session(sum_twice("test", "fail", constants));
  float x[4] = {};
  session.bind_input(0, x);
  EXPECT_NE(error_of([&] { session.run(); }).message.find("broken"), std::string::npos);
}

TEST(Component, ProgramsKeepTheirDescriptions) {
  alignas(64) float constants[16] = {};
  Program program = sum_twice("test", "add 4", constants)->program;
  std::string bytes = serialize(program);
  Program read = deserialize(std::as_bytes(std::span(bytes)));
  EXPECT_EQ(read.component_kernels, program.component_kernels);
  std::swap(program.component_kernels[0], program.component_kernels[1]);
  std::string swapped = serialize(program);
  EXPECT_EQ(error_of([&] { deserialize(std::as_bytes(std::span(swapped))); }).code, "artifact-damaged");
  program.component_kernels = {{2, "test", ""}};
  std::string outside = serialize(program);
  EXPECT_EQ(error_of([&] { deserialize(std::as_bytes(std::span(outside))); }).code, "artifact-damaged");
}

}  // namespace
}  // namespace tenon::runtime
