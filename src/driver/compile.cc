// SPDX-License-Identifier: Apache-2.0
// Reading, building, writing and loading.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/mapped_file.h"
#include "base/parallel.h"
#include "base/write_file.h"
#include "codegen/backend.h"
#include "driver/attributes.h"
#include "driver/externals.h"
#include "driver/kernels.h"
#include "driver/module_code.h"
#include "driver/reproducer.h"
#include "driver/stopwatch.h"
#include "graph/text.h"
#include "link/link.h"
#include "link/places.h"
#include "op/all_ops.h"

namespace tenon::driver {
namespace {

bool has_suffix(std::string_view path, std::string_view suffix) {
  return path.size() >= suffix.size() && path.substr(path.size() - suffix.size()) == suffix;
}

[[noreturn]] void fail_unknown_node(std::string_view option, const std::string& name) {
  throw CompileError(Diagnostic{.kind = ErrorKind::Usage,
                                .code = "unknown-node",
                                .message = fmt::format("{} names `{}`, which is no node of the model", option, name),
                                .input = name,
                                .hint = "`tenon opt --stop-after import` prints the nodes with their names"});
}

/// Makes the first result of each node named in `keep` a result of `main`. Where a node of the model became several, the last
/// has its result.
void keep_values(graph::Module& module, const std::vector<std::string>& keep) {
  auto main = module.functions.find("main");
  if (main == module.functions.end()) return;
  graph::Function& function = main->second;
  for (const std::string& name : keep) {
    auto node =
        std::find_if(function.nodes.rbegin(), function.nodes.rend(), [&](const graph::Node& n) { return n.name == name; });
    if (node == function.nodes.rend()) fail_unknown_node("--keep", name);
    if (function.result_names.empty())
      for (size_t i = 0; i < function.results.size(); ++i) function.result_names.push_back(fmt::format("out{}", i));
    function.results.push_back(node->result());
    function.result_names.push_back(name);
  }
}

/// Gives nodes of `main` the attribute that says where their results are to lie.
void pin_values(graph::Module& module, const std::map<std::string, std::string>& pins) {
  auto main = module.functions.find("main");
  for (const auto& [name, place] : pins) {
    bool found = false;
    if (main != module.functions.end())
      for (auto node = main->second.nodes.rbegin(); node != main->second.nodes.rend() && !found; ++node)
        if ((found = node->name == name)) node->attrs[std::string(link::kMemoryAttr)] = place;
    if (!found) fail_unknown_node("--pin", name);
  }
}

void check_scheduled(const graph::Module& module) {
  for (const auto& [name, function] : module.prim_funcs)
    if (!function.scheduled())
      throw CompileError(Diagnostic{.kind = ErrorKind::Malformed,
                                    .code = "not-scheduled",
                                    .message = fmt::format("loop function `{}` has no schedule", name),
                                    .function = name,
                                    .hint = "mark it `scheduled = true`, or let the pipeline schedule it"});
}

/// The loop functions that run and are ours to compile, sorted by name.
std::vector<const tir::PrimFunc*> called_functions(const graph::Module& module, const link::Liveness& liveness) {
  std::set<std::string_view> called;
  for (const graph::Node* step : liveness.steps) called.insert(step->callee);
  std::vector<const tir::PrimFunc*> functions;
  for (const auto& [name, function] : module.prim_funcs)
    if (called.contains(name) && function.body) functions.push_back(&function);
  return functions;
}

/// Code and constants in memory.
struct InMemory {
  std::unique_ptr<codegen::JitCode> code;
  Array constants;
};

}  // namespace

graph::Module read_text(const std::string& path) { return graph::read_module(path, op::all_ops()); }

graph::Module load_module(const std::string& path, const CompileOptions& options, Milliseconds* ms) {
  Stopwatch watch;
  bool text = has_suffix(path, ".tenon");
  graph::Module module = text ? read_text(path) : onnx::import_file(path, options.import);
  if (!text) module.attrs["stage"] = std::string("import");
  settle_attributes(module, std::filesystem::path(path).filename().string(), options);
  keep_values(module, options.keep);
  pin_values(module, options.memory.pins);
  double took = watch.lap();
  if (ms) ms->import += took;
  if (options.on_pass) options.on_pass("import", took);
  return module;
}

ModuleCode compile_functions(const graph::Module& scheduled, const link::LivenessOptions& sharing, const CompileOptions& options,
                             Milliseconds* ms) {
  check_scheduled(scheduled);
  Stopwatch watch;
  Externals externals = compile_externals(scheduled, options);
  ModuleCode code{.module = std::move(externals.module),
                  .liveness = {},
                  .objects = std::move(externals.objects),
                  .scratch = std::move(externals.scratch),
                  .component_kernels = std::move(externals.kernels),
                  .external = std::move(externals.regions)};
  if (ms) ms->codegen += watch.lap();
  code.liveness = link::analyse_liveness(code.module, sharing);
  if (ms) ms->link += watch.lap();
  std::vector<const tir::PrimFunc*> functions = called_functions(code.module, code.liveness);
  Target target = target_of(scheduled);
  size_t given = code.objects.size();
  code.objects.resize(given + functions.size());
  parallel_for(functions.size(), options.workers, [&](size_t i) {
    auto object = kernel_code(*functions[i], target_of(*functions[i], target), options.caching());
    code.objects[given + i] = codegen::rename_symbols(object->bytes, kKernelSymbol, functions[i]->name);
  });
  // A model that only copies has no kernel; its library is linked from one empty object.
  if (code.objects.empty()) code.objects.push_back(codegen::compile_object({}, target).bytes);
  if (!code.external.empty() && options.external.self_test) self_test(scheduled, code, options);
  if (ms) ms->codegen += watch.lap();
  return code;
}

Built link_code(ModuleCode code, const MemoryOptions& memory) {
  link::Linked linked =
      link::link_program(code.module, code.liveness, code.scratch, {memory.pools, memory.planner.get(), memory.planner_options});
  Built built;
  built.objects = std::move(code.objects);
  built.program = std::move(linked.program);
  built.constants = std::move(linked.constants);
  built.problem = std::move(linked.problem);
  built.plan = std::move(linked.plan);
  built.external = std::move(code.external);
  const std::vector<std::string>& kernels = built.program.kernels;
  for (uint32_t k = 0; k < kernels.size(); ++k)
    if (auto kernel = code.component_kernels.find(kernels[k]); kernel != code.component_kernels.end())
      built.program.component_kernels.push_back({k, kernel->second.component, kernel->second.description});
  return built;
}

namespace {

/// Kernels compiled, and `main` over them with its memory planned.
Built compile_and_link(const graph::Module& scheduled, const CompileOptions& options, Milliseconds* ms) {
  const MemoryOptions& memory = options.memory;
  ModuleCode code = compile_functions(scheduled, {.in_place = memory.in_place, .parts = memory.parts}, options, ms);
  Stopwatch watch;
  Built built = link_code(std::move(code), memory);
  if (ms) ms->link += watch.lap();
  return built;
}

Built with_passes_after_plan(const graph::Module& scheduled, const CompileOptions& options, Milliseconds* ms) {
  Built built = compile_and_link(scheduled, options, ms);
  std::optional<graph::Module> changed = run_passes_after_plan(scheduled, {built.problem, built.plan}, options);
  if (!changed) return built;
  Built again = compile_and_link(*changed, options, ms);
  check_same_problem(built.problem, again.problem);
  return again;
}

}  // namespace

Built build(const graph::Module& scheduled, const CompileOptions& options, Milliseconds* ms) {
  return guarded(
      [&] { return with_passes_after_plan(scheduled, options, ms); },
      [&](const char* why) { leave_reproducer(scheduled, has_own_generators(options) ? "" : "-o reproduced.so", options, why); });
}

void write_plan(const plan::LivenessProblem& problem, const plan::MemoryPlan& plan, const std::string& folder) {
  make_folder(folder);
  write_file(folder + "/problem.csv", plan::write_problem_csv(problem));
  write_file(folder + "/plan.csv", plan::write_plan_csv(problem, plan));
  write_file(folder + "/plan.html", plan::write_plan_html(problem, plan));
}

void write(const Built& built, const std::string& path, Milliseconds* ms) {
  Stopwatch watch;
  runtime::write_artifact(path, codegen::link_shared(built.objects), built.constants, built.program);
  if (ms) ms->link += watch.lap();
}

std::shared_ptr<const runtime::Executable> load(Built built, Milliseconds* ms) {
  Stopwatch watch;
  runtime::check_host(built.program);
  auto memory = std::make_shared<InMemory>();
  memory->code = codegen::load_in_memory(built.objects);
  memory->constants = runtime::join_constants(built.constants);
  auto executable = std::make_shared<runtime::Executable>();
  executable->constants = memory->constants.bytes.data();
  executable->program = std::move(built.program);
  runtime::bind_kernels(*executable,
                        [&](const std::string& name) { return reinterpret_cast<tenon_kernel>(memory->code->address(name)); });
  executable->owner = std::move(memory);
  if (ms) ms->link += watch.lap();
  return executable;
}

bool is_folder(const std::string& path) {
  std::error_code none;
  return std::filesystem::is_directory(path, none);
}

bool is_compiled(const std::string& path) {
  if (is_folder(path)) return true;
  MappedFile file = map_file(path);
  constexpr std::byte kElf[] = {std::byte{0x7f}, std::byte{'E'}, std::byte{'L'}, std::byte{'F'}};
  return file.bytes.size() >= sizeof kElf && std::equal(std::begin(kElf), std::end(kElf), file.bytes.begin());
}

std::shared_ptr<const runtime::Executable> prepare(const std::string& path, const CompileOptions& options, Milliseconds* ms) {
  Stopwatch watch;
  std::shared_ptr<const runtime::Executable> executable;
  if (is_compiled(path)) {
    executable = is_folder(path) ? runtime::load_tvm_folder(path, options.tvm) : runtime::load_artifact(path);
    if (ms) ms->link += watch.lap();
  } else {
    executable = load(build(load_and_run_pipeline(path, options, ms), options, ms), ms);
  }
  return executable;
}

}  // namespace tenon::driver
