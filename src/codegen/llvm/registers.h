// SPDX-License-Identifier: Apache-2.0
// Buffers of scope Reg as SSA values: which value each element holds at the point of emission.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "codegen/llvm/arithmetic.h"
#include "tir/stmt.h"

namespace tenon::codegen {

/// The elements of one buffer in row-major order, held in rows of `width` lanes; a row of width 1 is a scalar.
/// A buffer private to the lanes of a vectorized loop holds one whole vector for each element instead.
class RegisterBuffer {
 public:
  RegisterBuffer(llvm::Type* element, int64_t elements, int64_t width, int64_t private_lanes);

  /// `count` elements as a vector, or one as a scalar when count is 0.
  llvm::Value* read(llvm::IRBuilder<>& b, int64_t start, int64_t count) const;
  void write(llvm::IRBuilder<>& b, int64_t start, llvm::Value* value);

  int64_t elements() const { return elements_; }
  bool is_private() const { return private_lanes_ > 0; }
  /// One SSA value a row, for the phis of loops and branches.
  std::vector<llvm::Value*>& rows() { return rows_; }
  const std::vector<llvm::Value*>& rows() const { return rows_; }

 private:
  llvm::Value* element(llvm::IRBuilder<>& b, int64_t index) const;
  void set_element(llvm::IRBuilder<>& b, int64_t index, llvm::Value* value);

  int64_t elements_, width_, private_lanes_;
  std::vector<llvm::Value*> rows_;
};

using Registers = std::map<std::string, RegisterBuffer, std::less<>>;

/// For each Reg buffer of a function, the width that its vectorized stores share (their greatest common divisor), or its loads
/// where none are vectorized: a part of a row is read by a shuffle.
std::map<std::string, int64_t, std::less<>> register_widths(const tir::Stmt& body);
/// The variables of a loop's body that differ between its iterations, its own included.
std::set<std::string, std::less<>> names_dependent_on(const tir::For& loop);
/// The Reg buffers that a statement writes.
std::set<std::string, std::less<>> written_registers(const tir::Stmt& body);

}  // namespace tenon::codegen
