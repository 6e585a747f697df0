// SPDX-License-Identifier: Apache-2.0
// `tenon opt FILE [--pass a,b] [--schedule TRACE]`: passes over a module, one by one, and schedule steps on one of its functions.
#include <fmt/format.h>

#include <algorithm>

#include "base/mapped_file.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/output.h"
#include "graph/text.h"
#include "passes/graph/passes.h"

namespace tenon::cli {
namespace {

struct OptCommand {
  ModelOptions model;
  std::vector<std::string> passes;
  std::string schedule;  // a file of schedule steps
  std::string function;
  std::string output;
};

std::string known_passes() {
  std::string names;
  for (const pass::Pass* pass : pass::graph_passes()) names += fmt::format("{}, ", pass->name);
  return names + "lower, schedule";
}

graph::Module run_pass(const std::string& name, const graph::Module& module, const driver::CompileOptions& options) {
  for (const driver::PipelineStep& step : driver::pipeline())
    if (step.name == name) {
      graph::Module result = step.run(module, options);
      if (module.attrs.contains("stage")) result.attrs["stage"] = name;
      return result;
    }
  for (const pass::Pass* pass : pass::graph_passes())
    if (pass->name == name) return pass->run(module, {});
  throw CompileError(Diagnostic{.kind = ErrorKind::Usage,
                                .code = "unknown-pass",
                                .message = fmt::format("there is no pass `{}`", name),
                                .input = "--pass",
                                .expected = known_passes(),
                                .found = name});
}

/// The name of the loop function that is meant, if it may be left out.
std::string function_to_schedule(const graph::Module& module, const std::string& name) {
  if (module.prim_funcs.contains(name)) return name;
  if (name.empty() && module.prim_funcs.size() == 1) return module.prim_funcs.begin()->first;
  std::string known;
  for (const auto& [function, prim_func] : module.prim_funcs) known += fmt::format("{}`{}`", known.empty() ? "" : ", ", function);
  throw CompileError(Diagnostic{.kind = ErrorKind::Usage,
                                .code = "unknown-function",
                                .message = name.empty()
                                               ? fmt::format("the module has {} loop functions", module.prim_funcs.size())
                                               : fmt::format("there is no loop function `{}`", name),
                                .input = "--function",
                                .expected = known.empty() ? "a module with loop functions, as the pass `lower` leaves it" : known,
                                .found = name});
}

graph::Module take_steps(graph::Module module, const OptCommand& command, const driver::CompileOptions& options) {
  MappedFile file = map_file(command.schedule);
  std::string_view steps(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
  std::string function = function_to_schedule(module, command.function);
  return driver::take_steps(std::move(module), function, command.schedule, steps, options);
}

int opt(const OptCommand& command) {
  driver::CompileOptions options = command.model.compile_options();
  bool whole = !command.model.stop_after.empty();
  bool imported = !command.model.path.ends_with(".tenon");
  graph::Module module =
      imported || whole ? driver::load_module(command.model.path, options) : driver::read_text(command.model.path);
  if (whole) module = driver::run_pipeline(std::move(module), options);
  for (const std::string& name : command.passes) module = run_pass(name, module, options);
  if (!command.schedule.empty()) module = take_steps(std::move(module), command, options);
  if (!command.model.verify.empty()) graph::verify(module);
  if (!command.output.empty()) graph::write_module(command.output, module);
  if (command.model.json)
    print_json(Json{{"text", graph::print(module)}});
  else if (command.output.empty())
    print(graph::print(module));
  return 0;
}

}  // namespace

void add_opt(CLI::App& app, Action& action) {
  auto command = std::make_shared<OptCommand>();
  CLI::App* sub = app.add_subcommand("opt", "Run passes over a module and print it; without a pass, print the canonical text");
  command->model.add_to(*sub, "MODEL");
  add_repeated(*sub, "--pass", command->passes, "Passes to run in this order, separated by commas; repeatable")->delimiter(',');
  sub->add_option("--schedule", command->schedule, "Take the schedule steps of this file on a loop function, after the passes");
  sub->add_option("--function", command->function, "The loop function of --schedule; may be left out if there is only one");
  sub->add_option("-o,--output", command->output, "Write the module and its constants.bin instead of printing");
  sub->callback([&action, command] { action = [command] { return opt(*command); }; });
}

}  // namespace tenon::cli
