// SPDX-License-Identifier: Apache-2.0
// Kernels that read or write what is not theirs, found by a session's debug mode. `at` moves an index out of its buffer in a way
// that only the run shows.
#include <gtest/gtest.h>

#include <numeric>

#include "driver/driver.h"
#include "graph/text.h"
#include "op/all_ops.h"
#include "runtime/session.h"
#include "support/error_of.h"

namespace tenon::driver {
namespace {

constexpr std::string_view kModule = R"(module {opt_level = 3, stage = "schedule"}
fn @main(%0: f32[64] "x", %1: i64[2] "at") -> ("y") {
  %2 = call_lowered @double(%0) : f32[64] "first"
  %3 = call_lowered @double(%2) : f32[64] "second"
  %4 = call_lowered @far(%3, %1) : f32[64] "third"
  %5 = call_lowered @double(%4) : f32[64] "last"
  return %5
}
primfunc @double(x: f32[64]) -> (y: f32[64]) {scheduled = true} {
  for i = 0 extent 64 { y[i] = (x[(63 - i)] * 2.0:f32) }
}
primfunc @far(x: f32[64], at: i64[2]) -> (y: f32[64]) {scheduled = true} {
  alloc t: f32[64]
  for i = 0 extent 64 { t[i] = x[(63 - i)] }
  for j = 0 extent 64 { y[j] = t[j] }
  y[(0 + at[0])] = x[(0 + at[1])]
}
)";

/// Runs the module with `far` writing its result at one index and reading its operand at another.
void run(int64_t write_at, int64_t read_at, bool debug = true, std::string_view text = kModule) {
  CompileOptions options;
  graph::Module module = graph::parse("m.tenon", text, op::all_ops());
  runtime::Session session(load(build(module, options)), {.threads = 2, .debug_memory = debug});
  std::vector<float> x(64);
  std::iota(x.begin(), x.end(), 1.0f);
  session.set_input("x", array_of<float>(DType::F32, {64}, x));
  session.set_input("at", array_of<int64_t>(DType::I64, {2}, {write_at, read_at}));
  session.run();
  std::vector<float> second(64), third(64);
  for (size_t i = 0; i < 64; ++i) second[i] = 4 * x[i];
  for (size_t i = 0; i < 64; ++i) third[i] = second[63 - i];
  third[static_cast<size_t>(write_at)] = second[static_cast<size_t>(read_at)];
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(session.output(0).read<float>(static_cast<int64_t>(i)), 2 * third[63 - i]) << i;
}

TEST(DebugMemory, AKernelThatKeepsToItsOwnRunsAsElsewhere) {
  EXPECT_NO_THROW(run(5, 7));
  EXPECT_NO_THROW(run(5, 7, false));
}

TEST(DebugMemory, AWriteBehindTheResultIsFound) {
  Diagnostic error = error_of([] { run(70, 0); });
  EXPECT_EQ(error.code, "memory-write");
  EXPECT_EQ(error.kind, ErrorKind::CheckFailed);
  EXPECT_EQ(error.node, "third");
  EXPECT_EQ(error.function, "far");
}

TEST(DebugMemory, AWriteBeforeTheResultIsFound) {
  EXPECT_EQ(error_of([] { run(-1, 0); }).code, "memory-write");
}

/// The regions of the debug mode in order: `first`, `second`, `third`, each of 256 bytes with as many canaries between.
TEST(DebugMemory, AWriteToWhatIsNotAliveIsFound) {
  EXPECT_EQ(error_of([] { run(-2 * 128, 0); }).code, "memory-write") << "`first` is dead by then";
}

TEST(DebugMemory, AWriteToAnOperandIsFound) {
  Diagnostic error = error_of([] { run(-128 + 5, 0); });
  EXPECT_EQ(error.code, "memory-write");
  EXPECT_EQ(error.function, "far");
  EXPECT_NE(error.message.find("operand 0, `second`"), error.message.npos) << error.message;
}

TEST(DebugMemory, AWriteToAnOperandThatIsPassedTwiceIsFound) {
  std::string twice(kModule);
  twice.replace(twice.find("@far(%3, %1)"), 12, "@far(%3, %1, %3)");
  twice.replace(twice.find("at: i64[2])"), 11, "at: i64[2], again: f32[64])");
  EXPECT_NO_THROW(run(5, 7, true, twice));
  EXPECT_EQ(error_of([&] { run(-128 + 5, 0, true, twice); }).code, "memory-write");
}

TEST(DebugMemory, AReadOfWhatIsNotAliveIsFound) {
  EXPECT_EQ(error_of([] { run(5, -128); }).code, "memory-read") << "`first`";
  EXPECT_EQ(error_of([] { run(5, 64); }).code, "memory-read") << "behind the operand";
}

/// Two blocks of one kernel, of which the second is needed once the first is not, so that a plan puts both in the same bytes. The
/// second is read at `at` and holds one element.
constexpr std::string_view kTwoBlocks = R"(module {opt_level = 3, stage = "schedule"}
fn @main(%0: f32[64] "x", %1: i64[1] "at") -> ("y") {
  %2 = call_lowered @blocks(%0, %1) : f32[64] "blocks"
  return %2
}
primfunc @blocks(x: f32[64], at: i64[1]) -> (y: f32[64]) {scheduled = true} {
  alloc t: f32[64]
  alloc u: f32[64]
  for i = 0 extent 64 { t[i] = (x[i] + 1.0:f32) }
  for j = 0 extent 64 { y[j] = t[(63 - j)] }
  u[5] = x[0]
  y[0] = u[(0 + at[0])]
}
)";

TEST(DebugMemory, BlocksOfOneKernelInTheSameBytesAreToldApart) {
  CompileOptions options;
  Built built = build(graph::parse("m.tenon", kTwoBlocks, op::all_ops()), options);
  ASSERT_EQ(built.program.steps.size(), 1u);
  ASSERT_EQ(built.program.steps[0].workspaces.size(), 2u);
  ASSERT_EQ(built.program.steps[0].workspaces[0], built.program.steps[0].workspaces[1]);
  std::shared_ptr<const runtime::Executable> executable = load(std::move(built));
  auto run_at = [&](int64_t at) {
    runtime::Session session(executable, {.debug_memory = true});
    session.set_input("x", array_of<float>(DType::F32, {64}, std::vector<float>(64, 3)));
    session.set_input("at", array_of<int64_t>(DType::I64, {1}, {at}));
    session.run();
    EXPECT_EQ(session.output(0).read<float>(0), 3.0f);
    EXPECT_EQ(session.output(0).read<float>(1), 4.0f);
  };
  EXPECT_NO_THROW(run_at(5));
  Diagnostic error = error_of([&] { run_at(6); });
  EXPECT_EQ(error.code, "memory-read") << "an element that only `t` wrote";
  EXPECT_EQ(error.function, "blocks");
}

}  // namespace
}  // namespace tenon::driver
