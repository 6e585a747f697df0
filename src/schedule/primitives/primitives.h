// SPDX-License-Identifier: Apache-2.0
// The steps themselves: a function in, a function that computes the same out, or a refusal (CompileError). Their rules stand at
// the methods of Schedule. New names are given and free.
#pragma once

#include <map>

#include "schedule/primitives/analysis.h"

namespace tenon::schedule {

/// A block with new loops around it, over a part of each of its variables: [base, base + extent), all of it where `part` has
/// none. Points outside the variables' domain are left out by a condition.
Stmt nest_over(const tir::Block& block, const std::map<std::string, Interval>& part, tir::NameSupply& names,
               const tir::Ranges& ranges);
/// Refuses what a step did to the loops and buffers of another part: a parallel or vectorized loop whose iterations were
/// independent and no longer are, or a buffer whose scope fitted and no longer does.
void require_kinds_kept(const PrimFunc& before, const PrimFunc& after);

namespace step {

using Names = std::vector<std::string>;

PrimFunc split(const PrimFunc& func, std::string_view loop, int64_t factor, const std::string& outer, const std::string& inner);
PrimFunc fuse(const PrimFunc& func, std::string_view outer, std::string_view inner, const std::string& into);
PrimFunc reorder(const PrimFunc& func, const Names& loops);
PrimFunc tile(const PrimFunc& func, const Names& loops, const std::vector<int64_t>& factors);

PrimFunc vectorize(const PrimFunc& func, std::string_view loop);
PrimFunc unroll(const PrimFunc& func, std::string_view loop);
PrimFunc parallel(const PrimFunc& func, std::string_view loop);
PrimFunc bind(const PrimFunc& func, std::string_view loop, std::string_view axis);

PrimFunc compute_inline(const PrimFunc& func, std::string_view block);
PrimFunc reverse_compute_inline(const PrimFunc& func, std::string_view block);
PrimFunc compute_at(const PrimFunc& func, std::string_view block, std::string_view loop);
PrimFunc reverse_compute_at(const PrimFunc& func, std::string_view block, std::string_view loop);

PrimFunc cache_read(const PrimFunc& func, std::string_view block, std::string_view buffer, std::string_view scope,
                    const std::string& name);
PrimFunc cache_write(const PrimFunc& func, std::string_view block, std::string_view buffer, std::string_view scope,
                     const std::string& name);
PrimFunc set_scope(const PrimFunc& func, std::string_view buffer, std::string_view scope);

PrimFunc decompose_reduction(const PrimFunc& func, std::string_view block, std::string_view loop);
PrimFunc rfactor(const PrimFunc& func, std::string_view block, std::string_view loop, int64_t axis, const std::string& name);

PrimFunc transform_layout(const PrimFunc& func, std::string_view buffer, const std::string& map);
PrimFunc pad(const PrimFunc& func, std::string_view block, const std::vector<int64_t>& multiples);

PrimFunc tensorize(const PrimFunc& func, std::string_view loop, const PrimFunc& description, const PrimFunc& implementation);

}  // namespace step
}  // namespace tenon::schedule
