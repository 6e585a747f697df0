// SPDX-License-Identifier: Apache-2.0
// The graph executor: everything is allocated when a session is made or an input is set, nothing when it runs.
#include "runtime/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>

#include "base/diagnostic.h"
#include "runtime/component.h"
#include "runtime/debug_memory.h"
#include "runtime/thread_pool.h"

namespace tenon::runtime {
namespace {

/// Zeroed and aligned to 64.
MutableArray memory(uint64_t bytes) { return MutableArray(DType::U8, {static_cast<int64_t>(bytes)}); }

std::string text(const TensorSpec& spec) { return fmt::format("{}{}", name(spec.dtype), to_string(spec.shape)); }

[[noreturn]] void fail_input(std::string code, std::string message, const std::string& input, std::string expected,
                             std::string found) {
  throw CompileError(Diagnostic{.kind = ErrorKind::Malformed,
                                .code = std::move(code),
                                .message = std::move(message),
                                .input = input,
                                .expected = std::move(expected),
                                .found = std::move(found)});
}

std::string names(const std::vector<TensorSpec>& specs) {
  std::string out;
  for (const TensorSpec& spec : specs) out += (out.empty() ? "`" : ", `") + spec.name + "`";
  return out.empty() ? "no inputs" : out;
}

void parallel_for(tenon_kernel_context* context, int64_t extent, tenon_range_body body, void* closure) {
  static_cast<ThreadPool*>(context->pool)->run(extent, body, closure);
}

/// Bytes from one worker's scratch to the next one's.
uint64_t scratch_stride(const Program& program) { return (program.worker_scratch_bytes + 63) / 64 * 64; }

int checked_threads(int threads) {
  if (threads < 1 || threads > kMaxThreads)
    throw CompileError(Diagnostic{.kind = ErrorKind::Usage,
                                  .code = "thread-count",
                                  .message = fmt::format("a session cannot have {} threads", threads),
                                  .expected = fmt::format("1 to {}", kMaxThreads),
                                  .found = std::to_string(threads)});
  return threads;
}

}  // namespace

struct Session::State {
  State(std::shared_ptr<const Executable> executable, const SessionOptions& options);

  const std::shared_ptr<const Executable> executable;
  const Program& program;
  ThreadPool pool;
  std::vector<MutableArray> arenas;
  MutableArray worker_scratch;
  std::unique_ptr<DebugMemory> debug;                   // in place of arenas, outputs and scratch of our own
  std::vector<std::optional<MutableArray>> own_inputs;  // those that were set
  std::vector<MutableArray> own_outputs;
  std::vector<const void*> inputs;  // null: neither set nor bound
  std::vector<void*> outputs;
  std::vector<void*> args;              // of all steps, one after the other
  std::vector<uint8_t*> workspaces;     // likewise
  std::vector<size_t> first_workspace;  // of each step, in `workspaces`
  bool resolved = false;                // whether `args` and `workspaces` are up to date
  tenon_kernel_context context{};
  std::vector<PackedCall> packed;                       // one per step where the kernels were compiled for TVM
  std::vector<std::optional<ComponentCall>> component;  // one per step where components make kernels

  void make_component_calls();
  void* address(size_t step, const Argument& argument);
  void resolve();
  void run_steps();
  void run_step(size_t index, void* const* step_args);
  void prepare();
};

Session::State::State(std::shared_ptr<const Executable> from, const SessionOptions& options)
    : executable(std::move(from)),
      program(executable->program),
      pool(checked_threads(options.threads)),
      worker_scratch(memory(options.debug_memory ? 0 : scratch_stride(program) * static_cast<uint64_t>(options.threads))),
      own_inputs(program.inputs.size()),
      inputs(program.inputs.size()) {
  if (options.debug_memory) debug = std::make_unique<DebugMemory>(program, static_cast<uint64_t>(options.threads));
  for (const Arena& arena : program.arenas) arenas.push_back(memory(debug ? 0 : arena.bytes));
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const TensorSpec& spec = program.outputs[i];
    outputs.push_back(debug ? debug->output(i) : own_outputs.emplace_back(spec.dtype, spec.shape).data());
  }
  size_t arg_count = 0, workspace_count = 0;
  for (const Step& step : program.steps) {
    first_workspace.push_back(workspace_count);
    arg_count += step.args.size();
    workspace_count += step.workspaces.size();
  }
  args.resize(arg_count);
  workspaces.resize(workspace_count);
  context.parallel_for = parallel_for;
  context.worker_scratch = reinterpret_cast<uint8_t*>(debug ? debug->worker_scratch() : worker_scratch.data());
  context.worker_stride = static_cast<int64_t>(debug ? debug->worker_stride() : scratch_stride(program));
  context.pool = &pool;
  packed.reserve(executable->packed.size());
  for (const PackedStep& step : executable->packed) packed.emplace_back(step);
  make_component_calls();
}

void Session::State::make_component_calls() {
  if (program.component_kernels.empty()) return;
  component.resize(program.steps.size());
  std::vector<const void*> constants;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const ComponentKernel* kernel = program.component_kernel(program.steps[i].kernel);
    if (!kernel) continue;
    constants.clear();
    for (const Argument& argument : program.steps[i].args)
      constants.push_back(argument.place == Place::Constant ? address(i, argument) : nullptr);
    component[i].emplace(*executable, *kernel, constants, pool.threads());
  }
}

