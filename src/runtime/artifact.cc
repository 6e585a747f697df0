// SPDX-License-Identifier: Apache-2.0
// The artifact file: a shared library that is also data.
//
//   ELF shared object | zeros to a page boundary | constants | program | Footer
//
// The loader of the system ignores what follows the ELF sections; we map it.
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <future>

#include "base/diagnostic.h"
#include "base/hash.h"
#include "base/mapped_file.h"
#include "base/target.h"
#include "base/write_file.h"
#include "runtime/program.h"
#include "runtime/serialize.h"

namespace tenon::runtime {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint32_t kVersion = 4;  // of this format, of the program's and of the kernels' binary interface
constexpr char kMagic[8] = {'T', 'E', 'N', 'O', 'N', 'A', 'R', 'T'};

/// The last bytes of the file. Version and magic stay at the very end in every version.
struct Footer {
  uint64_t library_bytes, constants_offset, constants_bytes, program_offset, program_bytes;
  uint64_t hash_high, hash_low;  // of all bytes before the footer and the five fields above
  uint32_t reserved, version;
  char magic[8];
};
static_assert(sizeof(Footer) == 72);
constexpr size_t kHashedFooterBytes = offsetof(Footer, hash_high);

[[noreturn]] void damaged(const std::string& path, const std::string& what) {
  throw CompileError(Diagnostic{.kind = ErrorKind::Malformed,
                                .code = "artifact-damaged",
                                .message = fmt::format("`{}` is damaged: {}", path, what),
                                .input = path,
                                .hint = "compile the model again, or copy the file again"});
}

/// An artifact's bytes after every check but that of the CPU features.
struct Contents {
  MappedFile file;
  Footer footer;
  Program program;
};

Footer checked_footer(std::span<const std::byte> bytes, const std::string& path) {
  Footer footer;
  if (bytes.size() < sizeof footer) damaged(path, "too short for an artifact");
  std::memcpy(&footer, bytes.data() + bytes.size() - sizeof footer, sizeof footer);
  if (std::memcmp(footer.magic, kMagic, sizeof kMagic) != 0) damaged(path, "it does not end as an artifact does");
  if (footer.version != kVersion)
    throw CompileError(Diagnostic{.kind = ErrorKind::Mismatch,
                                  .code = "artifact-version",
                                  .message = fmt::format("`{}` is an artifact of version {}", path, footer.version),
                                  .input = path,
                                  .expected = fmt::format("version {}", kVersion),
                                  .found = fmt::format("version {}", footer.version),
                                  .hint = "compile the model again with this version of Tenon"});
  uint64_t end = bytes.size() - sizeof footer;
  bool good = footer.program_offset <= end && footer.program_bytes == end - footer.program_offset &&
              footer.constants_offset <= footer.program_offset && footer.constants_offset % kPage == 0 &&
              footer.constants_bytes <= footer.program_offset - footer.constants_offset &&
              footer.library_bytes <= footer.constants_offset;
  if (!good) damaged(path, "its parts do not fit the file");
  Hash128 hash = hash128(bytes.first(end + kHashedFooterBytes));
  if (hash.high != footer.hash_high || hash.low != footer.hash_low) damaged(path, "its checksum is wrong");
  return footer;
}

/// `path` is what to open, `shown` what to call it.
Contents read_contents(const std::string& path, const std::string& shown) {
  Contents contents{map_file(path), {}, {}};
  contents.footer = checked_footer(contents.file.bytes, shown);
  contents.program = deserialize(contents.file.bytes.subspan(contents.footer.program_offset, contents.footer.program_bytes));
  if (contents.program.constants_bytes != contents.footer.constants_bytes) damaged(shown, "its constants have another size");
  return contents;
}

/// An open file that is read through /proc, so that what is checked, mapped and loaded is one and the same.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (fd_ < 0)
      throw CompileError(Diagnostic{.kind = ErrorKind::FileSystem,
                                    .code = "file-open",
                                    .message = fmt::format("`{}`: {}", path, std::strerror(errno)),
                                    .input = path,
                                    .expected = "a readable file",
                                    .found = std::strerror(errno)});
  }
  ~OpenFile() { ::close(fd_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  /// A name that no earlier call in this process has given: the system's loader takes a library for an open one when
  /// their names agree, and file numbers are reused. `/./` and `/` spell the bits of a counter.
  std::string unique_path() const {
    static std::atomic<uint64_t> counter{0};
    std::string path = "/proc/self/fd";
    for (uint64_t bits = counter.fetch_add(1) + 2; bits > 1; bits /= 2) path += bits % 2 ? "/./" : "//";
    return path + "/" + std::to_string(fd_);
  }

 private:
  int fd_;
};

/// What keeps an artifact's code and constants in memory.
struct Loaded {
  OpenFile file;
  MappedFile mapped;
  void* library = nullptr;

  explicit Loaded(const std::string& path) : file(path) {}
  ~Loaded() {
    if (library) ::dlclose(library);
  }
};

}  // namespace

