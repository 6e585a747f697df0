// SPDX-License-Identifier: Apache-2.0
// Mapping of files.
#include "base/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/diagnostic.h"

namespace tenon {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& reason) {
  throw CompileError(Diagnostic{.kind = ErrorKind::FileSystem,
                                .code = "file-open",
                                .message = fmt::format("`{}`: {}", path, reason),
                                .input = path,
                                .expected = "a readable file",
                                .found = reason,
                                .hint = "check the path and its permissions"});
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

}  // namespace

MappedFile map_file(const std::string& path) {
  Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) fail(path, std::strerror(errno));
  struct stat status;
  if (fstat(file.fd, &status) != 0) fail(path, std::strerror(errno));
  if (S_ISDIR(status.st_mode)) fail(path, "is a folder");
  if (!S_ISREG(status.st_mode)) fail(path, "is not a regular file");
  const size_t size = static_cast<size_t>(status.st_size);
  if (size == 0) return {};
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) fail(path, std::strerror(errno));
  std::shared_ptr<const void> owner(data, [size](const void* p) { munmap(const_cast<void*>(p), size); });
  return {{static_cast<const std::byte*>(data), size}, std::move(owner)};
}

}  // namespace tenon
