// SPDX-License-Identifier: Apache-2.0
// What an unscheduled PrimFunc computes, read back from its loop nests: stages over iteration domains, and which of them
// a schedule computes inline, materialises, or attaches to a reduction as its epilogue.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "schedule/decisions.h"
#include "tir/affine.h"
#include "tir/memory_attr.h"
#include "tir/stmt.h"

namespace tenon::schedule {

using tir::Buffer;
using tir::Expr;
using tir::Stmt;

/// A variable over [0, extent).
struct Iter {
  std::string name;
  int64_t extent = 1;

  Expr var() const { return tir::var(name); }
};

/// One block: outputs[k][spatial] = values[k], or for a reduction the last of `values` over the reduce points, where
/// the variable `carried[k]` stands for the value so far and starts as init[k].
struct Stage {
  std::string name;
  std::vector<Buffer> outputs;
  std::vector<Iter> spatial, reduce;
  std::vector<std::string> carried;  // empty: not a reduction
  std::vector<Expr> init;
  std::vector<Expr> values;

  bool is_reduction() const { return !carried.empty(); }
  int64_t points() const;         // of the spatial domain
  int64_t reduce_points() const;  // 1 without reduce axes
};

struct StageGraph {
  const tir::PrimFunc* func = nullptr;
  std::vector<Stage> stages;  // each reads only earlier ones
  std::vector<std::pair<Buffer, Array>> constants;
  tir::Ranges ranges;                // of every iteration variable
  std::vector<std::string> renamed;  // variables that are called otherwise than in the function
  std::vector<tir::BufferPlace> places;

  /// The stage that defines a buffer and which of its outputs, or null.
  const Stage* producer(const Buffer& buffer, size_t* output = nullptr) const;
  bool is_param(const Buffer& buffer) const;
  /// Whether all of it has to be in memory at some time: a parameter, or what the function gives a place.
  bool is_kept(const Buffer& buffer) const;
  /// The loads of a buffer in all stages.
  int64_t reads_of(const Buffer& buffer) const;
};

/// Nothing if the function has anything but nests of one block over constant domains (an extern stage, say).
std::optional<StageGraph> read_stages(const tir::PrimFunc& func);

/// A nest to emit: a reduction with the stage that consumes it, or either alone.
struct Root {
  const Stage* reduction = nullptr;
  const Stage* epilogue = nullptr;  // reads the reduction at its own indices only; null: the reduction is stored itself

  const Stage& output() const { return epilogue ? *epilogue : *reduction; }
  /// What its nest is called by.
  const std::string& name() const { return reduction ? reduction->name : epilogue->name; }
};

/// Decides what is inlined (cheap or read once for each element) and what is stored.
struct Decomposition {
  std::set<std::string> inlined;  // stage names
  std::vector<Root> roots;        // in order of execution
};
Decomposition decompose(const StageGraph& graph);
/// As decided. Throws CompileError (`schedule-nest-stages`) if that is not possible.
Decomposition decompose(const StageGraph& graph, const Decisions& decisions);

/// The number of leading axes that every stage shares: all have them with the same extents, and every stage reads another
/// at its own position along them, so that loops over them can stand around all stages. None where a stage has a place.
size_t shared_axes(const StageGraph& graph);
/// Gives the first `count` axes of every stage the same variables.
std::vector<Iter> unify_axes(StageGraph& graph, size_t count, tir::NameSupply& names);

}  // namespace tenon::schedule
