// SPDX-License-Identifier: Apache-2.0
// `tenon bench MODEL_OR_ARTIFACT`
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cli/cli.h"
#include "cli/model.h"
#include "cli/output.h"
#include "driver/stopwatch.h"

namespace tenon::cli {
namespace {

struct BenchCommand {
  ModelOptions model;
  InputOptions inputs;
  int runs = 0, batch = 0;
  double seconds = 1;
};

constexpr int kWarmUps = 2, kMinRuns = 5;

std::vector<double> latencies(runtime::Session& session, const BenchCommand& command) {
  for (int i = 0; i < kWarmUps; ++i) session.run();
  std::vector<double> times;
  driver::Stopwatch watch;
  double spent = 0;
  auto enough = [&] {
    if (command.runs > 0) return times.size() >= static_cast<size_t>(command.runs);
    return times.size() >= kMinRuns && spent >= command.seconds * 1000;
  };
  while (!enough()) {
    session.run();
    times.push_back(watch.lap());
    spent += times.back();
  }
  std::sort(times.begin(), times.end());
  return times;
}

/// Nearest rank of sorted values.
double percentile(const std::vector<double>& sorted, double percent) {
  auto rank = static_cast<size_t>(std::ceil(percent / 100 * static_cast<double>(sorted.size())));
  return sorted[std::min(std::max<size_t>(rank, 1), sorted.size()) - 1];
}

/// Fixes the first dimension of every input whose first dimension is the model's only open one.
void set_batch(BenchCommand& command) {
  if (command.batch == 0) return;
  for (const onnx::ModelInfo::Value& input : onnx::inspect_file(command.model.path).inputs) {
    std::string shape = std::to_string(command.batch);
    for (size_t i = 1; i < input.shape.size(); ++i) shape += "," + input.shape[i];
    bool open = !input.shape.empty() && input.shape[0].find_first_not_of("0123456789") != std::string::npos;
    if (open) command.model.input_shapes.push_back(fmt::format("{}:[{}]", input.name, shape));
  }
}

int bench(BenchCommand command) {
  set_batch(command);
  if (command.inputs.fill.empty()) command.inputs.fill = "random:1";
  ReadyModel ready = make_ready(command.model, Inputs(command.inputs));
  std::vector<double> times = latencies(*ready.session, command);
  const runtime::Program& program = ready.session->program();
  double flops = 0;
  for (const runtime::Step& step : program.steps) flops += step.flops;
  double median = percentile(times, 50),
         mean = std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  double gflops = flops / (median * 1e6);
  if (command.model.json) {
    print_json(Json{{"model", program.model},
                    {"target", program.target},
                    {"threads", command.model.run_threads()},
                    {"opt_level", program.opt_level},
                    {"n", times.size()},
                    {"latency_ms",
                     {{"min", times.front()},
                      {"median", median},
                      {"mean", mean},
                      {"p90", percentile(times, 90)},
                      {"p99", percentile(times, 99)}}},
                    {"gflops", gflops},
                    {"load_ms", ready.load_ms},
                    {"compile_ms", ready.compile_ms}});
    return 0;
  }
  print(
      fmt::format("{}: {} runs, {} threads, {}\n  min {:.3f} ms  median {:.3f} ms  mean {:.3f} ms  p90 {:.3f} ms  p99 {:.3f} ms\n"
                  "  {:.2f} GFLOP/s\n",
                  program.model, times.size(), command.model.run_threads(), program.target, times.front(), median, mean,
                  percentile(times, 90), percentile(times, 99), gflops));
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  auto command = std::make_shared<BenchCommand>();
  CLI::App* sub = app.add_subcommand("bench", "Measure the latency of a model or an artifact");
  command->model.add_to(*sub, "MODEL_OR_ARTIFACT");
  command->inputs.add_to(*sub);
  sub->add_option("-n,--runs", command->runs, "How many runs; by default as many as fit into --seconds")
      ->check(CLI::PositiveNumber);
  sub->add_option("--seconds", command->seconds, "How long to measure")->check(CLI::NonNegativeNumber);
  sub->add_option("--batch", command->batch, "First dimension of the inputs that leave it open")->check(CLI::PositiveNumber);
  sub->callback([&action, command] { action = [command] { return bench(*command); }; });
}

}  // namespace tenon::cli
