// SPDX-License-Identifier: Apache-2.0
// Reading and comparing test data.
#include "support/onnx_tensor.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "import/onnx/tensor.h"

namespace tenon::test {
namespace {

double float_at(const Array& array, int64_t i) {
  switch (array.dtype) {
    case DType::F16: return half_to_float(array.read<uint16_t>(i));
    case DType::BF16: return bfloat_to_float(array.read<uint16_t>(i));
    case DType::F32: return array.read<float>(i);
    default: return array.read<double>(i);
  }
}

bool close(double found, double expected, double rtol, double atol) {
  if (std::isnan(expected) || std::isnan(found)) return std::isnan(expected) && std::isnan(found);
  if (std::isinf(expected) || std::isinf(found)) return found == expected;
  return std::abs(found - expected) <= atol + rtol * std::abs(expected);
}

std::string integer_text(const Array& array, int64_t i) {
  uint64_t bits = 0;
  const int size = byte_size(array.dtype);
  std::memcpy(&bits, array.bytes.data() + i * size, static_cast<size_t>(size));
  if (!is_signed_integer(array.dtype)) return std::to_string(bits);
  const int unused = 64 - 8 * size;
  return std::to_string(static_cast<int64_t>(bits << unused) >> unused);
}

}  // namespace

Array read_tensor_file(const std::string& path) {
  MappedFile file = map_file(path);
  const onnx::Source source{.file = path,
                            .folder = {},
                            .owner = file.owner,
                            .bytes = {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()}};
  const onnx::Tensor tensor = onnx::parse_tensor(source);
  return onnx::TensorReader(source).read(tensor);
}

std::string difference(const Array& found, const Array& expected, double rtol, double atol) {
  if (found.dtype != expected.dtype || found.shape != expected.shape)
    return fmt::format("{}{} instead of {}{}", name(found.dtype), to_string(found.shape), name(expected.dtype),
                       to_string(expected.shape));
  const auto size = static_cast<size_t>(byte_size(expected.dtype));
  for (int64_t i = 0, n = expected.elements(); i < n; ++i) {
    if (is_float(expected.dtype)) {
      const double f = float_at(found, i), e = float_at(expected, i);
      if (!close(f, e, rtol, atol)) return fmt::format("element {} is {} instead of {}", i, f, e);
    } else if (std::memcmp(found.bytes.data() + static_cast<size_t>(i) * size,
                           expected.bytes.data() + static_cast<size_t>(i) * size, size) != 0) {
      return fmt::format("element {} is {} instead of {}", i, integer_text(found, i), integer_text(expected, i));
    }
  }
  return {};
}

}  // namespace tenon::test
