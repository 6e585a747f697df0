// SPDX-License-Identifier: Apache-2.0
// Writing of files, atomically.
#include "base/write_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/diagnostic.h"

namespace tenon {
namespace {

[[noreturn]] void fail(const std::string& path, int error) {
  throw CompileError(Diagnostic{.kind = ErrorKind::FileSystem,
                                .code = "file-write",
                                .message = "`" + path + "` cannot be written: " + std::strerror(error),
                                .input = path,
                                .expected = "a path in a folder that can be written to",
                                .found = std::strerror(error),
                                .hint = "check the folder, its permissions and the free space"});
}

/// Returns 0 or the error.
int write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return 0;
}

/// Puts a file in the place of another, if there is one. Exchanging the two first is as atomic, but does not make ext4 write
/// the new one to the disk before it returns, which takes longer than the rest of a compile; nothing here survives a loss of
/// power by promise. Returns 0 or the error.
int move_file(const char* from, const char* to) {
  struct stat status;
  bool exchanged =
      ::lstat(to, &status) == 0 && S_ISREG(status.st_mode) && ::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0;
  if (exchanged) {
    ::unlink(from);
    return 0;
  }
  return ::rename(from, to) == 0 ? 0 : errno;
}

}  // namespace

void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts,
                function_ref<std::span<const std::byte>()> last) {
  std::string temporary = path + ".XXXXXX";
  int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) fail(path, errno);
  int error = 0;
  for (std::span<const std::byte> part : parts)
    if (!error) error = write_all(fd, part);
  std::span<const std::byte> end = last();
  if (!error) error = write_all(fd, end);
  mode_t mask = ::umask(0);
  ::umask(mask);
  if (::fchmod(fd, 0666 & ~mask) != 0 && !error) error = errno;
  if (::close(fd) != 0 && !error) error = errno;
  if (!error) error = move_file(temporary.c_str(), path.c_str());
  if (error) {
    ::unlink(temporary.c_str());
    fail(path, error);
  }
}

void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts) {
  write_file(path, parts, [] { return std::span<const std::byte>(); });
}

void write_file(const std::string& path, std::initializer_list<std::span<const std::byte>> parts) {
  write_file(path, std::span(parts.begin(), parts.size()));
}

void write_file(const std::string& path, std::string_view text) { write_file(path, {std::as_bytes(std::span(text))}); }

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail(path, error.value());
}

}  // namespace tenon
