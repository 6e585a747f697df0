// SPDX-License-Identifier: Apache-2.0
// Compiles a model with a memory planner of this program's own: own_planner MODEL ARTIFACT [wrong]. First fit, in the order of
// the buffers; or all of them at 0, which the build's checker refuses. Build: see the Makefile beside this file.
#include <iostream>

#include "tenon/compiler.h"

using namespace tenon::plan;

struct FirstFit : MemoryPlanner {
  bool wrong = false;
  std::string_view name() const override { return "first_fit"; }

  /// For one pool without pins. A view is placed by what it is a view of.
  MemoryPlan plan(const LivenessProblem& problem, const PlannerOptions&) const override {
    std::vector<Place> places(problem.buffers.size());
    for (size_t i = 0; i < places.size(); ++i)
      for (size_t j = 0; j < i && !wrong;) {
        const Buffer &mine = problem.buffers[i], &other = problem.buffers[j];
        bool alive_together = mine.begin < other.end && other.begin < mine.end && !mine.alias && !other.alias;
        int64_t &at = places[i].offset, end = places[j].offset + other.size;
        bool collide = alive_together && at < end && places[j].offset < at + mine.size;
        if (collide) at = (end + mine.alignment - 1) & -mine.alignment;
        j = collide ? 0 : j + 1;
      }
    return plan_from_places(problem, places, "first_fit");
  }
};

int main(int argc, char** argv) try {
  if (argc < 3) return 2;
  auto planner = std::make_shared<FirstFit>();
  planner->wrong = argc == 4 && argv[3] == std::string_view("wrong");
  tenon::BuildOptions options;
  options.planner = planner;
  tenon::compile(argv[1], argv[2], options);
} catch (const tenon::Error& error) {
  std::cerr << error.what() << '\n';
  return error.kind();
}
