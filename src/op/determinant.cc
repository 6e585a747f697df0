// SPDX-License-Identifier: Apache-2.0
// ONNX's Det: the determinants of small matrices, written out along the first row.
#include <fmt/format.h>

#include "op/all_ops.h"
#include "op/onnx_build.h"
#include "op/ops.h"

namespace tenon::op {
namespace {

// The terms grow with the factorial.
constexpr int64_t kMaxExtent = 4;

/// [row][column], each one element of every matrix.
using Matrix = std::vector<std::vector<ValueId>>;

ValueId determinant(Builder& builder, const Matrix& m) {
  if (m.size() == 1) return m[0][0];
  std::optional<ValueId> sum;
  for (size_t column = 0; column < m.size(); ++column) {
    Matrix minor;
    for (size_t row = 1; row < m.size(); ++row) {
      minor.push_back(m[row]);
      minor.back().erase(minor.back().begin() + static_cast<ptrdiff_t>(column));
    }
    ValueId term = builder.call1(multiply, {m[0][column], determinant(builder, minor)});
    if (!sum)
      sum = term;
    else
      sum = builder.call1(column % 2 ? subtract : add, {*sum, term});
  }
  return *sum;
}

std::vector<ValueId> import_det(OnnxNode& node, Builder& builder) {
  const TensorType& x = node.type(0);
  const int64_t rank = x.rank();
  const int64_t* extent = rank < 2 ? nullptr : tir::as_int(x.dim(rank - 1));
  if (rank < 2 || !structural_equal(x.dim(rank - 2), x.dim(rank - 1)))
    node.malformed("the input holds no square matrices", "[…, n, n]", to_string(x));
  if (!extent || *extent < 1 || *extent > kMaxExtent)
    node.unsupported(fmt::format("matrices of {}, larger than {}", to_string(x), kMaxExtent));
  auto pick = [&](ValueId value, int64_t axis, int64_t index) {
    ValueId at = builder.constant(array_of<int64_t>(DType::I64, {}, {index}), "index");
    return builder.call1(gather, {value, at}, {{"axis", axis}});
  };
  Matrix elements;
  for (int64_t row = 0; row < *extent; ++row) {
    ValueId values = pick(node.in(0), rank - 2, row);
    elements.emplace_back();
    for (int64_t column = 0; column < *extent; ++column) elements.back().push_back(pick(values, rank - 2, column));
  }
  return {determinant(builder, elements)};
}

}  // namespace

Family determinant_family() { return {{}, {{"Det", 11, import_det}}}; }

}  // namespace tenon::op
