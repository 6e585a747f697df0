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
#include "tir/scratch.h"

namespace tenon::link {

/// What kernels say they need that are none of our loop functions, by symbol.
using GivenScratch = std::map<std::string, tir::Scratch, std::less<>>;
tir::Scratch scratch_of(const tir::PrimFunc& kernel, const GivenScratch& given);

struct Linked {
  runtime::Program program;
  std::vector<Array> constants;   // laid out as write_artifact does
  plan::LivenessProblem problem;  // values and kernels' workspaces; each step has tir::Scratch::points of its kernel's
  plan::MemoryPlan plan;          // checked
};

struct LinkOptions {
  std::vector<plan::Pool> pools = {plan::Pool{}};
  const plan::MemoryPlanner* planner = nullptr;  // null: the default one
  plan::PlannerOptions planner_options;
};

/// Needs the liveness of the module. A result is written
/// where the output lies; one that is an input, a constant, a part of a value, pinned or another output is copied there at the
/// end. Throws what analyse_liveness, the planner and the checker throw.
Linked link_program(const graph::Module& module, const Liveness& liveness, const GivenScratch& scratch = {},
                    const LinkOptions& options = {});

}  // namespace tenon::link
