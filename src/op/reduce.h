// SPDX-License-Identifier: Apache-2.0
// Index arithmetic of operators that reduce some axes of a tensor.
#pragma once

#include "op/shape_rules.h"

namespace tenon::op {

/// Which axes of a shape are reduced, and where a result's points read it.
class ReducedAxes {
 public:
  /// `axes` are sorted and in [0, rank). With `keepdims` a reduced axis stays with extent 1.
  ReducedAxes(std::vector<Dim> shape, std::vector<int64_t> axes, bool keepdims);
  bool is_reduced(size_t axis) const;
  /// Extents of the reduced axes.
  std::vector<Dim> extents() const;
  /// The number of elements reduced into one.
  Dim count() const;
  std::vector<Dim> result_shape() const;
  /// The point of the shape behind a result's point and a point of the reduced axes.
  std::vector<Expr> point(const std::vector<Expr>& result, const std::vector<Expr>& reduced) const;
  /// Where the result of keepdims, or without, stands for a point of the shape.
  std::vector<Expr> result_point(const std::vector<Expr>& point) const;

 private:
  std::vector<Dim> shape_;
  std::vector<int64_t> axes_;
  bool keepdims_;
};

/// Sum of `body` over the reduced axes at f32 or wider, one element per point of the result.
te::Tensor sum_over(te::Graph& graph, std::string_view name, const ReducedAxes& axes, DType dtype,
                    function_ref<Expr(const std::vector<Expr>& point)> body);
/// The largest element of `x` along the reduced axes; NaN if one is NaN, and the least value if there is none.
te::Tensor max_over(te::Graph& graph, std::string_view name, const ReducedAxes& axes, const te::Tensor& x);
/// The index along one reduced axis of the largest (or smallest) element of `x`, as i64: the first one, or the last. NaN
/// counts as the largest and as the smallest, as in NumPy.
te::Tensor index_of_extreme(te::Graph& graph, std::string_view name, const ReducedAxes& axes, const te::Tensor& x, bool largest,
                            bool last);

}  // namespace tenon::op
