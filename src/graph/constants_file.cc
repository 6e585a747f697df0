// SPDX-License-Identifier: Apache-2.0
// `constants.bin`, and modules as files: the text beside the bytes that are too long for it.
#include <fmt/format.h>

#include <cstring>
#include <filesystem>

#include "base/hash.h"
#include "base/mapped_file.h"
#include "base/write_file.h"
#include "graph/text.h"

namespace tenon::graph {
namespace {

constexpr std::string_view kMagic = "TNNC";
constexpr uint32_t kVersion = 1;
constexpr size_t kAlignment = 64;
constexpr std::byte kZeros[kAlignment] = {};

size_t padding(size_t position) { return (kAlignment - position % kAlignment) % kAlignment; }

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

/// Reads fields one after the other; what is read is also kept for the file's checksum.
class Reader {
 public:
  Reader(const std::string& path, std::span<const std::byte> bytes) : path_(path), bytes_(bytes) {}

  [[noreturn]] void fail(std::string message) const {
    throw CompileError(Diagnostic{.code = "constants-file",
                                  .message = fmt::format("`{}` at byte {}: {}", path_, position_, message),
                                  .input = path_,
                                  .hint = "write the module again"});
  }
  std::span<const std::byte> take(size_t size) {
    if (size > bytes_.size() - position_)
      fail(fmt::format("{} bytes more are expected, the file ends after {}", size, bytes_.size() - position_));
    position_ += size;
    return bytes_.subspan(position_ - size, size);
  }
  template <class T>
  T field() {
    T value;
    std::span<const std::byte> bytes = take(sizeof(T));
    std::memcpy(&value, bytes.data(), sizeof(T));
    fields_.append(reinterpret_cast<const char*>(bytes.data()), sizeof(T));
    return value;
  }
  void skip_padding() {
    for (std::byte b : take(padding(position_)))
      if (b != std::byte{0}) fail("the padding is not zero");
  }
  bool at_end() const { return position_ == bytes_.size(); }
  size_t left() const { return bytes_.size() - position_; }
  const std::string& fields() const { return fields_; }

 private:
  const std::string& path_;
  std::span<const std::byte> bytes_;
  size_t position_ = 0;
  std::string fields_;
};

void read_entry(Reader& reader, const std::shared_ptr<const void>& owner, tir::ConstantBytes& constants) {
  Hash128 hash;
  hash.high = reader.field<uint64_t>();
  hash.low = reader.field<uint64_t>();
  Array data;
  auto dtype = reader.field<uint8_t>();
  if (dtype >= std::size(kAllDTypes)) reader.fail(fmt::format("{} is no dtype", dtype));
  data.dtype = kAllDTypes[dtype];
  auto rank = reader.field<uint8_t>();
  for (int axis = 0; axis < rank; ++axis) data.shape.push_back(reader.field<int64_t>());
  auto size = reader.field<uint64_t>();
  int64_t count = element_count(data.shape);
  uint64_t width = static_cast<uint64_t>(byte_size(data.dtype));
  if (size % width != 0 || size / width != static_cast<uint64_t>(count))
    reader.fail(fmt::format("{} bytes do not hold {}{}", size, name(data.dtype), to_string(data.shape)));
  reader.skip_padding();
  data.bytes = reader.take(size);
  data.owner = owner;
  if (hash128(data.bytes) != hash) reader.fail(fmt::format("the bytes of constant {} are damaged", hash.hex()));
  if (!constants.emplace(hash.hex(), std::move(data)).second) reader.fail(fmt::format("constant {} stands twice", hash.hex()));
}

std::string constants_path(const std::string& path) {
  return (std::filesystem::path(path).parent_path() / "constants.bin").string();
}

}  // namespace

void write_constants(const std::string& path, const tir::ConstantBytes& constants) {
  std::string fields(kMagic);
  put(fields, kVersion);
  put(fields, static_cast<uint64_t>(constants.size()));
  std::vector<std::pair<size_t, size_t>> heads;  // of each entry in `fields`: begin and end
  for (const auto& [key, data] : constants) {
    size_t begin = fields.size();
    Hash128 hash = hash128(data.bytes);
    check(hash.hex() == key, "a long constant is listed by the hash of its bytes");
    put(fields, hash.high);
    put(fields, hash.low);
    put(fields, static_cast<uint8_t>(data.dtype));
    put(fields, static_cast<uint8_t>(data.shape.size()));
    for (int64_t extent : data.shape) put(fields, extent);
    put(fields, static_cast<uint64_t>(data.bytes.size()));
    heads.emplace_back(begin, fields.size());
  }
  uint64_t checksum = hash64(fields);
  size_t first = heads.empty() ? fields.size() : heads[0].first;
  std::vector<std::span<const std::byte>> parts = {as_bytes(fields).first(first)};
  size_t position = first;
  auto add = [&](std::span<const std::byte> part) {
    parts.push_back(part);
    position += part.size();
  };
  auto head = heads.begin();
  for (const auto& [key, data] : constants) {
    add(as_bytes(fields).subspan(head->first, head->second - head->first));
    add(std::span(kZeros).first(padding(position)));
    add(data.bytes);
    ++head;
  }
  add(std::as_bytes(std::span(&checksum, 1)));
  write_file(path, parts);
}

tir::ConstantBytes read_constants(const std::string& path) {
  MappedFile file = map_file(path);
  Reader reader(path, file.bytes);
  for (char c : kMagic)
    if (reader.field<char>() != c) reader.fail("this is no file of constants");
  if (auto version = reader.field<uint32_t>(); version != kVersion) reader.fail(fmt::format("version {} is unknown", version));
  tir::ConstantBytes constants;
  for (auto count = reader.field<uint64_t>(); count > 0; --count) read_entry(reader, file.owner, constants);
  uint64_t checksum = hash64(reader.fields());
  if (reader.field<uint64_t>() != checksum) reader.fail("the description of the constants is damaged");
  if (!reader.at_end()) reader.fail(fmt::format("{} bytes follow the last constant", reader.left()));
  return constants;
}

Module read_module(const std::string& path, const OpTable& ops) {
  MappedFile file = map_file(path);
  std::string constants = constants_path(path);
  tir::ConstantBytes long_constants;
  if (std::error_code ignored; std::filesystem::exists(constants, ignored)) long_constants = read_constants(constants);
  std::string_view text(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
  return parse(path, text, ops, long_constants);
}

void write_module(const std::string& path, const Module& module) {
  tir::ConstantBytes constants;
  std::string text = print(module, &constants);
  if (!constants.empty()) {
    std::string file = constants_path(path);
    std::error_code ignored;
    tir::ConstantBytes all = std::filesystem::exists(file, ignored) ? read_constants(file) : tir::ConstantBytes();
    size_t before = all.size();
    all.merge(constants);
    if (all.size() > before) write_constants(file, all);
  }
  write_file(path, text);
}

}  // namespace tenon::graph
