// SPDX-License-Identifier: Apache-2.0
// Folders of TVM's three files over kernels written by hand: what they call back, what graphs may say, and errors.
#include "runtime/tvm_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/diagnostic.h"
#include "base/function_ref.h"
#include "base/write_file.h"
#include "runtime/session.h"
#include "runtime/tvm_graph.h"
#include "runtime/tvm_params.h"
#include "support/allocation_count.h"
#include "support/error_of.h"
#include "support/paths.h"
#include "tenon/runtime.h"

namespace tenon::runtime {
namespace {

using tvm::Graph;

/// A folder with the hand-written kernels and a graph that a test makes, removed at the end.
class Folder {
 public:
  Folder() : path(testing::TempDir() + "tenon_tvm_" + std::to_string(getpid())) {
    std::filesystem::remove_all(path);
    make_folder(path);
    std::filesystem::copy_file(test_packed_kernels(), path + "/lib.so");
    graph.rows = {0};
  }
  ~Folder() { std::filesystem::remove_all(path); }

  /// Adds a node with one result; returns its index.
  uint32_t add(std::string name, std::string function, std::vector<uint32_t> inputs, Shape shape, uint32_t storage,
               bool flatten = false) {
    auto index = static_cast<uint32_t>(graph.nodes.size());
    tvm::GraphNode node{.name = std::move(name), .function = std::move(function), .flatten = flatten};
    for (uint32_t input : inputs) node.inputs.push_back({input, 0});
    graph.nodes.push_back(std::move(node));
    graph.rows.push_back(index + 1);
    graph.tensors.push_back({DType::F32, std::move(shape), storage});
    return index;
  }

  void write(std::vector<uint32_t> heads) {
    for (uint32_t head : heads) graph.heads.push_back({head, 0});
    write_file(path + "/graph.json", tvm::print(graph));
    tvm::write_params(path + "/params.bin", params);
  }

