// SPDX-License-Identifier: Apache-2.0
// Functions one at a time, ready to be called.
#include "driver/jit.h"

#include <fmt/format.h>

#include "driver/kernels.h"
#include "lower/lower.h"
#include "runtime/program.h"
#include "schedule/schedule.h"
#include "tenon/kernel.h"

namespace tenon {

struct Callable::Code {
  std::unique_ptr<codegen::JitCode> memory;
  tenon_kernel run;
  tir::Scratch scratch;
};

namespace {

std::string text(const Callable::Type& type) { return fmt::format("{}{}", name(type.dtype), to_string(type.shape)); }

Callable::Type type_of(const tir::Buffer& buffer) {
  Callable::Type type{buffer->dtype, {}};
  for (const tir::Expr& extent : buffer->shape) type.shape.push_back(tir::int_value(extent));
  return type;
}

void run_serially(tenon_kernel_context*, int64_t extent, tenon_range_body body, void* closure) { body(closure, 0, extent, 0); }

/// The array, or a copy where its elements are not aligned.
Array aligned(const Array& array) {
  bool good = reinterpret_cast<uintptr_t>(array.bytes.data()) % static_cast<size_t>(byte_size(array.dtype)) == 0;
  return good ? array : make_array(array.dtype, array.shape, array.bytes);
}

void check_runs_here(const graph::Function& function, const Target& target) {
  if (target.kind != "llvm")
    throw CompileError(Diagnostic{.kind = ErrorKind::Missing,
                                  .code = "component-missing",
                                  .message = fmt::format("code for `{}` cannot be called from this process", target.kind),
                                  .input = "target",
                                  .expected = "llvm",
                                  .found = target.kind,
                                  .function = function.name});
  runtime::Program program;
  program.target = target.text();
  program.features = target.features;
  program.model = function.name;
  runtime::check_host(program);
}

}  // namespace

Callable::Callable(std::string name, std::vector<Type> inputs, std::vector<Type> outputs, std::unique_ptr<const Code> code)
    : name_(std::move(name)), inputs_(std::move(inputs)), outputs_(std::move(outputs)), code_(std::move(code)) {}
Callable::Callable(Callable&&) noexcept = default;
Callable::~Callable() = default;

void Callable::check_arguments(std::span<const Array> arguments) const {
  auto fail = [&](std::string message, std::string input, std::string expected, std::string found) {
    throw CompileError(Diagnostic{.code = "callable-input",
                                  .message = std::move(message),
                                  .input = std::move(input),
                                  .expected = std::move(expected),
                                  .found = std::move(found),
                                  .function = name_});
  };
  if (arguments.size() != inputs_.size())
    fail(fmt::format("{} arrays were given", arguments.size()), {}, fmt::format("{} arrays", inputs_.size()),
         fmt::format("{} arrays", arguments.size()));
  for (size_t i = 0; i < inputs_.size(); ++i) {
    std::string found = text({arguments[i].dtype, arguments[i].shape}), expected = text(inputs_[i]);
    if (found != expected) fail(fmt::format("argument {} is {}", i, found), fmt::format("argument {}", i), expected, found);
  }
}

std::vector<Array> Callable::operator()(std::span<const Array> arguments) const {
  check_arguments(arguments);
  std::vector<Array> inputs;
  std::vector<MutableArray> results;
  std::vector<void*> pointers;
  for (const Array& argument : arguments) {
    inputs.push_back(aligned(argument));
    pointers.push_back(const_cast<std::byte*>(inputs.back().bytes.data()));
  }
  for (const Type& type : outputs_) {
    results.emplace_back(type.dtype, type.shape);
    pointers.push_back(results.back().data());
  }
  MutableArray scratch(DType::U8, {code_->scratch.shared_bytes + code_->scratch.worker_bytes});
  std::vector<uint8_t*> workspaces;
  for (const tir::ScratchBlock& block : code_->scratch.shared) workspaces.push_back(scratch.as<uint8_t>() + block.offset);
  tenon_kernel_context context{};
  context.parallel_for = run_serially;
  context.workspaces = workspaces.data();
  context.worker_scratch = scratch.as<uint8_t>() + code_->scratch.shared_bytes;
  context.worker_stride = code_->scratch.worker_bytes;
  code_->run(pointers.data(), &context);
  std::vector<Array> outputs;
  for (MutableArray& result : results) outputs.push_back(std::move(result).freeze());
  return outputs;
}

Callable driver::load_kernel(const tir::PrimFunc& function, const tir::PrimFunc& scheduled, const codegen::Object& object) {
  std::vector<Callable::Type> inputs, outputs;
  for (size_t i = 0; i < function.params.size(); ++i)
    (static_cast<int64_t>(i) < function.num_inputs ? inputs : outputs).push_back(type_of(function.params[i]));
  auto code = std::make_unique<Callable::Code>();
  code->memory = codegen::load_in_memory(std::span(&object.bytes, 1));
  code->run = reinterpret_cast<tenon_kernel>(code->memory->address(kKernelSymbol));
  code->scratch = tir::scratch_of(scheduled);
  return Callable(function.name, std::move(inputs), std::move(outputs), std::move(code));
}

std::shared_ptr<const Callable> jit(lower::KernelCache& cache, const graph::Module& module, const graph::Function& function,
                                    const Target& target, int opt_level) {
  check_runs_here(function, target);
  std::string text = lower::canonical_text(module, function);
  auto make = [&] {
    tir::PrimFunc lowered = lower::lower_cached(module, function, text, &cache)->func;
    schedule::Scheduled scheduled = schedule::schedule(
        {.func = lowered, .target = target, .constant_params = std::vector<bool>(lowered.params.size()), .opt_level = opt_level});
    return driver::load_kernel(lowered, scheduled.func, *driver::kernel_code(scheduled.func, target, &cache));
  };
  return cache.get<Callable>(lower::Stage::Callable, fmt::format("{}\n-O{}\n{}", target.text(), opt_level, text), make);
}

}  // namespace tenon
