// SPDX-License-Identifier: Apache-2.0
// Linking objects into a shared library with lld, in process; no file of the user's is touched.
#include <fcntl.h>
#include <lld/Common/Driver.h>
#include <llvm/ADT/SmallString.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/raw_ostream.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mutex>
#include <set>

#include "base/diagnostic.h"
#include "base/temporary_folder.h"
#include "codegen/backend.h"
#include "codegen/llvm/libm.h"

LLD_HAS_DRIVER(elf)

namespace tenon::codegen {
namespace {

[[noreturn]] void fail_file(const std::string& what) {
  throw CompileError({.kind = ErrorKind::FileSystem, .code = "link-file", .message = what});
}

/// Bytes in memory that have a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(memfd_create("object", MFD_CLOEXEC)) {
    if (descriptor_ < 0) fail_file("can't create a file in memory");
    while (!bytes.empty()) {
      ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written <= 0) fail_file("can't write a file in memory");
      bytes.remove_prefix(static_cast<size_t>(written));
    }
  }
  MemoryFile(MemoryFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  MemoryFile& operator=(MemoryFile&&) = delete;
  ~MemoryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

void run_lld(std::vector<std::string> arguments) {
  static std::mutex one_at_a_time;  // lld keeps its state in globals
  std::lock_guard lock(one_at_a_time);
  std::vector<const char*> argv = {"ld.lld"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::string output;
  llvm::raw_string_ostream stream(output);
  lld::Result result = lld::lldMain(argv, stream, stream, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0) fail_internal("the linker refused our objects: " + output);
}

/// The undefined symbols of the objects that none of them defines.
std::set<std::string> undefined_symbols(std::span<const std::string> objects) {
  std::set<std::string> defined, undefined;
  for (const std::string& bytes : objects) {
    std::optional<ObjectSymbols> symbols = object_symbols(bytes);
    if (!symbols) fail_internal("an object is not an ELF file");
    defined.insert(symbols->defined.begin(), symbols->defined.end());
    undefined.insert(symbols->undefined.begin(), symbols->undefined.end());
  }
  for (const std::string& name : defined) undefined.erase(name);
  return undefined;
}

std::string read_file(const std::string& path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, false, false);
  if (!buffer) fail_file("can't read the linked library");
  return (*buffer)->getBuffer().str();
}

}  // namespace

std::optional<ObjectSymbols> object_symbols(const std::string& object) {
  auto file = llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(object, "object"));
  if (!file) {
    llvm::consumeError(file.takeError());
    return std::nullopt;
  }
  if (!(*file)->isRelocatableObject()) return std::nullopt;
  ObjectSymbols symbols;
  for (const llvm::object::SymbolRef& symbol : (*file)->symbols()) {
    auto name = llvm::cantFail(symbol.getName());
    uint32_t flags = llvm::cantFail(symbol.getFlags());
    if (name.empty() || !(flags & llvm::object::SymbolRef::SF_Global)) continue;
    (flags & llvm::object::SymbolRef::SF_Undefined ? symbols.undefined : symbols.defined).push_back(name.str());
  }
  return symbols;
}

bool links(const std::string& symbol) { return libm_address(symbol) != nullptr; }

std::string link_shared(std::span<const std::string> objects) {
  std::set<std::string> undefined = undefined_symbols(objects);
  for (const std::string& name : undefined)
    if (!libm_address(name)) fail_internal("generated code calls `" + name + "`, which is not in libm");
  TemporaryFolder folder;
  std::string library = folder.file("library.so");
  std::vector<std::string> arguments = {"-shared", "--hash-style=gnu", "--build-id=none", "-z", "now", "--gc-sections", "-s"};
  std::vector<MemoryFile> files;
  for (const std::string& bytes : objects) arguments.push_back(files.emplace_back(bytes).path());
  if (!undefined.empty()) {
    // The library names libm as needed without libm at hand: an empty stand-in of that name is enough.
    std::string stand_in = folder.file("libm.so");
    MemoryFile exports_nothing("{ local: *; };");
    run_lld({"-shared", "--soname=libm.so.6", "--gc-sections", "-s", "--version-script=" + exports_nothing.path(), "-o", stand_in,
             files[0].path()});
    arguments.insert(arguments.end(), {"--no-as-needed", stand_in, "--unresolved-symbols=ignore-all"});
  }
  arguments.insert(arguments.end(), {"-o", library});
  run_lld(arguments);
  return read_file(library);
}

}  // namespace tenon::codegen
