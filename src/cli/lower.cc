// SPDX-License-Identifier: Apache-2.0
// `tenon lower MODEL --to STAGE`: one function or all, at one stage, as text.
#include <fmt/format.h>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/output.h"
#include "codegen/backend.h"
#include "driver/attributes.h"
#include "graph/text.h"
#include "schedule/schedule.h"

namespace tenon::cli {
namespace {

struct LowerCommand {
  ModelOptions model;
  std::string function, to;
  bool explain = false;
};

constexpr std::string_view kStages = "te, tir, trace, tir-scheduled, llvm or asm";

/// Text by function name.
using Texts = std::vector<std::pair<std::string, std::string>>;

graph::Module at_stage(const LowerCommand& command, std::string_view stage) {
  driver::CompileOptions options = command.model.compile_options();
  options.stop_after = stage;
  return driver::load_and_run_pipeline(command.model.path, options);
}

[[noreturn]] void refuse(ErrorKind kind, std::string code, std::string message, const std::string& found) {
  throw CompileError(Diagnostic{.kind = kind,
                                .code = std::move(code),
                                .message = std::move(message),
                                .input = "--to",
                                .expected = std::string(kStages),
                                .found = found});
}

Texts tensor_expressions(const LowerCommand& command) {
  graph::Module module = at_stage(command, "fuse");
  Texts texts;
  for (const auto& [name, function] : module.functions)
    if (function.primitive() && !lower::is_external(function))
      texts.emplace_back(name, te::print(lower::lower_primitive(module, function).te));
  return texts;
}

Texts loop_functions(const LowerCommand& command, std::string_view stage) {
  Texts texts;
  for (const auto& [name, function] : at_stage(command, stage).prim_funcs) texts.emplace_back(name, tir::print(function));
  return texts;
}

Texts machine_code(const LowerCommand& command, codegen::TextKind kind) {
  graph::Module module = at_stage(command, "schedule");
  Target target = parse_target(std::get<std::string>(module.attrs.at("target")));
  Texts texts;
  for (const auto& [name, function] : module.prim_funcs)
    if (command.function.empty() || command.function == name)
      texts.emplace_back(name, codegen::compile_text(function, driver::target_of(function, target), kind));
  return texts;
}

/// What `text` gives for each function's schedule.
template <class Text>
Texts of_schedules(const LowerCommand& command, Text text) {
  graph::Module module = at_stage(command, "lower");
  Target target = parse_target(std::get<std::string>(module.attrs.at("target")));
  auto level = static_cast<int>(std::get<int64_t>(module.attrs.at("opt_level")));
  Texts texts;
  for (const auto& [name, function] : module.prim_funcs) {
    std::vector<bool> constant = driver::constant_params(module, name);
    Target own = driver::target_of(function, target);
    schedule::Request request{.func = function, .target = own, .constant_params = constant, .opt_level = level};
    texts.emplace_back(name, text(name, request, schedule::schedule(request)));
  }
  return texts;
}

/// Why each schedule is as it is.
Texts explanations(const LowerCommand& command) {
  return of_schedules(command, [](const std::string& name, const schedule::Request&, const schedule::Scheduled& scheduled) {
    return fmt::format("@{}:\n{}\n", name, scheduled.explain);
  });
}

/// The steps of each schedule, which `tenon opt --schedule` takes.
Texts traces(const LowerCommand& command) {
  return of_schedules(command,
                      [](const std::string& name, const schedule::Request& request, const schedule::Scheduled& scheduled) {
                        return fmt::format("# @{}\n{}", name, schedule::print(trace_of(request, scheduled).value()));
                      });
}

Texts texts_of(const LowerCommand& command) {
  if (command.explain) return explanations(command);
  if (command.to == "te") return tensor_expressions(command);
  if (command.to == "tir") return loop_functions(command, "lower");
  if (command.to == "tir-scheduled") return loop_functions(command, "schedule");
  if (command.to == "llvm") return machine_code(command, codegen::TextKind::LlvmIr);
  if (command.to == "asm") return machine_code(command, codegen::TextKind::Assembly);
  if (command.to == "trace") return traces(command);
  if (command.to == "c" || command.to == "opencl" || command.to == "ptx")
    refuse(ErrorKind::Missing, "component-missing", fmt::format("back end `{}` is not part of this build", command.to),
           command.to);
  refuse(ErrorKind::Usage, "usage", fmt::format("--to cannot be `{}`", command.to), command.to);
}

int lower(const LowerCommand& command) {
  Texts texts = texts_of(command);
  Json json = Json::object();
  std::string all, known;
  for (const auto& [name, text] : texts) {
    known += (known.empty() ? "" : ", ") + name;
    if (!command.function.empty() && command.function != name) continue;
    json[name] = text;
    all += text;
    if (!all.ends_with('\n')) all += '\n';
  }
  if (!command.function.empty() && json.empty())
    throw CompileError(Diagnostic{.kind = ErrorKind::Usage,
                                  .code = "unknown-function",
                                  .message = fmt::format("the model has no function `{}` at this stage", command.function),
                                  .input = "--function",
                                  .expected = known,
                                  .found = command.function});
  command.model.json ? print_json(json) : print(all);
  return 0;
}

}  // namespace

void add_lower(CLI::App& app, Action& action) {
  auto command = std::make_shared<LowerCommand>();
  CLI::App* sub = app.add_subcommand("lower", "Print the functions of a model at one stage");
  command->model.add_to(*sub, "MODEL");
  sub->add_option("--function", command->function, "Only this function");
  sub->add_option("--to", command->to, std::string(kStages))->required();
  sub->add_flag("--explain", command->explain, "Say why each schedule was chosen instead");
  sub->callback([&action, command] { action = [command] { return lower(*command); }; });
}

}  // namespace tenon::cli
