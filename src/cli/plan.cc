// SPDX-License-Identifier: Apache-2.0
// `tenon plan PROBLEM.csv`
#include <fmt/format.h>

#include "base/mapped_file.h"
#include "base/write_file.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/output.h"
#include "driver/stopwatch.h"
#include "tenon/plan.h"

namespace tenon::cli {
namespace {

struct PlanCommand {
  std::string problem, planner = std::string(plan::kDefaultPlanner), output, check, svg, html;
  std::vector<std::string> pools;
  int64_t capacity = plan::kUnlimited, time_limit_ms = 0;
  uint64_t steps = 0;
  bool json = false;
};

std::string read(const std::string& path) {
  MappedFile file = map_file(path);
  return {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()};
}

[[noreturn]] void usage(std::string message, std::string option, std::string expected, std::string found) {
  throw CompileError(Diagnostic{.kind = ErrorKind::Usage,
                                .code = "usage",
                                .message = std::move(message),
                                .input = std::move(option),
                                .expected = std::move(expected),
                                .found = std::move(found)});
}

std::vector<plan::Pool> pools_of(const PlanCommand& command) {
  if (command.capacity != plan::kUnlimited && !command.pools.empty())
    usage("--capacity is the limit of the only pool", "--capacity", "--pool NAME:BYTES", "both");
  std::vector<plan::Pool> pools;
  for (const std::string& text : command.pools) pools.push_back(parse_pool(text));
  if (pools.empty()) pools.emplace_back().limit = command.capacity;
  return pools;
}

Json report(const plan::LivenessProblem& problem, const plan::MemoryPlan& plan, double ms) {
  Json json{{"planner", plan.planner},
            {"buffers", problem.buffers.size()},
            {"peak_bytes", plan.peak_bytes},
            {"lower_bound_bytes", plan.lower_bound_bytes},
            {"optimal", plan.optimal},
            {"ms", ms},
            {"steps", plan.steps}};
  if (plan.wall_limit_ms > 0) json["time_limit_ms"] = plan.wall_limit_ms;
  for (size_t i = 0; i < plan.pools.size(); ++i)
    json["pools"].push_back({{"name", problem.pools[i].name},
                             {"peak_bytes", plan.pools[i].peak_bytes},
                             {"lower_bound_bytes", plan.pools[i].lower_bound_bytes}});
  return json;
}

void write_pictures(const PlanCommand& command, const plan::LivenessProblem& problem, const plan::MemoryPlan& plan) {
  for (uint32_t pool = 0; pool < problem.pools.size() && !command.svg.empty(); ++pool) {
    std::string path = command.svg;
    if (problem.pools.size() > 1) path.insert(std::min(path.rfind('.'), path.size()), "-" + problem.pools[pool].name);
    write_file(path, plan::write_plan_svg(problem, plan, pool));
  }
}

plan::MemoryPlan checked_plan(const PlanCommand& command, const plan::LivenessProblem& problem) {
  plan::MemoryPlan plan = plan::read_plan_csv(problem, command.check, read(command.check));
  plan.planner = command.check;
  plan::check_plan(problem, plan);
  return plan;
}

int run_plan(const PlanCommand& command) {
  plan::LivenessProblem problem = plan::read_problem_csv(command.problem, read(command.problem), pools_of(command));
  driver::Stopwatch watch;
  plan::MemoryPlan plan = command.check.empty()
                              ? plan::make_plan(problem, plan::find_planner(command.planner),
                                                {.max_steps = command.steps, .wall_limit_ms = command.time_limit_ms})
                              : checked_plan(command, problem);
  double ms = watch.lap();
  if (command.output.ends_with(".json"))
    write_file(command.output, plan::write_plan_json(problem, plan));
  else if (!command.output.empty())
    write_file(command.output, plan::write_plan_csv(problem, plan));
  write_pictures(command, problem, plan);
  if (!command.html.empty()) write_file(command.html, plan::write_plan_html(problem, plan));
  if (command.json)
    print_json(report(problem, plan, ms));
  else
    print(command.check.empty()
              ? plan::print_plan(problem, plan)
              : fmt::format("{}: a plan of {} bytes, lower bound {}\n", command.check, plan.peak_bytes, plan.lower_bound_bytes));
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, Action& action) {
  auto command = std::make_shared<PlanCommand>();
  CLI::App* sub = app.add_subcommand("plan", "Plan memory for buffers with known lifetimes, or check a plan");
  sub->add_option("PROBLEM", command->problem, "MiniMalloc's CSV: id,lower,upper,size and optional columns")->required();
  sub->add_option("--planner", command->planner, "One of " + planner_list());
  sub->add_option("--capacity", command->capacity, "Bytes that the plan may take")->check(CLI::NonNegativeNumber);
  add_repeated(*sub, "--pool", command->pools, "NAME[:BYTES[:ALIGNMENT]], for several pools; repeatable");
  sub->add_option("--steps", command->steps, "Search steps that the planner may take");
  sub->add_option("--time-limit-ms", command->time_limit_ms,
                  "Stop the search after this time; the plan then depends on the machine")
      ->check(CLI::NonNegativeNumber);
  CLI::Option* check = sub->add_option("--check", command->check, "Check this plan instead of making one");
  sub->add_option("-o,--output", command->output, "Write the plan: .csv, or .json");
  sub->add_option("--svg", command->svg, "Write a picture of the plan over time; of each pool if there are several");
  sub->add_option("--html", command->html, "Write a page with the pictures of all pools");
  sub->add_flag("--json", command->json, "Print one JSON value");
  check->excludes("--planner");
  sub->callback([&action, command] { action = [command] { return run_plan(*command); }; });
}

}  // namespace tenon::cli