void* Session::State::address(size_t step, const Argument& argument) {
  switch (argument.place) {
    case Place::Input: return static_cast<std::byte*>(const_cast<void*>(inputs[argument.index])) + argument.offset;
    case Place::Output: return static_cast<std::byte*>(outputs[argument.index]) + argument.offset;
    case Place::Constant: return const_cast<std::byte*>(executable->constants + argument.offset);
    case Place::Arena:
      if (debug) return debug->address(step, argument);
      return arenas.empty() ? nullptr : arenas[argument.index].data() + argument.offset;
  }
  fail_internal("an argument has one of four places");
}

void Session::State::resolve() {
  size_t next = 0, next_workspace = 0;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    for (const Argument& argument : step.args) args[next++] = address(i, argument);
    for (size_t k = 0; k < step.workspaces.size(); ++k)
      workspaces[next_workspace++] =
          debug ? reinterpret_cast<uint8_t*>(debug->workspace(i, k)) : static_cast<uint8_t*>(address(i, step.workspaces[k]));
  }
  resolved = true;
}

void Session::State::prepare() {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i])
      fail_input("input-missing", fmt::format("input `{}` has no value", program.inputs[i].name), program.inputs[i].name,
                 text(program.inputs[i]), "nothing");
  if (!resolved) resolve();
}

void Session::State::run_step(size_t index, void* const* step_args) {
  const Step& step = program.steps[index];
  if (step.kernel == Step::kCopy) {
    std::memcpy(step_args[1], step_args[0], step.copy_bytes);
    return;
  }
  if (!packed.empty()) return packed[index].run(step_args, pool);
  if (!component.empty() && component[index]) return component[index]->run(step_args);
  context.workspaces = workspaces.data() + first_workspace[index];
  executable->kernels[step.kernel](step_args, &context);
}

void Session::State::run_steps() {
  for (int round = 0; round < (debug ? DebugMemory::kRounds : 1); ++round) {
    if (debug) debug->begin(round, inputs);
    void* const* next = args.data();
    for (size_t i = 0; i < program.steps.size(); ++i) {
      if (debug) debug->before(i, next);
      run_step(i, next);
      if (debug) debug->after(i, inputs, next);
      next += program.steps[i].args.size();
    }
  }
}

Session::Session(std::shared_ptr<const Executable> executable, const SessionOptions& options)
    : state_(std::make_unique<State>(std::move(executable), options)) {}
Session::~Session() = default;

const Program& Session::program() const { return state_->program; }

void Session::set_input(std::string_view name, const Array& array) {
  const std::vector<TensorSpec>& specs = state_->program.inputs;
  auto it = std::find_if(specs.begin(), specs.end(), [&](const TensorSpec& spec) { return spec.name == name; });
  if (it == specs.end())
    fail_input("input-unknown", fmt::format("the model has no input `{}`", name), std::string(name), names(specs),
               "`" + std::string(name) + "`");
  std::string found = text({"", array.dtype, array.shape});
  if (array.dtype != it->dtype)
    fail_input("input-dtype", fmt::format("input `{}` is given as {}", name, found), it->name, text(*it), found);
  if (array.shape != it->shape)
    fail_input("input-shape", fmt::format("input `{}` is given as {}", name, found), it->name, text(*it), found);
  auto index = static_cast<size_t>(it - specs.begin());
  std::optional<MutableArray>& own = state_->own_inputs[index];
  if (!own) own.emplace(it->dtype, it->shape);
  if (own->size_bytes != 0) std::memcpy(own->data(), array.bytes.data(), own->size_bytes);
  bind_input(index, own->data());
}

void Session::bind_input(size_t index, const void* data) {
  check(index < state_->inputs.size(), "an input's index is in range");
  if (state_->inputs[index] == data) return;
  state_->inputs[index] = data;
  state_->resolved = false;
}

void Session::bind_output(size_t index, void* data) {
  check(index < state_->outputs.size(), "an output's index is in range");
  state_->outputs[index] = data;
  state_->resolved = false;
}

bool Session::has_input(size_t index) const { return state_->inputs.at(index) != nullptr; }

void Session::run() {
  state_->prepare();
  state_->run_steps();
}

void Session::run_profiled(std::vector<StepTime>& times) {
  using Microseconds = std::chrono::duration<double, std::micro>;
  times.clear();
  times.reserve(state_->program.steps.size());
  state_->prepare();
  void* const* next = state_->args.data();
  auto start = std::chrono::steady_clock::now(), before = start;
  const std::vector<Step>& steps = state_->program.steps;
  for (size_t i = 0; i < steps.size(); ++i) {
    state_->run_step(i, next);
    next += steps[i].args.size();
    auto after = std::chrono::steady_clock::now();
    times.push_back({static_cast<uint32_t>(i), Microseconds(before - start).count(), Microseconds(after - before).count()});
    before = after;
  }
}

const std::byte* Session::output_data(size_t index) const {
  check(index < state_->outputs.size(), "an output's index is in range");
  return static_cast<const std::byte*>(state_->outputs[index]);
}

Array Session::output(size_t index) const {
  const TensorSpec& spec = state_->program.outputs.at(index);
  return make_array(spec.dtype, spec.shape, {output_data(index), spec.bytes()});
}

}  // namespace tenon::runtime
