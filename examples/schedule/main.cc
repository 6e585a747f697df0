// SPDX-License-Identifier: Apache-2.0
// Compiles a model with matrix products scheduled by this program, everything else by Tenon.
//
//   own_schedule MODEL ARTIFACT steps   answers with schedule steps, which are proven one by one
//   own_schedule MODEL ARTIFACT loops   answers with a loop function, which is run beside the one it stands for
//   own_schedule MODEL ARTIFACT wrong   answers with loops that forget a column, and is refused
//
// Build: see the Makefile beside this file.
#include <iostream>
#include <regex>
#include <string>

#include "tenon/compiler.h"

namespace {

/// Whether a function computes one matrix product of rank 2 and nothing else.
bool is_product(const std::string& function, std::smatch& extents) {
  static const std::regex kProduct(
      R"(for i0 = 0 extent (\d+) \{\s*for i1 = 0 extent (\d+) \{\s*for r0 = 0 extent (\d+) \{\s*block matmul \{)");
  bool alone = function.find("block ") == function.rfind("block ");
  return alone && std::regex_search(function, extents, kProduct);
}

/// Rows on all workers, the sum outside of the columns, so that these are computed in vectors.
tenon::ScheduleAnswer with_steps(const tenon::ScheduleRequest& request) {
  std::smatch extents;
  std::string function(request.function);
  if (!is_product(function, extents)) return tenon::Declined{};
  return tenon::ScheduleSteps{
      "split i1 8 outer=column inner=lane\n"
      "reorder column r0 lane\n"
      "vectorize lane\n"
      "parallel i0\n"};
}

/// The function as it stands but for its first loop, which runs on all workers.
tenon::ScheduleAnswer with_loops(const tenon::ScheduleRequest& request, bool wrong) {
  std::smatch extents;
  std::string function(request.function);
  if (!is_product(function, extents)) return tenon::Declined{};
  std::string rows = "for i0 = 0 extent " + extents[1].str(), columns = "for i1 = 0 extent " + extents[2].str();
  function.replace(function.find(rows), rows.size(), rows + " parallel");
  if (wrong)
    function.replace(function.find(columns), columns.size(), "for i1 = 0 extent " + std::to_string(std::stoi(extents[2]) - 1));
  return tenon::ScheduledFunction{function};
}

}  // namespace

int main(int argc, char** argv) {
  std::string mode = argc == 4 ? argv[3] : "";
  if (mode != "steps" && mode != "loops" && mode != "wrong") {
    std::cerr << "usage: " << argv[0] << " MODEL ARTIFACT steps|loops|wrong\n";
    return 2;
  }
  tenon::BuildOptions options;
  options.schedules.push_back({"own_product", [&](const tenon::ScheduleRequest& request) {
                                 return mode == "steps" ? with_steps(request) : with_loops(request, mode == "wrong");
                               }});
  try {
    tenon::compile(argv[1], argv[2], options);
    std::cout << tenon::module_after(argv[1], "schedule", options);
  } catch (const tenon::Error& error) {
    std::cerr << error.what() << '\n';
    return error.kind();
  }
  return 0;
}
