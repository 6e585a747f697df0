// SPDX-License-Identifier: Apache-2.0
// Code through the cache: keys, and the form of an object in a file.
#include "driver/kernels.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "base/mapped_file.h"
#include "base/own_file.h"
#include "driver/driver.h"
#include "tir/text.h"

namespace tenon::driver {
namespace {

std::string encode(const codegen::Object& object) { return object.bytes; }

std::optional<codegen::Object> decode(std::string_view bytes) {
  return codegen::Object{.bytes = std::string(bytes), .symbols = {kKernelSymbol}};
}

constexpr lower::FileForm<codegen::Object> kFileForm{encode, decode};

/// Changes with every build of the compiler that could make other code: the bytes of the program or library we are in.
std::string compiler_version() {
  return fmt::format("{} llvm {}", hash128(map_file(own_file()).bytes).hex(), codegen::llvm_version());
}

}  // namespace

std::shared_ptr<const codegen::Object> kernel_code(const tir::PrimFunc& scheduled, const Target& target,
                                                   const lower::Caching& caching) {
  tir::PrimFunc function = scheduled;
  function.name = kKernelSymbol;
  std::string key = fmt::format("{}\n{}", target.text(), tir::print(function));
  const tir::PrimFunc* functions[] = {&function};
  return caching.get<codegen::Object>(
      lower::Stage::Code, key, [&] { return codegen::compile_object(functions, target); }, &kFileForm);
}

std::shared_ptr<lower::KernelCache> open_cache(const std::string& folder) {
  return std::make_shared<lower::KernelCache>(lower::KernelCache::Folder{.path = folder, .version = compiler_version()});
}

}  // namespace tenon::driver
