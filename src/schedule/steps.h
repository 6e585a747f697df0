// SPDX-License-Identifier: Apache-2.0
// Schedule steps: they change how a loop function computes and never what. Primitives are small; they act on the blocks of an
// unscheduled PrimFunc and on each other's results. Nest steps say what each block's loops become as a whole, and `construct`
// makes it so: every built-in schedule is a trace of these. Read this file first.
//
// The primitives and their rules are those of TensorIR (Feng et al., "TensorIR: An Abstraction for Automatic Tensorized Program
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

#include "schedule/decisions.h"
#include "schedule/schedule.h"

namespace tenon::schedule {

class Schedule {
 public:
  /// Steps act on functions whose stores all stand in blocks (`schedule-outside-block`), in loops from 0 with a number as
  /// extent (`schedule-bounds`). `intrinsics` finds the functions that `tensorize` names.
  explicit Schedule(tir::PrimFunc func, IntrinsicLookup intrinsics = {});

  const tir::PrimFunc& func() const { return func_; }
  /// The steps taken, one a line: `replay` on the first function gives an equal one.
  const Trace& trace() const { return trace_; }
  /// Constant parameters of `func` that `construct` stores in another layout.
  const std::vector<PackedParam>& packed() const { return packed_; }

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

  /// Splits each loop of a chain by its factor and puts the outer loops outside the inner ones: split and reorder in one step,
  /// with their rules. New loops are `i_o` and `i_i` for `i`.
  void tile(const std::vector<std::string>& loops, const std::vector<int64_t>& factors);

  // Loop kinds. The loop is serial before.

  /// The iterations are independent.
  void vectorize(std::string_view loop);
  /// Always legal.
  void unroll(std::string_view loop);
  /// The iterations are independent; buffers declared inside are not global, buffers used from outside are.
  void parallel(std::string_view loop);
  /// Gives each iteration a place of its own on an axis of a device's launch grid: `blockIdx_x` to `blockIdx_z` or `threadIdx_x`
  /// to `threadIdx_z`. The iterations are independent; loops over one axis have one extent and do not stand in each other; for
  /// block axes, scopes are as for `parallel`.
  void bind(std::string_view loop, std::string_view axis);

  // Where blocks run. What a moved block reads is complete before the loop (`schedule-order`) and declared around it
  // (`schedule-visibility`).

  /// A complete block with one store vanishes into the blocks that read it, each load becoming its value. Its buffer is no
  /// output, it is the only writer, and what it reads lasts as long.
  void compute_inline(std::string_view block);
  /// A complete block vanishes into the complete block that computes what only it reads, element by element over one domain.
  void reverse_compute_inline(std::string_view block);
  /// Runs a complete block or a whole reduction inside a loop around all its readers, for the part that an iteration of the loop
  /// reads, before the first of them. Its buffers are no outputs and have no other writer; they are declared in the loop, and
  /// become local if iterations run on several workers. New loops stand for the old ones.
  void compute_at(std::string_view block, std::string_view loop);
  /// Runs a complete block or a whole reduction at the end of each iteration of an earlier loop, for the part of its points that
  /// the iteration has computed all of. Each writer in the loop fills a box per iteration, its reduce loops inside; the block's
  /// index on each axis of which the box is a part is a variable of its own.
  void reverse_compute_at(std::string_view block, std::string_view loop);

  // Buffers.

  /// Copies what the block reads of a buffer to a new one of the same shape, as early as the buffer is complete, and lets the
  /// block read that. Returns the new buffer, whose name is the copying block's too.
  std::string cache_read(std::string_view block, std::string_view buffer, std::string_view scope, std::string_view name = "");
  /// Lets a complete block or a whole reduction, the only writer of a buffer, write a new one, and copies that after the loops
  /// that hold the block alone. Returns the new buffer.
  std::string cache_write(std::string_view block, std::string_view buffer, std::string_view scope, std::string_view name = "");
  /// Moves an allocated buffer to scope `global`, `local` or `reg`. A buffer declared inside a loop over workers is not global,
  /// one declared outside and used inside is; indices of a `reg` buffer follow unrolled loops, the last one also a vectorized
  /// loop over the whole axis.
  void set_scope(std::string_view buffer, std::string_view scope);

  // Reductions.

  /// Splits a whole reduction's `init` off into a block of its own before a loop, which is at or outside the block's outermost
  /// reduce loop and inside of which each point runs once. The rest keeps the name.
  void decompose_reduction(std::string_view block, std::string_view loop);
  /// Makes a reduce loop of a whole reduction a spatial one: a new block sums up each of its iterations apart, into buffers with
  /// one more axis, and the block then combines these. Its loops hold it alone, its update is commutative, and no iteration of
  /// the loop is without a point. Returns the new block.
  std::string rfactor(std::string_view block, std::string_view loop, int64_t axis = 0, std::string_view name = "");

  // Layouts, domains, intrinsics.

  /// Gives an allocated buffer other axes, by a map such as `i, j -> floordiv(i, 4), j, floormod(i, 4)`, which gives each element
  /// a place of its own, each index over [0, a number).
  void transform_layout(std::string_view buffer, std::string_view map);
  /// Rounds the extents of a block's variables up to multiples, one for each. Operands that follow a padded variable are copied
  /// to padded buffers, results are computed in padded ones and cropped. The block is complete or a whole reduction with loops as
  /// `lower` makes them, alone in them; a padded variable is an index of its own wherever it is used, and for a padded reduce
  /// variable each operand is a product of loads that follow it, added up, or one such load, filled with the operation's
  /// identity.
  void pad(std::string_view block, const std::vector<int64_t>& multiples);
  /// Replaces a loop around one block by the body of a function `implementation`, where the block computes what the function
  /// `description` does: loops of the same extents, the same values and stores, its parameters' axes the last ones of the
  /// buffers they stand for. Both have the same parameters. That the two agree is the user's promise.
  void tensorize(std::string_view loop, std::string_view description, std::string_view implementation);

  // The function as a whole. Its loops are as `lower` makes them: a nest around each block. No step acts on blocks afterwards.

  /// Computes some blocks where they are read, and each other one, with its epilogue if it has one, in a nest of the shape and
  /// sizes decided. Buffers become flat; a constant operand may become another parameter, see `packed`.
  void construct(const Decisions& decisions);
  /// The loops as they stand, the outermost independent ones on any worker.
  void keep_loops();
  /// Functions such as `exp` become arithmetic of a few ulp.
  void lower_math(bool fma);

 private:
  tir::PrimFunc func_;
  IntrinsicLookup intrinsics_;
  Trace trace_;
  std::vector<PackedParam> packed_;
};

/// Takes the steps of a trace's text on a function. An error has the line in its span. Nest steps without `construct` are refused
/// (`schedule-nests-open`).
Schedule replay(const tir::PrimFunc& func, std::string_view trace_file, std::string_view trace_text,
                const IntrinsicLookup& intrinsics = {});

/// What a provider returns that took steps on a request's function. `explain` is their trace.
Scheduled by_steps(const Schedule& steps);

}  // namespace tenon::schedule
