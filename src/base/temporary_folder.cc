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

TemporaryFolder::TemporaryFolder() {
  const char* named = std::getenv("TMPDIR");
  path_ = std::string(named && *named ? named : "/tmp") + "/tenon-XXXXXX";
  if (!::mkdtemp(path_.data()))
    throw CompileError(Diagnostic{.kind = ErrorKind::FileSystem,
                                  .code = "temporary-folder",
                                  .message = fmt::format("`{}` can't be made: {}", path_, std::strerror(errno)),
                                  .input = path_,
                                  .expected = "a temporary folder that can be written",
                                  .found = std::strerror(errno),
                                  .hint = "set TMPDIR to one"});
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace tenon
