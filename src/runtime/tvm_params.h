// SPDX-License-Identifier: Apache-2.0
// TVM's parameter file: arrays by name, little endian.
//
//   list magic, 0 | count, names | count, arrays in the order of the names
//   array: magic, 0 | device | rank, type | extents | bytes, data
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/array.h"

namespace tenon::runtime::tvm {

using Params = std::map<std::string, Array, std::less<>>;

/// Writes the arrays sorted by name. Throws CompileError (file-system).
void write_params(const std::string& path, const Params& params);
/// The arrays are views that `owner` keeps alive, perhaps unaligned; no bytes hold no arrays. Checks every count and size
/// against the bytes left before it allocates. Throws CompileError: malformed (`tvm-params`) saying what is wrong at which
/// byte, unsupported (`tvm-unsupported`) for an element type or device that we do not have. `path` is what errors name.
Params read_params(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner, const std::string& path);

}  // namespace tenon::runtime::tvm
