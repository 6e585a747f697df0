// SPDX-License-Identifier: Apache-2.0
// What te::evaluate runs: an expression as a list of instructions, each acting on a row of lanes (points) at once.
//
// A lane is 64 bits: a double for every float dtype, else the integer sign- or zero-extended (bool: 0 or 1).
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/array.h"
#include "tir/stmt.h"

namespace tenon::te {

/// A tensor's memory during an evaluation: compact and row-major at its own dtype.
struct TensorMemory {
  std::string name;
  DType dtype = DType::F32;
  Shape shape;
  const std::byte* data = nullptr;
  std::byte* writable = nullptr;  // null for inputs and constants
};

/// Register numbers; -1 is none.
struct Instruction {
  tir::ExprKind kind{};
  DType dtype{};  // of the result
  DType from{};   // of the operands
  tir::BinaryOp binary{};
  tir::Intrinsic intrinsic{};
  int dst = -1;
  std::array<int, 3> args = {-1, -1, -1};
  int mask = -1;                  // Load: lanes where it is 0 are not read and give 0
  int tensor = -1;                // Load: index in the table
  std::vector<int> indices = {};  // Load
  uint64_t bits = 0;              // constants
};
using Code = std::vector<Instruction>;

/// How often an instruction has to run: with the least often changing of its operands.
enum class Level : uint8_t { Once, PerPoint, PerReduction };

/// The tensors of an evaluation, found by buffer name.
class TensorTable {
 public:
  void add(TensorMemory tensor);
  int index(const std::string& name) const;
  const TensorMemory& operator[](int index) const { return tensors_[static_cast<size_t>(index)]; }

 private:
  std::vector<TensorMemory> tensors_;
  std::map<std::string, int, std::less<>> index_;
};

/// Compiles expressions to instructions. Equal subexpressions share a register while `forget` is not called.
class LaneCompiler {
 public:
  /// The symbols are variables of one value throughout. The table must outlive the compiler.
  LaneCompiler(const TensorTable& tensors, const tir::VarMap& symbols);

  /// A register that holds a variable; its owner fills it.
  int variable(const std::string& name, Level level);
  /// The register that holds the expression once the code up to its level has run.
  int compile(const tir::Expr& e) { return compile(e, -1); }
  /// From now on the variable is what the register holds.
  void bind(const std::string& name, int r) { variables_[name] = r; }
  /// Forgets computed values (not variables), because tensors may change from here on.
  void forget() {
    known_.clear();
    order_.clear();
  }
  /// The instructions of a level compiled since it was last taken.
  Code take(Level level) { return std::exchange(code_[static_cast<size_t>(level)], {}); }
  int register_count() const { return static_cast<int>(levels_.size()); }

 private:
  int compile(const tir::Expr& e, int mask);
  int compile_select(const tir::Select& n, int mask);
  int emit(Instruction instruction);
  int new_register(Level level);
  int masked(int mask, int condition);

  const TensorTable& tensors_;
  std::map<std::string, int, std::less<>> variables_;
  std::unordered_map<tir::Expr, int, tir::ExprHash, tir::ExprEqual> known_;
  std::vector<tir::Expr> order_;  // keys of known_ in order of insertion, to leave a select's side
  std::vector<Level> levels_;     // per register
  std::array<Code, 3> code_;
};

/// Rows of lanes, one per register.
class LaneRegisters {
 public:
  LaneRegisters(int registers, int lanes)
      : lanes_(static_cast<size_t>(lanes)), values_(static_cast<size_t>(registers) * static_cast<size_t>(lanes)) {}
  uint64_t* operator[](int r) { return values_.data() + static_cast<size_t>(r) * lanes_; }
  void fill(int r, uint64_t bits) { std::fill_n((*this)[r], lanes_, bits); }

 private:
  size_t lanes_;
  std::vector<uint64_t> values_;
};

/// Runs instructions on lanes [0, count). A load outside its tensor is a CompileError (`evaluate-bounds`).
void run_lanes(const Code& code, LaneRegisters& registers, const TensorTable& tensors, int count);

/// One operation but Load on `count` lanes.
void apply_lanes(const Instruction& instruction, uint64_t* dst, const uint64_t* a, const uint64_t* b, const uint64_t* c,
                 int count);

/// Elements of `dtype` to lanes, at element numbers `offsets`.
void gather_lanes(DType dtype, const std::byte* data, const int64_t* offsets, uint64_t* dst, int count);
/// Lanes to consecutive elements of `dtype` from element `first` on; floats are rounded to the dtype here.
void store_lanes(DType dtype, std::byte* data, int64_t first, const uint64_t* lanes, int count);

/// The row-major element number of an index; CompileError (`evaluate-bounds`) if it is outside.
int64_t element_number(const TensorMemory& tensor, std::span<const int64_t> indices);

}  // namespace tenon::te
