// SPDX-License-Identifier: Apache-2.0
// A loop function as a flat list of instructions with every variable and buffer resolved: what tir::interpret runs.
#pragma once

#include <string>
#include <vector>

#include "tir/scalar_ops.h"
#include "tir/stmt.h"

namespace tenon::tir {

enum class Action : uint8_t {
  Apply,       // r[dst] = op(r[a], r[b], r[c])
  Move,        // r[dst] = r[a]
  Load,        // r[dst] = element of `buffer` at `indices`
  Store,       // element of `buffer` at `indices` = r[a]
  Jump,        // to `target`
  JumpIfZero,  // to `target` if r[a] is 0
  LoopStart,   // r[dst] = r[a], r[c] = r[a] + r[b]; to `target` if there is no iteration
  LoopNext,    // ++r[dst]; to `target` while below r[c]
  CheckRange,  // r[a] is in [0, r[b]), or the variable named `buffer` left its domain
  Poison,      // fills `buffer`
};

/// A buffer while it runs. Strides are in elements.
struct BufferSlot {
  std::string name;
  DType dtype = DType::F32;
  Shape shape, strides;
  int64_t elements = 0;  // from the first to the last, gaps included
  bool constant = false;
  Array data;  // AllocateConst
};

struct Instr {
  Action action = Action::Apply;
  bool independent = false;  // LoopStart, LoopNext: of a parallel or vectorized loop, whose variable `buffer` names
  ScalarOp op = nullptr;
  int dst = 0, a = 0, b = 0, c = 0;
  int buffer = 0;
  int first_index = 0;  // into CompiledFunction::indices; as many as the buffer has axes
  int target = 0;
};

struct CompiledFunction {
  std::vector<Instr> code;
  std::vector<int> indices;                 // registers
  std::vector<BufferSlot> buffers;          // the parameters come first
  std::vector<uint64_t> registers;          // at the start: constants and symbols set
  std::vector<std::string> variable_names;  // of blocks and of independent loops
};

/// `symbols` gives a number for each symbol of the parameters' shapes.
CompiledFunction compile_for_interpreter(const PrimFunc& function, const VarMap& symbols);

}  // namespace tenon::tir
