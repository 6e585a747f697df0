// SPDX-License-Identifier: Apache-2.0
// `tenon compile MODEL -o OUT`
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/arrays.h"
#include "cli/cli.h"
#include "cli/memory_json.h"
#include "cli/options.h"
#include "cli/output.h"
#include "driver/stopwatch.h"
#include "graph/text.h"

namespace tenon::cli {
namespace {

struct CompileCommand {
  ModelOptions model;
  InputOptions inputs;
  std::string output, emit = "so", dump_plan;
};

int stop_early(const CompileCommand& command, const graph::Module& module) {
  if (command.output.empty())
    print(graph::print(module));
  else
    graph::write_module(command.output, module);
  if (command.model.json) print_json(Json{{"module", command.output}, {"stage", command.model.stop_after}});
  return 0;
}

void check(const CompileCommand& command) {
  if (command.emit != "so" && command.emit != "tvm")
    throw CompileError(Diagnostic{.kind = ErrorKind::Missing,
                                  .code = "component-missing",
                                  .message = fmt::format("--emit {} is not part of this build", command.emit),
                                  .input = "--emit",
                                  .expected = "so or tvm",
                                  .found = command.emit});
  if (command.output.empty() && (command.model.stop_after.empty() || command.model.json))
    throw CompileError(Diagnostic{.kind = ErrorKind::Usage, .code = "usage", .message = "-o is required", .input = "-o"});
}

/// What was written, for the report.
struct Written {
  uint64_t bytes = 0;
  size_t kernels = 0;
  Json memory, external;
};

Json regions_json(const std::map<std::string, size_t, std::less<>>& regions) {
  Json json = Json::object();
  for (const auto& [name, count] : regions) json[name] = count;
  return json;
}

Written write_artifact(const CompileCommand& command, const graph::Module& module, const driver::CompileOptions& options,
                       driver::Milliseconds& ms) {
  driver::Built built = driver::build(module, options, &ms);
  if (!command.dump_plan.empty()) driver::write_plan(built.problem, built.plan, command.dump_plan);
  driver::write(built, command.output, &ms);
  return {std::filesystem::file_size(command.output), built.program.kernels.size(), memory_json(built.program),
          regions_json(built.external)};
}

Written write_tvm(const CompileCommand& command, const graph::Module& module, const driver::CompileOptions& options,
                  driver::Milliseconds& ms) {
  driver::TvmBuilt built = driver::build_tvm(module, options, &ms);
  const link::TvmLinked& linked = built.linked;
  if (!command.dump_plan.empty()) driver::write_plan(linked.problem, linked.plan, command.dump_plan);
  driver::write_tvm(built, command.output, &ms);
  Written written{.kernels = linked.kernels.size(), .memory = {}, .external = regions_json(built.external)};
  for (const char* name : {runtime::kTvmLibrary, runtime::kTvmGraph, runtime::kTvmParams})
    written.bytes += std::filesystem::file_size(std::filesystem::path(command.output) / name);
  uint64_t weights = 0;
  for (const auto& [name, array] : linked.params) weights += array.bytes.size();
  written.memory = memory_json(static_cast<uint64_t>(linked.plan.peak_bytes),
                               static_cast<uint64_t>(linked.plan.lower_bound_bytes), linked.plan.optimal, weights);
  return written;
}

int compile(const CompileCommand& command) {
  check(command);
  driver::CompileOptions options = command.model.compile_options();
  Inputs(command.inputs).fix(command.model.path, options.import);
  driver::Milliseconds ms;
  driver::Stopwatch watch;
  graph::Module module = driver::load_and_run_pipeline(command.model.path, options, &ms);
  if (!command.model.stop_after.empty()) return stop_early(command, module);
  Written written =
      command.emit == "tvm" ? write_tvm(command, module, options, ms) : write_artifact(command, module, options, ms);
  ms.total = watch.lap();
  if (!command.model.json) {
    print(fmt::format("{}: {} bytes, {} kernels, {:.0f} ms\nnext: tenon bench {}\n", command.output, written.bytes,
                      written.kernels, ms.total, command.output));
    return 0;
  }
  lower::KernelCache::Statistics statistics = options.cache->statistics(lower::Stage::Code);
  print_json(Json{{"artifact", command.output},
                  {"bytes", written.bytes},
                  {"kernels", written.kernels},
                  {"ms",
                   {{"import", ms.import},
                    {"passes", ms.passes},
                    {"lower", ms.lower},
                    {"codegen", ms.codegen},
                    {"link", ms.link},
                    {"total", ms.total}}},
                  {"cache", {{"hits", statistics.hits}, {"misses", statistics.misses}}},
                  {"external", written.external},
                  {"memory", written.memory}});
  return 0;
}

}  // namespace

void add_compile(CLI::App& app, Action& action) {
  auto command = std::make_shared<CompileCommand>();
  CLI::App* sub = app.add_subcommand("compile", "Compile a model to an artifact: a shared library with code, weights and plan");
  command->model.add_to(*sub, "MODEL");
  command->inputs.add_to(*sub);
  sub->add_option("-o,--output", command->output, "The artifact, with --emit tvm a folder, or with --stop-after a .tenon file");
  sub->add_option("--emit", command->emit, "What to write: so, tvm or c-header");
  sub->add_option("--dump-plan", command->dump_plan, "Write the memory plan into this folder: problem.csv, plan.csv, plan.html");
  sub->callback([&action, command] { action = [command] { return compile(*command); }; });
}

}  // namespace tenon::cli
