// SPDX-License-Identifier: Apache-2.0
// One run at a time of an Executable, with its own workspace and threads.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "runtime/program.h"

namespace tenon::runtime {

struct SessionOptions {
  int threads = 1;  // workers, the calling thread included
  /// Finds kernels that read or write what is not theirs (debug_memory.h): a run is done twice, slowly, and throws CompileError
  /// (check-failed) naming the step. Memory of our own only: what is bound is watched for what the model holds there.
  bool debug_memory = false;
};

/// Time spent in one step of the last profiled run.
struct StepTime {
  uint32_t step = 0;
  double begin_us = 0, us = 0;
};

/// Not for use by two threads at once; make one Session for each.
class Session {
 public:
  Session(std::shared_ptr<const Executable> executable, const SessionOptions& options = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Program& program() const;

  /// Copies the array in. Throws CompileError (malformed) naming the input, what was found and what is expected, on an
  /// unknown name, wrong dtype or wrong shape.
  void set_input(std::string_view name, const Array& array);
  /// Reads from the caller's memory on each run, which must hold the input's bytes, aligned to its element size.
  void bind_input(size_t index, const void* data);
  void bind_output(size_t index, void* data);
  /// Whether the input was set or bound.
  bool has_input(size_t index) const;
  /// Runs once. Throws CompileError naming the first input that was neither set nor bound. Allocates nothing, but for debugging.
  void run();
  /// As run, filling one StepTime per step.
  void run_profiled(std::vector<StepTime>& times);
  /// The output of the last run, valid until the next one.
  const std::byte* output_data(size_t index) const;
  /// A copy of it.
  Array output(size_t index) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Numbers that depend only on the input's type, its index and the seed: floats in [-1, 1) that are exact in f32, integers
/// from 0 to 9, booleans.
Array random_input(const TensorSpec& spec, size_t index, uint64_t seed);
/// Sets every input that has no value yet to random_input.
void fill_random(Session& session, uint64_t seed);

}  // namespace tenon::runtime
