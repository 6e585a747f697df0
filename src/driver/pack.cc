// SPDX-License-Identifier: Apache-2.0
// Packing of constants by generated code: weights are large, and a loop function says how to move them.
#include "driver/pack.h"

#include <map>
#include <optional>

#include "base/parallel.h"
#include "driver/kernels.h"
#include "schedule/schedule.h"
#include "tir/text.h"

namespace tenon::driver {
namespace {

/// A function as code for this machine.
Callable compile(const tir::PrimFunc& function, const Target& host, const lower::Caching& caching) {
  schedule::Scheduled result =
      schedule::naive({.func = function, .target = host, .constant_params = {false, false}, .opt_level = 3});
  return load_kernel(function, *kernel_code(result.func, host, lower::Stage::Packing, caching));
}

}  // namespace

std::vector<Array> run_packs(std::vector<PackJob> jobs, const lower::Caching& caching, int workers) {
  Target host = host_target();
  std::map<std::string, size_t> by_text;
  std::vector<const tir::PrimFunc*> functions;
  std::vector<size_t> function_of;
  for (const PackJob& job : jobs) {
    tir::PrimFunc nameless = *job.function;
    nameless.name.clear();
    auto [it, inserted] = by_text.try_emplace(tir::print(nameless), functions.size());
    if (inserted) functions.push_back(job.function);
    function_of.push_back(it->second);
  }
  std::vector<std::optional<Callable>> code(functions.size());
  parallel_for(code.size(), workers, [&](size_t i) { code[i].emplace(compile(*functions[i], host, caching)); });
  std::vector<Array> results(jobs.size());
  parallel_for(jobs.size(), workers, [&](size_t i) {
    const Callable& pack = *code[function_of[i]];
    Array input = std::move(jobs[i].input);
    input.shape = pack.inputs()[0].shape;  // the buffers of a scheduled function are flat
    results[i] = pack({&input, 1})[0];
  });
  return results;
}

}  // namespace tenon::driver
