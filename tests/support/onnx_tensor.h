// SPDX-License-Identifier: Apache-2.0
// ONNX's test data: arrays from `.pb` files, and the comparison its backend tests make.
#pragma once

#include <string>

#include "base/array.h"

namespace tenon::test {

/// The TensorProto that a file holds.
Array read_tensor_file(const std::string& path);

/// What differs first between two arrays, in words; empty if nothing does. Dtypes, shapes and integers are exact; floats
/// agree within atol + rtol * |expected|, and NaN equals NaN.
std::string difference(const Array& found, const Array& expected, double rtol = 1e-3, double atol = 1e-7);

}  // namespace tenon::test
