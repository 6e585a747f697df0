// SPDX-License-Identifier: Apache-2.0
// A program's memory for scripts.
#pragma once

#include "cli/output.h"
#include "runtime/program.h"

namespace tenon::cli {

inline Json memory_json(const runtime::Program& program) {
  return {{"arena_bytes", program.arena_bytes},
          {"lower_bound_bytes", program.arena_lower_bound},
          {"optimal", program.arena_bytes == program.arena_lower_bound},
          {"weights_bytes", program.constants_bytes}};
}

}  // namespace tenon::cli
