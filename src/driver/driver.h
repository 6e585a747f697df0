// SPDX-License-Identifier: Apache-2.0
// From a model file to something that runs: the pipelines, the compiler, and what the commands share.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/target.h"
#include "driver/extensions.h"
#include "external/external.h"
#include "graph/graph.h"
#include "import/onnx/import.h"
#include "link/tvm_graph.h"
#include "lower/lower.h"
#include "passes/pass.h"
#include "runtime/program.h"
#include "runtime/tvm_folder.h"
#include "tenon/plan.h"

namespace tenon::driver {

/// How the memory of a build is planned.
struct MemoryOptions {
  std::vector<plan::Pool> pools = {plan::Pool{}};
  std::map<std::string, std::string> pins;             // by the name of a node of the imported module: `POOL` or `POOL@OFFSET`
  std::shared_ptr<const plan::MemoryPlanner> planner;  // null: the default one. Its plan is checked
  plan::PlannerOptions planner_options;
  bool in_place = true, parts = true;  // as in link::LivenessOptions
  bool reorder = true;                 // calls may run in another order, where less memory is alive then (link/order.h)
};

/// Who compiles parts of the graph in our place.
struct ExternalOptions {
  std::vector<std::shared_ptr<const external::ExternalCodegen>> generators;  // in the order in which they choose
  bool off = false;       // external functions of the module are compiled as our own
  bool self_test = true;  // what a generator made is run once on random numbers and compared with our own code
};
/// Adds a generator of the program's own. Throws CompileError (usage, `external-name`) for a name that is no word or that another
/// generator has.
void add_generator(ExternalOptions& options, std::shared_ptr<const external::ExternalCodegen> generator);
/// Adds what `--external` says: `none`, or `NAME -key=value …` of a generator that comes with Tenon. Throws CompileError (usage,
/// `external-option`) for an option that the generator does not take, (missing, `component-missing`) for another name.
void add_external(ExternalOptions& options, const std::string& text);

struct CompileOptions {
  std::string target;            // empty: the module's own if it has one, else the host
  std::optional<int> opt_level;  // none: the module's own if it has one, else 3
  int workers = 1;               // threads of the compiler; they change no byte
  bool link_params = false;
  bool verify_each = false;  // check the module after each pass; a failure is an internal error
  bool verify_end = false;   // check it once, after the last
  onnx::ImportOptions import;
  ExternalOptions external;
  std::vector<std::string> keep;                                  // nodes of the imported module whose results become outputs too
  std::string dump_dir;                                           // write NNN-<pass>.tenon after each pass; empty: none
  std::vector<std::string> print_after;                           // passes
  std::string stop_after;                                         // a pass; empty: none
  std::function<void(std::string_view pass, double ms)> on_pass;  // times, `import` first
  std::function<void(std::string_view pass, const std::string& text)> on_print;
  std::shared_ptr<lower::KernelCache> cache;  // null: none
  lower::Observer* observer = nullptr;
  runtime::TvmFolderOptions tvm;  // of a folder that is loaded
  MemoryOptions memory;
  Extensions extensions;  // the program's own

