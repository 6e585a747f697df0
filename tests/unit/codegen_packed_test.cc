// SPDX-License-Identifier: Apache-2.0
// Wrappers with TVM's packed-call interface: what they check, and that parallel loops and scratch go through call-backs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "codegen/backend.h"
#include "graph/text.h"
#include "op/all_ops.h"
#include "runtime/tvm_abi.h"

namespace tenon::codegen {
namespace {

using runtime::tvm::ParallelEnvironment;
using runtime::tvm::ParallelTask;
using runtime::tvm::Tensor;
using runtime::tvm::Value;

std::string last_error;
int launches = 0, live_workspaces = 0, workspaces = 0, tasks_of_a_launch = 3;
bool no_memory = false;

void set_last_error(const char* text) { last_error = text; }
void* alloc_workspace(int, int, uint64_t bytes, int, int) {
  if (no_memory) return nullptr;
  ++workspaces;
  ++live_workspaces;
  return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
}
int free_workspace(int, int, void* workspace) {
  --live_workspaces;
  std::free(workspace);
  return 0;
}
/// The tasks one after the other, the last one first.
int parallel_launch(ParallelTask task, void* closure, int) {
  ++launches;
  ParallelEnvironment environment{nullptr, tasks_of_a_launch};
  int status = 0;
  for (int i = tasks_of_a_launch; i-- > 0;) status |= task(i, &environment, closure);
  return status;
}

/// y = 2 x + 1 over [7, 5], row by row in parallel, through scratch of each worker and scratch of the call.
constexpr const char* kKernel = R"(primfunc @twice_plus(x: f32[35]) -> (y: f32[35]) {scheduled = true} {
  alloc all: f32[35]
  for i = 0 extent 7 parallel {
    alloc row: f32[5] local
    for j = 0 extent 5 {
      row[j] = (x[((i * 5) + j)] * 2.0:f32)
    }
    for k = 0 extent 5 {
      all[((i * 5) + k)] = row[k]
    }
  }
  for n = 0 extent 35 {
    y[n] = (all[n] + 1.0:f32)
  }
}
)";

class PackedWrapperTest : public testing::Test {
 protected:
  PackedWrapperTest() {
    tir::Scratch scratch = load(kKernel, "twice_plus", {{DType::F32, {7, 5}}, {DType::F32, {7, 5}}});
    EXPECT_GT(scratch.shared_bytes, 0);
    EXPECT_GT(scratch.worker_bytes, 0);
    for (size_t i = 0; i < 35; ++i) x_[i] = static_cast<float>(i);
    launches = live_workspaces = workspaces = 0;
    tasks_of_a_launch = 3;
    no_memory = false;
    last_error.clear();
  }

  /// Takes the wrapper of another function.
  tir::Scratch load(const char* text, const std::string& name, std::vector<PackedWrapper::Parameter> parameters) {
    graph::Module module = graph::parse("kernel.tenon", text, op::all_ops());
    const tir::PrimFunc* function = &module.prim_funcs.at(name);
    Target target = host_target();
    Object object = compile_object(std::span(&function, 1), target);
    PackedWrapper wrapper{"tvmgen_" + name, name, std::move(parameters), tir::scratch_of(*function)};
    std::string objects[] = {object.bytes, compile_packed_wrappers(std::span(&wrapper, 1), target)};
    code_ = load_in_memory(objects);
    fill("__TVMAPISetLastError", set_last_error);
    fill("__TVMBackendAllocWorkspace", alloc_workspace);
    fill("__TVMBackendFreeWorkspace", free_workspace);
    fill("__TVMBackendParallelLaunch", parallel_launch);
    run_ = reinterpret_cast<runtime::tvm::PackedFunction>(code_->address(wrapper.symbol));
    return wrapper.scratch;
  }

  template <class T>
  void fill(const char* name, T value) {
    *static_cast<T*>(code_->address(name)) = value;
  }

  int call() {
    Value values[] = {{.handle = tensors_[0]}, {.handle = tensors_[1]}}, result{};
    int32_t result_code = 0;
    return run_(values, codes_, count_, &result, &result_code, nullptr);
  }

  /// The text of the failure that the call ends in.
  std::string failure() {
    EXPECT_EQ(call(), -1);
    return std::exchange(last_error, {});
  }

  std::unique_ptr<JitCode> code_;
  runtime::tvm::PackedFunction run_ = nullptr;
  alignas(64) float x_[35] = {}, y_[35] = {};
  int64_t shape_[2] = {7, 5}, strides_[2] = {5, 1};
  Tensor in_{x_, {1, 0}, 2, {2, 32, 1}, shape_, nullptr, 0}, out_{y_, {1, 0}, 2, {2, 32, 1}, shape_, strides_, 0};
  Tensor* tensors_[2] = {&in_, &out_};
  int32_t codes_[2] = {7, 7}, count_ = 2;
};

