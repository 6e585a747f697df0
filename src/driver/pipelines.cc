// SPDX-License-Identifier: Apache-2.0
// The order of the passes, and the one runner that times, dumps, prints and verifies.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/write_file.h"
#include "driver/attributes.h"
#include "driver/externals.h"
#include "driver/reproducer.h"
#include "driver/stopwatch.h"
#include "graph/memory_attr.h"
#include "graph/text.h"
#include "lower/invariants.h"
#include "passes/graph/passes.h"

namespace tenon::driver {
namespace {

template <const pass::Pass& kPass>
graph::Module run_pass(graph::Module module, const CompileOptions& options) {
  pass::PassOptions for_module = pass_options(module);
  for_module.workers = options.workers;
  return kPass.run(std::move(module), for_module);
}

template <const pass::Pass& kPass>
PipelineStep step(int min_opt_level) {
  return {kPass.name, kPass.summary, min_opt_level, run_pass<kPass>};
}

graph::Module lower_step(graph::Module module, const CompileOptions& options) {
  return lower::lower_module(std::move(module), options.caching(), options.workers);
}

/// After which step the passes of a slot run. Those after planning run in `build`.
constexpr std::pair<std::string_view, Slot> kSlots[] = {
    {"fuse", Slot::AfterFuse},    // groups can still be seen and changed as operators
    {"lower", Slot::AfterLower},  // both sides of the mixed module, before schedules give loops their final form
    {"order", Slot::BeforePlan},  // what is changed here is compiled as it is
};

/// Names of passes of the build's own that a module went through, so that a dump does not go through them again.
constexpr std::string_view kRun = "passes_run";

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

bool is_given(const CompileOptions& options, std::string_view name) {
  const std::vector<GivenPass>& given = options.extensions.passes;
  return std::any_of(given.begin(), given.end(), [&](const GivenPass& pass) { return pass.name == name; });
}

void check_pass_name(const CompileOptions& options, const std::string& option, const std::string& name) {
  if (name == "import" || index_of(name) < pipeline().size() || is_given(options, name)) return;
  throw CompileError(Diagnostic{.kind = ErrorKind::Usage,
                                .code = "unknown-pass",
                                .message = fmt::format("{} names `{}`, which is no pass of the pipeline", option, name),
                                .input = option,
                                .expected = step_names(),
                                .found = name});
}

void check_given_names(const CompileOptions& options) {
  constexpr std::string_view kWord = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  std::set<std::string_view> seen = {"import"};
  for (const PipelineStep& step : pipeline()) seen.insert(step.name);
  for (const GivenPass& pass : options.extensions.passes)
    if (pass.name.empty() || pass.name.find_first_not_of(kWord) != pass.name.npos || !seen.insert(pass.name).second)
      throw CompileError(Diagnostic{.kind = ErrorKind::Usage,
                                    .code = "pass-name",
                                    .message = fmt::format("a pass of the build's own cannot be called {}", quote(pass.name)),
                                    .input = pass.name,
                                    .expected = "letters, digits, `_`, `.` and `-`, and no name of another pass",
                                    .found = quote(pass.name)});
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
      .hint = fmt::format("give another node the place, or compile with -O0; --print-after {} shows what is left", pass)});
}

/// Writes each stage into one folder; the bytes of the constants of all stages are written once, at the end.
class Dumper {
 public:
  explicit Dumper(std::string folder) : folder_(std::move(folder)) {
    if (!folder_.empty()) make_folder(folder_);
  }
  /// `number` is `007`, or `007.1` for the first of the build's own passes after that step.
  void dump(const std::string& number, std::string_view name, const graph::Module& module) {
    if (folder_.empty()) return;
    write_file(fmt::format("{}/{}-{}.tenon", folder_, number, name), graph::print(module, &constants_));
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
    last_ = first == 0 ? "import" : stage_of(module);
    if (first == 0)
      leave("import", "000", module);
    else
      module = resume(std::move(module), first);
    for (size_t i = first; i < pipeline().size() && !stopped_; ++i) {
      const PipelineStep& step = pipeline()[i];
      if (pass_options(module).opt_level < step.min_opt_level && step.name != options_.stop_after) continue;
      module = run_step(step, std::move(module));
      leave(step.name, fmt::format("{:03}", i + 1), module);
      module = run_given_after(step.name, i + 1, std::move(module));
    }
    dumper_.finish();
    if (options_.verify_end) verify(stage_of(module), module);
    return module;
  }

  /// The stages so far, for whoever looks into a failure.
  void finish_dump() const { dumper_.finish(); }

 private:
  /// A module that was read at a stage behind the import: what nobody has checked is checked.
  graph::Module resume(graph::Module module, size_t first) {
    if (first > index_of("lower")) lower::verify_lowered(module);
    stopped_ = last_ == options_.stop_after;
    return run_given_after(pipeline()[first - 1].name, first, std::move(module));
  }

