// SPDX-License-Identifier: Apache-2.0
// Packed calls.
#include "runtime/packed_call.h"

#include <fmt/format.h>

#include "base/diagnostic.h"
#include "runtime/tvm_backend.h"

namespace tenon::runtime {

PackedCall::PackedCall(const PackedStep& step) : step_(step) {
  size_t count = step.parameters.size();
  shapes_.reserve(count);
  tensors_.reserve(count);
  for (const PackedStep::Parameter& parameter : step.parameters) {
    Shape& shape = shapes_.emplace_back(parameter.shape);
    tensors_.push_back({.device = {tvm::kCpu, 0},
                        .ndim = static_cast<int32_t>(shape.size()),
                        .dtype = tvm::to_data_type(parameter.dtype),
                        .shape = shape.data()});
    values_.push_back({.handle = &tensors_.back()});
    codes_.push_back(tvm::kTensor);
  }
}

void PackedCall::run(void* const* args, ThreadPool& pool) {
  for (size_t i = 0; i < tensors_.size(); ++i) tensors_[i].data = args[i];
  tvm::PoolScope scope(pool);
  tvm::Value result{};
  int32_t result_code = tvm::kNull;
  if (step_.function(values_.data(), codes_.data(), static_cast<int32_t>(codes_.size()), &result, &result_code, nullptr) == 0)
    return;
  std::string text = tvm::take_error();
  throw CompileError(
      Diagnostic{.kind = ErrorKind::Malformed,
                 .code = "tvm-kernel",
                 .message = fmt::format("kernel `{}` failed: {}", step_.name, text.empty() ? "it does not say why" : text),
                 .node = step_.name,
                 .found = text,
                 .hint = "take `graph.json`, `params.bin` and `lib.so` from one build"});
}

}  // namespace tenon::runtime
