// SPDX-License-Identifier: Apache-2.0
// From a scheduled mixed module to a program: where every value of `main` lives, and the steps that run.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "link/liveness.h"
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
  std::vector<plan::Pool> pools = {plan::Pool{}};
  const plan::MemoryPlanner* planner = nullptr;  // null: the default one
  plan::PlannerOptions planner_options;
};

/// Needs the liveness of the module, and for each loop function that runs its scratch, if it needs any. A result is written
/// where the output lies; one that is an input, a constant, a part of a value, pinned or another output is copied there at the
/// end. Throws what analyse_liveness, the planner and the checker throw.
Linked link_program(const graph::Module& module, const Liveness& liveness,
                    const std::map<std::string, KernelScratch, std::less<>>& scratch, const LinkOptions& options = {});

}  // namespace tenon::link
