// SPDX-License-Identifier: Apache-2.0
// NumPy's `.npz`: arrays by name in a zip file.
#pragma once

#include <map>
#include <string>

#include "base/array.h"

namespace tenon::cli {

using Arrays = std::map<std::string, Array, std::less<>>;

/// Reads every array of a file, stored or deflated; a column-major one is put in row-major order. A two-byte void dtype is
/// bf16, as ml_dtypes writes it. Throws CompileError: file-system, malformed (`npz-damaged`), or unsupported (`npz-dtype`) naming
/// the array.
Arrays read_npz(const std::string& path);
/// Writes the arrays uncompressed and the same bytes each time.
void write_npz(const std::string& path, const Arrays& arrays);

}  // namespace tenon::cli
