// SPDX-License-Identifier: Apache-2.0
// Compiles a model with two passes of this program's own: one changes the module, one reads it with its memory plan.
//
//   own_pass MODEL ARTIFACT
//
// Build: see the Makefile beside this file.
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "tenon/compiler.h"

namespace {

/// Computes every gelu by tanh, which is cheaper than by erf and less exact. Modules are text: an edit of an attribute is an edit
/// of a word.
std::string cheap_gelu(const tenon::PassInput& input) {
  const std::string exact = "approximate = \"none\"", cheap = "approximate = \"tanh\"";
  std::string module(input.module);
  for (size_t at = module.find(exact); at != module.npos; at = module.find(exact, at)) module.replace(at, exact.size(), cheap);
  return module;
}

/// Prints how often each loop function is called and how many buffers were planned, and leaves the module as it is.
std::string report(const tenon::PassInput& input) {
  std::string module(input.module);
  size_t calls = 0, buffers = 0;
  for (size_t at = module.find("call_lowered"); at != module.npos; at = module.find("call_lowered", at + 1)) ++calls;
  std::istringstream plan{std::string(input.plan)};
  for (std::string line; std::getline(plan, line);) ++buffers;
  std::cout << calls << " calls, " << (buffers ? buffers - 1 : 0) << " buffers\n";  // the first line names the columns
  return module;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: " << argv[0] << " MODEL ARTIFACT\n";
    return 2;
  }
  tenon::BuildOptions options;
  options.passes.push_back({"cheap_gelu", tenon::PassSlot::AfterFuse, cheap_gelu});
  options.passes.push_back({"report", tenon::PassSlot::AfterPlan, report});
  try {
    tenon::compile(argv[1], argv[2], options);
  } catch (const tenon::Error& error) {
    std::cerr << error.what() << '\n';
    return error.kind();
  }
  return 0;
}
