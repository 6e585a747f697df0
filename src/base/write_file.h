// SPDX-License-Identifier: Apache-2.0
// Writing a file whole or not at all.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace tenon {

/// Writes the parts one after the other under a temporary name beside `path`, then renames it, so that no reader ever sees
/// half a file. Throws CompileError (file-system, `file-write`) naming the path and the system's reason.
void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts);
void write_file(const std::string& path, std::initializer_list<std::span<const std::byte>> parts);
void write_file(const std::string& path, std::string_view text);

}  // namespace tenon
