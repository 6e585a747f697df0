// SPDX-License-Identifier: Apache-2.0
// Steps whose kernels were compiled for TVM: the same memory, passed as described tensors.
#pragma once

#include <string>
#include <vector>

#include "base/array.h"
#include "runtime/tvm_abi.h"

namespace tenon::runtime {

class ThreadPool;

/// What one step calls; immutable.
struct PackedStep {
  struct Parameter {
    DType dtype = DType::F32;
    Shape shape;
  };
  tvm::PackedFunction function = nullptr;
  std::string name;
  std::vector<Parameter> parameters;  // inputs, then outputs
};

/// One session's call of a step.
class PackedCall {
 public:
  /// The step must outlive the call.
  explicit PackedCall(const PackedStep& step);
  PackedCall(PackedCall&&) = default;
  /// `args` as for a kernel of our own. Throws CompileError (malformed, `tvm-kernel`) with the kernel's own text when it fails.
  void run(void* const* args, ThreadPool& pool);

 private:
  const PackedStep& step_;
  std::vector<Shape> shapes_;
  std::vector<tvm::Tensor> tensors_;
  std::vector<tvm::Value> values_;
  std::vector<int32_t> codes_;
};

}  // namespace tenon::runtime
