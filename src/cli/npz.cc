// SPDX-License-Identifier: Apache-2.0
// The zip container and the npy header inside, each read with every bound checked.
#include "cli/npz.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/diagnostic.h"
#include "base/mapped_file.h"
#include "base/write_file.h"
#include "cli/npy.h"

namespace tenon::cli {
namespace {

using Bytes = std::span<const std::byte>;

constexpr uint32_t kLocalMagic = 0x04034b50, kEntryMagic = 0x02014b50, kEndMagic = 0x06054b50;
constexpr size_t kLocalBytes = 30, kEntryBytes = 46, kEndBytes = 22;
constexpr uint64_t kMaxDeflateRatio = 1032;

template <class T>
T read(Bytes bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

/// One file of the archive, as the central directory describes it.
struct Entry {
  std::string name;
  uint16_t method;  // 0 stored, 8 deflated
  uint32_t crc;
  uint64_t packed, size, offset;
};

class ZipReader {
 public:
  explicit ZipReader(const std::string& path) : path_(path), file_(map_file(path)), bytes_(file_.bytes) {}

  std::vector<Entry> entries() const {
    size_t end = find_end();
    auto count = read<uint16_t>(bytes_, end + 10);
    uint64_t offset = read<uint32_t>(bytes_, end + 16);
    std::vector<Entry> entries;
    for (int i = 0; i < count; ++i) {
      if (offset + kEntryBytes > end || read<uint32_t>(bytes_, offset) != kEntryMagic) damaged("its directory is cut off");
      Bytes at = bytes_.subspan(offset);
      uint64_t name = read<uint16_t>(at, 28), extra = read<uint16_t>(at, 30), comment = read<uint16_t>(at, 32);
      uint64_t next = offset + kEntryBytes + name + extra + comment;
      if (next > end) damaged("its directory is cut off");
      Entry entry{std::string(reinterpret_cast<const char*>(at.data()) + kEntryBytes, name),
                  read<uint16_t>(at, 10),
                  read<uint32_t>(at, 16),
                  read<uint32_t>(at, 20),
                  read<uint32_t>(at, 24),
                  read<uint32_t>(at, 42)};
      read_wide_sizes(entry, at.subspan(kEntryBytes + name, extra));
      entries.push_back(std::move(entry));
      offset = next;
    }
    return entries;
  }

  /// The bytes of a file, checked; a stored one stays a view of the archive.
  MappedFile content(const Entry& entry) const {
    if (entry.offset > bytes_.size() || bytes_.size() - entry.offset < kLocalBytes ||
        read<uint32_t>(bytes_, entry.offset) != kLocalMagic)
      damaged(fmt::format("`{}` does not start where it should", entry.name));
    uint64_t start =
        entry.offset + kLocalBytes + read<uint16_t>(bytes_, entry.offset + 26) + read<uint16_t>(bytes_, entry.offset + 28);
    if (start > bytes_.size() || entry.packed > bytes_.size() - start) damaged(fmt::format("`{}` is cut off", entry.name));
    Bytes packed = bytes_.subspan(start, entry.packed);
    MappedFile content{packed, file_.owner};
    if (entry.method == 8)
      content = inflate(entry, packed);
    else if (entry.method != 0 || entry.packed != entry.size)
      damaged(fmt::format("`{}` is packed in an unknown way", entry.name));
    if (crc(content.bytes) != entry.crc) damaged(fmt::format("the checksum of `{}` is wrong", entry.name));
    return content;
  }

  [[noreturn]] void damaged(const std::string& what) const {
    throw CompileError(Diagnostic{.kind = ErrorKind::Malformed,
                                  .code = "npz-damaged",
                                  .message = fmt::format("`{}` is no complete .npz file: {}", path_, what),
                                  .input = path_,
                                  .expected = "a file written by numpy.savez or numpy.savez_compressed"});
  }

 private:
  size_t find_end() const {
    if (bytes_.size() < kEndBytes) damaged("it is too short");
    size_t first = bytes_.size() - std::min<size_t>(bytes_.size(), kEndBytes + 0xffff);
    for (size_t at = bytes_.size() - kEndBytes + 1; at-- > first;)
      if (read<uint32_t>(bytes_, at) == kEndMagic) return at;
    damaged("it has no directory");
  }

  /// Sizes of 4 GiB and more stand in an extra field (zip64), in this order, only those that do not fit.
  void read_wide_sizes(Entry& entry, Bytes extra) const {
    while (extra.size() >= 4) {
      size_t id = read<uint16_t>(extra, 0), size = read<uint16_t>(extra, 2);
      if (size > extra.size() - 4) damaged("its directory is cut off");
      Bytes field = extra.subspan(4, size);
      if (id == 1)
        for (uint64_t* value : {&entry.size, &entry.packed, &entry.offset}) {
          if (*value != 0xffffffff) continue;
          if (field.size() < 8) damaged("its directory is cut off");
          *value = read<uint64_t>(field, 0);
          field = field.subspan(8);
        }
      extra = extra.subspan(4 + size);
    }
  }

  MappedFile inflate(const Entry& entry, Bytes packed) const {
    if (entry.size / kMaxDeflateRatio > entry.packed) damaged(fmt::format("`{}` cannot be as large as it says", entry.name));
    MutableArray out(DType::U8, {static_cast<int64_t>(entry.size)});
    z_stream stream{};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) fail_internal("zlib starts");
    size_t written = 0;
    int status = Z_OK;
    while (status == Z_OK) {
      // zlib counts in 32 bits, so large files go through in parts.
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
      stream.avail_in = static_cast<uInt>(std::min<size_t>(packed.size(), 1 << 30));
      stream.next_out = reinterpret_cast<Bytef*>(out.data() + written);
      stream.avail_out = static_cast<uInt>(std::min<size_t>(out.size_bytes - written, 1 << 30));
      uInt in = stream.avail_in, room = stream.avail_out;
      status = ::inflate(&stream, Z_NO_FLUSH);
      packed = packed.subspan(in - stream.avail_in);
      written += room - stream.avail_out;
      if (status == Z_OK && in == stream.avail_in && room == stream.avail_out) status = Z_BUF_ERROR;
    }
    inflateEnd(&stream);
    if (status != Z_STREAM_END || written != out.size_bytes) damaged(fmt::format("`{}` cannot be unpacked", entry.name));
    Array array = std::move(out).freeze();
    return {array.bytes, array.owner};
  }

  static uint32_t crc(Bytes bytes) {
    return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  }

  std::string path_;
  MappedFile file_;
  Bytes bytes_;
};

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// What a local header and a directory entry share: version, flags, method, a fixed date, checksum and sizes.
void put_description(std::string& out, const std::string& name, uint32_t crc, uint32_t size) {
  put<uint16_t>(out, 20);
  put<uint16_t>(out, 1 << 11);  // the name is UTF-8
  put<uint16_t>(out, 0);
  put<uint16_t>(out, 0);
  put<uint16_t>(out, 0x21);  // 1980-01-01
  put<uint32_t>(out, crc);
  put<uint32_t>(out, size);
  put<uint32_t>(out, size);
  put<uint16_t>(out, static_cast<uint16_t>(name.size()));
  put<uint16_t>(out, 0);
}

[[noreturn]] void too_large(const std::string& path) {
  throw CompileError(Diagnostic{.kind = ErrorKind::Limit,
                                .code = "npz-too-large",
                                .message = fmt::format("`{}` would be larger than 4 GiB", path),
                                .input = path});
}

}  // namespace

Arrays read_npz(const std::string& path) {
  ZipReader zip(path);
  Arrays arrays;
  for (const Entry& entry : zip.entries()) {
    constexpr std::string_view kSuffix = ".npy";
    if (entry.name.size() <= kSuffix.size() || !entry.name.ends_with(kSuffix)) continue;
    std::string name = entry.name.substr(0, entry.name.size() - kSuffix.size());
    MappedFile content = zip.content(entry);
    if (!arrays.emplace(name, read_npy(content.bytes, content.owner, name)).second)
      zip.damaged(fmt::format("it holds `{}` twice", name));
  }
  return arrays;
}

void write_npz(const std::string& path, const Arrays& arrays) {
  std::string out, directory;
  for (const auto& [key, array] : arrays) {
    std::string name = key + ".npy", header = npy_header(array);
    uint64_t size = header.size() + array.bytes.size();
    if (size + out.size() > UINT32_MAX - (1 << 20)) too_large(path);
    uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(header.data()), header.size());
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(array.bytes.data()), array.bytes.size());
    put<uint32_t>(directory, kEntryMagic);
    put<uint16_t>(directory, 20);
    put_description(directory, name, static_cast<uint32_t>(crc), static_cast<uint32_t>(size));
    directory.append(10, '\0');  // comment, disk, attributes
    put<uint32_t>(directory, static_cast<uint32_t>(out.size()));
    directory += name;
    put<uint32_t>(out, kLocalMagic);
    put_description(out, name, static_cast<uint32_t>(crc), static_cast<uint32_t>(size));
    out += name;
    out += header;
    out.append(reinterpret_cast<const char*>(array.bytes.data()), array.bytes.size());
  }
  auto start = static_cast<uint32_t>(out.size());
  auto count = static_cast<uint16_t>(arrays.size());
  out += directory;
  put<uint32_t>(out, kEndMagic);
  put<uint32_t>(out, 0);
  put<uint16_t>(out, count);
  put<uint16_t>(out, count);
  put<uint32_t>(out, static_cast<uint32_t>(directory.size()));
  put<uint32_t>(out, start);
  put<uint16_t>(out, 0);
  write_file(path, out);
}

}  // namespace tenon::cli
