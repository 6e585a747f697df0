// SPDX-License-Identifier: Apache-2.0
// Folders that TVM's graph executor can run: `lib.so`, `graph.json` and `params.bin`.
#pragma once

#include <memory>
#include <string>

#include "runtime/program.h"

namespace tenon::runtime {

inline constexpr const char *kTvmLibrary = "lib.so", *kTvmGraph = "graph.json", *kTvmParams = "params.bin";

struct TvmFolderOptions {
  bool allow_unknown_params = false;  // leave out parameters that the graph does not have
};

/// The program of a folder; runs none of its code. Inputs are the arguments without a parameter, outputs are called `out0`,
/// `out1`, …; the lower bound of the arena is what its largest step touches. Throws CompileError: file-system; malformed
/// (`tvm-graph`, `tvm-params`, `tvm-params-unknown`, `tvm-params-mismatch`); unsupported (`tvm-unsupported`); limit
/// (`memory-too-large`) for more memory than the machine has.
Program read_tvm_program(const std::string& folder, const TvmFolderOptions& options = {});
/// As read_tvm_program, and opens the library, which is native code that nothing checks. Throws CompileError (malformed,
/// `tvm-library`) when the system's loader refuses it or it lacks a kernel that the graph names.
std::shared_ptr<const Executable> load_tvm_folder(const std::string& folder, const TvmFolderOptions& options = {});

}  // namespace tenon::runtime
