// SPDX-License-Identifier: Apache-2.0
// Runs one operator on arrays, for tests of operators.
#pragma once

#include <initializer_list>

#include "graph/interpret.h"

namespace tenon::test {

/// The results of one call, by the graph interpreter. An operator with a native fold must fold to the same arrays (floats
/// to within 1e-6 relative), or the test fails.
std::vector<Array> run_op(const graph::OpDef& op, const std::vector<Array>& inputs, graph::Attrs attrs = {});
Array run_op1(const graph::OpDef& op, const std::vector<Array>& inputs, graph::Attrs attrs = {});

/// Arrays from values given as double: floats are rounded, integers wrap.
Array array(DType dtype, Shape shape, const std::vector<double>& values);
Array f32(Shape shape, const std::vector<double>& values);

/// The types an operator infers for operands of these types.
std::vector<TensorType> infer_op(const graph::OpDef& op, const std::vector<TensorType>& inputs, graph::Attrs attrs = {});
/// The code of the error that inference throws, empty if it throws none.
std::string infer_error(const graph::OpDef& op, const std::vector<TensorType>& inputs, graph::Attrs attrs = {});

/// Fails the test naming what differs; integers and shapes are exact.
void expect_array(const Array& found, const Array& expected, double rtol = 1e-6, double atol = 1e-7);

}  // namespace tenon::test
