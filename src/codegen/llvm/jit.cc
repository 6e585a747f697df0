// SPDX-License-Identifier: Apache-2.0
// Loading objects into this process's memory.
#include <llvm/ExecutionEngine/RuntimeDyld.h>
#include <llvm/ExecutionEngine/SectionMemoryManager.h>
#include <llvm/Object/ObjectFile.h>

#include "base/diagnostic.h"
#include "codegen/backend.h"
#include "codegen/llvm/libm.h"

namespace tenon::codegen {
namespace {

/// Gives the objects libm's functions and nothing else.
class LibmResolver : public llvm::LegacyJITSymbolResolver {
 public:
  llvm::JITSymbol findSymbol(const std::string& name) override {
    void* address = libm_address(name);
    if (!address) return nullptr;
    return {reinterpret_cast<uint64_t>(address), llvm::JITSymbolFlags::Exported};
  }
  llvm::JITSymbol findSymbolInLogicalDylib(const std::string&) override { return nullptr; }
};

class LoadedCode : public JitCode {
 public:
  explicit LoadedCode(std::span<const std::string> objects) : linker_(memory_, resolver_) {
    for (const std::string& bytes : objects) {
      auto file = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(bytes, "object"));
      if (!file) fail_internal("an object can't be read: " + llvm::toString(file.takeError()));
      auto loaded = linker_.loadObject(**file);
      if (linker_.hasError()) fail_internal("an object can't be loaded: " + linker_.getErrorString().str());
    }
    if (objects.empty()) return;  // RuntimeDyld has no state before its first object
    linker_.resolveRelocations();
    if (linker_.hasError()) fail_internal("an object can't be loaded: " + linker_.getErrorString().str());
    std::string error;
    if (memory_.finalizeMemory(&error)) fail_internal("memory can't be made executable: " + error);
  }

  void* address(const std::string& symbol) const override {
    void* found = linker_.getSymbolLocalAddress(symbol);
    if (!found) fail_internal("no symbol `" + symbol + "` in the loaded code");
    return found;
  }

 private:
  llvm::SectionMemoryManager memory_;
  LibmResolver resolver_;
  llvm::RuntimeDyld linker_;
};

}  // namespace

std::unique_ptr<JitCode> load_in_memory(std::span<const std::string> objects) { return std::make_unique<LoadedCode>(objects); }

}  // namespace tenon::codegen
