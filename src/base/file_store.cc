// SPDX-License-Identifier: Apache-2.0
// Values in files.
#include "base/file_store.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/diagnostic.h"
#include "base/hash.h"
#include "base/write_file.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".kernel";
constexpr size_t kNameDigits = 32;
constexpr char kMagic[8] = {'T', 'E', 'N', 'O', 'N', 'K', 'E', 'R'};
constexpr uint64_t kVersion = 1;

struct Header {
  char magic[8];
  uint64_t version, key_bytes, value_bytes;
  uint64_t hash_high, hash_low;  // of the fields above, the key and the value
};
static_assert(sizeof(Header) == 48);
constexpr size_t kHashedHeaderBytes = offsetof(Header, hash_high);

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

Header header_of(std::string_view key, std::string_view value) {
  Header header{.magic = {}, .version = kVersion, .key_bytes = key.size(), .value_bytes = value.size()};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  Hash128 hash =
      hash128_of_parts({std::as_bytes(std::span(&header, 1)).first(kHashedHeaderBytes), bytes_of(key), bytes_of(value)});
  header.hash_high = hash.high;
  header.hash_low = hash.low;
  return header;
}

/// A regular file's bytes, if it can be read and has at most `limit`.
std::optional<std::string> read_file(const std::string& path, int64_t limit) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  uintmax_t size = fs::file_size(path, error);
  if (error || size > static_cast<uintmax_t>(limit)) return std::nullopt;
  std::string bytes(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(bytes.data(), static_cast<std::streamsize>(size))) return std::nullopt;
  return bytes;
}

/// A value's name, or that of a file which is still being written or was left half written.
bool is_ours(const std::string& name) {
  auto digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return name.size() >= kNameDigits + kSuffix.size() && name.compare(kNameDigits, kSuffix.size(), kSuffix) == 0 &&
         std::all_of(name.begin(), name.begin() + kNameDigits, digit);
}

struct StoredFile {
  fs::file_time_type used;
  int64_t bytes;
  fs::path path;
};

std::vector<StoredFile> stored_files(const std::string& folder) {
  std::vector<StoredFile> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (!is_ours(it->path().filename().string())) continue;
    std::error_code gone;
    fs::file_time_type used = it->last_write_time(gone);
    uintmax_t bytes = gone ? 0 : it->file_size(gone);
    if (!gone) files.push_back({used, static_cast<int64_t>(bytes), it->path()});
  }
  return files;
}

int64_t total_bytes(const std::vector<StoredFile>& files) {
  int64_t total = 0;
  for (const StoredFile& file : files) total += file.bytes;
  return total;
}

}  // namespace

FileStore::FileStore(std::string folder, int64_t max_bytes) : folder_(std::move(folder)), max_bytes_(max_bytes) {
  make_folder(folder_);
}

std::string FileStore::path_of(std::string_view key) const { return folder_ + '/' + hash128(key).hex() + std::string(kSuffix); }

std::optional<std::string> FileStore::load(std::string_view key) const {
  std::string path = path_of(key);
  std::optional<std::string> file = read_file(path, max_bytes_);
  if (!file || file->size() < sizeof(Header) + key.size()) return std::nullopt;
  std::string_view stored_key = std::string_view(*file).substr(sizeof(Header), key.size());
  std::string_view value = std::string_view(*file).substr(sizeof(Header) + key.size());
  Header expected = header_of(key, value);
  if (stored_key != key || std::memcmp(file->data(), &expected, sizeof expected) != 0) return std::nullopt;
  std::error_code ignored;
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
  return std::string(value);
}

bool FileStore::store(std::string_view key, std::string_view value) {
  Header header = header_of(key, value);
  auto bytes = static_cast<int64_t>(sizeof header + key.size() + value.size());
  if (bytes > max_bytes_) return false;
  try {
    write_file(path_of(key), {std::as_bytes(std::span(&header, 1)), bytes_of(key), bytes_of(value)});
  } catch (const CompileError&) {
    return false;
  }
  std::lock_guard lock(mutex_);
  bytes_ = bytes_ < 0 ? total_bytes(stored_files(folder_)) : bytes_ + bytes;
  if (bytes_ > max_bytes_) remove_oldest();
  return true;
}

void FileStore::remove_oldest() {
  std::vector<StoredFile> files = stored_files(folder_);
  bytes_ = total_bytes(files);
  if (bytes_ <= max_bytes_) return;
  std::sort(files.begin(), files.end(), [](const StoredFile& a, const StoredFile& b) { return a.used < b.used; });
  for (const StoredFile& file : files) {
    if (bytes_ <= max_bytes_ / 4 * 3) break;
    std::error_code ignored;
    fs::remove(file.path, ignored);
    bytes_ -= file.bytes;
  }
}

}  // namespace tenon
