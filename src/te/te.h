// SPDX-License-Identifier: Apache-2.0
// Tensor expressions: what each element of a tensor is, without an order of evaluation. Declarative; schedules act on
// loop IR. An operator's meaning is the list of stages that its `compute` appends to a Graph.
#pragma once

#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tir/stmt.h"
#include "type/type.h"

namespace tenon::te {

using tir::Expr;

/// A tensor is the buffer that a stage defines; reading an element is a Load of it.
struct Tensor {
  tir::Buffer buffer;

  DType dtype() const { return buffer->dtype; }
  int64_t rank() const { return static_cast<int64_t>(buffer.rank()); }
  const Expr& dim(int64_t axis) const { return buffer->shape[static_cast<size_t>(axis)]; }
  const std::vector<Expr>& shape() const { return buffer->shape; }
  Expr operator()(std::vector<Expr> indices) const { return tir::load(buffer, std::move(indices)); }
};

/// A loop variable of a stage over [0, extent).
struct Axis {
  Expr var;
  Expr extent;
};

enum class StageKind : uint8_t { Placeholder, Constant, Compute, Reduce, Extern };

struct Stage {
  StageKind kind = StageKind::Placeholder;
  std::string name;
  std::vector<tir::Buffer> outputs;
  std::vector<Axis> axes;         // one per axis of each output
  std::vector<Axis> reduce_axes;  // Reduce
  std::vector<Expr> values;       // Compute: one per output. Reduce: the next value of each carried variable
  std::vector<Expr> carried;      // Reduce: a Var per output, holding the value so far
  std::vector<Expr> init;         // Reduce: the value before the first point, over `axes`
  Array constant;                 // Constant
  tir::Stmt body;                 // Extern: writes every element of the outputs
  std::string memory;             // where the outputs are to lie, `POOL` or `POOL@OFFSET`; empty: anywhere
};

/// A pure function of the axis variables.
using Body = function_ref<Expr(const std::vector<Expr>&)>;

/// A list of stages in an order in which each reads only earlier ones. Names are unique.
class Graph {
 public:
  Tensor placeholder(std::string_view name, DType dtype, std::vector<Expr> shape);
  /// A constant array that lives inside the function (`allocate_const`).
  Tensor constant(std::string_view name, Array data);
  Tensor compute(std::string_view name, std::vector<Expr> shape, Body body);

  /// What a reduction carries from point to point: `next(i, r, so_far)` gives the new values from the old ones.
  struct Carry {
    std::vector<DType> dtypes;
    function_ref<std::vector<Expr>(const std::vector<Expr>& axes)> init;
    function_ref<std::vector<Expr>(const std::vector<Expr>& axes, const std::vector<Expr>& reduce,
                                   const std::vector<Expr>& so_far)>
        next;
  };
  /// One output per carried value, each of `shape`; points are visited in row-major order of the reduce axes.
  std::vector<Tensor> reduce(std::string_view name, std::vector<Expr> shape, std::vector<Expr> reduce_extents,
                             const Carry& carry);

  /// Sum of `body(axes, reduce)` over the reduce axes, carried at `dtype` from zero. With no reduce point: zero.
  Tensor sum(std::string_view name, DType dtype, std::vector<Expr> shape, std::vector<Expr> reduce_extents,
             function_ref<Expr(const std::vector<Expr>&, const std::vector<Expr>&)> body);

  /// Several outputs by a loop nest given directly, for sort, top-k, scatter and recurrences. `body` gets the output
  /// buffers; it may allocate, and must name its variables through `fresh`.
  std::vector<Tensor> external(std::string_view name, std::vector<TensorType> outputs,
                               function_ref<tir::Stmt(const std::vector<tir::Buffer>&)> body);

  /// Says where the stage of a tensor is to lie: the loop function's attribute `memory` (link/places.h).
  void place(const Tensor& tensor, std::string memory);

  /// A name not yet used in this graph.
  std::string fresh(std::string_view base) { return names_.fresh(base); }
  const std::deque<Stage>& stages() const { return stages_; }
  /// The stage that defines a buffer, by name; -1 if none does.
  int stage_of(const tir::Buffer& buffer) const;
  /// For each stage, whether an output is one of its tensors or depends on one.
  std::vector<bool> reachable(std::span<const Tensor> outputs) const;

 private:
  std::vector<Axis> make_axes(const std::vector<Expr>& extents, std::string_view base);
  Tensor define(Stage stage, DType dtype, std::vector<Expr> shape);
  std::deque<Stage> stages_;
  std::map<std::string, int, std::less<>> by_buffer_;
  tir::NameSupply names_;
};

/// The stages' text, for `tenon lower --to te` and error messages.
std::string print(const Graph& graph);

/// One unscheduled, schedulable PrimFunc: a serial loop nest and one block per stage in producer-first order,
/// intermediates allocated in the outer Seq, constants as AllocateConst, int64 indices. `inputs` are placeholders (every
/// reachable one is listed); an output that is a placeholder, or that is listed twice, becomes an explicit copy.
/// Unreachable stages vanish. Spec.md 7.3.
tir::PrimFunc create_prim_func(const Graph& graph, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                               std::string name);

/// Evaluates the stages naively: floats as f64 rounded to the stage's dtype when stored, integers as wrapping 64-bit.
/// `inputs` gives each placeholder's array by name. The reference meaning of operators; shares no arithmetic with
/// the loop-IR interpreter, the constant folder or a code generator.
std::vector<Array> evaluate(const Graph& graph, const std::map<std::string, Array, std::less<>>& inputs,
                            std::span<const Tensor> outputs);

}  // namespace tenon::te
