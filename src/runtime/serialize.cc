// SPDX-License-Identifier: Apache-2.0
// Programs to bytes and back.
#include "runtime/serialize.h"

#include <algorithm>
#include <bit>
#include <cstring>

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
    put<uint64_t>(argument.value);
  }
  void put(const Step& step) {
    put<uint32_t>(step.kernel);
    put_all(step.args);
    put<uint64_t>(step.shared_scratch);
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
    get(argument.value);
  }
  void get(Step& step) {
    get(step.kernel);
    get_all(step.args);
    get(step.shared_scratch);
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

void check_argument(const Program& program, const Argument& argument) {
  bool good = false;
  switch (argument.place) {
    case Place::Input: good = argument.value < program.inputs.size(); break;
    case Place::Output: good = argument.value < program.outputs.size(); break;
    case Place::Constant: good = argument.value <= program.constants_bytes; break;
    case Place::Arena: good = argument.value <= program.arena_bytes; break;
  }
  if (!good) damaged("an argument outside its memory");
}

/// Bytes from an argument's start to the end of its memory.
uint64_t room(const Program& program, const Argument& argument) {
  switch (argument.place) {
    case Place::Input: return program.inputs[argument.value].bytes();
    case Place::Output: return program.outputs[argument.value].bytes();
    case Place::Constant: return program.constants_bytes - argument.value;
    case Place::Arena: return program.arena_bytes - argument.value;
  }
  return 0;
}

void check_step(const Program& program, const Step& step) {
  for (const Argument& argument : step.args) check_argument(program, argument);
  if (step.shared_scratch > program.arena_bytes) damaged("scratch outside the arena");
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
  writer.put_all(program.steps);
  writer.put<uint64_t>(program.arena_bytes);
  writer.put<uint64_t>(program.arena_lower_bound);
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
  reader.get_all(program.steps);
  reader.get(program.arena_bytes);
  reader.get(program.arena_lower_bound);
  reader.get(program.worker_scratch_bytes);
  reader.get(program.constants_bytes);
  if (!reader.at_end()) damaged("bytes after its end");
  for (const Step& step : program.steps) check_step(program, step);
  return program;
}

}  // namespace tenon::runtime
