// SPDX-License-Identifier: Apache-2.0
// Runs a compiled loop function: one instruction at a time, every access checked.
#include "tir/interpret.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "tir/interpret_code.h"

namespace tenon::tir {
namespace {

/// NaN for floats and -1 or the maximum for integers, so that a read of what was never written shows.
constexpr int kPoison = 0xff;

/// A buffer's place. Strides are in bytes; `writable` is null for inputs and constants.
struct Memory {
  const std::byte* data = nullptr;
  std::byte* writable = nullptr;
  size_t rank = 0;
  int bytes = 0;
  std::vector<uint64_t> shape;
  std::vector<int64_t> strides;
};

/// Who touched an element last, by the independent loops around: of each the run (counted from 1; 0: none) and the iteration.
struct Touch {
  static constexpr size_t kDepth = 3;
  static constexpr uint32_t kSeveral = ~uint32_t{0};  // iterations
  uint32_t run[kDepth] = {}, iteration[kDepth] = {};
};

/// Watches that iterations of parallel and vectorized loops share no element that one of them changes. Several may write the same
/// value, as where the last tile of a row is moved back to end with it.
class RaceWatch {
 public:
  /// The first `inputs` buffers are only read.
  RaceWatch(const std::vector<BufferSlot>& buffers, size_t inputs) : reads_(buffers.size()), writes_(buffers.size()) {
    for (size_t k = inputs; k < buffers.size(); ++k) {
      if (buffers[k].constant) continue;
      reads_[k].resize(static_cast<size_t>(buffers[k].elements));
      writes_[k].resize(static_cast<size_t>(buffers[k].elements));
    }
  }

  void enter(int variable) {
    if (depth_ < Touch::kDepth) {
      now_.run[depth_] = ++runs_;
      now_.iteration[depth_] = 0;
      variables_[depth_] = variable;
    }
    ++depth_;
  }
  void next() {
    if (depth_ <= Touch::kDepth) ++now_.iteration[depth_ - 1];
  }
  void leave() {
    if (--depth_ < Touch::kDepth) now_.run[depth_] = 0;
  }

  /// The variable of a loop whose iterations are not independent, or -1.
  int read(size_t buffer, size_t element) {
    if (writes_[buffer].empty()) return -1;
    Touch& last = reads_[buffer][element];
    for (size_t k = 0; k < Touch::kDepth; ++k) {
      bool several = last.run[k] == now_.run[k] && last.iteration[k] != now_.iteration[k];
      last.run[k] = now_.run[k];
      last.iteration[k] = several ? Touch::kSeveral : now_.iteration[k];
    }
    return clash(writes_[buffer][element]);
  }
  int write(size_t buffer, size_t element) {
    int by_reader = clash(reads_[buffer][element]), by_writer = clash(writes_[buffer][element]);
    writes_[buffer][element] = now_;
    return by_reader >= 0 ? by_reader : by_writer;
  }
  /// The buffer is declared anew.
  void forget(size_t buffer) {
    std::fill(reads_[buffer].begin(), reads_[buffer].end(), Touch{});
    std::fill(writes_[buffer].begin(), writes_[buffer].end(), Touch{});
  }

 private:
  int clash(const Touch& other) const {
    for (size_t k = 0; k < std::min(depth_, Touch::kDepth); ++k)
      if (other.run[k] == now_.run[k] && other.iteration[k] != now_.iteration[k]) return variables_[k];
    return -1;
  }

  std::vector<std::vector<Touch>> reads_, writes_;  // by buffer and element
  Touch now_;
  size_t depth_ = 0;
  uint32_t runs_ = 0;
  int variables_[Touch::kDepth] = {};
};

class Machine {
 public:
  Machine(const PrimFunc& function, std::span<const Array> inputs) : function_(function) {
    check_inputs(inputs);
    code_ = compile_for_interpreter(function, symbols_);
    size_t input_count = static_cast<size_t>(function.num_inputs);
    for (size_t k = 0; k < code_.buffers.size(); ++k) {
      const BufferSlot& slot = code_.buffers[k];
      Memory& memory = memory_.emplace_back();
      memory.rank = slot.shape.size();
      memory.bytes = byte_size(slot.dtype);
      memory.shape.assign(slot.shape.begin(), slot.shape.end());
      for (int64_t stride : slot.strides) memory.strides.push_back(stride * memory.bytes);
      if (k < input_count || slot.constant) {
        memory.data = (slot.constant ? slot.data : inputs[k]).bytes.data();
        continue;
      }
      MutableArray& storage = storage_.emplace_back(slot.dtype, Shape{slot.elements});
      std::memset(storage.data(), kPoison, storage.size_bytes);
      memory.data = memory.writable = storage.data();
    }
  }

