// SPDX-License-Identifier: Apache-2.0
// Sums of products with reuse on both sides (matrix products, convolutions): a register tile over packed or direct operands.
//
// Spatial axes fall into three groups by the operands that use them: those of V, which is read as vectors; those of B, whose
// elements are broadcast; and outer ones, which index both or neither. V's and B's axes are cut into tiles. One tile of V stays
// in the first cache while the tiles of B, which stay in the second, stream past it.
//
// V is the operand that holds the output's innermost axis, so that vectors are stored whole; or, where that axis is too short
// to fill vectors, the other one, if it is a constant: then lanes are stored apart, and B is read in place at any stride.
//
//   for job: outer point, chunk of B tiles, chunk of V tiles   (parallel)
//     [compute the rows of a stored stage that the job reads: the padded input of a convolution]
//     [pack B]
//     for block of the reduction
//       for V tile of the chunk
//         [pack it]
//         for B tile of the chunk
//           acc[rows, vectors, lanes] = init, or the partial sums so far
//           for reduce point of the block: acc += b[rows] * v[vectors, lanes]
//           store through the epilogue, or keep partial sums
//
// contraction.cc decides, contraction_emit.cc emits.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "schedule/nests.h"
#include "schedule/tile_model.h"

namespace tenon::schedule {

using tir::Ranges;
using tir::VarMap;

/// The points of several axes.
int64_t product(const std::vector<Iter>& iters);
/// The statement with every expression simplified.
Stmt simplify_stmt(const Stmt& s, const Ranges& ranges);

struct Product {
  Expr a, b;
};

/// One factor of the product, cut into tiles.
struct Operand {
  Expr value;              // over the spatial and reduce variables, reading flat buffers
  std::vector<Stmt> lets;  // what `value` needs computed before
  std::vector<Iter> own;   // spatial axes that only it uses
  Iter axis{"", 1};        // the one that is tiled; extent 1 if it has none
  std::vector<Iter> rest;  // the others
  int64_t width = 1;       // of a tile, in elements of `axis`
  int64_t axis_tiles = 1;
  int64_t param = -1;        // a constant parameter that is repacked for it
  Buffer packed;             // tiles in the order they are read: parameter, scratch, or null when read in place
  bool at_run_time = false;  // `packed` is scratch, filled by this kernel for each V tile
  bool of_job = false;       // `packed` is scratch for the tiles of one job

  int64_t tiles() const { return axis_tiles * product(rest); }
  const tir::Load* plain() const { return lets.empty() ? tir::as<tir::Load>(value) : nullptr; }
};

/// A stored stage that an operand reads at rows `stride * along + first + (0 … taps - 1)` of its axis `axis`: each job computes
/// the rows that it reads.
struct Window {
  const Stage* stage = nullptr;
  bool of_v = false;  // V reads it; otherwise B
  size_t axis = 0;
  Iter along;         // a spatial axis of the sum
  int64_t inner = 1;  // points of the operand's other axes within a step of it
  int64_t stride = 1, first = 0, taps = 1;
  std::vector<Expr> at;  // per axis of the stage, where the one point of it lies that a job reads; null: a job reads all
  Buffer rows;           // [rows, axes read whole…]
  Expr start;            // the job's first step of `along`
  int64_t steps = 1;     // the most steps of `along` that a job touches

  int64_t row_count() const { return (steps - 1) * stride + taps; }
  int64_t row_elements() const {
    int64_t n = 1;
    for (size_t i = 0; i < at.size(); ++i) n *= i == axis || at[i] ? 1 : stage->spatial[i].extent;
    return n;
  }
};

class Contraction {
 public:
  explicit Contraction(const NestRequest& request) : request_(request), emission_(request.emission) {}
  /// Whether the root is a sum of products.
  bool applies() const;
  /// Takes it apart.
  void read();
  /// Decides everything but emits nothing. Estimated cycles, or nothing where this does not apply.
  std::optional<double> plan(Lanes lanes);
  /// As planned, with a window; false, and then unusable, where there is none or it does not pay.
  bool plan_window(Lanes lanes);
  /// Says in the request's nest what was planned.
  void note_decisions() const;
  /// As decided; false where it does not apply.
  bool follow(const ContractionNest& nest);
  Stmt build();

