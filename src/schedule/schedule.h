// SPDX-License-Identifier: Apache-2.0
// Schedules: unscheduled loop functions to fast ones. A schedule constructs loops; it never changes a result.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/target.h"
#include "tir/stmt.h"

namespace tenon::schedule {

/// A constant parameter that the schedule wants stored in another layout: the packing is itself a loop function from the
/// old array (its one input) to the new one (its one output), run once when compiling. It stores each element once.
struct PackedParam {
  size_t param = 0;
  tir::PrimFunc pack;
};

struct Scheduled {
  tir::PrimFunc func;  // attribute `scheduled`; same parameters up to packed ones
  std::vector<PackedParam> packed;
  std::string explain;  // why this schedule: anchor, tile, blocks; one line each
};

struct Request {
  const tir::PrimFunc& func;
  const Target& target;
  std::vector<bool> constant_params;  // per parameter: every caller passes a constant there, so it may be packed
  int opt_level = 3;
};

class Schedule;
/// What a provider returns that took schedule steps (schedule/primitives) on a request's function. `explain` is their trace.
Scheduled by_steps(const Schedule& steps);

/// A loop function in, a scheduled one out, or nothing: declined.
using Provider = std::optional<Scheduled> (*)(const Request& request);

/// Valid for any function: the loops as they stand, one element at a time, outermost spatial loop parallel.
/// What -O0 uses.
Scheduled naive(const Request& request);

/// The built-in providers in the order they are asked; the naive one comes last.
struct NamedProvider {
  std::string_view name;
  Provider provider;
};
const std::vector<NamedProvider>& providers();

/// The first provider that accepts. At opt_level 0: naive.
Scheduled schedule(const Request& request);

}  // namespace tenon::schedule
