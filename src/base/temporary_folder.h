// SPDX-License-Identifier: Apache-2.0
// A folder for files that other tools read or write.
#pragma once

#include <string>

namespace tenon {

/// A new folder in the system's temporary folder, removed with what it holds. Throws CompileError (file system,
/// `temporary-folder`).
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
