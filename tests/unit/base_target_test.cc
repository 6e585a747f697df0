// SPDX-License-Identifier: Apache-2.0
// The target text, the table of processors, and the host's features.
#include "base/target.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/diagnostic.h"

namespace tenon {
namespace {

TEST(Target, ProcessorsGiveMachineNumbers) {
  Target haswell = parse_target("llvm -mcpu=haswell");
  EXPECT_EQ(haswell.machine.vector_bytes, 32);
  EXPECT_EQ(haswell.machine.vector_registers, 16);
  EXPECT_TRUE(haswell.machine.fma);
  EXPECT_TRUE(haswell.has("avx2"));
  EXPECT_TRUE(haswell.has("ssse3"));
  EXPECT_FALSE(haswell.has("avx512f"));
  Target wide = parse_target("llvm -mcpu=skylake-avx512");
  EXPECT_EQ(wide.machine.vector_bytes, 64);
  EXPECT_EQ(wide.machine.vector_registers, 32);
  EXPECT_EQ(wide.machine.l2_bytes, 1 << 20);
  Target plain = parse_target("llvm -mcpu=x86-64");
  EXPECT_EQ(plain.machine.vector_bytes, 16);
  EXPECT_FALSE(plain.machine.fma);
}

TEST(Target, RemovedFeaturesTakeWhatBuildsOnThem) {
  Target target = parse_target("llvm -mcpu=znver4 -mattr=-avx512f");
  for (const std::string& feature : target.features) EXPECT_FALSE(feature.starts_with("avx512")) << feature;
  EXPECT_EQ(target.machine.vector_bytes, 32);
  EXPECT_TRUE(target.has("fma"));
}

TEST(Target, AddedFeaturesBringWhatTheyBuildOn) {
  Target target = parse_target("llvm -mcpu=haswell -mattr=+avx512vnni");
  EXPECT_TRUE(target.has("avx512f"));
  EXPECT_EQ(target.text(), "llvm -mcpu=haswell -mattr=+avx512f,+avx512vnni");
}

TEST(Target, TextIsCanonical) {
  for (const std::string& cpu : known_cpus()) {
    Target target = parse_target("llvm -mcpu=" + cpu);
    EXPECT_EQ(target.text(), "llvm -mcpu=" + cpu);
    EXPECT_TRUE(std::ranges::is_sorted(target.features));
  }
  std::string changed = "llvm -mcpu=znver4 -mattr=-avx512vnni";
  EXPECT_EQ(parse_target(changed).text(), changed);
  EXPECT_EQ(parse_target("c").text(), "c");
  Target host = host_target();
  EXPECT_EQ(parse_target(host.text()).text(), host.text());
  EXPECT_EQ(parse_target("llvm").text(), host.text());
}

TEST(Target, HostTargetUsesOnlyWhatTheHostHas) {
  std::vector<std::string> host = host_features();
  EXPECT_TRUE(std::ranges::is_sorted(host));
  for (const std::string& feature : host_target().features) EXPECT_TRUE(std::ranges::binary_search(host, feature)) << feature;
}

TEST(Target, MistakesAreNamed) {
  auto message = [](std::string_view text) -> std::string {
    try {
      parse_target(text);
    } catch (const CompileError& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Usage);
      const Diagnostic& d = error.diagnostics().front();
      return d.message + "; " + d.expected + "; " + d.found;
    }
    return "accepted";
  };
  EXPECT_NE(message("llvm -mcpu=pentium").find("znver3"), std::string::npos);
  EXPECT_NE(message("llvm -mcpu=pentium").find("; pentium"), std::string::npos);
  EXPECT_NE(message("llvm -mattr=+avx3").find("; +avx3"), std::string::npos);
  EXPECT_NE(message("llvm -mattr=avx2").find("; avx2"), std::string::npos);
  EXPECT_NE(message("llvm -O3").find("; -O3"), std::string::npos);
  EXPECT_NE(message("c -mcpu=haswell").find("no option"), std::string::npos);
  EXPECT_NE(message("fortran").find("opencl"), std::string::npos);
  EXPECT_NE(message("").find("kind of target"), std::string::npos);
}

}  // namespace
}  // namespace tenon
