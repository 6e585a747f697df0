// SPDX-License-Identifier: Apache-2.0
// Legal uses of every operator on integer-valued data, over dtypes, ranks and extents: the inputs of the operator sweep.
#pragma once

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "graph/op_def.h"

namespace tenon::test {

/// The whole numbers low, low + step, …, `count` of them.
struct Values {
  int64_t low = 0, step = 1, count = 1;
};

struct OpOperand {
  TensorType type;
  Values values;
  bool constant = false;  // part of the module, not fed
};

struct OpCase {
  const graph::OpDef* op;
  std::vector<OpOperand> operands;
  graph::Attrs attrs;  // defaults filled in
};

/// One line: the operator, its operands' types and its attributes.
std::string to_string(const OpCase& use);

/// The dtypes that the sweep covers.
inline constexpr DType kSweptDTypes[] = {DType::Bool, DType::I8,  DType::U8,  DType::I32,
                                         DType::I64,  DType::F16, DType::F32, DType::F64};
inline constexpr int64_t kSweptExtents[] = {0, 1, 7, 65};
inline constexpr int64_t kSweptRanks = 6;  // 0 to 5

/// The dtype that an operator is swept over: of its first operand, but of the data for `where`.
DType swept_dtype(const OpCase& use);

/// Calls `use` with every case of an operator: each swept dtype that it takes, each rank with each extent on each axis, and
/// the attributes of its family. Nothing for an operator that no family lists.
void each_case(const graph::OpDef& op, const std::function<void(const OpCase&)>& use);

/// An array of the operand's type whose elements are drawn from its values.
Array draw(const OpOperand& operand, std::mt19937_64& random);

}  // namespace tenon::test
