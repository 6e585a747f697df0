// SPDX-License-Identifier: Apache-2.0
// What blocks compute, touch and depend on: the facts that decide whether a step is legal.
#pragma once

#include <optional>

#include "schedule/primitives/iter_map.h"

namespace tenon::schedule {

// What a block computes.

/// A block of plain stores at its own point: outputs[k][indices] = values[k], Lets substituted.
struct PointBlock {
  std::vector<Buffer> outputs;
  std::vector<std::vector<Expr>> indices;
  std::vector<Expr> values;
  std::vector<Expr> init;  // of a reduction, per output; empty otherwise
};
/// Nothing if the body holds anything but Lets and one store to each output, or if `init` stores elsewhere than the body.
std::optional<PointBlock> point_block(const tir::Block& block);
/// Whether the block reads what it writes, or only updates it at some of its reduce points.
bool updates(const tir::Block& block);
/// A block whose every spatial point is computed from other buffers alone, with every variable of more than one value an index of
/// its own of each store: it may run for a point any number of times.
bool is_complete(const tir::Block& block);
/// Refuses (`schedule-not-complete`) a block that cannot be run again as a whole for some of its spatial points: one that is
/// neither complete nor a reduction over whole loops. Its stores, one for each output.
PointBlock require_repeatable(const BlockPlace& place, std::string_view step);
/// Refuses (`schedule-writers`) a buffer with other writers.
void require_only_writer(const Program& program, const BlockPlace& place, const Buffer& buffer);
/// The outermost statement that holds a block alone; refuses (`schedule-not-nested`) one in a loop beside others.
Stmt require_own_nest(const BlockPlace& place, std::string_view step);
/// The variable that each axis of a store is the index of, `nullptr` for a constant index.
using AxisVars = std::vector<const tir::IterVar*>;
/// Nothing unless every index is a spatial variable of its own, or 0 on an axis of extent 1.
std::optional<AxisVars> plain_indices(const tir::Block& block, const Buffer& buffer, const std::vector<Expr>& indices);
/// As above; refuses (`schedule-not-complete`) other indices.
AxisVars require_plain_indices(const tir::Block& block, const Buffer& buffer, const std::vector<Expr>& indices);
/// A block with `init`, whose spatial variables are the indices of its stores: run for all reduce points of a spatial point, it
/// may be run again as a whole.
bool is_reduction(const tir::Block& block);
/// The operations by which a block's outputs combine with one more value each, and these values: output = output op operand.
/// Every one is commutative and associative on exact arithmetic. Nothing if some output is updated otherwise.
struct Combiner {
  std::vector<tir::BinaryOp> ops;
  std::vector<Expr> operands;
};
std::optional<Combiner> combiner(const tir::Block& block);
/// The value e with e op x = x; null if the operation has none.
Expr identity(tir::BinaryOp op, DType dtype);

// What it touches.

/// A box of a buffer, by the loop variables around the block.
struct Access {
  const BlockPlace* place = nullptr;
  std::vector<Expr> min;
  std::vector<int64_t> extent;
  bool write = false;
};
/// Every access to a buffer of the blocks under a statement; an extent that is no number counts as the whole axis.
std::vector<Access> accesses(const Program& program, const Stmt& s, const Buffer& buffer);
/// [base, base + extent) on each axis, `base` a sum of the fixed variables.
struct Interval {
  Expr base;
  int64_t extent = 1;
};
using Box = std::vector<Interval>;
/// The smallest interval around both, cut to [0, whole); all of that where their distance is not known.
Interval hull(const Interval& a, const Interval& b, const tir::Ranges& ranges, int64_t whole);
/// The smallest such box around accesses while every loop outside `within` is fixed, cut to the buffer where that is decided.
Box box_of(const Program& program, const std::vector<Access>& accesses, const Buffer& buffer, const Stmt& within);
/// Whether the box is just what a block's writes touch while every loop outside `within` is fixed, but for points outside the
/// block's domain.
bool fills(const Access& access, const Box& box, const Stmt& within);
/// The regions of a block's body as it stands: one element where the index follows the block's variables, else the whole buffer.
void refresh_regions(const tir::Block& block, std::vector<tir::Region>& reads, std::vector<tir::Region>& writes);
/// Whether a block stands in a statement.
bool holds_block(const Stmt& s);
/// The block with another body and regions to match.
Stmt rebuilt(const tir::Block& block, std::vector<tir::IterVar> iters, const Stmt& init, const Stmt& body);

// What depends on it.

/// Why iterations of a loop of this variable might see each other's values of a buffer declared outside it; nothing if they
/// cannot.
std::optional<std::string> conflict(const Program& program, const Place& loop, const Buffer& buffer);
/// Refuses (`schedule-dependence`) a loop whose iterations are not independent.
void require_independent(const Program& program, const Place& loop, std::string_view step);
/// The loops, as variables, that a block's variables of one kind are bound to.
std::set<std::string> bound_loops(const tir::Block& block, tir::IterKind kind);
/// Whether the block's variables of one kind meet each of their points once, the first point first, in loops that its other
/// variables do not follow.
bool meets_whole(const BlockPlace& place, tir::IterKind kind);
/// Refuses (`schedule-order`) unless what the block reads is complete before a statement `at` at whose level it is to run:
/// every writer stands before it and has its reduce loops to itself. `except` may be written inside `at`.
void require_inputs_before(const Program& program, const tir::Block& block, const Stmt& at, const std::vector<Stmt>& around_at,
                           const std::set<std::string>& except = {});
/// Refuses (`schedule-visibility`) unless the buffers that an expression tree or block reads and writes are declared around a
/// place.
void require_visible(const Program& program, const tir::Block& block, const std::vector<Stmt>& around, const Stmt& at,
                     const std::set<std::string>& except = {});

}  // namespace tenon::schedule
