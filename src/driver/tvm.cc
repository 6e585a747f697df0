// SPDX-License-Identifier: Apache-2.0
// The three files of TVM's graph executor.
#include <fmt/format.h>

#include "base/write_file.h"
#include "codegen/backend.h"
#include "driver/attributes.h"
#include "driver/module_code.h"
#include "driver/reproducer.h"
#include "driver/stopwatch.h"
#include "graph/memory_attr.h"
#include "runtime/tvm_folder.h"

namespace tenon::driver {
namespace {

std::vector<codegen::PackedWrapper> wrappers_of(const link::TvmLinked& linked, const ModuleCode& code) {
  std::vector<codegen::PackedWrapper> wrappers;
  for (const link::TvmKernel& kernel : linked.kernels) {
    codegen::PackedWrapper& wrapper = wrappers.emplace_back();
    wrapper.symbol = kernel.symbol;
    wrapper.kernel = kernel.function;
    for (const link::TvmKernel::Parameter& parameter : kernel.parameters)
      wrapper.parameters.push_back({parameter.dtype, parameter.shape});
    wrapper.scratch = link::scratch_of(code.module.prim_funcs.at(kernel.function), code.scratch);
  }
  return wrappers;
}

/// TVM's executor allocates by storage ids: there is no pool to lie in.
void check_no_places(const graph::Module& module, const MemoryOptions& memory) {
  auto refuse = [](const std::string& what, const std::string& input) {
    throw CompileError(Diagnostic{.kind = ErrorKind::Unsupported,
                                  .code = "tvm-memory",
                                  .message = fmt::format("{} cannot be kept: TVM's executor knows storage ids alone", what),
                                  .input = input,
                                  .expected = "no pools, places or planner with --emit tvm",
                                  .found = input,
                                  .hint = "compile with --emit so"});
  };
  if (memory.planner) refuse(fmt::format("the plan of `{}`", memory.planner->name()), std::string(memory.planner->name()));
  for (const plan::Pool& pool : memory.pools)
    if (pool.name != plan::Pool{}.name || pool.limit != plan::kUnlimited) refuse(fmt::format("pool `{}`", pool.name), pool.name);
  for (const auto& [name, function] : module.functions)
    for (const graph::Node& node : function.nodes)
      if (std::string place = graph::place_of_node(node); !place.empty())
        refuse(fmt::format("the place `{}`", place), node.name.empty() ? node.callee : node.name);
  for (const auto& [name, function] : module.prim_funcs)
    for (const tir::BufferPlace& place : tir::buffer_places(function))
      refuse(fmt::format("the place `{}` in @{}", place.place, name), place.buffer);
}

TvmBuilt compile_and_link(const graph::Module& scheduled, const CompileOptions& options, Milliseconds* ms) {
  ModuleCode code = compile_functions(scheduled, {.in_place = false, .parts = false}, options, ms);
  Stopwatch watch;
  if (!code.component_kernels.empty()) {
    const auto& [symbol, kernel] = *code.component_kernels.begin();
    throw CompileError(Diagnostic{
        .kind = ErrorKind::Unsupported,
        .code = "tvm-external",
        .message =
            fmt::format("component `{}` makes `{}` at run time, which TVM's executor cannot call", kernel.component, symbol),
        .input = "--emit",
        .expected = "--emit so, or another --external",
        .found = kernel.component,
        .function = symbol});
  }
  TvmBuilt built{link::link_tvm(code.module, code.liveness), std::move(code.objects), std::move(code.external)};
  built.objects.push_back(codegen::compile_packed_wrappers(wrappers_of(built.linked, code), target_of(scheduled)));
  if (ms) ms->link += watch.lap();
  return built;
}

TvmBuilt with_passes_after_plan(const graph::Module& scheduled, const CompileOptions& options, Milliseconds* ms) {
  TvmBuilt built = compile_and_link(scheduled, options, ms);
  std::optional<graph::Module> changed = run_passes_after_plan(scheduled, {built.linked.problem, built.linked.plan}, options);
  if (!changed) return built;
  TvmBuilt again = compile_and_link(*changed, options, ms);
  check_same_problem(built.linked.problem, again.linked.problem);
  return again;
}

}  // namespace

TvmBuilt build_tvm(const graph::Module& scheduled, const CompileOptions& options, Milliseconds* ms) {
  check_no_places(scheduled, options.memory);
  return guarded([&] { return with_passes_after_plan(scheduled, options, ms); },
                 [&](const char* why) { leave_reproducer(scheduled, "--emit tvm -o reproduced", options, why); });
}

void write_tvm(const TvmBuilt& built, const std::string& folder, Milliseconds* ms) {
  Stopwatch watch;
  make_folder(folder);
  write_file(folder + "/" + runtime::kTvmLibrary, codegen::link_shared(built.objects));
  write_file(folder + "/" + runtime::kTvmGraph, runtime::tvm::print(built.linked.graph));
  runtime::tvm::write_params(folder + "/" + runtime::kTvmParams, built.linked.params);
  if (ms) ms->link += watch.lap();
}

}  // namespace tenon::driver
