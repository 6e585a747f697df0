// SPDX-License-Identifier: Apache-2.0
// The npy header: a Python dictionary with three known keys.
#include "cli/npy.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <optional>

#include "base/diagnostic.h"

namespace tenon::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct Spelling {
  std::string_view descr;
  DType dtype;
};
// What we write comes first for each dtype.
constexpr Spelling kSpellings[] = {{"|b1", DType::Bool}, {"|i1", DType::I8},  {"|u1", DType::U8},   {"<i2", DType::I16},
                                   {"<u2", DType::U16},  {"<i4", DType::I32}, {"<u4", DType::U32},  {"<i8", DType::I64},
                                   {"<u8", DType::U64},  {"<f2", DType::F16}, {"|V2", DType::BF16}, {"<V2", DType::BF16},
                                   {"<f4", DType::F32},  {"<f8", DType::F64}};

[[noreturn]] void damaged(const std::string& name, const std::string& what) {
  throw CompileError(Diagnostic{.kind = ErrorKind::Malformed,
                                .code = "npz-damaged",
                                .message = fmt::format("array `{}` is damaged: {}", name, what),
                                .input = name});
}

DType dtype_of(std::string_view descr, const std::string& name) {
  for (const Spelling& s : kSpellings)
    if (s.descr == descr) return s.dtype;
  throw CompileError(Diagnostic{.kind = ErrorKind::Unsupported,
                                .code = "npz-dtype",
                                .message = fmt::format("array `{}` has the NumPy dtype `{}`", name, descr),
                                .input = name,
                                .expected = "little-endian booleans, integers or floats of 16, 32 or 64 bits",
                                .found = std::string(descr),
                                .hint = "convert it with .astype before saving"});
}

/// The text after `'key':`.
std::string_view value_of(std::string_view header, std::string_view key, const std::string& name) {
  size_t at = header.find(fmt::format("'{}':", key));
  if (at == std::string_view::npos) damaged(name, fmt::format("its header has no {}", key));
  header.remove_prefix(at + key.size() + 3);
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

Shape parse_shape(std::string_view text, const std::string& name) {
  size_t close = text.find(')');
  if (text.empty() || text[0] != '(' || close == std::string_view::npos) damaged(name, "its shape cannot be read");
  text = text.substr(1, close - 1);
  Shape shape;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" ,"), text.size()));
    if (text.empty()) return shape;
    int64_t extent = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (error != std::errc() || extent < 0) damaged(name, "its shape cannot be read");
    shape.push_back(extent);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.starts_with('L')) text.remove_prefix(1);  // as Python 2 wrote it
    if (!text.empty() && text[0] != ',' && text[0] != ' ') damaged(name, "its shape cannot be read");
  }
}

/// Column-major bytes in row-major order.
Array to_row_major(const Array& from) {
  MutableArray out(from.dtype, from.shape);
  const auto size = static_cast<size_t>(byte_size(from.dtype));
  const auto count = static_cast<size_t>(from.elements());
  std::vector<int64_t> index(from.shape.size());
  for (size_t i = 0; i < count; ++i) {
    int64_t source = 0;
    for (size_t axis = index.size(); axis-- > 0;) source = source * from.shape[axis] + index[axis];
    std::memcpy(out.data() + i * size, from.bytes.data() + static_cast<size_t>(source) * size, size);
    for (size_t axis = index.size(); axis-- > 0 && ++index[axis] == from.shape[axis];) index[axis] = 0;
  }
  return std::move(out).freeze();
}

}  // namespace

Array read_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& name) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.size() < 12 || !text.starts_with(kMagic)) damaged(name, "it does not start as a NumPy array does");
  const bool narrow = text[6] == 1;
  if (text[6] < 1 || text[6] > 3) damaged(name, "its format version is unknown");
  uint32_t length = 0;
  std::memcpy(&length, text.data() + 8, narrow ? 2 : 4);
  const size_t start = narrow ? 10 : 12;
  if (length > text.size() - start) damaged(name, "its header is cut off");
  std::string_view header = text.substr(start, length);
  std::string_view descr = value_of(header, "descr", name);
  size_t quote = descr.find('\'', 1);
  if (descr.empty() || descr[0] != '\'' || quote == std::string_view::npos) damaged(name, "its dtype cannot be read");
  Array array;
  array.dtype = dtype_of(descr.substr(1, quote - 1), name);
  array.shape = parse_shape(value_of(header, "shape", name), name);
  array.bytes = bytes.subspan(start + length);
  array.owner = std::move(owner);
  if (array.bytes.size() / static_cast<size_t>(byte_size(array.dtype)) != static_cast<size_t>(array.elements()) ||
      array.bytes.size() % static_cast<size_t>(byte_size(array.dtype)) != 0)
    damaged(name, fmt::format("{} bytes do not fit its shape {}", array.bytes.size(), to_string(array.shape)));
  return value_of(header, "fortran_order", name).starts_with("True") ? to_row_major(array) : array;
}

std::string npy_header(const Array& array) {
  std::string shape;
  for (int64_t extent : array.shape) shape += fmt::format("{},{}", extent, array.shape.size() == 1 ? "" : " ");
  if (array.shape.size() > 1) shape.resize(shape.size() - 2);
  std::string_view descr;
  for (const Spelling& s : kSpellings)
    if (descr.empty() && s.dtype == array.dtype) descr = s.descr;
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  header.append((64 - (10 + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  std::string out(kMagic);
  out += '\x01';
  out += '\0';
  const auto length = static_cast<uint16_t>(header.size());
  out.append(reinterpret_cast<const char*>(&length), 2);
  return out + header;
}

}  // namespace tenon::cli
