// SPDX-License-Identifier: Apache-2.0
// What a built-in schedule decides, as data: which stages are computed where they are read, and for each nest its shape and its
// sizes. A function and its decisions give the scheduled function (schedule/construct.h); as text they are the nest steps of a
// trace (docs/schedule-primitives.md).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "schedule/primitives/trace.h"

namespace tenon::schedule {

/// No reduction: `lanes` neighbouring elements at once.
struct ElementwiseNest {
  int64_t lanes = 1;
};

/// One element at a time.
struct ScalarReduction {};

/// `streams` independent chains of `lanes` partial results each, along a contiguous reduce axis.
struct RowReduction {
  int64_t streams = 1, lanes = 1;
};

/// `rows` times `lanes` neighbouring elements of the output at once.
struct SpatialReduction {
  int64_t rows = 1, lanes = 1;
};

/// Where the lanes of a sum of products lie.
enum class Lanes {
  AlongOutput,   // V holds the output's innermost axis
  AcrossOutput,  // V is the constant operand, B is read in place
};

/// How the kernel finds an operand of a sum of products.
enum class Storage {
  InPlace,    // as it comes
  Constant,   // as panels, stored so when compiling
  PerTile,    // as panels, one packed for each tile of it
  PerJob,     // as panels, those of one job packed by it
  BeforeAll,  // as panels, all packed before the first job
};

/// A register tile of a sum of products, see contraction.h.
struct ContractionNest {
  Lanes lanes_lie = Lanes::AlongOutput;
  int64_t rows = 1, vectors = 1, lanes = 1;  // of the register tile
  Storage v = Storage::InPlace, b = Storage::InPlace;
  int64_t block = 1;                 // steps of the outermost reduce axis in one block
  int64_t v_tiles = 1, b_tiles = 1;  // of one job
  std::string window;                // the stage of whose rows each job computes what it reads; empty: none
  int64_t window_lanes = 1;          // of the nest that computes them
  bool prefetch = false;             // the next panel of the constant operand is brought near while one is used
};

struct Nest {
  std::string stage;             // the reduction, or the stage without one
  std::string epilogue;          // the stage that takes the reduction's results from registers; empty: none
  std::optional<size_t> worker;  // the loop whose iterations run on any worker, counted from outside
  std::variant<ElementwiseNest, ContractionNest, RowReduction, SpatialReduction, ScalarReduction> shape;
};

struct Decisions {
  std::vector<std::string> inlined;     // stages
  size_t shared = 0;                    // leading axes that are looped over around all nests
  std::optional<size_t> shared_worker;  // which of these loops runs on any worker
  std::vector<Nest> nests;
  bool fma = false;  // a * b + c with one rounding
};

Step step_of(Nest nest);
/// The steps that say the same, the last one `construct`.
Trace steps_of(const Decisions& decisions);
Step keep_loops_step();
Step lower_math_step(bool fma);
/// Whether a step says that multiplications are contracted (`fma=yes`). Throws as decisions_of does.
bool fma_of(const Step& step);
/// Whether a step names what a later `construct` builds.
bool is_nest_step(const Step& step);
/// What nest steps and the `construct` after them say. Throws CompileError at a number or word out of place
/// (`schedule-arguments`).
Decisions decisions_of(std::span<const Step> steps);

}  // namespace tenon::schedule
