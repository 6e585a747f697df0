// SPDX-License-Identifier: Apache-2.0
// Memory that a loop function needs beside its parameters, read off its allocations. Kernels get it as tenon/kernel.h says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tir/stmt.h"

namespace tenon::tir {

/// One allocation.
struct ScratchBlock {
  std::string name;            // of its buffer
  int64_t bytes = 0;           // a multiple of 64
  int64_t begin = 0, end = 0;  // the points of a call [begin, end) at which it holds something; none if nothing touches it
  int64_t offset = 0;          // in one piece of memory for all; blocks that hold something at one point never overlap
};

/// Points are numbered from 0 in the order of execution, as few as tell apart which blocks are needed together. A block that is
/// touched inside a loop is needed all through that loop, up to the one that holds its allocation; one that workers share, all
/// through the loop that they run.
struct Scratch {
  std::vector<ScratchBlock> shared;  // of a call, in the order of the text
  std::vector<ScratchBlock> worker;  // of each worker: scope `local` inside a loop that runs on workers
  int64_t points = 1;
  int64_t shared_bytes = 0, worker_bytes = 0;  // one piece of memory for all of them

  /// A buffer's block among `worker`, or null.
  const ScratchBlock* worker_block(std::string_view buffer) const;
  /// Its number among `shared`.
  size_t shared_index(std::string_view buffer) const;
};

/// A parallel or block loop, unless its extent is known to be 1 or less.
bool runs_on_workers(const For& loop);

/// Buffers of scope `reg` need no memory. Throws CompileError (unsupported, `dynamic-allocation`) naming a buffer whose shape is
/// not constant.
Scratch scratch_of(const PrimFunc& function);

/// One block of so many bytes for a call, and so many for each worker: what code from elsewhere says that it needs.
Scratch opaque_scratch(int64_t shared_bytes, int64_t worker_bytes);

}  // namespace tenon::tir
