// SPDX-License-Identifier: Apache-2.0
// Memory of a session that finds kernels which read or write what is not theirs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/program.h"

namespace tenon::runtime {

/// Gives each region of a program, each output and each worker's scratch bytes of its own between canaries, all in one block. A
/// region holds a pattern before its first step and after its last. A run is done twice, with other patterns and canaries: a
/// step whose arguments then differ has read memory that holds nothing, or left a part of its result unwritten. A step changes no
/// operand but those in whose bytes its results are planned to lie.
class DebugMemory {
 public:
  /// Throws CompileError (unsupported, `debug-memory`) about a program that does not list its regions.
  DebugMemory(const Program& program, uint64_t workers);

  /// Where an argument in an arena lies at a step.
  std::byte* address(size_t step, const Argument& argument) { return address(argument, region_at(step, argument)); }
  /// Where one of the step's workspaces lies, which overlaps no other.
  std::byte* workspace(size_t step, size_t index) {
    return address(program_.steps[step].workspaces[index], workspaces_[step][index]);
  }
  std::byte* output(size_t index) { return at(outputs_[index]); }
  std::byte* worker_scratch() { return at(workers_[0]); }
  /// From one worker's scratch to the next one's.
  uint64_t worker_stride() const { return worker_stride_; }

  static constexpr int kRounds = 2;
  /// Fills all memory for a round.
  void begin(int round, std::span<const void* const> inputs);
  /// Notes what a step is given.
  void before(size_t step, void* const* args);
  /// Checks what it left behind. Throws CompileError (check-failed): `memory-write` or `memory-read`, naming the step.
  void after(size_t step, std::span<const void* const> inputs, void* const* args);

 private:
  /// Bytes of the one memory.
  struct Block {
    uint64_t offset = 0, bytes = 0;
    std::string name;
    bool holds = false;  // something, not the pattern
    uint64_t hash = 0;   // of what it holds
  };

  std::byte* at(const Block& block) { return memory_.data() + block.offset; }
  Block next_block(uint64_t bytes, std::string name);
  void fill(const Block& block);
  size_t region_at(size_t step, const Argument& argument) const;
  std::byte* address(const Argument& argument, size_t region);
  void find_workspaces();
  void find_operands();
  uint64_t hash_of_argument(size_t step, size_t k, void* const* args) const;
  std::string name_of(size_t step, const Argument& argument) const;
  void check_operands(size_t step, void* const* args) const;
  void check_canaries(size_t step);
  void check_regions(size_t step);
  void check_inputs(size_t step, std::span<const void* const> inputs) const;
  void check_results(size_t step, void* const* args);
  uint64_t hash_of_inputs(std::span<const void* const> inputs) const;
  [[noreturn]] void fail(size_t step, std::string code, const std::string& message) const;

  const Program& program_;
  uint64_t end_ = 0;  // of the blocks so far, with the canaries behind them
  std::vector<Block> regions_, outputs_, workers_;
  uint64_t worker_stride_;
  MutableArray memory_;
  std::vector<std::vector<size_t>> ending_;      // by step, the regions that hold nothing after it
  std::vector<std::vector<size_t>> workspaces_;  // by step, the region of each of its workspaces
  std::vector<std::vector<size_t>> operands_;    // by step, the arguments that it may not change
  std::vector<uint64_t> operand_hashes_;         // of the step that runs
  std::byte pattern_{}, canary_{};
  bool first_ = true;
  uint64_t inputs_hash_ = 0;
  std::vector<uint64_t> results_;  // by step, of the first round
};

}  // namespace tenon::runtime
