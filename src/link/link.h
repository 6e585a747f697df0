// SPDX-License-Identifier: Apache-2.0
// From a scheduled mixed module to a program: where every value of `main` lives, and the steps that run.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/program.h"
#include "tenon/plan.h"

namespace tenon::link {

/// Scratch memory of one kernel, in bytes, as code generation reports it.
struct KernelScratch {
  int64_t shared_bytes = 0;      // one block for a call
  int64_t per_worker_bytes = 0;  // one block for each worker
};

struct Linked {
  runtime::Program program;
  std::vector<Array> constants;   // laid out as write_artifact does
  plan::LivenessProblem problem;  // values and kernel scratch in the arena
  plan::MemoryPlan plan;          // checked
};

struct LinkOptions {
  bool in_place = true;  // a result may overwrite an operand where its kernel's loops prove it safe (in_place.h)
};

/// Needs a module in which `main` holds only constants and `call_lowered` of scheduled loop functions; `scratch` has an entry
/// for each of them that needs any. A `call_lowered` with the attribute `view` (its one result holds the bytes of its one
/// operand) becomes no step: its result is its operand's memory. A result is written where the output lies; one that is an
/// input, a constant or another output is copied there at the end. Throws CompileError (unsupported) naming a node that was
/// not lowered, or an input without a static shape.
Linked link_program(const graph::Module& module, const std::map<std::string, KernelScratch, std::less<>>& scratch,
                    const LinkOptions& options = {});

}  // namespace tenon::link
