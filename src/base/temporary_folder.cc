// SPDX-License-Identifier: Apache-2.0
// Temporary folders.
#include "base/temporary_folder.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/diagnostic.h"

namespace tenon {

std::string make_temporary_folder(std::string_view prefix) {
  const char* named = std::getenv("TMPDIR");
  std::string path = fmt::format("{}/{}XXXXXX", named && *named ? named : "/tmp", prefix);
  if (!::mkdtemp(path.data()))
    throw CompileError(Diagnostic{.kind = ErrorKind::FileSystem,
                                  .code = "temporary-folder",
                                  .message = fmt::format("`{}` can't be made: {}", path, std::strerror(errno)),
                                  .input = path,
                                  .expected = "a temporary folder that can be written",
                                  .found = std::strerror(errno),
                                  .hint = "set TMPDIR to one"});
  return path;
}

TemporaryFolder::TemporaryFolder() : path_(make_temporary_folder("tenon-")) {}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace tenon
