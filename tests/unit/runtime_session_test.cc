// SPDX-License-Identifier: Apache-2.0
// Artifacts and sessions over kernels written by hand: y = 2 * x + w, and a copy of x as a second output.
#include "runtime/session.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <numeric>
#include <sstream>

#include "base/diagnostic.h"
#include "base/function_ref.h"
#include "runtime/serialize.h"
#include "support/allocation_count.h"
#include "support/error_of.h"
#include "support/paths.h"
#include "tenon/runtime.h"

namespace tenon::runtime {
namespace {

std::string file_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

Program sample_program() {
  Program program;
  program.target = "llvm -mcpu=x86-64";
  program.model = "sample.onnx";
  program.inputs = {{"x:0", DType::F32, {10, 100}}};
  program.outputs = {{"y", DType::F32, {10, 100}}, {"same/x", DType::F32, {10, 100}}};
  program.kernels = {"double_1000", "add_1000"};
  program.arenas = {{"arena", 4096 + 4096, 8000}};
  program.arena_lower_bound = 8000;
  program.worker_scratch_bytes = 4;
  program.constants_bytes = 4096;
  Step twice{.kernel = 0, .args = {{Place::Input, 0}, {Place::Arena, 0}}, .label = "twice", .flops = 1000};
  Step plus{.kernel = 1,
            .args = {{Place::Arena, 0}, {Place::Constant, 0, 64}, {Place::Output, 0}},
            .workspaces = {{Place::Arena, 0, 4096}},
            .label = "plus",
            .flops = 1000};
  Step copy{.kernel = Step::kCopy, .args = {{Place::Input, 0}, {Place::Output, 1}}, .copy_bytes = 4000, .label = "copy"};
  program.steps = {twice, plus, copy};
  return program;
}

/// 64 bytes for one number, then 1000 numbers and what fills them up.
std::vector<Array> sample_constants() {
  MutableArray weights(DType::F32, {1000});
  std::iota(weights.as<float>(), weights.as<float>() + 1000, 1000.0f);
  return {array_of<float>(DType::F32, {}, {7}), std::move(weights).freeze()};
}

std::vector<float> iota_input() {
  std::vector<float> x(1000);
  std::iota(x.begin(), x.end(), 0.0f);
  return x;
}

/// A file in the test's temporary folder, removed at the end.
struct TemporaryFile {
  explicit TemporaryFile(const std::string& name) : path(testing::TempDir() + "tenon_" + std::to_string(getpid()) + "_" + name) {}
  ~TemporaryFile() { std::remove(path.c_str()); }
  std::string path;
};

std::string write_sample(const TemporaryFile& file, const Program& program = sample_program()) {
  write_artifact(file.path, file_bytes(test_kernels()), sample_constants(), program);
  return file.path;
}

void expect_sample_results(const Session& session) {
  Array y = session.output(0), x = session.output(1);
  ASSERT_EQ(y.shape, (Shape{10, 100}));
  for (int64_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(y.read<float>(i), 3.0f * static_cast<float>(i) + 1000.0f) << i;
    ASSERT_EQ(x.read<float>(i), static_cast<float>(i)) << i;
  }
}

TEST(Artifact, RunsFromTheFileWithAnyNumberOfThreads) {
  TemporaryFile file("run.so");
  auto executable = load_artifact(write_sample(file));
  for (int threads : {1, 2, 5}) {
    Session session(executable, {.threads = threads});
    session.set_input("x:0", array_of<float>(DType::F32, {10, 100}, iota_input()));
    session.run();
    expect_sample_results(session);
  }
}

TEST(Session, DebuggingNeedsToKnowWhatTheArenaHolds) {
  TemporaryFile file("regions.so");
  auto executable = load_artifact(write_sample(file));
  Diagnostic error = error_of([&] { Session session(executable, {.debug_memory = true}); });
  EXPECT_EQ(error.code, "debug-memory");
  EXPECT_EQ(error.kind, ErrorKind::Unsupported);
}

TEST(Artifact, KeepsTheProgram) {
  TemporaryFile file("keep.so");
  Program written = sample_program(), read = read_artifact_program(write_sample(file));
  EXPECT_TRUE(is_artifact(file.path));
  EXPECT_EQ(serialize(read), serialize(written));
  EXPECT_EQ(read.steps, written.steps);
  EXPECT_EQ(read.outputs[1].name, "same/x");
  EXPECT_EQ(read.outputs[1].shape, (Shape{10, 100}));
}

TEST(Artifact, IsTheSameBytesEachTime) {
  TemporaryFile one("one.so"), two("two.so");
  EXPECT_EQ(file_bytes(write_sample(one)), file_bytes(write_sample(two)));
}

TEST(Artifact, ReplacedAtTheSamePathLoadsTheNewOne) {
  TemporaryFile file("replace.so");
  auto first = load_artifact(write_sample(file));
  Program swapped = sample_program();
  swapped.steps.pop_back();
  auto second = load_artifact(write_sample(file, swapped));
  EXPECT_EQ(first->program.steps.size(), 3u);
  EXPECT_EQ(second->program.steps.size(), 2u);
  EXPECT_NE(reinterpret_cast<void*>(first->kernels[0]), reinterpret_cast<void*>(second->kernels[0]));
}

TEST(Artifact, EveryCutAndEveryFlippedByteIsRefused) {
  TemporaryFile file("damage.so"), damaged("damaged.so");
  std::string bytes = file_bytes(write_sample(file));
  auto code_of = [&](const std::string& content) {
    std::ofstream(damaged.path, std::ios::binary) << content;
    return error_of([&] { load_artifact(damaged.path); });
  };
  for (size_t size = 0; size < bytes.size(); size += 997) EXPECT_EQ(code_of(bytes.substr(0, size)).kind, ErrorKind::Malformed);
  for (size_t at = 0; at < bytes.size(); at += 499) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    EXPECT_EQ(code_of(flipped).code, "artifact-damaged") << at;
  }
  std::string newer = bytes;
  newer[bytes.size() - 12] = 99;
  EXPECT_EQ(code_of(newer).kind, ErrorKind::Mismatch);
  EXPECT_EQ(code_of(newer).code, "artifact-version");
}

TEST(Artifact, AMissingCpuFeatureIsNamedBeforeTheCodeIsOpened) {
  TemporaryFile file("feature.so");
  Program program = sample_program();
  program.features = {"warp-drive"};
  write_sample(file, program);
  Diagnostic error = error_of([&] { load_artifact(file.path); });
  EXPECT_EQ(error.kind, ErrorKind::Mismatch);
  EXPECT_NE(error.message.find("`warp-drive`"), std::string::npos);
  EXPECT_EQ(read_artifact_program(file.path).features, program.features);
}

TEST(Artifact, AMissingFileIsAFileSystemError) {
  EXPECT_EQ(error_of([] { load_artifact("/nowhere/at/all.so"); }).kind, ErrorKind::FileSystem);
  EXPECT_EQ(error_of([] { write_artifact("/nowhere/at/all.so", "", sample_constants(), sample_program()); }).kind,
            ErrorKind::FileSystem);
}

TEST(Serialize, RefusesEveryTruncationAndWildIndices) {
  std::string bytes = serialize(sample_program());
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_EQ(error_of([&] { deserialize(std::as_bytes(std::span(bytes.data(), size))); }).code, "artifact-damaged") << size;
  auto refused = [](Program program) {
    std::string text = serialize(program);
    return error_of([&] { deserialize(std::as_bytes(std::span(text))); }).code;
  };
  Program kernel = sample_program(), input = sample_program(), arena = sample_program(), copy = sample_program();
  Program outside = sample_program(), too_long = sample_program(), no_arena = sample_program(), in_output = sample_program();
  Program nowhere = sample_program();
  kernel.steps[0].kernel = 2;
  input.steps[0].args[0].index = 1;
  arena.steps[0].args[1].offset = 8193;
  copy.steps[2].copy_bytes = 4001;
  outside.steps[1].workspaces[0].offset = 8193;
  too_long.steps[1].workspaces[0].bytes = 4097;
  no_arena.steps[1].workspaces[0].index = 1;
  in_output.steps[1].workspaces[0] = {Place::Output, 0, 0};
  for (const Program& program : {kernel, input, arena, copy, outside, too_long, no_arena, in_output})
    EXPECT_EQ(refused(program), "artifact-damaged");
  nowhere.arenas.clear();  // what a kernel does not touch needs no arena
  nowhere.steps[0].args[1] = nowhere.steps[1].args[0] = {Place::Output, 0};
  nowhere.steps[1].workspaces[0] = {};
  std::string text = serialize(nowhere);
  EXPECT_EQ(deserialize(std::as_bytes(std::span(text))).steps, nowhere.steps);
}

class SampleSession : public testing::Test {
 protected:
  TemporaryFile file{"session.so"};
  Session session{load_artifact(write_sample(file)), {.threads = 2}};
};

TEST_F(SampleSession, NamesTheWrongInput) {
  Array right = array_of<float>(DType::F32, {10, 100}, iota_input());
  Diagnostic missing = error_of([&] { session.run(); });
  EXPECT_EQ(missing.code, "input-missing");
  EXPECT_EQ(missing.input, "x:0");
  Diagnostic unknown = error_of([&] { session.set_input("x", right); });
  EXPECT_EQ(unknown.code, "input-unknown");
  EXPECT_EQ(unknown.expected, "`x:0`");
  Diagnostic shape = error_of([&] { session.set_input("x:0", array_of<float>(DType::F32, {1000}, iota_input())); });
  EXPECT_EQ(shape.code, "input-shape");
  EXPECT_EQ(shape.expected, "f32[10,100]");
  EXPECT_EQ(shape.found, "f32[1000]");
  Diagnostic dtype =
      error_of([&] { session.set_input("x:0", array_of<int32_t>(DType::I32, {10, 100}, std::vector<int32_t>(1000))); });
  EXPECT_EQ(dtype.code, "input-dtype");
  EXPECT_EQ(dtype.kind, ErrorKind::Malformed);
}

TEST_F(SampleSession, ReadsAndWritesBoundMemory) {
  std::vector<float> x = iota_input(), y(1000), same(1000);
  session.bind_input(0, x.data());
  session.bind_output(0, y.data());
  session.bind_output(1, same.data());
  session.run();
  EXPECT_EQ(y[7], 1021.0f);
  EXPECT_EQ(same, x);
  x[7] = 100;
  session.run();
  EXPECT_EQ(y[7], 1207.0f);
}

TEST_F(SampleSession, RunsWithoutAllocating) {
  session.set_input("x:0", array_of<float>(DType::F32, {10, 100}, iota_input()));
  session.run();
  int64_t before = test::allocation_count();
  for (int i = 0; i < 10; ++i) session.run();
  EXPECT_EQ(test::allocation_count(), before);
  expect_sample_results(session);
}

TEST_F(SampleSession, ProfilesEveryStepInOrder) {
  session.set_input("x:0", array_of<float>(DType::F32, {10, 100}, iota_input()));
  std::vector<StepTime> times;
  session.run_profiled(times);
  ASSERT_EQ(times.size(), 3u);
  for (size_t i = 1; i < times.size(); ++i) {
    EXPECT_EQ(times[i].step, i);
    EXPECT_GE(times[i].begin_us, times[i - 1].begin_us + times[i - 1].us - 1e-3);
  }
  expect_sample_results(session);
}

TEST(CInterface, LoadsRunsAndReportsErrors) {
  TemporaryFile file("c.so");
  write_sample(file);
  tenon_executable* executable = nullptr;
  ASSERT_EQ(tenon_load(file.path.c_str(), &executable), TENON_OK) << tenon_last_error();
  ASSERT_EQ(tenon_input_count(executable), 1u);
  ASSERT_EQ(tenon_output_count(executable), 2u);
  tenon_tensor_info input = tenon_input(executable, 0);
  EXPECT_STREQ(input.name, "x:0");
  EXPECT_EQ(input.dtype, TENON_F32);
  EXPECT_EQ(input.rank, 2);
  EXPECT_EQ(input.shape[1], 100);
  EXPECT_EQ(input.bytes, 4000u);
  EXPECT_STREQ(tenon_dtype_name(input.dtype), "f32");

  tenon_session* session = nullptr;
  auto says = [](const char* code) { return std::string(tenon_last_error()).find(code) != std::string::npos; };
  EXPECT_EQ(tenon_session_create(executable, 0, &session), TENON_USAGE);
  EXPECT_TRUE(says("thread-count"));
  ASSERT_EQ(tenon_session_create(executable, 2, &session), TENON_OK);
  tenon_release(executable);
  EXPECT_EQ(tenon_run(session), TENON_MALFORMED);
  EXPECT_NE(std::string(tenon_last_error()).find("`x:0`"), std::string::npos);
  std::vector<float> x = iota_input();
  EXPECT_EQ(tenon_set_input(session, 0, x.data(), 3996), TENON_MALFORMED);
  EXPECT_TRUE(says("tensor-size"));
  EXPECT_EQ(tenon_set_input(session, 1, x.data(), 4000), TENON_USAGE);
  EXPECT_TRUE(says("tensor-index"));
  EXPECT_EQ(tenon_bind_input(session, 0, reinterpret_cast<char*>(x.data()) + 1, 4000), TENON_MALFORMED);
  EXPECT_TRUE(says("tensor-alignment"));
  EXPECT_EQ(tenon_set_input(session, 0, x.data(), 4000), TENON_OK);
  EXPECT_EQ(tenon_run(session), TENON_OK);
  EXPECT_EQ(static_cast<const float*>(tenon_output_data(session, 0))[5], 1015.0f);
  tenon_session_free(session);
  EXPECT_EQ(tenon_load("/nowhere.so", &executable), TENON_FILE_SYSTEM);
}

}  // namespace
}  // namespace tenon::runtime
