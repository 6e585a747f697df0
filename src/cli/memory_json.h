// SPDX-License-Identifier: Apache-2.0
// A program's memory for scripts.
#pragma once

#include "cli/output.h"
#include "runtime/program.h"

namespace tenon::cli {

inline Json memory_json(uint64_t arena_bytes, uint64_t lower_bound_bytes, bool optimal, uint64_t weights_bytes) {
  return {{"arena_bytes", arena_bytes},
          {"lower_bound_bytes", lower_bound_bytes},
          {"optimal", optimal},
          {"weights_bytes", weights_bytes}};
}

inline Json memory_json(const runtime::Program& program) {
  uint64_t bytes = program.arena_bytes(), bound = program.arena_lower_bound;
  return memory_json(bytes, bound, program.plan_optimal || bytes == bound, program.constants_bytes);
}

/// What each kernel touches in a call; none for TVM's files, which don't say.
inline Json kernel_memory_json(const runtime::Program& program) {
  Json list = Json::array();
  for (size_t k = 0; k < program.kernel_memory.size(); ++k) {
    const runtime::KernelMemory& memory = program.kernel_memory[k];
    list.push_back({{"name", program.kernels[k]},
                    {"io_bytes", memory.io_bytes},
                    {"constant_bytes", memory.constant_bytes},
                    {"workspace_bytes", memory.workspace_bytes},
                    {"worker_bytes", memory.worker_bytes}});
  }
  return list;
}

}  // namespace tenon::cli
