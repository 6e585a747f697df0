// SPDX-License-Identifier: Apache-2.0
// The order of the passes, and the one runner that times, dumps, prints and verifies.
#include <fmt/format.h>

#include <algorithm>

#include "base/write_file.h"
#include "driver/attributes.h"
#include "driver/driver.h"
#include "driver/stopwatch.h"
#include "graph/memory_attr.h"
#include "graph/text.h"
#include "passes/graph/passes.h"

namespace tenon::driver {
namespace {

template <const pass::Pass& kPass>
graph::Module run_pass(graph::Module module, const CompileOptions& options) {
  pass::PassOptions for_module = pass_options(module);
  for_module.workers = options.workers;
  return kPass.run(module, for_module);
}

template <const pass::Pass& kPass>
PipelineStep step(int min_opt_level) {
  return {kPass.name, kPass.summary, min_opt_level, run_pass<kPass>};
}

graph::Module lower_step(graph::Module module, const CompileOptions& options) {
  return lower::lower_module(module, options.caching(), options.workers);
}

size_t index_of(std::string_view name) {
  const std::vector<PipelineStep>& steps = pipeline();
  auto it = std::find_if(steps.begin(), steps.end(), [&](const PipelineStep& s) { return s.name == name; });
  return static_cast<size_t>(it - steps.begin());
}

std::string step_names() {
  std::string names = "import";
  for (const PipelineStep& s : pipeline()) names += fmt::format(", {}", s.name);
  return names;
}

void check_pass_name(const std::string& option, const std::string& name) {
  if (name == "import" || index_of(name) < pipeline().size()) return;
  throw CompileError(Diagnostic{.kind = ErrorKind::Usage,
                                .code = "unknown-pass",
                                .message = fmt::format("{} names `{}`, which is no pass of the pipeline", option, name),
                                .input = option,
                                .expected = step_names(),
                                .found = name});
}

/// The index of the first step to run on a module.
size_t first_step(const graph::Module& module) {
  std::string stage = stage_of(module);
  if (stage.empty() || stage == "import") return 0;
  if (index_of(stage) < pipeline().size()) return index_of(stage) + 1;
  throw CompileError(Diagnostic{.kind = ErrorKind::Malformed,
                                .code = "unknown-stage",
                                .message = fmt::format("the module says that it is at stage `{}`, which is none", stage),
                                .input = "stage",
                                .expected = step_names(),
                                .found = stage});
}

/// The nodes of `main` whose results the user wants in a place of their own.
std::vector<std::string> placed_nodes(const graph::Module& module) {
  std::vector<std::string> names;
  auto main = module.functions.find("main");
  if (main != module.functions.end())
    for (const graph::Node& node : main->second.nodes)
      if (!graph::place_of_node(node).empty()) names.push_back(node.name.empty() ? std::string(node.callee) : node.name);
  std::sort(names.begin(), names.end());
  return names;
}

/// A pass must not drop what the user asked for without a word.
void check_placed_nodes(std::string_view pass, const std::vector<std::string>& before, const graph::Module& module) {
  std::vector<std::string> after = placed_nodes(module), lost;
  std::set_difference(before.begin(), before.end(), after.begin(), after.end(), std::back_inserter(lost));
  if (lost.empty()) return;
  throw CompileError(Diagnostic{
      .kind = ErrorKind::Malformed,
      .code = "memory-place",
      .message = fmt::format("`{}` has a place in memory, but pass `{}` removed it", lost[0], pass),
      .node = lost[0],
      .expected = "a value that is left",
      .found = "one that is folded, merged with another or not read",
      .hint = fmt::format("give another node the place, or compile with -O 0; --print-after {} shows what is left", pass)});
}

/// Writes each stage into one folder; the bytes of the constants of all stages are written once, at the end.
class Dumper {
 public:
  explicit Dumper(std::string folder) : folder_(std::move(folder)) {
    if (!folder_.empty()) make_folder(folder_);
  }
  void dump(size_t number, std::string_view name, const graph::Module& module) {
    if (folder_.empty()) return;
    write_file(fmt::format("{}/{:03}-{}.tenon", folder_, number, name), graph::print(module, &constants_));
  }
  void finish() const {
    if (!folder_.empty()) graph::write_constants(folder_ + "/constants.bin", constants_);
  }