 private:
  bool sort_axes(bool windowed = false);
  bool find_window(Operand& operand, const Expr& read);
  void place_window();
  Stmt fill_window();
  void merge_axes();
  bool could_overwrite() const;
  void choose_tiles();
  void set_tile(const RegisterTile& tile);
  bool choose_storage();
  bool take_storage(const ContractionNest& nest);
  void take_blocks(const ContractionNest& nest);
  void choose_blocks(int64_t b_parts = 1);
  int64_t windowed_tiles(const Operand& operand, int64_t tiles);
  int64_t window_steps(int64_t tiles) const;
  bool window_fits() const;
  Expr window_start(const Expr& part, int64_t tiles) const;
  double product_cycles() const;
  bool choose_blocks_of_jobs();
  double repeated_cycles() const;
  double cycles() const;
  int64_t repackable_param(const Operand& operand) const;
  std::vector<Iter> outer_axes(const Operand& operand) const;
  Buffer panels(const Operand& operand, const std::string& name) const;
  Stmt fill_tile(const Operand& operand, const Buffer& result, VarMap place, const Expr& tile, const Expr& slot);
  Stmt fill_panels(const Operand& operand, const Buffer& result);
  void repack(Operand& operand);
  Stmt pack_tile(const Operand& operand, const Expr& tile);
  Stmt tile_body(const Expr& v_tile, const Expr& v_slot, const Expr& b_tile, const Expr& b_slot);
  Stmt products(const VarMap& place, const Expr& v_tile, const Expr& b_tile, const Expr& b_slot);
  const Operand* constant_operand() const { return v_.param >= 0 ? &v_ : b_.param >= 0 ? &b_ : nullptr; }
  bool worth_prefetching() const;
  std::vector<Stmt> prefetch_panel(const Expr& step, const Expr& v_tile, const Expr& b_tile, const Expr& b_slot);
  std::vector<Stmt> place_tile(const Operand& operand, const Expr& tile, VarMap& place);
  Expr element(const Operand& operand, const Expr& slot, const Expr& offset) const;
  Stmt over_accumulator(const std::function<Stmt(const Expr& row, const Expr& vector, const Expr& lane)>& body,
                        bool vectors_first);
  Expr outer_index(const Operand& operand) const;

  Expr fresh(std::string_view base, int64_t extent) {
    Expr v = tir::var(emission_.names.fresh(base));
    emission_.ranges[tir::as<tir::Var>(v)->name] = {0, std::max<int64_t>(0, extent - 1)};
    return v;
  }
  /// The operand that reads the window.
  Operand& windowed() { return window_->of_v ? v_ : b_; }
  const Operand& windowed() const { return window_->of_v ? v_ : b_; }
  bool reads_window(const Operand& operand) const { return window_ && &windowed() == &operand; }
  int64_t depth() const { return product(reduce_); }
  int64_t jobs() const { return product(outer_) * b_chunks() * v_cuts(); }
  int64_t b_chunks() const { return (b_.tiles() + b_chunk_ - 1) / b_chunk_; }
  int64_t v_cuts() const { return (v_.tiles() + v_chunk_ - 1) / v_chunk_; }
  /// Reduce points of one step of the outermost reduce axis.
  int64_t step_depth() const { return reduce_.empty() ? 1 : depth() / reduce_[0].extent; }

  NestRequest request_;
  Emission& emission_;
  Lanes lanes_ = Lanes::AlongOutput;
  Stage stage_;                  // the reduction over the output's variables, groups split
  std::optional<Product> flat_;  // the factors over flat buffers, where they need no Lets
  std::vector<Iter> outer_, reduce_;
  Operand v_, b_;
  std::vector<Stmt> epilogue_;
  Expr init_, carried_;
  RegisterTile tile_;
  DType dtype_ = DType::F32;
  int64_t block_steps_ = 1;  // steps of the outermost reduce axis in one block
  int64_t blocks_ = 1;
  int64_t b_chunk_ = 1;        // B tiles of one job
  int64_t v_chunk_ = 1;        // V tiles of one job
  bool panels_first_ = false;  // B is stored as panels before it is used: by each job, or before all
  std::optional<Window> window_;
  Buffer acc_, partial_;
  Expr block_;  // index of the reduction's block
};

}  // namespace tenon::schedule
