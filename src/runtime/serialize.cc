// SPDX-License-Identifier: Apache-2.0
// Programs to bytes and back.
#include "runtime/serialize.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "base/diagnostic.h"

namespace tenon::runtime {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are stored as they lie in memory");

[[noreturn]] void damaged(const std::string& what) {
  throw CompileError(Diagnostic{.kind = ErrorKind::Malformed,
                                .code = "artifact-damaged",
                                .message = "the artifact's program is damaged: " + what,
                                .hint = "compile the model again"});
}

class Writer {
 public:
  template <class T>
    requires std::is_arithmetic_v<T>
  void put(T value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put(const std::string& text) {
    put<uint64_t>(text.size());
    out_ += text;
  }
  void put(const TensorSpec& spec) {
    put(spec.name);
    put<uint8_t>(static_cast<uint8_t>(spec.dtype));
    put_all(spec.shape);
  }
  void put(const Argument& argument) {
    put<uint8_t>(static_cast<uint8_t>(argument.place));
    put<uint32_t>(argument.index);
    put<uint64_t>(argument.offset);
    put<uint64_t>(argument.bytes);
  }
  void put(const Arena& arena) {
    put(arena.name);
    put<uint64_t>(arena.bytes);
    put<uint64_t>(arena.lower_bound);
  }
  void put(const Region& region) {
    put(region.name);
    put<uint32_t>(region.arena);
    for (uint64_t number : {region.offset, region.bytes, region.begin, region.end}) put<uint64_t>(number);
  }
  void put(const KernelMemory& memory) {
    for (uint64_t bytes : {memory.io_bytes, memory.constant_bytes, memory.workspace_bytes, memory.worker_bytes})
      put<uint64_t>(bytes);
  }
  void put(const ComponentKernel& kernel) {
    put<uint32_t>(kernel.kernel);
    put(kernel.component);
    put(kernel.description);
  }
  void put(const Step& step) {
    put<uint32_t>(step.kernel);
    put<uint32_t>(step.inputs);
    put_all(step.args);
    put_all(step.workspaces);
    put<uint64_t>(step.copy_bytes);
    put(step.label);
    put<double>(step.flops);
  }
  template <class T>
  void put_all(const std::vector<T>& values) {
    put<uint64_t>(values.size());
    for (const T& value : values) put(value);
  }
  std::string finish() && { return std::move(out_); }

 private:
  std::string out_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <class T>
    requires std::is_arithmetic_v<T>
  void get(T& value) {
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
  }
  void get(bool& value) { value = below(2, "a truth value") == 1; }
  void get(std::string& text) {
    uint64_t size = 0;
    get(size);
    std::span<const std::byte> bytes = take(size);
    text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void get(TensorSpec& spec) {
    get(spec.name);
    spec.dtype = static_cast<DType>(below(std::size(kAllDTypes), "a data type"));
    get_all(spec.shape);
    for (int64_t extent : spec.shape)
      if (extent < 0) damaged("a negative extent");
    element_count(spec.shape);
  }
  void get(Argument& argument) {
    argument.place = static_cast<Place>(below(4, "a place"));
    get(argument.index);
    get(argument.offset);
    get(argument.bytes);
  }
  void get(Arena& arena) {
    get(arena.name);
    get(arena.bytes);
    get(arena.lower_bound);
  }
  void get(Region& region) {
    get(region.name);
    get(region.arena);
    for (uint64_t* number : {&region.offset, &region.bytes, &region.begin, &region.end}) get(*number);
  }
  void get(KernelMemory& memory) {
    for (uint64_t* bytes : {&memory.io_bytes, &memory.constant_bytes, &memory.workspace_bytes, &memory.worker_bytes}) get(*bytes);
  }
  void get(ComponentKernel& kernel) {
    get(kernel.kernel);
    get(kernel.component);
    get(kernel.description);
  }
  void get(Step& step) {
    get(step.kernel);
    get(step.inputs);
    get_all(step.args);
    get_all(step.workspaces);
    get(step.copy_bytes);
    get(step.label);
    get(step.flops);
  }
  template <class T>
  void get_all(std::vector<T>& values) {
    uint64_t count = 0;
    get(count);
    if (count > left_.size()) damaged("a count past the end");  // every element takes a byte or more
    for (uint64_t i = 0; i < count; ++i) get(values.emplace_back());
  }
  bool at_end() const { return left_.empty(); }

 private:
  std::span<const std::byte> take(uint64_t size) {
    if (size > left_.size()) damaged("a length past the end");
    std::span<const std::byte> bytes = left_.first(size);
    left_ = left_.subspan(size);
    return bytes;
  }
  uint8_t below(size_t limit, const char* what) {
    uint8_t value = 0;
    get(value);
    if (value >= limit) damaged(std::string(what) + " out of range");
    return value;
  }
  std::span<const std::byte> left_;
};

/// Bytes of the memory that an argument lies in; none if there is no such memory.
std::optional<uint64_t> bytes_of(const Program& program, const Argument& argument) {
  switch (argument.place) {
    case Place::Input:
      if (argument.index < program.inputs.size()) return program.inputs[argument.index].bytes();
      break;
    case Place::Output:
      if (argument.index < program.outputs.size()) return program.outputs[argument.index].bytes();
      break;
    case Place::Constant: return program.constants_bytes;
    case Place::Arena:
      if (argument.index < program.arenas.size()) return program.arenas[argument.index].bytes;
      break;
  }
  return std::nullopt;
}

/// Bytes from an argument's start to the end of its memory.
uint64_t room(const Program& program, const Argument& argument) {
  std::optional<uint64_t> bytes = bytes_of(program, argument);
  if (!bytes || argument.offset > *bytes || argument.bytes > *bytes - argument.offset) damaged("an argument outside its memory");
  return *bytes - argument.offset;
}

void check_step(const Program& program, const Step& step) {
  for (const Argument& argument : step.args) room(program, argument);
  if (step.inputs > step.args.size()) damaged("more inputs than arguments");
  for (const Argument& workspace : step.workspaces) {
    if (workspace == Argument{}) continue;
    if (workspace.place != Place::Arena) damaged("a workspace that lies in no arena");
    room(program, workspace);
  }
  if (step.kernel != Step::kCopy) {
    if (step.kernel >= program.kernels.size()) damaged("an unknown kernel");
    return;
  }
  if (step.args.size() != 2) damaged("a copy without two arguments");
  if (step.copy_bytes > std::min(room(program, step.args[0]), room(program, step.args[1]))) damaged("a copy past the end");
}

}  // namespace

std::string serialize(const Program& program) {
  Writer writer;
  writer.put(program.target);
  writer.put_all(program.features);
  writer.put<int32_t>(program.opt_level);
  writer.put(program.model);
  writer.put_all(program.inputs);
  writer.put_all(program.outputs);
  writer.put_all(program.kernels);
  writer.put_all(program.component_kernels);
  writer.put_all(program.steps);
  writer.put_all(program.kernel_memory);
  writer.put_all(program.arenas);
  writer.put_all(program.regions);
  writer.put<uint64_t>(program.arena_lower_bound);
  writer.put(program.planner);
  writer.put<uint8_t>(program.plan_optimal);
  writer.put<uint64_t>(program.plan_time_limit_ms);
  writer.put<uint64_t>(program.worker_scratch_bytes);
  writer.put<uint64_t>(program.constants_bytes);
  return std::move(writer).finish();
}

Program deserialize(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  Program program;
  reader.get(program.target);
  reader.get_all(program.features);
  reader.get(program.opt_level);
  reader.get(program.model);
  reader.get_all(program.inputs);
  reader.get_all(program.outputs);
  reader.get_all(program.kernels);
  reader.get_all(program.component_kernels);
  reader.get_all(program.steps);
  reader.get_all(program.kernel_memory);
  reader.get_all(program.arenas);
  reader.get_all(program.regions);
  reader.get(program.arena_lower_bound);
  reader.get(program.planner);
  reader.get(program.plan_optimal);
  reader.get(program.plan_time_limit_ms);
  reader.get(program.worker_scratch_bytes);
  reader.get(program.constants_bytes);
  if (!reader.at_end()) damaged("bytes after its end");
  for (size_t i = 0; i < program.component_kernels.size(); ++i) {
    uint32_t kernel = program.component_kernels[i].kernel;
    if (kernel >= program.kernels.size() || (i > 0 && kernel <= program.component_kernels[i - 1].kernel))
      damaged("an unknown kernel of a component");
  }
  for (const Step& step : program.steps) check_step(program, step);
  for (const Region& region : program.regions) room(program, {Place::Arena, region.arena, region.offset, region.bytes});
  return program;
}

}  // namespace tenon::runtime
