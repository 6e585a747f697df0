// SPDX-License-Identifier: Apache-2.0
// A program as bytes: little endian, every count and length before what it counts.
#pragma once

#include <span>
#include <string>

#include "runtime/program.h"

namespace tenon::runtime {

std::string serialize(const Program& program);
/// Checks every length, index and offset. Throws CompileError (malformed, `artifact-damaged`).
Program deserialize(std::span<const std::byte> bytes);

}  // namespace tenon::runtime