  lower::Caching caching() const { return {cache.get(), observer}; }
};

/// A cache with a folder that keeps code for other processes; made by another build of Tenon or LLVM, code is not found.
std::shared_ptr<lower::KernelCache> open_cache(const std::string& folder);

/// One step of a pipeline: a pass with the reason for its place.
struct PipelineStep {
  std::string_view name;
  std::string_view summary;
  int min_opt_level;                                                          // below it the step is left out
  graph::Module (*run)(graph::Module module, const CompileOptions& options);  // by value, so that it may let go of weights
};

/// The passes from an imported module to a scheduled mixed module, in order. The only place that orders them.
const std::vector<PipelineStep>& pipeline();

struct Milliseconds {
  double import = 0, passes = 0, lower = 0, codegen = 0, link = 0, total = 0;
};

/// A `.tenon` file with its constants, as it is.
graph::Module read_text(const std::string& path);
/// Reads `.onnx` or `.tenon`, at whatever stage it is. The attributes `target`, `opt_level`, `model` and `stage` of the result
/// say how it is to be compiled. Throws CompileError (mismatch) when the options ask for something else than a module that
/// has gone through passes was made for.
graph::Module load_module(const std::string& path, const CompileOptions& options, Milliseconds* ms = nullptr);
/// Runs the steps that come after the module's `stage` attribute. A module without the attribute runs through all.
graph::Module run_pipeline(graph::Module module, const CompileOptions& options, Milliseconds* ms = nullptr);
/// Both. A mistake of ours in a pass leaves a reproducer (reproducer.h).
graph::Module load_and_run_pipeline(const std::string& path, const CompileOptions& options, Milliseconds* ms = nullptr);
/// The passes that a build was given for the slot after planning, each checked. Returns the module if one changed it.
std::optional<graph::Module> run_passes_after_plan(const graph::Module& scheduled, const Planned& planned,
                                                   const CompileOptions& options);

/// For each parameter of a loop function: whether every call in the module passes a constant there.
std::vector<bool> constant_params(const graph::Module& module, const std::string& function);
/// Gives every loop function that has none a schedule, packs the constants that the schedules want packed, and notes each
/// function's floating-point operations in the attribute `flops`.
graph::Module schedule_module(graph::Module module, const CompileOptions& options);
/// Gives `main` an order in which less memory is alive, if there is one; with external functions, whose code is not known yet, or
/// at level 0, the module as it is.
graph::Module order_module(graph::Module module, const CompileOptions& options);
/// Takes the steps of a trace (docs/schedule-primitives.md) on one loop function, and packs the constants that they pack. Throws
/// CompileError with the line, or `schedule-packed` where a call passes no constant.
graph::Module take_steps(graph::Module module, const std::string& function, std::string_view file, std::string_view steps,
                         const CompileOptions& options);

/// A scheduled module as objects, constants and program: everything an artifact or an in-memory run needs.
struct Built {
  runtime::Program program;
  std::vector<std::string> objects;
  std::vector<Array> constants;
  plan::LivenessProblem problem;
  plan::MemoryPlan plan;
  std::map<std::string, size_t, std::less<>> external;  // by external code generator, the functions that it compiled
};
Built build(const graph::Module& scheduled, const CompileOptions& options, Milliseconds* ms = nullptr);
/// Writes the memory plan into a folder: `problem.csv`, `plan.csv` (with `offset`) and a page that shows it, `plan.html`.
void write_plan(const plan::LivenessProblem& problem, const plan::MemoryPlan& plan, const std::string& folder);
/// Links and writes the artifact.
void write(const Built& built, const std::string& path, Milliseconds* ms = nullptr);
/// Loads the code in memory. Throws CompileError (mismatch) if this machine cannot run it.
std::shared_ptr<const runtime::Executable> load(Built built, Milliseconds* ms = nullptr);

/// A scheduled module as what TVM's graph executor loads.
struct TvmBuilt {
  link::TvmLinked linked;
  std::vector<std::string> objects;
  std::map<std::string, size_t, std::less<>> external;
};
/// Throws CompileError (unsupported): `tvm-external` where a component makes a kernel, `tvm-memory` where pools, places or a
/// planner are given; and what `build` throws.
TvmBuilt build_tvm(const graph::Module& scheduled, const CompileOptions& options, Milliseconds* ms = nullptr);
/// Writes `lib.so`, `graph.json` and `params.bin` into the folder, which is made if it is not there.
void write_tvm(const TvmBuilt& built, const std::string& folder, Milliseconds* ms = nullptr);

/// Whether a path is to be loaded as it is: an artifact, which is an ELF file, or a folder of TVM's three files.
bool is_compiled(const std::string& path);
bool is_folder(const std::string& path);
/// All of it: any model, artifact or folder of TVM's files to something that runs.
std::shared_ptr<const runtime::Executable> prepare(const std::string& path, const CompileOptions& options,
                                                   Milliseconds* ms = nullptr);

}  // namespace tenon::driver
