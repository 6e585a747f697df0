// SPDX-License-Identifier: Apache-2.0
// What the graph executor runs: a list of kernel calls over planned memory, with the model's interface. The same
// whether the code lies in an artifact or in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/array.h"
#include "base/function_ref.h"
#include "runtime/packed_call.h"
#include "tenon/component.h"
#include "tenon/kernel.h"

namespace tenon::runtime {

struct TensorSpec {
  std::string name;  // exactly as in the user's model
  DType dtype = DType::F32;
  Shape shape;

  size_t bytes() const { return static_cast<size_t>(element_count(shape)) * static_cast<size_t>(byte_size(dtype)); }
};

enum class Place : uint8_t { Input, Output, Constant, Arena };

/// Where one kernel argument lies: `offset` bytes from the start of an input, an output, the constants or an arena.
struct Argument {
  Place place = Place::Arena;
  uint32_t index = 0;  // which input, output or arena
  uint64_t offset = 0;
  uint64_t bytes = 0;  // 0 also if it isn't known
  bool operator==(const Argument&) const = default;
};

struct Step {
  /// In place of a kernel: copies `copy_bytes` from the first argument to the second.
  static constexpr uint32_t kCopy = UINT32_MAX;

  uint32_t kernel = 0;               // index into `kernels`, or kCopy
  uint32_t inputs = 0;               // how many of `args` the kernel reads; those behind are its results
  std::vector<Argument> args;        // inputs then outputs
  std::vector<Argument> workspaces;  // the kernel's (tenon/kernel.h), in arenas; those without bytes lie nowhere
  uint64_t copy_bytes = 0;
  std::string label;  // for profiles: the nodes it stands for
  double flops = 0;   // multiply-adds counted as two; 0 if unknown
  bool operator==(const Step&) const = default;
};

/// Memory that a session makes for one pool of the plan.
struct Arena {
  std::string name;
  uint64_t bytes = 0, lower_bound = 0;
  bool operator==(const Arena&) const = default;
};

/// A part of an arena and the steps [begin, end) during which it holds something; for the debug mode, which gives each region
/// memory of its own. Regions that are needed at one time never overlap: two of one step, if they do, are workspaces of its
/// kernel that it needs one after the other.
struct Region {
  std::string name;
  uint32_t arena = 0;
  uint64_t offset = 0, bytes = 0, begin = 0, end = 0;
  bool operator==(const Region&) const = default;
};

/// Memory that one kernel touches in a call, as its loop function declares it.
struct KernelMemory {
  uint64_t io_bytes = 0;         // inputs that are no constants, and outputs
  uint64_t constant_bytes = 0;   // operands that are constants in every call, and those inside
  uint64_t workspace_bytes = 0;  // the most of its workspaces at once
  uint64_t worker_bytes = 0;     // scratch of each worker
  bool operator==(const KernelMemory&) const = default;
};

/// A kernel that a component makes from its description (tenon/component.h).
struct ComponentKernel {
  uint32_t kernel = 0;  // index into Program::kernels
  std::string component, description;
  bool operator==(const ComponentKernel&) const = default;
};

struct Program {
  std::string target;                 // target text
  std::vector<std::string> features;  // CPU features the code uses
  int32_t opt_level = 3;
  std::string model;  // file name without folders, for reports
  std::vector<TensorSpec> inputs, outputs;
  std::vector<std::string> kernels;                // symbol names
  std::vector<ComponentKernel> component_kernels;  // those of `kernels` that are not in the library, sorted by `kernel`
  std::vector<Step> steps;
  std::vector<KernelMemory> kernel_memory;  // one for each kernel, or none if it isn't known
  std::vector<Arena> arenas;                // planned values and workspaces
  std::vector<Region> regions;              // of all arenas; none if they aren't known
  uint64_t arena_lower_bound = 0;           // of all arenas together
  std::string planner;                      // that chose the regions' places; empty if none did
  bool plan_optimal = false;                // no plan takes less, which is proven
  uint64_t plan_time_limit_ms = 0;    // after which its search was stopped, so that the plan depends on the machine; 0: none
  uint64_t worker_scratch_bytes = 0;  // for each worker
  uint64_t constants_bytes = 0;

  uint64_t arena_bytes() const;
  /// Null for a kernel in the library.
  const ComponentKernel* component_kernel(uint32_t kernel) const;
};

/// A program with its code and constants in place; immutable, shared by sessions.
struct Executable {
  Program program;
  std::vector<tenon_kernel> kernels;  // one per Program::kernels, null for a component's; none where `packed` says what to call
  std::vector<const tenon_component*> components;  // one per Program::component_kernels
  std::vector<PackedStep> packed;                  // one per step, those of copies without a function; empty for our own kernels
  const std::byte* constants = nullptr;
  std::shared_ptr<const void> owner;  // keeps code and constants alive
};

inline uint64_t Program::arena_bytes() const {
  uint64_t sum = 0;
  for (const Arena& arena : arenas) sum += arena.bytes;
  return sum;
}

/// Throws CompileError (mismatch) naming the first CPU feature that the program uses and this machine lacks.
void check_host(const Program& program);

/// Fills in kernels, by `address`, and components. Throws CompileError (missing) naming a component that is not installed.
void bind_kernels(Executable& executable, function_ref<tenon_kernel(const std::string& symbol)> address);

/// A cache line, and the widest vector.
inline constexpr uint64_t kConstantAlignment = 64;
/// The constants one after the other, each at the next multiple of kConstantAlignment, filled up with zeros to one.
Array join_constants(std::span<const Array> constants);

/// Writes `library` (an ELF shared object), the joined constants at a page boundary, the program and a footer with version and
/// XXH3-128 checksum, as one file, through a temporary name and a rename.
void write_artifact(const std::string& path, const std::string& library, std::span<const Array> constants,
                    const Program& program);

/// Checks footer, version, checksum and CPU features, then maps and opens the file. Throws CompileError: malformed (3) for
/// a damaged file or none of ours, file-system (6), mismatch (9) naming the version or the missing feature.
std::shared_ptr<const Executable> load_artifact(const std::string& path);
/// Program and sizes without opening the code; the same checks but for the CPU features.
Program read_artifact_program(const std::string& path);
/// Whether a file ends in an artifact's footer.
bool is_artifact(const std::string& path);

}  // namespace tenon::runtime
