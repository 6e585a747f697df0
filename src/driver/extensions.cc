// SPDX-License-Identifier: Apache-2.0
// Runs a pass that a build was given, and judges the module it returns.
#include "driver/extensions.h"

#include <fmt/format.h>

#include "graph/text.h"
#include "lower/invariants.h"
#include "tir/text.h"

namespace tenon::driver {
namespace {

using graph::Function;
using graph::Module;

/// What a caller of the compiled model sees, and how it is compiled.
std::string interface_of(const Module& module) {
  std::string text = "attributes " + tir::print_attrs(module.attrs) + "\n";
  auto entry = module.functions.find("main");
  if (entry == module.functions.end()) return text + "no main\n";
  const Function& main = entry->second;
  for (const graph::Param& p : main.params) text += fmt::format("parameter \"{}\": {}\n", p.name, to_string(p.type));
  for (size_t i = 0; i < main.results.size(); ++i)
    text += fmt::format("result \"{}\": {}\n", main.result_names.empty() ? "" : main.result_names[i],
                        to_string(main.type(main.results[i])));
  return text;
}

/// The first line that differs.
std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b) {
  size_t line = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()) && a[i] == b[i]; ++i)
    if (a[i] == '\n') line = i + 1;
  auto rest = [&](const std::string& text) {
    return line < text.size() ? text.substr(line, text.find('\n', line) - line) : std::string("nothing");
  };
  return {rest(a), rest(b)};
}

void check_interface(const GivenPass& pass, const Module& before, const Module& after) {
  std::string was = interface_of(before), is = interface_of(after);
  if (was == is) return;
  auto [expected, found] = first_difference(was, is);
  throw CompileError(Diagnostic{.code = "pass-interface",
                                .message = fmt::format("pass `{}` changed what the module is from outside: {}", pass.name, found),
                                .input = pass.name,
                                .expected = expected,
                                .found = found,
                                .function = "main"});
}

void check_invariants(Slot slot, const Module& module) {
  graph::verify(module);
  if (slot == Slot::AfterFuse)
    lower::verify_fused(module);
  else
    lower::verify_lowered(module);
}

}  // namespace

std::string_view name(Slot slot) {
  switch (slot) {
    case Slot::AfterFuse: return "after-fuse";
    case Slot::AfterLower: return "after-lower";
    case Slot::BeforePlan: return "before-plan";
    case Slot::AfterPlan: return "after-plan";
  }
  fail_internal("a slot is one of the enumeration");
}

Module run_given(const GivenPass& pass, const Module& module, const Planned* planned) {
  Module result = pass.run(module, planned);
  try {
    check_invariants(pass.slot, result);
  } catch (const CompileError& error) {
    std::vector<Diagnostic> all = error.diagnostics();
    for (Diagnostic& d : all)
      d.notes.push_back({.message = fmt::format("pass `{}` ({}) returned this", pass.name, name(pass.slot))});
    throw CompileError(std::move(all));
  }
  check_interface(pass, module, result);
  return result;
}

void check_same_problem(const plan::LivenessProblem& planned, const plan::LivenessProblem& now) {
  std::string was = plan::write_problem_csv(planned), is = plan::write_problem_csv(now);
  if (was == is) return;
  auto [expected, found] = first_difference(was, is);
  throw CompileError(Diagnostic{.code = "pass-plan",
                                .message = fmt::format("a pass after planning changed what was planned: {}", found),
                                .expected = expected,
                                .found = found,
                                .function = "main",
                                .hint = "change sizes and lifetimes in a pass before planning"});
}

}  // namespace tenon::driver
