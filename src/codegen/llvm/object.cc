// SPDX-License-Identifier: Apache-2.0
// From loop functions to an object file or text: the LLVM module, its target machine, and code generation without any
// pass over LLVM IR.
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Triple.h>

#include <mutex>

#include "codegen/llvm/emitter.h"
#include "codegen/llvm/packed.h"
#include "codegen/unrolling.h"

namespace tenon::codegen {
namespace {

void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    // Pointers already move by phis; strength reduction would only cost time. The linker resets options to their
    // defaults, so the default is what is set.
    auto* option = llvm::cl::getRegisteredOptions().lookup("disable-lsr");
    check(option != nullptr, "LLVM has the option `disable-lsr`");
    static_cast<llvm::cl::opt<bool>*>(option)->setValue(true, true);
  });
}

std::string feature_text(const Target& target) {
  std::string out;
  for (const std::string& change : feature_changes(target)) out += (out.empty() ? "" : ",") + change;
  if (target.has("avx512f")) out += std::string(out.empty() ? "" : ",") + "+evex512";
  return out;
}

std::unique_ptr<llvm::TargetMachine> target_machine(const Target& target) {
  initialize_llvm();
  check(target.kind == "llvm", "this code generator compiles for `llvm` targets");
  std::string triple = target.has("neon") ? "aarch64-unknown-linux-gnu" : "x86_64-unknown-linux-gnu";
  std::string error;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(triple, error);
  check(found != nullptr, "LLVM has the target's architecture");
  llvm::TargetOptions options;
  options.MCOptions.AsmVerbose = true;
  options.LoopAlignment = 32;
  return std::unique_ptr<llvm::TargetMachine>(found->createTargetMachine(triple, target.cpu, feature_text(target), options,
                                                                         llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                                                         llvm::CodeGenOptLevel::Default));
}

/// An LLVM module with the machine it is for.
class Compilation {
 public:
  explicit Compilation(const Target& target) : target_(target), machine_(target_machine(target)), module_("kernels", context_) {
    module_.setTargetTriple(machine_->getTargetTriple().str());
    module_.setDataLayout(machine_->createDataLayout());
    module_.setPICLevel(llvm::PICLevel::BigPIC);
  }

  void add(const tir::PrimFunc& source) {
    tir::PrimFunc function = source;
    function.body = limit_unrolling(source.body);
    tir::Scratch scratch = tir::scratch_of(function);
    Kernel kernel{.module = module_,
                  .function = function,
                  .scratch = scratch,
                  .options = {.half_conversion = target_.has("f16c") || target_.has("neon")},
                  .attributes = attributes(),
                  .vector_registers = target_.machine.vector_registers};
    Emitter::emit_kernel(kernel);
  }

  void add(std::span<const PackedWrapper> wrappers) { emit_packed_wrappers(module_, attributes(), wrappers); }

  std::string emit(llvm::CodeGenFileType kind) {
    verify();
    llvm::SmallString<0> bytes;
    llvm::raw_svector_ostream stream(bytes);
    llvm::legacy::PassManager passes;
    check(!machine_->addPassesToEmitFile(passes, stream, nullptr, kind), "the target can emit files");
    passes.run(module_);
    return std::string(bytes);
  }

  std::string ir() {
    verify();
    std::string text;
    llvm::raw_string_ostream stream(text);
    module_.print(stream, nullptr);
    return text;
  }

 private:
  llvm::AttributeList attributes() {
    llvm::AttrBuilder attributes(context_);
    std::string bits = std::to_string(8 * target_.machine.vector_bytes);
    attributes.addAttribute(llvm::Attribute::NoUnwind);
    attributes.addAttribute("target-cpu", target_.cpu);
    if (std::string features = feature_text(target_); !features.empty()) attributes.addAttribute("target-features", features);
    attributes.addAttribute("prefer-vector-width", bits);
    attributes.addAttribute("min-legal-vector-width", bits);
    return llvm::AttributeList::get(context_, llvm::AttributeList::FunctionIndex, attributes);
  }

  void verify() {
    std::string problems;
    llvm::raw_string_ostream stream(problems);
    if (llvm::verifyModule(module_, &stream)) fail_internal("the code generator wrote wrong LLVM IR: " + problems);
  }

  const Target& target_;
  std::unique_ptr<llvm::TargetMachine> machine_;
  llvm::LLVMContext context_;
  llvm::Module module_;
};

}  // namespace

Object compile_object(std::span<const tir::PrimFunc* const> functions, const Target& target) {
  Compilation compilation(target);
  Object object;
  for (const tir::PrimFunc* function : functions) {
    compilation.add(*function);
    object.symbols.push_back(function->name);
  }
  object.bytes = compilation.emit(llvm::CodeGenFileType::ObjectFile);
  return object;
}

std::string compile_packed_wrappers(std::span<const PackedWrapper> wrappers, const Target& target) {
  Compilation compilation(target);
  compilation.add(wrappers);
  return compilation.emit(llvm::CodeGenFileType::ObjectFile);
}

std::string compile_text(const tir::PrimFunc& function, const Target& target, TextKind kind) {
  Compilation compilation(target);
  compilation.add(function);
  return kind == TextKind::LlvmIr ? compilation.ir() : compilation.emit(llvm::CodeGenFileType::AssemblyFile);
}

std::string llvm_version() { return LLVM_VERSION_STRING; }

}  // namespace tenon::codegen