 private:
  std::string folder_;
  tir::ConstantBytes constants_;
};

class Runner {
 public:
  Runner(const CompileOptions& options, Milliseconds* ms) : options_(options), ms_(ms), dumper_(options.dump_dir) {}

  graph::Module run(graph::Module module) {
    size_t first = first_step(module);
    if (first == 0) leave("import", 0, module);
    for (size_t i = first; i < pipeline().size() && !stopped_; ++i) {
      const PipelineStep& step = pipeline()[i];
      if (pass_options(module).opt_level < step.min_opt_level && step.name != options_.stop_after) continue;
      module = run_step(step, std::move(module));
      leave(step.name, i + 1, module);
    }
    dumper_.finish();
    if (options_.verify_end) verify(stage_of(module), module);
    return module;
  }

  /// The stages so far, for whoever looks into a failure.
  void finish_dump() const { dumper_.finish(); }

 private:
  graph::Module run_step(const PipelineStep& step, graph::Module module) {
    Stopwatch watch;
    std::vector<std::string> placed = placed_nodes(module);
    if (pass_options(module).opt_level >= step.min_opt_level) module = step.run(std::move(module), options_);
    module.attrs["stage"] = std::string(step.name);
    double took = watch.lap();
    if (!placed.empty()) check_placed_nodes(step.name, placed, module);
    if (ms_) (step.name == "lower" || step.name == "schedule" ? ms_->lower : ms_->passes) += took;
    if (options_.on_pass) options_.on_pass(step.name, took);
    if (options_.verify_each) verify(step.name, module);
    return module;
  }

  static void verify(std::string_view pass, const graph::Module& module) {
    try {
      graph::verify(module);
    } catch (const CompileError& error) {
      throw InternalError(fmt::format("internal error: pass `{}` left a broken module:\n{}", pass, error.what()));
    }
  }

  void leave(std::string_view name, size_t number, const graph::Module& module) {
    dumper_.dump(number, name, module);
    const std::vector<std::string>& print = options_.print_after;
    if (options_.on_print && std::find(print.begin(), print.end(), name) != print.end())
      options_.on_print(name, graph::print(module));
    stopped_ = name == options_.stop_after;
  }

  const CompileOptions& options_;
  Milliseconds* ms_;
  Dumper dumper_;
  bool stopped_ = false;
};

}  // namespace

const std::vector<PipelineStep>& pipeline() {
  static const std::vector<PipelineStep> steps = {
      step<pass::infer>(0),                            // whatever was read is checked before anything trusts it
      step<pass::simplify>(1),                         // before folding: fewer and smaller constants to make
      step<pass::fold_constants>(1),                   // so that batch norm and schedules see plain weights
      step<pass::fold_batch_norm>(1),                  // needs constant statistics; leaves scale and shift to the weights
      step<pass::eliminate_common_subexpressions>(1),  // after folding, which makes equal nodes
      step<pass::eliminate_dead>(1),                   // before fusion, which must not keep dead nodes alive
      step<pass::fuse>(0),                             // at 0 every operator is its own group
      {"lower", "primitive functions become loop functions", 0, lower_step},
      {"schedule", "loop functions get a schedule, constants the layout it wants, `main` an order that needs little memory", 0,
       schedule_module},
  };
  return steps;
}

graph::Module run_pipeline(graph::Module module, const CompileOptions& options, Milliseconds* ms) {
  for (const std::string& name : options.print_after) check_pass_name("--print-after", name);
  if (!options.stop_after.empty()) check_pass_name("--stop-after", options.stop_after);
  Runner runner(options, ms);
  try {
    return runner.run(std::move(module));
  } catch (...) {
    runner.finish_dump();
    throw;
  }
}

}  // namespace tenon::driver
