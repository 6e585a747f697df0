// SPDX-License-Identifier: Apache-2.0
// A folder for files that other tools read or write.
#pragma once

#include <string>
#include <string_view>

namespace tenon {

/// A new folder in the system's temporary folder, TMPDIR or /tmp, whose name begins with `prefix`. Throws CompileError (file
/// system, `temporary-folder`).
std::string make_temporary_folder(std::string_view prefix);

/// One that is removed with what it holds.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace tenon
