// SPDX-License-Identifier: Apache-2.0
// Reading the elements of tensors.
#include "import/onnx/tensor.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <type_traits>

#include "op/onnx_build.h"

namespace tenon::onnx {
namespace {

std::string describe(const Tensor& t) {
  return fmt::format("tensor `{}` of {}{}", t.name, spelling(t.type), to_string(std::span(t.dims)));
}

bool has_typed_data(const Tensor& t) {
  return !t.float_data.empty() || !t.int32_data.empty() || !t.int64_data.empty() || !t.uint64_data.empty() ||
         !t.double_data.empty();
}

/// Any byte but 0 counts as true; a stored bool is 0 or 1.
Array normalize_bools(Array array) {
  bool normal = true;
  for (std::byte b : array.bytes) normal &= b <= std::byte{1};
  if (normal) return array;
  MutableArray out(DType::Bool, array.shape);
  for (size_t i = 0; i < array.bytes.size(); ++i) out.data()[i] = std::byte{array.bytes[i] != std::byte{0}};
  return std::move(out).freeze();
}

/// Copies a typed list whose elements are as wide as the dtype's or wider; each value must fit.
template <class To, class From>
Array copy(const Source& source, const Tensor& tensor, DType dtype, const std::vector<From>& from) {
  const int64_t expected = element_count(tensor.dims);
  if (static_cast<int64_t>(from.size()) != expected)
    source.fail("onnx-tensor", fmt::format("{} holds {} elements", describe(tensor), from.size()),
                fmt::format("{} elements", expected), fmt::format("{} elements", from.size()));
  MutableArray out(dtype, tensor.dims);
  To* to = out.as<To>();
  for (From value : from) {
    if constexpr (std::is_integral_v<From>)
      if (static_cast<From>(static_cast<To>(value)) != value)
        source.fail("onnx-tensor", fmt::format("{} holds {}", describe(tensor), value),
                    fmt::format("values of {}", tenon::name(dtype)), std::to_string(value));
    *to++ = static_cast<To>(value);
  }
  return std::move(out).freeze();
}

Array read_typed(const Source& source, const Tensor& tensor, DType dtype) {
  // Writers give the 32 bits of int32_data with either extension to the 64 of a varint.
  std::vector<int32_t> int32_data;
  for (int64_t v : tensor.int32_data) int32_data.push_back(static_cast<int32_t>(v));
  switch (dtype) {
    case DType::F32: return copy<float>(source, tensor, dtype, tensor.float_data);
    case DType::F64: return copy<double>(source, tensor, dtype, tensor.double_data);
    case DType::I64: return copy<int64_t>(source, tensor, dtype, tensor.int64_data);
    case DType::U64: return copy<uint64_t>(source, tensor, dtype, tensor.uint64_data);
    case DType::U32: return copy<uint32_t>(source, tensor, dtype, tensor.uint64_data);
    case DType::I32: return copy<int32_t>(source, tensor, dtype, int32_data);
    case DType::I16: return copy<int16_t>(source, tensor, dtype, int32_data);
    case DType::I8: return copy<int8_t>(source, tensor, dtype, int32_data);
    case DType::U8: return copy<uint8_t>(source, tensor, dtype, int32_data);
    case DType::U16:
    case DType::F16:
    case DType::BF16: return copy<uint16_t>(source, tensor, dtype, int32_data);
    case DType::Bool: return normalize_bools(copy<uint8_t>(source, tensor, dtype, int32_data));
  }
  fail_internal("every dtype has a list");
}

int64_t parse_size(const Source& source, const Tensor& tensor, std::string_view key, std::string_view text) {
  int64_t value = -1;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    source.fail("onnx-external", fmt::format("{}: `{}` is `{}`", describe(tensor), key, text), "a number of bytes",
                std::string(text));
  return value;
}

}  // namespace

std::optional<DType> dtype_of(ElemType type) { return op::dtype_from_onnx(static_cast<int64_t>(type)); }

std::string spelling(ElemType type) {
  if (auto dtype = dtype_of(type)) return std::string(tenon::name(*dtype));
  switch (type) {
    case ElemType::Undefined: return "undefined";
    case ElemType::String: return "string";
    case ElemType::Complex64: return "complex64";
    case ElemType::Complex128: return "complex128";
    default: return fmt::format("type {}", static_cast<int>(type));
  }
}

Array TensorReader::read(const Tensor& tensor) {
  const auto dtype = dtype_of(tensor.type);
  if (!dtype || tensor.segmented) {
    Diagnostic d = source_.error("onnx-dtype", fmt::format("{} is not supported", describe(tensor)));
    d.kind = ErrorKind::Unsupported;
    throw CompileError(d);
  }
  for (int64_t dim : tensor.dims)
    if (dim < 0)
      source_.fail("onnx-tensor", fmt::format("{} has a negative dimension", describe(tensor)), "dimensions of 0 or more",
                   std::to_string(dim));
  if (tensor.external) return read_external(tensor, *dtype);
  if (tensor.raw && (!tensor.raw->empty() || !has_typed_data(tensor)))
    return read_raw(tensor, *dtype, std::as_bytes(std::span(*tensor.raw)), source_.owner);
  return read_typed(source_, tensor, *dtype);
}

Array TensorReader::read_raw(const Tensor& tensor, DType dtype, std::span<const std::byte> bytes,
                             std::shared_ptr<const void> owner) {
  const int64_t count = element_count(tensor.dims);
  if (static_cast<int64_t>(bytes.size()) / byte_size(dtype) != count ||
      static_cast<int64_t>(bytes.size()) % byte_size(dtype) != 0)
    source_.fail("onnx-tensor", fmt::format("{} holds {} bytes", describe(tensor), bytes.size()),
                 fmt::format("{} elements of {} bytes", count, byte_size(dtype)), fmt::format("{} bytes", bytes.size()));
  Array out{dtype, tensor.dims, bytes, std::move(owner)};
  return dtype == DType::Bool ? normalize_bools(std::move(out)) : out;
}

const MappedFile& TensorReader::map(const Tensor& tensor, const std::string& location) {
  namespace fs = std::filesystem;
  if (auto it = files_.find(location); it != files_.end()) return it->second;
  auto refuse = [&](const char* expected) {
    source_.fail("onnx-external", fmt::format("{} lies in `{}`", describe(tensor), location), expected, location,
                 "data files of a model lie in its folder or below");
  };
  if (source_.folder.empty()) refuse("all data within the model, since it was given as bytes");
  const fs::path relative(location);
  if (location.empty() || location.find('\0') != std::string::npos || relative.is_absolute()) refuse("a relative path");
  std::error_code error;
  const fs::path folder = fs::canonical(source_.folder, error);
  const fs::path target = fs::weakly_canonical(folder / relative, error);
  const fs::path inside = target.lexically_relative(folder);
  if (error || inside.empty() || *inside.begin() == "..") refuse("a path inside the model's folder");
  return files_.emplace(location, map_file(target.string())).first->second;
}

Array TensorReader::read_external(const Tensor& tensor, DType dtype) {
  std::string location;
  int64_t offset = 0, length = -1;
  for (const auto& [key, value] : tensor.external_data) {
    if (key == "location") location = value;
    if (key == "offset") offset = parse_size(source_, tensor, key, value);
    if (key == "length") length = parse_size(source_, tensor, key, value);
  }
  const MappedFile& file = map(tensor, location);
  const auto size = static_cast<int64_t>(file.bytes.size());
  const int64_t left = offset <= size ? size - offset : 0;
  const int64_t count = element_count(tensor.dims);
  if (length < 0 && count <= left / byte_size(dtype)) length = count * byte_size(dtype);
  if (offset > size || length < 0 || length > left)
    source_.fail("onnx-external", fmt::format("{} starts at byte {} of `{}`", describe(tensor), offset, location),
                 "a file that holds all of it", fmt::format("a file of {} bytes", size),
                 "the data file is cut short or belongs to another model");
  return read_raw(tensor, dtype, file.bytes.subspan(static_cast<size_t>(offset), static_cast<size_t>(length)), file.owner);
}

}  // namespace tenon::onnx
