// SPDX-License-Identifier: Apache-2.0
// A program's memory for scripts.
#pragma once

#include "cli/output.h"
#include "runtime/program.h"

namespace tenon::cli {

inline Json memory_json(uint64_t arena_bytes, uint64_t lower_bound_bytes, uint64_t weights_bytes) {
  return {{"arena_bytes", arena_bytes},
          {"lower_bound_bytes", lower_bound_bytes},
          {"optimal", arena_bytes == lower_bound_bytes},
          {"weights_bytes", weights_bytes}};
}

inline Json memory_json(const runtime::Program& program) {
  return memory_json(program.arena_bytes, program.arena_lower_bound, program.constants_bytes);
}

}  // namespace tenon::cli
