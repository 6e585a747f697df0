// SPDX-License-Identifier: Apache-2.0
// Which values of a lowered `main` share memory, and when it is needed: the one analysis behind the plan of every executor.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tenon::link {

struct LivenessOptions {
  bool in_place = true;  // a result may overwrite an operand where its kernel's loops prove it safe (in_place.h)
  bool parts = true;     // a result may be a part of an operand, or its operands parts of it (views.h)
};

enum class Source : uint8_t { Input, Constant, Kernel };

/// Memory that values share. An input's and a constant's are given; a kernel's is to be planned.
struct Region {
  Source source = Source::Kernel;
  uint32_t value = 0;                // what it was made for: the input, the constant, or what a kernel or a join makes
  int64_t bytes = 0;                 // of a kernel's
  int64_t begin = 0, end = 0;        // the steps during which it is needed
  std::optional<std::string> place;  // that the user chose (places.h)
};

/// The bytes of a value.
struct ValueMemory {
  uint32_t region = 0;
  int64_t offset = 0, bytes = 0;
};

struct Liveness {
  std::vector<ValueMemory> values;        // by value of `main`
  std::vector<Region> regions;            // those that a value is in
  std::vector<const graph::Node*> steps;  // calls that have to run, in order; nodes of the module
  std::vector<uint32_t> step_results;     // for each step, its first result

  /// Whether a value is all that its region holds.
  bool whole(uint32_t value) const { return values[value].bytes == regions[values[value].region].bytes; }
};

/// Needs a module in which `main` holds only constants and `call_lowered` of loop functions; a call with the attribute `view`
/// (its one result holds the bytes of its one operand) is no step. What a result of `main` is in, no later value overwrites.
/// Operands become parts of a result (concat) only where the bytes that are alive at any step stay below the most at any other.
/// Throws CompileError (unsupported) naming a node that was not lowered or a value without a static shape; `memory-place`
/// (malformed) about two places for one region.
Liveness analyse_liveness(const graph::Module& module, const LivenessOptions& options = {});

}  // namespace tenon::link
