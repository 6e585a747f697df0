// SPDX-License-Identifier: Apache-2.0
// Other names for an object's symbols, so that code is kept without the name that a module gives it.
#include <llvm/ObjCopy/ConfigManager.h>
#include <llvm/ObjCopy/ObjCopy.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/raw_ostream.h>

#include <map>

#include "base/diagnostic.h"
#include "codegen/backend.h"

namespace tenon::codegen {

std::string rename_symbols(const std::string& object, const std::string& from, const std::string& to) {
  auto file = llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(object, "object"));
  if (!file) fail_internal("an object is not an ELF file: " + llvm::toString(file.takeError()));
  std::map<std::string, std::string> names;
  for (const llvm::object::SymbolRef& symbol : (*file)->symbols()) {
    std::string name = llvm::cantFail(symbol.getName()).str();
    if (name == from || name.starts_with(from + '.')) names[name] = to + name.substr(from.size());
  }
  llvm::objcopy::ConfigManager config;
  for (const auto& [old_name, new_name] : names) config.Common.SymbolsToRename[old_name] = new_name;
  llvm::SmallString<0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  if (llvm::Error error = llvm::objcopy::executeObjcopyOnBinary(config, **file, stream))
    fail_internal("an object's symbols can't be renamed: " + llvm::toString(std::move(error)));
  return std::string(bytes);
}

}  // namespace tenon::codegen