TEST_F(PackedWrapperTest, RunsOnAnyNumberOfTasksWithScratchForEach) {
  for (int tasks : {1, 2, 3, 20}) {
    tasks_of_a_launch = tasks;
    workspaces = launches = 0;
    std::fill_n(y_, 35, -1.0f);
    ASSERT_EQ(call(), 0) << last_error;
    for (size_t i = 0; i < 35; ++i) EXPECT_EQ(y_[i], 2 * static_cast<float>(i) + 1) << tasks;
    EXPECT_EQ(launches, 1);
    EXPECT_EQ(workspaces, 1 + std::min(tasks, 7));  // a task without rows asks for none
    EXPECT_EQ(live_workspaces, 0);
  }
}

TEST_F(PackedWrapperTest, LaunchesNothingForNoIterationAndSomethingForOne) {
  load(R"(primfunc @first(n: i32[1]) -> (y: f32[3]) {scheduled = true} {
    for i = 0 extent cast<i64>(n[0]) parallel { y[i] = 5.0:f32 } })",
       "first", {{DType::I32, {1}}, {DType::F32, {3}}});
  int64_t one[] = {1}, three[] = {3};
  int32_t n = 0;
  in_ = {&n, {1, 0}, 1, {0, 32, 1}, one, nullptr, 0};
  out_ = {y_, {1, 0}, 1, {2, 32, 1}, three, nullptr, 0};
  for (n = -1; n <= 3; ++n) {
    std::fill_n(y_, 3, 0.0f);
    launches = 0;
    ASSERT_EQ(call(), 0) << last_error;
    EXPECT_EQ(launches, n > 0 ? 1 : 0) << n;
    for (int32_t i = 0; i < 3; ++i) EXPECT_EQ(y_[i], i < n ? 5.0f : 0.0f) << n;
  }
}

TEST_F(PackedWrapperTest, TakesEveryCodeThatATensorMayHave) {
  for (int32_t code : {3, 7, 13}) {
    codes_[0] = codes_[1] = code;
    EXPECT_EQ(call(), 0) << code;
  }
}

TEST_F(PackedWrapperTest, EachRuleFailsWithItsText) {
  count_ = 3;
  EXPECT_EQ(failure(), "tvmgen_twice_plus: expected 2 arguments");
  count_ = 2;
  codes_[1] = 0;
  EXPECT_EQ(failure(), "tvmgen_twice_plus: argument 1: expected a tensor");
  codes_[1] = 7;
  tensors_[0] = nullptr;
  EXPECT_EQ(failure(), "tvmgen_twice_plus: argument 0: expected a tensor, found null");
  tensors_[0] = &in_;
  in_.ndim = 1;
  EXPECT_EQ(failure(), "tvmgen_twice_plus: argument 0: expected 2 dimensions, f32[7,5]");
  in_.ndim = 2;
  for (runtime::tvm::DataType type : {runtime::tvm::DataType{0, 32, 1}, {2, 64, 1}, {2, 32, 2}}) {
    in_.dtype = type;
    EXPECT_EQ(failure(), "tvmgen_twice_plus: argument 0: expected elements of f32[7,5]");
  }
  in_.dtype = {2, 32, 1};
  int64_t wrong[] = {7, 6};
  in_.shape = wrong;
  EXPECT_EQ(failure(), "tvmgen_twice_plus: argument 0: expected extent 5 of axis 1, f32[7,5]");
  in_.shape = shape_;
  int64_t columns[] = {1, 7};
  in_.strides = columns;
  EXPECT_EQ(failure(), "tvmgen_twice_plus: argument 0: expected row-major elements without gaps");
  in_.strides = nullptr;
  in_.byte_offset = 4;
  EXPECT_EQ(failure(), "tvmgen_twice_plus: argument 0: expected byte offset 0");
  in_.byte_offset = 0;
  in_.device.type = 2;
  EXPECT_EQ(failure(), "tvmgen_twice_plus: argument 0: expected memory of the host, device type 1");
  in_.device.type = 1;
  out_.data = nullptr;
  EXPECT_EQ(failure(), "tvmgen_twice_plus: argument 1: expected memory, found null");
  out_.data = y_;
  no_memory = true;
  EXPECT_EQ(failure(), "tvmgen_twice_plus: there is no memory for its workspace");
  no_memory = false;
  EXPECT_EQ(call(), 0);
}

}  // namespace
}  // namespace tenon::codegen
