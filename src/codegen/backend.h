// SPDX-License-Identifier: Apache-2.0
// Code generation's boundary: scheduled loop functions in, machine code or text out.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/target.h"
#include "tir/scratch.h"
#include "tir/stmt.h"

namespace tenon::codegen {

struct Object {
  std::string bytes;  // a relocatable object file
  std::vector<std::string> symbols;
};

enum class TextKind : uint8_t { LlvmIr, Assembly };

/// A function with TVM's packed-call interface (runtime/tvm_abi.h) that checks its arguments and calls a kernel.
struct PackedWrapper {
  struct Parameter {
    DType dtype = DType::F32;
    std::vector<int64_t> shape;
  };
  std::string symbol, kernel;
  std::vector<Parameter> parameters;  // of the kernel, inputs then outputs
  tir::Scratch scratch;
};

// codegen/llvm implements these. Each call is independent: its own LLVM context; safe on several threads.

/// Compiles scheduled functions into one object with one symbol per function, named as the function: a tenon_kernel
/// (tenon/kernel.h) that wants the scratch that tir::scratch_of says.
Object compile_object(std::span<const tir::PrimFunc* const> functions, const Target& target);
/// The object with each symbol that it defines as `from` or `from.…` named `to` or `to.…`.
std::string rename_symbols(const std::string& object, const std::string& from, const std::string& to);
/// Compiles wrappers into one object. A library that holds it gets its call-backs through the pointers that it defines
/// (`__TVMBackendParallelLaunch`, …), as one that TVM compiled.
std::string compile_packed_wrappers(std::span<const PackedWrapper> wrappers, const Target& target);
std::string compile_text(const tir::PrimFunc& function, const Target& target, TextKind kind);
/// The global symbols of an object.
struct ObjectSymbols {
  std::vector<std::string> defined, undefined;
};
/// Nothing if the bytes are no relocatable ELF object.
std::optional<ObjectSymbols> object_symbols(const std::string& object);
/// Whether an undefined symbol is found when objects are linked: one of libm's functions that code may call.
bool links(const std::string& symbol);
/// Links objects into a shared library with lld, in process. Undefined symbols may only be libm's.
std::string link_shared(std::span<const std::string> objects);

/// Code in memory; keeps the memory executable while it lives.
class JitCode {
 public:
  virtual ~JitCode() = default;
  /// The address of a symbol; an internal error if it is not there.
  virtual void* address(const std::string& symbol) const = 0;
};
std::unique_ptr<JitCode> load_in_memory(std::span<const std::string> objects);

/// LLVM's version, for `tenon doctor`.
std::string llvm_version();

}  // namespace tenon::codegen
