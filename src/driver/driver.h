// SPDX-License-Identifier: Apache-2.0
// From a model file to something that runs: the pipelines, the compiler, and what the commands share.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/target.h"
#include "graph/graph.h"
#include "import/onnx/import.h"
#include "lower/lower.h"
#include "passes/pass.h"
#include "runtime/program.h"

namespace tenon::driver {

struct CompileOptions {
  std::string target = "llvm";
  int opt_level = 3;
  int workers = 1;
  bool link_params = false;
  bool verify_each = false;
  onnx::ImportOptions import;
  std::string dump_dir;        // write NNN-<pass>.tenon after each pass; empty: none
  std::vector<std::string> print_after;  // passes
  std::string stop_after;      // a pass; empty: none
  std::function<void(std::string_view pass, double ms)> on_pass;   // times
  std::function<void(std::string_view pass, const std::string& text)> on_print;
  lower::KernelCache* cache = nullptr;
};

/// One step of a pipeline: a pass with the reason for its place.
struct PipelineStep {
  std::string_view name;
  std::string_view summary;
  int min_opt_level;
  graph::Module (*run)(const graph::Module& module, const CompileOptions& options);
};

/// The passes from an imported module to a scheduled mixed module, in order. The only place that orders them.
std::vector<PipelineStep> pipeline();

struct Milliseconds {
  double import = 0, passes = 0, lower = 0, codegen = 0, link = 0, total = 0;
};

/// Reads `.onnx` or `.tenon`, at whatever stage it is.
graph::Module load_module(const std::string& path, const CompileOptions& options);
/// Runs the steps that come after the module's `stage` attribute.
graph::Module run_pipeline(graph::Module module, const CompileOptions& options, Milliseconds* ms = nullptr);

/// A scheduled module as objects, constants and program: everything an artifact or an in-memory run needs.
struct Built {
  runtime::Program program;
  std::vector<std::string> objects;
  std::vector<std::byte> constants;
};
Built build(const graph::Module& scheduled, const CompileOptions& options, Milliseconds* ms = nullptr);
/// Links and writes the artifact.
void write(const Built& built, const std::string& path, Milliseconds* ms = nullptr);
/// Loads the code in memory.
std::shared_ptr<const runtime::Executable> load(Built built, Milliseconds* ms = nullptr);

/// All of it: any model or artifact to something that runs.
std::shared_ptr<const runtime::Executable> prepare(const std::string& path, const CompileOptions& options, Milliseconds* ms = nullptr);

}  // namespace tenon::driver
