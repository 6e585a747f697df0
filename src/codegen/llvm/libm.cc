// SPDX-License-Identifier: Apache-2.0
// The functions of libm that generated code may call: the intrinsics of loop IR, and what LLVM calls for an instruction
// that an old processor lacks.
#include "codegen/llvm/libm.h"

#include <dlfcn.h>

#include <algorithm>
#include <string>

namespace tenon::codegen {

void* libm_address(std::string_view name) {
  constexpr std::string_view kFunctions[] = {
      "acos", "acosh",     "asin",      "asinh", "atan", "atanh", "ceil", "cos",   "cosh",  "erf",
      "exp",  "exp2",      "expm1",     "floor", "fma",  "fmod",  "log",  "log1p", "log2",  "pow",
      "rint", "nearbyint", "roundeven", "sin",   "sinh", "sqrt",  "tan",  "tanh",  "trunc",
  };
  bool single = name.ends_with('f') && name != "erf";
  std::string_view base = single ? name.substr(0, name.size() - 1) : name;
  if (std::ranges::find(kFunctions, base) == std::end(kFunctions)) return nullptr;
  return dlsym(RTLD_DEFAULT, std::string(name).c_str());
}

}  // namespace tenon::codegen