  std::vector<Array> run(bool independent) {
    if (independent) {
      races_.emplace(code_.buffers, static_cast<size_t>(function_.num_inputs));
      execute<true>();
    } else {
      execute<false>();
    }
    std::vector<Array> outputs;
    for (size_t k = static_cast<size_t>(function_.num_inputs); k < function_.params.size(); ++k) {
      MutableArray& storage = storage_[k - static_cast<size_t>(function_.num_inputs)];
      storage.shape = code_.buffers[k].shape;
      outputs.push_back(std::move(storage).freeze());
    }
    return outputs;
  }

 private:
  void check_inputs(std::span<const Array> inputs) {
    auto fail = [&](std::string message, std::string input, std::string expected, std::string found) {
      throw CompileError(Diagnostic{.code = "interpret-input",
                                    .message = std::move(message),
                                    .input = std::move(input),
                                    .expected = std::move(expected),
                                    .found = std::move(found),
                                    .function = function_.name});
    };
    if (static_cast<int64_t>(inputs.size()) != function_.num_inputs)
      fail(fmt::format("{} arrays were given", inputs.size()), {}, fmt::format("{} arrays", function_.num_inputs),
           fmt::format("{} arrays", inputs.size()));
    for (const Buffer& param : function_.params) check(param->strides.empty(), "a parameter is compact");
    for (size_t k = 0; k < inputs.size(); ++k) {
      const BufferData& param = *function_.params[k];
      bool fits = inputs[k].dtype == param.dtype && inputs[k].shape.size() == param.shape.size();
      for (size_t axis = 0; fits && axis < param.shape.size(); ++axis) fits = bind(param.shape[axis], inputs[k].shape[axis]);
      if (fits) continue;
      std::string expected(name(param.dtype)), found(name(inputs[k].dtype));
      std::string shape;
      for (const Expr& extent : param.shape) shape += fmt::format("{}{}", shape.empty() ? "" : ",", describe(extent));
      fail(fmt::format("`{}` was given an array of another type", param.name), param.name, fmt::format("{}[{}]", expected, shape),
           found + to_string(inputs[k].shape));
    }
  }

  static std::string describe(const Expr& extent) {
    if (const auto* symbol = as<Var>(extent)) return symbol->name;
    return as_int(extent) ? std::to_string(*as_int(extent)) : "?";
  }

  /// Whether an extent is what its parameter declares; the first sight of a symbol gives it its value.
  bool bind(const Expr& declared, int64_t extent) {
    if (const auto* symbol = as<Var>(declared)) symbols_.try_emplace(symbol->name, Expr(extent));
    Expr expected = substitute(declared, symbols_);
    return as_int(expected) && *as_int(expected) == extent;
  }

  [[noreturn]] void fail(std::string message, const std::string& input, std::string expected, std::string found) const {
    throw CompileError(Diagnostic{.code = "interpret-bounds",
                                  .message = std::move(message),
                                  .input = input,
                                  .expected = std::move(expected),
                                  .found = std::move(found),
                                  .function = function_.name});
  }

  [[noreturn]] void fail_access(const Instr& i, const BufferSlot& slot) const {
    Shape point;
    for (size_t k = 0; k < slot.shape.size(); ++k)
      point.push_back(
          static_cast<int64_t>(registers_[static_cast<size_t>(code_.indices[static_cast<size_t>(i.first_index) + k])]));
    fail(fmt::format("`{}` is {} outside its bounds", slot.name, i.action == Action::Load ? "read" : "written"), slot.name,
         fmt::format("indices inside {}", to_string(slot.shape)), to_string(point));
  }

  /// The byte offset of an access.
  int64_t offset(const Instr& i, const Memory& memory, const uint64_t* r) const {
    const int* index = indices_ + i.first_index;
    int64_t at = 0;
    for (size_t k = 0; k < memory.rank; ++k) {
      uint64_t coordinate = r[index[k]];
      if (coordinate >= memory.shape[k]) fail_access(i, code_.buffers[static_cast<size_t>(i.buffer)]);
      at += static_cast<int64_t>(coordinate) * memory.strides[k];
    }
    return at;
  }

  [[noreturn]] void fail_race(const Instr& i, int variable) const {
    const std::string& buffer = code_.buffers[static_cast<size_t>(i.buffer)].name;
    const std::string& loop = code_.variable_names[static_cast<size_t>(variable)];
    throw CompileError(Diagnostic{
        .code = "interpret-race",
        .message =
            fmt::format("an element of `{}` is touched by two iterations of loop `{}`, one of them changing it", buffer, loop),
        .input = buffer,
        .expected = "independent iterations of a parallel or vectorized loop",
        .found = fmt::format("loop `{}`", loop),
        .function = function_.name});
  }

