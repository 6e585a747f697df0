// SPDX-License-Identifier: Apache-2.0
// What we compile for: the target text, the processor's features, and the machine numbers that schedules derive from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

/// Numbers that schedules derive tiles from. Sizes in bytes.
struct Machine {
  int vector_bytes = 16;  // widest float vector: 16, 32 or 64
  int vector_registers = 16;
  bool fma = false;
  int64_t l1_bytes = 32 << 10;
  int64_t l2_bytes = 512 << 10;
  int64_t l3_bytes = 8 << 20;
};

struct Target {
  std::string kind = "llvm";          // llvm, c, opencl, cuda
  std::string cpu;                    // LLVM's processor name, never "native"
  std::vector<std::string> features;  // `avx2`, `fma`, … sorted; what the generated code may use
  Machine machine;

  bool has(std::string_view feature) const;
  /// `llvm -mcpu=znver3`: the canonical text; parse_target(text()) gives an equal target.
  std::string text() const;
};

/// Parses `llvm`, `llvm -mcpu=haswell`, `llvm -mcpu=znver4 -mattr=+avx512f,-avx512vnni`, `c`, `opencl`, `cuda`.
/// Without -mcpu the host's processor is taken. Cache sizes come from a table by processor, so that one text gives one
/// code on any host. Throws CompileError (usage) naming an unknown kind, option or processor, and listing the known.
Target parse_target(std::string_view text);
Target host_target();
/// The processors of the table.
std::vector<std::string> known_cpus();
/// Features of the machine we run on, in LLVM's spelling, sorted; what an artifact's requirement is checked against.
std::vector<std::string> host_features();
/// `+avx512bf16`, `-fma`: how a target's features differ from its processor's in the table; first the added ones.
std::vector<std::string> feature_changes(const Target& target);

}  // namespace tenon
