// SPDX-License-Identifier: Apache-2.0
// One loop function as code in memory.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/array.h"
#include "base/target.h"
#include "graph/graph.h"
#include "lower/cache.h"

namespace tenon {

/// Immutable; threads may call it at the same time. A call runs on its own thread alone.
class Callable {
 public:
  struct Type {
    DType dtype;
    Shape shape;
  };
  struct Code;  // callable.cc
  Callable(std::string name, std::vector<Type> inputs, std::vector<Type> outputs, std::unique_ptr<const Code> code);
  Callable(Callable&&) noexcept;
  ~Callable();

  const std::vector<Type>& inputs() const { return inputs_; }
  const std::vector<Type>& outputs() const { return outputs_; }
  /// One array for each input; returns one for each output. Throws CompileError (malformed, `callable-input`) naming the
  /// argument, what it is and what was expected.
  std::vector<Array> operator()(std::span<const Array> arguments) const;

 private:
  void check_arguments(std::span<const Array> arguments) const;

  std::string name_;
  std::vector<Type> inputs_, outputs_;
  std::unique_ptr<const Code> code_;
};

/// A primitive graph function as code for this machine: lowered, scheduled and loaded, each through the cache. Asked twice
/// with one cache for functions that are equal up to renaming, it gives the same callable, which stays valid after the cache.
/// Throws what lowering throws; CompileError (missing) for a target that is no `llvm`, or (mismatch) for a CPU feature that
/// this machine lacks.
std::shared_ptr<const Callable> jit(lower::KernelCache& cache, const graph::Module& module, const graph::Function& function,
                                    const Target& target = host_target(), int opt_level = 3);

}  // namespace tenon