  std::string path;
  Graph graph;
  tvm::Params params;
};

Array floats(const std::vector<float>& values) {
  return array_of<float>(DType::F32, {static_cast<int64_t>(values.size())}, values);
}

std::vector<float> output(const Session& session, size_t index) {
  std::vector<float> out;
  Array array = session.output(index);
  for (int64_t i = 0; i < array.elements(); ++i) out.push_back(array.read<float>(i));
  return out;
}

TEST(TvmFolder, NopCopyFlattenAndParametersMeanWhatTheyDoInTheReference) {
  Folder folder;
  uint32_t x = folder.add("x:0", "", {}, {2, 2}, 0);
  uint32_t plus = folder.add("plus", "add_one", {x}, {2, 2}, 1, /*flatten=*/true);
  uint32_t flat = folder.add("flat", "__nop", {plus}, {4}, 1);
  uint32_t copied = folder.add("copied", "__copy", {flat}, {4}, 2);
  uint32_t w = folder.add("w", "", {}, {4}, 3);
  uint32_t view = folder.add("view", "__nop", {w}, {2, 2}, 3);
  // Takes the storage of `x`, which is set anew before each run.
  uint32_t last = folder.add("last", "call_add_one", {copied}, {4}, 0);
  folder.params["w"] = floats({5, 6, 7, 8});
  folder.write({last, view, x, plus});
  Session session(load_tvm_folder(folder.path));
  const Program& program = session.program();
  ASSERT_EQ(program.inputs.size(), 1u);
  EXPECT_EQ(program.inputs[0].name, "x:0");
  EXPECT_EQ(program.outputs[1].name, "out1");
  EXPECT_EQ(program.outputs[1].shape, (Shape{2, 2}));
  EXPECT_EQ(program.kernels, (std::vector<std::string>{"add_one", "call_add_one"}));
  for (int run = 0; run < 2; ++run) {
    session.set_input("x:0", array_of<float>(DType::F32, {2, 2}, {1, 2, 3, 4}));
    session.run();
    EXPECT_EQ(output(session, 0), (std::vector<float>{3, 4, 5, 6}));
    EXPECT_EQ(output(session, 1), (std::vector<float>{5, 6, 7, 8}));
    EXPECT_EQ(output(session, 2), (std::vector<float>{3, 4, 5, 6}));  // `last` lies there now
    EXPECT_EQ(output(session, 3), (std::vector<float>{2, 3, 4, 5}));
  }
}

TEST(TvmFolder, AnInputBehindANodeWithSeveralResultsHasItsOwnShape) {
  Folder folder;
  uint32_t x = folder.add("x", "", {}, {2}, 0);
  uint32_t parts = folder.add("parts", "split", {x}, {1}, 1);
  folder.graph.nodes.back().outputs = 2;
  folder.graph.tensors.push_back({DType::F32, {3}, 2});
  folder.graph.rows.back() = 3;
  folder.add("late", "", {}, {7, 5}, 3);
  folder.graph.rows.back() = 4;
  folder.write({parts});
  Program program = read_tvm_program(folder.path);
  ASSERT_EQ(program.inputs.size(), 2u);
  EXPECT_EQ(program.inputs[1].name, "late");
  EXPECT_EQ(program.inputs[1].shape, (Shape{7, 5})) << "a tensor's number is no node's number";
}

TEST(TvmFolder, ParallelLoopsBarriersAndWorkspacesAreServed) {
  Folder folder;
  uint32_t x = folder.add("x", "", {}, {100}, 0);
  folder.write({folder.add("y", "add_sum", {x}, {100}, 1)});
  auto executable = load_tvm_folder(folder.path);
  for (int threads : {1, 2, 7}) {
    Session session(executable, {.threads = threads});
    session.set_input("x", floats(std::vector<float>(100, 2)));
    for (int run = 0; run < 20; ++run) {
      session.run();
      EXPECT_EQ(output(session, 0), std::vector<float>(100, 202)) << threads;
    }
  }
}

TEST(TvmFolder, ARunAllocatesNothingOnceItsWorkspacesAreThere) {
  Folder folder;
  uint32_t x = folder.add("x", "", {}, {100}, 0);
  folder.write({folder.add("y", "add_sum", {x}, {100}, 1)});
  Session session(load_tvm_folder(folder.path), {.threads = 2});
  session.set_input("x", floats(std::vector<float>(100, 2)));
  for (int run = 0; run < 3; ++run) session.run();
  int64_t before = test::allocation_count();
  session.run();
  EXPECT_EQ(test::allocation_count(), before);
}

TEST(TvmFolder, AFailingKernelSaysWhy) {
  auto run_error = [](const std::string& function, const Shape& shape, int threads) {
    Folder folder;
    uint32_t x = folder.add("x", "", {}, shape, 0);
    folder.write({folder.add("y", function, {x}, shape, 1)});
    Session session(load_tvm_folder(folder.path), {.threads = threads});
    fill_random(session, 1);
    return error_of([&] { session.run(); });
  };
  Diagnostic error = run_error("add_one", {2, 2}, 1);
  EXPECT_EQ(error.code, "tvm-kernel");
  EXPECT_EQ(error.node, "add_one");
  EXPECT_EQ(error.found, "add_one takes vectors");
  EXPECT_EQ(run_error("fail_in_parallel", {2}, 3).found, "the last task failed");
  EXPECT_EQ(run_error("call_missing", {2}, 1).found,
            "a kernel calls the function `no_such_function`, which its library does not have");
}

TEST(TvmFolder, WhatDoesNotFitTogetherIsNamed) {
  Folder folder;
  uint32_t x = folder.add("x", "", {}, {2}, 0), w = folder.add("w", "", {}, {2}, 1);
  uint32_t y = folder.add("y", "no_such_kernel", {w}, {2}, 2);
  folder.params["w"] = floats({1, 2, 3});
  folder.write({x, y});
  Diagnostic error = error_of([&] { read_tvm_program(folder.path); });
  EXPECT_EQ(error.code, "tvm-params-mismatch");
  EXPECT_EQ(error.expected, "f32[2]");
  EXPECT_EQ(error.found, "f32[3]");
  folder.params = {{"w", floats({1, 2})}, {"other", floats({1})}};
  folder.write({});
  error = error_of([&] { read_tvm_program(folder.path); });
  EXPECT_EQ(error.code, "tvm-params-unknown");
  EXPECT_EQ(error.node, "other");
  EXPECT_EQ(read_tvm_program(folder.path, {.allow_unknown_params = true}).inputs.size(), 1u);
  error = error_of([&] { load_tvm_folder(folder.path, {.allow_unknown_params = true}); });
  EXPECT_EQ(error.code, "tvm-library");
  EXPECT_EQ(error.node, "no_such_kernel");
  folder.graph.nodes[y].function = "exit";  // libc's is not the library's
  folder.write({});
  EXPECT_EQ(error_of([&] { load_tvm_folder(folder.path, {.allow_unknown_params = true}); }).node, "exit");
  write_file(folder.path + "/lib.so", "no library");
  EXPECT_EQ(error_of([&] { load_tvm_folder(folder.path, {.allow_unknown_params = true}); }).code, "tvm-library");
  std::filesystem::remove(folder.path + "/lib.so");
  EXPECT_EQ(error_of([&] { load_tvm_folder(folder.path, {.allow_unknown_params = true}); }).code, "file-open");
  std::filesystem::remove(folder.path + "/params.bin");
  EXPECT_EQ(error_of([&] { read_tvm_program(folder.path); }).code, "file-open");
}

TEST(TvmFolder, TwoArgumentsOfOneNameAreRefused) {
  Folder folder;
  uint32_t x = folder.add("x", "", {}, {2}, 0);
  folder.add("x", "", {}, {2}, 1);
  folder.write({x});
  EXPECT_EQ(error_of([&] { read_tvm_program(folder.path); }).code, "tvm-graph");
}

TEST(TvmFolder, MoreMemoryThanTheMachineHasIsALimit) {
  Folder folder;
  uint32_t x = folder.add("x", "", {}, {int64_t{1} << 50}, 0);
  folder.write({x});
  Diagnostic error = error_of([&] { read_tvm_program(folder.path); });
  EXPECT_EQ(error.code, "memory-too-large");
  EXPECT_EQ(error.kind, ErrorKind::Limit);
}

TEST(TvmFolder, TheCInterfaceLoadsOneToo) {
  Folder folder;
  uint32_t x = folder.add("x", "", {}, {2}, 0);
  folder.write({folder.add("y", "add_one", {x}, {2}, 1)});
  tenon_executable* executable = nullptr;
  tenon_session* session = nullptr;
  ASSERT_EQ(tenon_load(folder.path.c_str(), &executable), TENON_OK) << tenon_last_error();
  ASSERT_EQ(tenon_session_create(executable, 1, &session), TENON_OK);
  const float data[] = {1, 2};
  ASSERT_EQ(tenon_set_input(session, 0, data, sizeof data), TENON_OK);
  ASSERT_EQ(tenon_run(session), TENON_OK);
  EXPECT_EQ(static_cast<const float*>(tenon_output_data(session, 0))[1], 3);
  EXPECT_STREQ(tenon_output(executable, 0).name, "out0");
  tenon_session_free(session);
  tenon_release(executable);
}

}  // namespace
}  // namespace tenon::runtime