  template <bool kRaces>
  uint64_t load(const Instr& i, const uint64_t* r) {
    const Memory& memory = memory_[static_cast<size_t>(i.buffer)];
    const int64_t at = offset(i, memory, r);
    const std::byte* from = memory.data + at;
    if constexpr (kRaces)
      if (int loop = races_->read(static_cast<size_t>(i.buffer), static_cast<size_t>(at / memory.bytes)); loop >= 0)
        fail_race(i, loop);
    switch (memory.bytes) {
      case 1: return read<uint8_t>(from);
      case 2: return read<uint16_t>(from);
      case 4: return read<uint32_t>(from);
      default: return read<uint64_t>(from);
    }
  }

  template <bool kRaces>
  void store(const Instr& i, const uint64_t* r) {
    const Memory& memory = memory_[static_cast<size_t>(i.buffer)];
    check(memory.writable != nullptr, "inputs and constants are only read");
    const int64_t at = offset(i, memory, r);
    std::byte* to = memory.writable + at;
    uint64_t before = 0;
    if constexpr (kRaces) std::memcpy(&before, to, static_cast<size_t>(memory.bytes));
    switch (memory.bytes) {
      case 1: write<uint8_t>(to, r[i.a]); break;
      case 2: write<uint16_t>(to, r[i.a]); break;
      case 4: write<uint32_t>(to, r[i.a]); break;
      default: write<uint64_t>(to, r[i.a]); break;
    }
    if constexpr (kRaces) {
      const bool changes = std::memcmp(&before, to, static_cast<size_t>(memory.bytes)) != 0;
      int loop = races_->write(static_cast<size_t>(i.buffer), static_cast<size_t>(at / memory.bytes));
      if (loop >= 0 && changes) fail_race(i, loop);
    }
  }

  template <class T>
  static uint64_t read(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
  }
  template <class T>
  static void write(std::byte* to, uint64_t bits) {
    auto value = static_cast<T>(bits);
    std::memcpy(to, &value, sizeof(T));
  }

  void poison(const Instr& i) const {
    const BufferSlot& slot = code_.buffers[static_cast<size_t>(i.buffer)];
    std::memset(memory_[static_cast<size_t>(i.buffer)].writable, kPoison,
                static_cast<size_t>(slot.elements * byte_size(slot.dtype)));
  }

  template <bool kRaces>
  void execute() {
    registers_ = code_.registers;
    indices_ = code_.indices.data();
    uint64_t* r = registers_.data();
    const Instr *begin = code_.code.data(), *end = begin + code_.code.size();
    for (const Instr* at = begin; at != end; ++at) {
      const Instr& i = *at;
      auto go = [&] { at = begin + i.target - 1; };
      switch (i.action) {
        case Action::Apply: r[i.dst] = i.op(r[i.a], r[i.b], r[i.c]); break;
        case Action::Move: r[i.dst] = r[i.a]; break;
        case Action::Load: r[i.dst] = load<kRaces>(i, r); break;
        case Action::Store: store<kRaces>(i, r); break;
        case Action::Jump: go(); break;
        case Action::JumpIfZero:
          if (r[i.a] == 0) go();
          break;
        case Action::LoopStart:
          r[i.dst] = r[i.a];
          r[i.c] = r[i.a] + r[i.b];
          if (static_cast<int64_t>(r[i.b]) <= 0)
            go();
          else if (kRaces && i.independent)
            races_->enter(i.buffer);
          break;
        case Action::LoopNext:
          if (++r[i.dst] != r[i.c]) {
            if (kRaces && i.independent) races_->next();
            go();
          } else if (kRaces && i.independent) {
            races_->leave();
          }
          break;
        case Action::CheckRange:
          if (r[i.a] >= r[i.b])
            fail(fmt::format("block variable `{}` leaves its domain", code_.variable_names[static_cast<size_t>(i.buffer)]), {},
                 fmt::format("a value in [0,{})", static_cast<int64_t>(r[i.b])), std::to_string(static_cast<int64_t>(r[i.a])));
          break;
        case Action::Poison:
          poison(i);
          if (kRaces) races_->forget(static_cast<size_t>(i.buffer));
          break;
      }
    }
  }

  const PrimFunc& function_;
  VarMap symbols_;
  CompiledFunction code_;
  std::vector<uint64_t> registers_;
  const int* indices_ = nullptr;
  std::vector<Memory> memory_;         // by buffer
  std::vector<MutableArray> storage_;  // outputs first, then scratch
  std::optional<RaceWatch> races_;
};

}  // namespace

std::vector<Array> interpret(const PrimFunc& function, std::span<const Array> inputs) {
  return Machine(function, inputs).run(false);
}

std::vector<Array> interpret_independent(const PrimFunc& function, std::span<const Array> inputs) {
  return Machine(function, inputs).run(true);
}

}  // namespace tenon::tir
