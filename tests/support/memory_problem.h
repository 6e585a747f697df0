// SPDX-License-Identifier: Apache-2.0
// Memory problems for tests: built by hand, drawn at random, and judged by obvious means.
#pragma once

#include <random>

#include "tenon/plan.h"

namespace tenon::testing {

plan::Buffer buffer(std::string id, int64_t begin, int64_t end, int64_t size, int64_t alignment = 1);

struct ProblemShape {
  int64_t buffers = 40, pools = 1;
  bool gaps = false, shares = false, views = false, pins = false;
};
/// Every buffer can be placed: limits, where there are any, are those of pools that have an unlimited one beside them.
plan::LivenessProblem random_problem(std::mt19937_64& random, const ProblemShape& shape);

/// Whether no two buffers that are alive together overlap, by looking at each program point and each pair. Gaps, views and
/// sharing included.
bool is_free_of_overlaps(const plan::LivenessProblem& problem, const plan::MemoryPlan& plan);

/// The code of the first diagnostic of the CompileError that `check_plan` throws; empty if it accepts.
std::string fault_of(const plan::LivenessProblem& problem, const plan::MemoryPlan& plan);

/// The number of problems for a law: few in `make test`, `TENON_LONG` set by `tools/run_tests --long` for many.
int problem_count(int few, int many);

}  // namespace tenon::testing
