// SPDX-License-Identifier: Apache-2.0
// Runs a compiled loop function: one instruction at a time, every access checked.
#include "tir/interpret.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

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

  std::vector<Array> run() {
    execute();
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

  uint64_t load(const Instr& i, const uint64_t* r) const {
    const Memory& memory = memory_[static_cast<size_t>(i.buffer)];
    const std::byte* from = memory.data + offset(i, memory, r);
    switch (memory.bytes) {
      case 1: return read<uint8_t>(from);
      case 2: return read<uint16_t>(from);
      case 4: return read<uint32_t>(from);
      default: return read<uint64_t>(from);
    }
  }

  void store(const Instr& i, const uint64_t* r) const {
    const Memory& memory = memory_[static_cast<size_t>(i.buffer)];
    check(memory.writable != nullptr, "inputs and constants are only read");
    std::byte* to = memory.writable + offset(i, memory, r);
    switch (memory.bytes) {
      case 1: return write<uint8_t>(to, r[i.a]);
      case 2: return write<uint16_t>(to, r[i.a]);
      case 4: return write<uint32_t>(to, r[i.a]);
      default: return write<uint64_t>(to, r[i.a]);
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
        case Action::Load: r[i.dst] = load(i, r); break;
        case Action::Store: store(i, r); break;
        case Action::Jump: go(); break;
        case Action::JumpIfZero:
          if (r[i.a] == 0) go();
          break;
        case Action::LoopStart:
          r[i.dst] = r[i.a];
          r[i.c] = r[i.a] + r[i.b];
          if (static_cast<int64_t>(r[i.b]) <= 0) go();
          break;
        case Action::LoopNext:
          if (++r[i.dst] != r[i.c]) go();
          break;
        case Action::CheckRange:
          if (r[i.a] >= r[i.b])
            fail(fmt::format("block variable `{}` leaves its domain", code_.block_variables[static_cast<size_t>(i.buffer)]), {},
                 fmt::format("a value in [0,{})", static_cast<int64_t>(r[i.b])), std::to_string(static_cast<int64_t>(r[i.a])));
          break;
        case Action::Poison: poison(i); break;
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
};

}  // namespace

std::vector<Array> interpret(const PrimFunc& function, std::span<const Array> inputs) { return Machine(function, inputs).run(); }

}  // namespace tenon::tir
