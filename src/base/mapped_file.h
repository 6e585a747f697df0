// SPDX-License-Identifier: Apache-2.0
// A file's bytes, read by mapping.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace tenon {

/// Read-only; the bytes are valid as long as any copy of `owner` lives. Page-aligned.
struct MappedFile {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

/// Maps a whole regular file; an empty one gives no bytes. Throws CompileError (file-system, `file-open`) naming the path
/// and the system's reason.
MappedFile map_file(const std::string& path);

}  // namespace tenon
