// SPDX-License-Identifier: Apache-2.0
// Schedule primitives: small steps that change how a loop function computes and never what. They act on the blocks of an
// unscheduled PrimFunc and on each other's results. Read this file first.
//
// The steps and their rules are those of TensorIR (Feng et al., "TensorIR: An Abstraction for Automatic Tensorized Program
// Optimization", ASPLOS 2023, section 3.2), with every rule checked here, where the step is taken. Blocks are found by name,
// loops by their variable (`i`, or `conv.i` where several loops are called so), buffers by name. A refused step throws
// CompileError and leaves the function as it is. Results stay the same bit for bit, except that steps which reorder or regroup a
// floating-point reduction (reorder of its reduce loops, rfactor) round differently, as its sum's order is not fixed by the
// block.
//
// Words used below. A block is *complete* if each of its spatial points is computed from other buffers alone and stored to an
// element of its own; a *reduction* if it has an `init` and otherwise the same holds of all its reduce points together.
// Iterations of a loop are *independent* if no two of them touch one element that either writes, shown by the blocks' regions as
// sums of loop variables.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schedule/primitives/trace.h"

namespace tenon::schedule {

class Schedule {
 public:
  /// Steps act on functions whose stores all stand in blocks (`schedule-outside-block`), in loops from 0 with a number as
  /// extent (`schedule-bounds`). `intrinsics` finds the functions that `tensorize` names.
  explicit Schedule(tir::PrimFunc func, IntrinsicLookup intrinsics = {});

  const tir::PrimFunc& func() const { return func_; }
  /// The steps taken, one a line: `replay` on the first function gives an equal one.
  const Trace& trace() const { return trace_; }

  /// Takes a step as a trace holds it.
  void apply(Step step);

  // Loop shapes.

  /// for i < n  ->  for outer < ceil(n / factor), for inner < factor, with `outer * factor + inner < n` around the blocks if the
  /// factor does not divide n. The order of iterations stays, so any serial loop may be split. Returns the new loops.
  std::pair<std::string, std::string> split(std::string_view loop, int64_t factor, std::string_view outer = "",
                                            std::string_view inner = "");
  /// for i < m, for j < n  ->  for f < m * n. The second loop is all that stands in the first; both are serial.
  std::string fuse(std::string_view outer, std::string_view inner, std::string_view into = "");
  /// Gives loops of one chain, nothing between them, the order named. Every block inside is complete, or a reduction whose loops
  /// meet each point once and which, if its reduce loops change their order, combines by a commutative operation; buffers that
  /// several blocks inside share need independent iterations.
  void reorder(const std::vector<std::string>& loops);

  // Loop kinds. The loop is serial before.

  /// The iterations are independent.
  void vectorize(std::string_view loop);
  /// Always legal.
  void unroll(std::string_view loop);
  /// The iterations are independent; buffers declared inside are not global, buffers used from outside are.
  void parallel(std::string_view loop);

 private:
  tir::PrimFunc func_;
  IntrinsicLookup intrinsics_;
  Trace trace_;
};

/// Takes the steps of a trace's text on a function. An error has the line in its span.
tir::PrimFunc replay(const tir::PrimFunc& func, std::string_view trace_file, std::string_view trace_text,
                     const IntrinsicLookup& intrinsics = {});

}  // namespace tenon::schedule
