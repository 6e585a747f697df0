// SPDX-License-Identifier: Apache-2.0
// What a program adds to its builds: passes at named slots and schedules. Held by the options of one build; there is no registry.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "schedule/schedule.h"
#include "tenon/plan.h"

namespace tenon::driver {

/// Where passes that a build was given may run.
enum class Slot { AfterFuse, AfterLower, BeforePlan, AfterPlan };
std::string_view name(Slot slot);

/// The memory of a build, as a pass after planning sees it.
struct Planned {
  const plan::LivenessProblem& problem;
  const plan::MemoryPlan& plan;
};

struct GivenPass {
  std::string name;  // letters, digits, `_`, `.` and `-`; no name of the pipeline
  Slot slot = Slot::AfterFuse;
  /// `planned` is null but for AfterPlan.
  std::function<graph::Module(const graph::Module& module, const Planned* planned)> run;
};

struct Extensions {
  std::vector<GivenPass> passes;  // of one slot: in this order
  std::vector<schedule::GivenProvider> schedules;
};

/// Runs one and checks what it returns: a module that verifies, with what holds at the slot (lower/invariants.h), the same
/// interface of `main` and the same attributes. Throws CompileError naming the pass.
graph::Module run_given(const GivenPass& pass, const graph::Module& module, const Planned* planned);

/// Throws CompileError (`pass-plan`) naming a buffer of which a pass after planning changed size or lifetime: the plan that it
/// was shown would be void.
void check_same_problem(const plan::LivenessProblem& planned, const plan::LivenessProblem& now);

}  // namespace tenon::driver
