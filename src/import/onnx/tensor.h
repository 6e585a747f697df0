// SPDX-License-Identifier: Apache-2.0
// Tensors of a model file as arrays, from the file itself or from data files beside it.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/array.h"
#include "base/mapped_file.h"
#include "import/onnx/model.h"

namespace tenon::onnx {

/// Nothing for element types that we do not compute with.
std::optional<DType> dtype_of(ElemType type);
/// `f32` where we have the dtype, else ONNX's own word (`string`, `complex64`, `type 17`).
std::string spelling(ElemType type);

/// Arrays are views of the file wherever its bytes serve as they are. External data must lie in the model's folder.
class TensorReader {
 public:
  explicit TensorReader(const Source& source) : source_(source) {}
  /// Throws CompileError: `onnx-tensor` when sizes or values do not fit, `onnx-external` for data files, `onnx-dtype` (4).
  Array read(const Tensor& tensor);

 private:
  Array read_raw(const Tensor& tensor, DType dtype, std::span<const std::byte> bytes, std::shared_ptr<const void> owner);
  Array read_external(const Tensor& tensor, DType dtype);
  const MappedFile& map(const Tensor& tensor, const std::string& location);

  const Source& source_;
  std::map<std::string, MappedFile> files_;
};

}  // namespace tenon::onnx