  template <class Work>
  auto attempt(std::string_view pass, bool given, const Work& work) {
    return guarded(work, [&](const char* why) { throw PassFailure(std::string(pass), last_, given, why); });
  }

  graph::Module run_step(const PipelineStep& step, graph::Module module) {
    Stopwatch watch;
    std::vector<std::string> placed = placed_nodes(module);
    module = attempt(step.name, false, [&] {
      bool runs = pass_options(module).opt_level >= step.min_opt_level;
      return runs ? step.run(std::move(module), options_) : std::move(module);
    });
    module.attrs["stage"] = std::string(step.name);
    double took = watch.lap();
    if (!placed.empty()) check_placed_nodes(step.name, placed, module);
    if (ms_) (step.name == "lower" || step.name == "schedule" ? ms_->lower : ms_->passes) += took;
    if (options_.on_pass) options_.on_pass(step.name, took);
    if (options_.verify_each) attempt(step.name, false, [&] { verify(step.name, module); });
    return module;
  }

  /// The build's own passes of the slot after a step, but for those that the module has been through.
  graph::Module run_given_after(std::string_view step, size_t number, graph::Module module) {
    auto slot = std::find_if(std::begin(kSlots), std::end(kSlots), [&](const auto& entry) { return entry.first == step; });
    if (slot == std::end(kSlots)) return module;
    int count = 0;
    for (const GivenPass& pass : options_.extensions.passes) {
      if (pass.slot != slot->second || stopped_) continue;
      ++count;
      if (has_run(module, pass.name)) continue;
      Stopwatch watch;
      module = attempt(pass.name, true, [&] { return run_given(pass, module, nullptr); });
      std::string& names = std::get<std::string>(module.attrs.try_emplace(std::string(kRun), std::string()).first->second);
      names += (names.empty() ? "" : ",") + pass.name;
      double took = watch.lap();
      if (ms_) ms_->passes += took;
      if (options_.on_pass) options_.on_pass(pass.name, took);
      leave(pass.name, fmt::format("{:03}.{}", number, count), module);
    }
    return module;
  }

  static bool has_run(const graph::Module& module, const std::string& pass) {
    auto names = module.attrs.find(kRun);
    const std::string* list = names == module.attrs.end() ? nullptr : std::get_if<std::string>(&names->second);
    return list && ("," + *list + ",").find("," + pass + ",") != list->npos;
  }

  static void verify(std::string_view pass, const graph::Module& module) {
    try {
      graph::verify(module);
      if (pass == "fuse") lower::verify_fused(module);
      if (index_of(pass) >= index_of("lower")) lower::verify_lowered(module);
    } catch (const CompileError& error) {
      throw InternalError(fmt::format("internal error: pass `{}` left a broken module:\n{}", pass, error.what()));
    }
  }

  void leave(std::string_view name, const std::string& number, const graph::Module& module) {
    dumper_.dump(number, name, module);
    const std::vector<std::string>& print = options_.print_after;
    if (options_.on_print && std::find(print.begin(), print.end(), name) != print.end())
      options_.on_print(name, graph::print(module));
    stopped_ = name == options_.stop_after;
    last_ = name;
  }

  const CompileOptions& options_;
  Milliseconds* ms_;
  Dumper dumper_;
  std::string last_;  // pass
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
      // before fusion, which would group differently; after folding, so that constants stand beside their operators
      {"partition", "regions for external code generators become functions", 0, partition_module},
      step<pass::fuse>(0),  // at 0 every operator is its own group
      {"lower", "primitive functions become loop functions", 0, lower_step},
      {"schedule", "loop functions get a schedule, constants the layout it wants", 0, schedule_module},
      {"order", "calls of `main` run in an order that needs little memory", 0, order_module},
  };
  return steps;
}

graph::Module run_pipeline(graph::Module module, const CompileOptions& options, Milliseconds* ms) {
  check_given_names(options);
  for (const std::string& name : options.print_after) check_pass_name(options, "--print-after", name);
  if (!options.stop_after.empty()) check_pass_name(options, "--stop-after", options.stop_after);
  Runner runner(options, ms);
  try {
    return runner.run(std::move(module));
  } catch (...) {
    runner.finish_dump();
    throw;
  }
}

std::optional<graph::Module> run_passes_after_plan(const graph::Module& scheduled, const Planned& planned,
                                                   const CompileOptions& options) {
  std::optional<graph::Module> module;
  for (const GivenPass& pass : options.extensions.passes) {
    if (pass.slot != Slot::AfterPlan) continue;
    auto mistake = [&](const char* why) {
      leave_reproducer(scheduled, "", options, PassFailure(pass.name, "", true, why).what());
    };
    module = guarded([&] { return run_given(pass, module ? *module : scheduled, &planned); }, mistake);
  }
  if (module && *module == scheduled) module.reset();
  return module;
}

}  // namespace tenon::driver
