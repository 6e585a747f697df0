// SPDX-License-Identifier: Apache-2.0
// Packing of constants by generated code: weights are large, and a loop function says how to move them.
#include "driver/pack.h"

#include <fmt/format.h>

#include <map>

#include "base/parallel.h"
#include "codegen/backend.h"
#include "runtime/kernel_abi.h"
#include "schedule/schedule.h"
#include "tir/text.h"

namespace tenon::driver {
namespace {

/// A compiled function with the memory that it needs beside its arguments.
struct Kernel {
  tenon_kernel run = nullptr;
  codegen::KernelScratch scratch;
};

void run_serially(tenon_kernel_context*, int64_t extent, tenon_range_body body, void* closure) { body(closure, 0, extent, 0); }

Array run_pack(const Kernel& kernel, const PackJob& job) {
  const tir::Buffer& output = job.function->params[1];
  Shape shape;
  for (const tir::Expr& extent : output->shape) shape.push_back(tir::int_value(extent));
  Array input = job.input;
  if (reinterpret_cast<uintptr_t>(input.bytes.data()) % static_cast<size_t>(byte_size(input.dtype)) != 0)
    input = make_array(input.dtype, input.shape, input.bytes);
  MutableArray result(output->dtype, std::move(shape));
  MutableArray scratch(DType::U8, {kernel.scratch.shared_bytes + kernel.scratch.per_worker_bytes});
  tenon_kernel_context context{};
  context.parallel_for = run_serially;
  context.shared_scratch = scratch.as<uint8_t>();
  context.worker_scratch = context.shared_scratch + kernel.scratch.shared_bytes;
  context.worker_stride = kernel.scratch.per_worker_bytes;
  void* args[] = {const_cast<std::byte*>(input.bytes.data()), result.data()};
  kernel.run(args, &context);
  return std::move(result).freeze();
}

/// A function scheduled for this machine under a symbol of its own.
tir::PrimFunc scheduled(const tir::PrimFunc& function, const Target& host, const std::string& symbol) {
  schedule::Scheduled result =
      schedule::naive({.func = function, .target = host, .constant_params = {false, false}, .opt_level = 3});
  result.func.name = symbol;
  return result.func;
}

}  // namespace

std::vector<Array> run_packs(const std::vector<PackJob>& jobs, int workers) {
  Target host = host_target();
  std::map<std::string, size_t> by_text;
  std::vector<tir::PrimFunc> functions;
  std::vector<size_t> function_of;
  for (const PackJob& job : jobs) {
    tir::PrimFunc nameless = *job.function;
    nameless.name.clear();
    auto [it, inserted] = by_text.try_emplace(tir::print(nameless), functions.size());
    if (inserted) functions.push_back(scheduled(*job.function, host, fmt::format("pack_{}", functions.size())));
    function_of.push_back(it->second);
  }
  if (jobs.empty()) return {};
  std::vector<const tir::PrimFunc*> pointers;
  for (const tir::PrimFunc& function : functions) pointers.push_back(&function);
  codegen::Object object = codegen::compile_object(pointers, host);
  std::unique_ptr<codegen::JitCode> code = codegen::load_in_memory(std::span(&object.bytes, 1));
  std::vector<Kernel> kernels(functions.size());
  for (size_t i = 0; i < object.symbols.size(); ++i) {
    size_t index = std::stoul(object.symbols[i].substr(5));
    kernels[index] = {reinterpret_cast<tenon_kernel>(code->address(object.symbols[i])), object.scratch[i]};
  }
  std::vector<Array> results(jobs.size());
  parallel_for(jobs.size(), workers, [&](size_t i) { results[i] = run_pack(kernels[function_of[i]], jobs[i]); });
  return results;
}

}  // namespace tenon::driver
