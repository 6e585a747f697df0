// SPDX-License-Identifier: Apache-2.0
// Compiles a model with a memory planner of this program's own: first fit in the order of the buffers.
//
//   own_planner MODEL ARTIFACT          the plan passes the build's checker
//   own_planner MODEL ARTIFACT wrong    every buffer at 0, which the checker refuses
//
// Build: see the Makefile beside this file.
#include <iostream>
#include <string>

#include "tenon/compiler.h"

namespace plan = tenon::plan;

class FirstFit : public plan::MemoryPlanner {
 public:
  explicit FirstFit(bool wrong) : wrong_(wrong) {}
  std::string_view name() const override { return "first_fit"; }

  /// For one pool without pins. A view is placed by what it is a view of.
  plan::MemoryPlan plan(const plan::LivenessProblem& problem, const plan::PlannerOptions&) const override {
    std::vector<plan::Place> places(problem.buffers.size());
    for (size_t i = 0; i < places.size(); ++i)
      for (size_t j = 0; j < i && !wrong_;) {
        const plan::Buffer &mine = problem.buffers[i], &other = problem.buffers[j];
        bool alive_together = mine.begin < other.end && other.begin < mine.end && !mine.alias && !other.alias;
        int64_t &at = places[i].offset, end = places[j].offset + other.size;
        bool collide = alive_together && at < end && places[j].offset < at + mine.size;
        if (collide) at = (end + mine.alignment - 1) & -mine.alignment;
        j = collide ? 0 : j + 1;
      }
    return plan_from_places(problem, places, "first_fit");
  }

 private:
  bool wrong_;
};

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: " << argv[0] << " MODEL ARTIFACT [wrong]\n";
    return 2;
  }
  tenon::BuildOptions options;
  options.planner = std::make_shared<FirstFit>(argc > 3 && std::string(argv[3]) == "wrong");
  try {
    tenon::compile(argv[1], argv[2], options);
  } catch (const tenon::Error& error) {
    std::cerr << error.what() << '\n';
    return error.kind();
  }
  return 0;
}