void check_host(const Program& program) {
  if (program.features.empty()) return;
  std::vector<std::string> host = host_features();
  for (const std::string& feature : program.features)
    if (std::find(host.begin(), host.end(), feature) == host.end())
      throw CompileError(
          Diagnostic{.kind = ErrorKind::Mismatch,
                     .code = "cpu-feature",
                     .message = fmt::format("the code needs the CPU feature `{}`, which this machine lacks", feature),
                     .input = program.model,
                     .expected = program.target,
                     .found = "a machine without " + feature,
                     .hint = "compile the model for this machine, or with another -mcpu"});
}

namespace {

size_t gap_after(const Array& constant) {
  return (kConstantAlignment - constant.bytes.size() % kConstantAlignment) % kConstantAlignment;
}

}  // namespace

Array join_constants(std::span<const Array> constants) {
  size_t bytes = 0;
  for (const Array& constant : constants) bytes += constant.bytes.size() + gap_after(constant);
  MutableArray out(DType::U8, {static_cast<int64_t>(bytes)});
  std::byte* to = out.data();
  for (const Array& constant : constants) {
    to = std::copy(constant.bytes.begin(), constant.bytes.end(), to);
    to += gap_after(constant);
  }
  return std::move(out).freeze();
}

void write_artifact(const std::string& path, const std::string& library, std::span<const Array> constants,
                    const Program& program) {
  std::string text = serialize(program);
  Footer footer{};
  footer.library_bytes = library.size();
  footer.constants_offset = (library.size() + kPage - 1) / kPage * kPage;
  footer.constants_bytes = program.constants_bytes;
  footer.program_offset = footer.constants_offset + program.constants_bytes;
  footer.program_bytes = text.size();
  footer.version = kVersion;
  std::memcpy(footer.magic, kMagic, sizeof kMagic);
  const std::string zeros(kPage, '\0');
  auto padding = [&](size_t bytes) { return std::as_bytes(std::span(zeros)).first(bytes); };
  std::vector<std::span<const std::byte>> parts{std::as_bytes(std::span(library)),
                                                padding(footer.constants_offset - library.size())};
  uint64_t constants_bytes = 0;
  for (const Array& constant : constants) {
    parts.push_back(constant.bytes);
    parts.push_back(padding(gap_after(constant)));
    constants_bytes += constant.bytes.size() + gap_after(constant);
  }
  check(program.constants_bytes == constants_bytes, "the program knows the size of its constants");
  parts.push_back(std::as_bytes(std::span(text)));
  std::span<const std::byte> last = std::as_bytes(std::span(&footer, 1));
  std::future<Hash128> hash = std::async(std::launch::async, [parts, last]() mutable {
    parts.push_back(last.first(kHashedFooterBytes));
    return hash128_of_parts(parts);
  });
  write_file(path, parts, [&] {
    Hash128 found = hash.get();
    footer.hash_high = found.high;
    footer.hash_low = found.low;
    return last;
  });
}

std::shared_ptr<const Executable> load_artifact(const std::string& path) {
  auto loaded = std::make_shared<Loaded>(path);
  std::string opened = loaded->file.unique_path();
  Contents contents = read_contents(opened, path);
  check_host(contents.program);
  loaded->mapped = contents.file;
  // Kernels call libm; it must be found whoever opened us.
  ::dlopen("libm.so.6", RTLD_NOW | RTLD_GLOBAL);
  loaded->library = ::dlopen(opened.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!loaded->library) damaged(path, fmt::format("the system's loader refuses it: {}", ::dlerror()));
  auto executable = std::make_shared<Executable>();
  executable->program = std::move(contents.program);
  bind_kernels(*executable, [&](const std::string& name) {
    void* address = ::dlsym(loaded->library, name.c_str());
    if (!address) damaged(path, fmt::format("kernel `{}` is missing", name));
    return reinterpret_cast<tenon_kernel>(address);
  });
  executable->constants = contents.file.bytes.data() + contents.footer.constants_offset;
  executable->owner = std::move(loaded);
  return executable;
}

Program read_artifact_program(const std::string& path) { return read_contents(path, path).program; }

bool is_artifact(const std::string& path) {
  MappedFile file = map_file(path);
  return file.bytes.size() >= sizeof(Footer) &&
         std::memcmp(file.bytes.data() + file.bytes.size() - sizeof kMagic, kMagic, sizeof kMagic) == 0;
}

}  // namespace tenon::runtime
