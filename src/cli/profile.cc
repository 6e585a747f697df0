// SPDX-License-Identifier: Apache-2.0
// `tenon profile MODEL_OR_ARTIFACT`
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "base/write_file.h"
#include "cli/cli.h"
#include "cli/model.h"
#include "cli/output.h"

namespace tenon::cli {
namespace {

struct ProfileCommand {
  ModelOptions model;
  InputOptions inputs;
  int runs = 10;
  std::string trace;
};

std::string kernel_name(const runtime::Program& program, const runtime::Step& step) {
  return step.kernel == runtime::Step::kCopy ? "copy" : program.kernels[step.kernel];
}

/// One run as Chrome's trace format, which Perfetto reads too.
void write_trace(const std::string& path, const runtime::Program& program, const std::vector<runtime::StepTime>& times) {
  Json events = Json::array();
  for (const runtime::StepTime& time : times) {
    const runtime::Step& step = program.steps[time.step];
    events.push_back({{"name", step.label},
                      {"cat", kernel_name(program, step)},
                      {"ph", "X"},
                      {"ts", time.begin_us},
                      {"dur", time.us},
                      {"pid", 1},
                      {"tid", 1}});
  }
  write_file(
      path, Json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

/// The shortest time of each step over the runs.
std::vector<double> best_times(runtime::Session& session, const ProfileCommand& command, std::vector<runtime::StepTime>& last) {
  session.run();
  std::vector<double> best(session.program().steps.size(), INFINITY);
  for (int i = 0; i < command.runs; ++i) {
    session.run_profiled(last);
    for (const runtime::StepTime& time : last) best[time.step] = std::min(best[time.step], time.us);
  }
  return best;
}

int profile(ProfileCommand command) {
  if (command.inputs.fill.empty()) command.inputs.fill = "random:1";
  ReadyModel ready = make_ready(command.model, Inputs(command.inputs));
  const runtime::Program& program = ready.session->program();
  std::vector<runtime::StepTime> last;
  std::vector<double> best = best_times(*ready.session, command, last);
  if (!command.trace.empty()) write_trace(command.trace, program, last);
  double total = std::accumulate(best.begin(), best.end(), 0.0);
  std::vector<size_t> order(best.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return std::tie(best[b], a) < std::tie(best[a], b); });
  Json steps = Json::array();
  std::string text = fmt::format("{:>10} {:>6} {:>9}  {:<50} {}\n", "us", "%", "GFLOP/s", "kernel", "nodes");
  for (size_t i : order) {
    const runtime::Step& step = program.steps[i];
    double percent = total > 0 ? best[i] / total * 100 : 0, gflops = best[i] > 0 ? step.flops / best[i] / 1e3 : 0;
    steps.push_back({{"step", i},
                     {"kernel", kernel_name(program, step)},
                     {"label", step.label},
                     {"us", best[i]},
                     {"percent", percent},
                     {"gflops", gflops}});
    text +=
        fmt::format("{:10.1f} {:6.1f} {:9.2f}  {:<50} {}\n", best[i], percent, gflops, kernel_name(program, step), step.label);
  }
  if (command.model.json)
    print_json(Json{{"model", program.model}, {"threads", command.model.run_threads()}, {"total_us", total}, {"steps", steps}});
  else
    print(text + fmt::format("{:10.1f}  total of the best times of {} runs\n", total, command.runs));
  return 0;
}

}  // namespace

void add_profile(CLI::App& app, Action& action) {
  auto command = std::make_shared<ProfileCommand>();
  CLI::App* sub = app.add_subcommand("profile", "Time each kernel of a model or an artifact");
  command->model.add_to(*sub, "MODEL_OR_ARTIFACT");
  command->inputs.add_to(*sub);
  sub->add_option("-n,--runs", command->runs, "How many runs; the best time of each kernel counts")->check(CLI::PositiveNumber);
  sub->add_option("--trace", command->trace, "Write the last run as a Chrome or Perfetto trace");
  sub->callback([&action, command] { action = [command] { return profile(*command); }; });
}

}  // namespace tenon::cli
