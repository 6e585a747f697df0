// SPDX-License-Identifier: Apache-2.0
// A folder of values by key, shared by processes: one file each, checked when read, the oldest removed when there are too many.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace tenon {

/// Nothing in the folder can make a read fail: a file that is damaged, cut short, of another version or somebody else's is
/// no value. Files that do not bear this store's name are never touched. Safe for use by several threads and processes.
///
/// A file: Header (file_store.cc) with an XXH3-128 checksum | key | value. Its name is the key's XXH3-128 in hex and `.kernel`.
class FileStore {
 public:
  /// Makes the folder if it is not there. Throws CompileError (file-system, `file-write`) if that fails.
  FileStore(std::string folder, int64_t max_bytes);

  /// The value stored last under the key, or nothing. It then counts as used now.
  std::optional<std::string> load(std::string_view key) const;
  /// Writes the value, whole or not at all. Past `max_bytes` in all, the files used longest ago are removed until three
  /// quarters are left. False if it was not written: the disk is full, say, or the value larger than the store may be.
  bool store(std::string_view key, std::string_view value);

 private:
  std::string path_of(std::string_view key) const;
  void remove_oldest();

  const std::string folder_;
  const int64_t max_bytes_;
  std::mutex mutex_;    // guards what follows
  int64_t bytes_ = -1;  // of the folder's values, without what other processes wrote since; -1: not counted yet
};

}  // namespace tenon
