// SPDX-License-Identifier: Apache-2.0
// Parameter files.
#include "runtime/tvm_params.h"

#include <fmt/format.h>

#include <cstring>
#include <deque>
#include <vector>

#include "base/diagnostic.h"
#include "base/write_file.h"
#include "runtime/tvm_abi.h"

namespace tenon::runtime::tvm {
namespace {

constexpr uint64_t kListMagic = 0xF7E58D4F05049CB7, kArrayMagic = 0xDD5E40F096B4A13F;
constexpr int32_t kMaxRank = 32;

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string array_header(const Array& array) {
  std::string out;
  put(out, kArrayMagic);
  put<uint64_t>(out, 0);
  put(out, Device{kCpu, 0});
  put(out, static_cast<int32_t>(array.shape.size()));
  put(out, to_data_type(array.dtype));
  for (int64_t extent : array.shape) put(out, extent);
  put<uint64_t>(out, array.bytes.size());
  return out;
}

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner, const std::string& path)
      : all_(bytes), left_(bytes), owner_(owner), path_(path) {}

  Params read() {
    if (all_.empty()) return {};
    expect(kListMagic, "the mark of a parameter file");
    take<uint64_t>();
    std::vector<std::string> names = read_names();
    if (uint64_t count = take<uint64_t>(); count != names.size())
      damaged("the number of arrays", fmt::format("{}, as many as names", names.size()), std::to_string(count));
    Params params;
    for (const std::string& name : names) {
      name_ = name;
      if (!params.emplace(name, read_array()).second) damaged("a name", "each name once", fmt::format("`{}` twice", name));
    }
    if (!left_.empty()) damaged("the end", "no more bytes", fmt::format("{} bytes", left_.size()));
    return params;
  }

 private:
  [[noreturn]] void damaged(std::string_view what, std::string expected, std::string found) const {
    throw CompileError(Diagnostic{
        .kind = ErrorKind::Malformed,
        .code = "tvm-params",
        .message = fmt::format("`{}` is no complete parameter file: {} at byte {}", path_, what, all_.size() - left_.size()),
        .node = name_,
        .input = path_,
        .expected = std::move(expected),
        .found = std::move(found),
        .hint = "save the parameters again with TVM's save_param_dict, or compile the model again"});
  }

  [[noreturn]] void unsupported(std::string what, std::string expected, std::string found) const {
    throw CompileError(Diagnostic{.kind = ErrorKind::Unsupported,
                                  .code = "tvm-unsupported",
                                  .message = fmt::format("parameter `{}` of `{}` has {}", name_, path_, what),
                                  .node = name_,
                                  .input = path_,
                                  .expected = std::move(expected),
                                  .found = std::move(found)});
  }

  std::span<const std::byte> take_bytes(uint64_t count) {
    if (count > left_.size()) damaged("cut off", fmt::format("{} bytes", count), fmt::format("{} bytes", left_.size()));
    std::span<const std::byte> taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }

  template <class T>
  T take() {
    T value;
    std::memcpy(&value, take_bytes(sizeof value).data(), sizeof value);
    return value;
  }

  void expect(uint64_t magic, std::string_view what) {
    uint64_t found = left_.size() < sizeof magic ? 0 : take<uint64_t>();
    if (found != magic) damaged(what, fmt::format("{:#x}", magic), fmt::format("{:#x}", found));
  }

  std::vector<std::string> read_names() {
    auto count = take<uint64_t>();
    // A name takes at least the 8 bytes of its length.
    if (count > left_.size() / 8)
      damaged("the number of names", fmt::format("at most {}", left_.size() / 8), std::to_string(count));
    std::vector<std::string> names(count);
    for (std::string& name : names) {
      std::span<const std::byte> text = take_bytes(take<uint64_t>());
      name.assign(reinterpret_cast<const char*>(text.data()), text.size());
    }
    return names;
  }

  Array read_array() {
    expect(kArrayMagic, "the mark of an array");
    take<uint64_t>();
    auto device = take<Device>();
    if (device.type != kCpu) unsupported("another device than the host", "device type 1", std::to_string(device.type));
    auto rank = take<int32_t>();
    auto type = take<DataType>();
    Array array;
    std::optional<DType> dtype = from_data_type(type);
    if (!dtype)
      unsupported("an unknown element type", "one lane of a bool, integer or float",
                  fmt::format("code {}, {} bits, {} lanes", type.code, type.bits, type.lanes));
    array.dtype = *dtype;
    if (rank < 0 || rank > kMaxRank) damaged("a rank", fmt::format("0 to {}", kMaxRank), std::to_string(rank));
    for (int32_t axis = 0; axis < rank; ++axis) array.shape.push_back(take<int64_t>());
    array.bytes = take_bytes(checked_size(array));
    array.owner = owner_;
    return array;
  }

  /// The bytes that the array says it has, which must be those of its shape.
  uint64_t checked_size(const Array& array) {
    auto size = take<uint64_t>();
    auto width = static_cast<uint64_t>(byte_size(array.dtype)), elements = uint64_t{1};
    bool fits = true, empty = false;
    for (int64_t extent : array.shape) {
      if (extent < 0) damaged("an extent", "0 or more", std::to_string(extent));
      empty |= extent == 0;
      fits &= !__builtin_mul_overflow(elements, static_cast<uint64_t>(std::max<int64_t>(extent, 1)), &elements);
    }
    if (!fits || elements > left_.size() / width + 1) elements = UINT64_MAX / width;
    if (size != (empty ? 0 : elements * width))
      damaged("a size", fmt::format("the bytes of {}{}", name(array.dtype), to_string(array.shape)),
              fmt::format("{} bytes", size));
    return size;
  }

  std::span<const std::byte> all_, left_;
  const std::shared_ptr<const void>& owner_;
  const std::string& path_;
  std::string name_;  // of the array that is read
};

}  // namespace

void write_params(const std::string& path, const Params& params) {
  std::string names;
  put(names, kListMagic);
  put<uint64_t>(names, 0);
  put<uint64_t>(names, params.size());
  for (const auto& [name, array] : params) {
    put<uint64_t>(names, name.size());
    names += name;
  }
  put<uint64_t>(names, params.size());
  std::deque<std::string> headers;
  std::vector<std::span<const std::byte>> parts = {std::as_bytes(std::span(names))};
  for (const auto& [name, array] : params) {
    parts.push_back(std::as_bytes(std::span(headers.emplace_back(array_header(array)))));
    parts.push_back(array.bytes);
  }
  write_file(path, parts);
}

Params read_params(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner, const std::string& path) {
  return Reader(bytes, owner, path).read();
}

}  // namespace tenon::runtime::tvm
