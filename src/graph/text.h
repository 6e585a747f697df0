// SPDX-License-Identifier: Apache-2.0
// The text form of a module: graph functions, loop functions and constants in one `.tenon` syntax, and its rules.
//
//   module {opt_level = 3, stage = "fuse", target = "llvm -mcpu=znver3"}
//   constant @w : f32[2] = bytes "0000803f00000040"         (up to 64 bytes, in hex)
//   constant @big : f32[768,768] = hash "…32 hex digits…"   (bytes in constants.bin beside the text)
//   fn @main(%0: f32[1,8] "x") -> ("y") {
//     %1 = constant @w : f32[2,2]
//     %2, %3 = split(%0) {axis = 1} : f32[1,4], f32[1,4]  "node name"
//     %4 = call @fused_relu(%2) : f32[1,4]
//     return %4, %3
//   }
//   primfunc @fused_relu(x: f32[1,4]) -> (y: f32[1,4]) { … }
#pragma once

#include <string>
#include <string_view>

#include "graph/op_def.h"
#include "tir/text.h"

namespace tenon::graph {

/// Linear in the size of the module.
std::string print(const Function& function);
/// `f32[1,4], i64[]`
std::string print(std::span<const TensorType> types);
std::string print(const Module& module, tir::ConstantBytes* long_constants = nullptr);

/// Parses, infers and checks a module. Attributes and types are checked against what is written. Throws CompileError
/// listing every error found, each with its span and excerpt.
Module parse(std::string_view file, std::string_view text, const OpTable& ops, const tir::ConstantBytes& long_constants = {});

/// `constants.bin` (its layout is in docs/graph-ir.md). Reading checks every bound and every hash, and keeps the bytes as
/// views of the mapped file.
void write_constants(const std::string& path, const tir::ConstantBytes& constants);
tir::ConstantBytes read_constants(const std::string& path);

/// A `.tenon` file with the `constants.bin` beside it, if any.
Module read_module(const std::string& path, const OpTable& ops);
/// Writes both, each through a temporary name and a rename; adds to the constants of other modules in the folder.
void write_module(const std::string& path, const Module& module);

/// Throws CompileError listing each broken invariant: topological order, types as inferred, known callees with matching
/// signatures, constants present with the right type, unique names across functions, loop functions valid (spec 2.18).
void verify(const Module& module);

}  // namespace tenon::graph
