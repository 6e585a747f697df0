// SPDX-License-Identifier: Apache-2.0
// One NumPy array as bytes: the `.npy` format, versions 1 to 3.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/array.h"

namespace tenon::cli {

/// `name` goes into errors. A row-major array stays a view that `owner` keeps alive.
Array read_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& name);
/// What stands before the array's bytes; its length is a multiple of 64.
std::string npy_header(const Array& array);

}  // namespace tenon::cli
