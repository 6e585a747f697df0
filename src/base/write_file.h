// SPDX-License-Identifier: Apache-2.0
// Writing a file whole or not at all.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "base/function_ref.h"

namespace tenon {

/// Writes the parts one after the other under a temporary name beside `path`, then renames it, so that no reader ever sees
/// half a file. Throws CompileError (file-system, `file-write`) naming the path and the system's reason.
void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts);
/// The same with one more part, which is asked for when the others are written.
void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts,
                function_ref<std::span<const std::byte>()> last);
void write_file(const std::string& path, std::initializer_list<std::span<const std::byte>> parts);
void write_file(const std::string& path, std::string_view text);
/// Makes a folder and those above it, if they are not there.
void make_folder(const std::string& path);

}  // namespace tenon
