// SPDX-License-Identifier: Apache-2.0
// The steps themselves: a function in, a function that computes the same out, or a refusal (CompileError). Their rules stand at
// the methods of Schedule. New names are given and free.
#pragma once

#include <span>

#include "schedule/primitives/analysis.h"

namespace tenon::schedule::step {

using Names = std::vector<std::string>;

PrimFunc split(const PrimFunc& func, std::string_view loop, int64_t factor, const std::string& outer, const std::string& inner);
PrimFunc fuse(const PrimFunc& func, std::string_view outer, std::string_view inner, const std::string& into);
PrimFunc reorder(const PrimFunc& func, const Names& loops);

PrimFunc vectorize(const PrimFunc& func, std::string_view loop);
PrimFunc unroll(const PrimFunc& func, std::string_view loop);
PrimFunc parallel(const PrimFunc& func, std::string_view loop);

}  // namespace tenon::schedule::step
