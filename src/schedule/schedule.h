// SPDX-License-Identifier: Apache-2.0
// Schedules: unscheduled loop functions to fast ones. A schedule constructs loops; it never changes a result.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/target.h"
#include "schedule/decisions.h"
#include "tir/stmt.h"

namespace tenon::schedule {

/// A constant parameter that the schedule wants stored in another layout: the packing is itself a loop function from the
/// old array (its one input) to the new one (its one output), run once when compiling. It stores each element once.
struct PackedParam {
  size_t param = 0;
  tir::PrimFunc pack;
};

/// The schedule that keeps the loops.
struct KeptLoops {};
/// How a schedule came about; nothing for a function that somebody wrote.
using Origin = std::variant<std::monostate, KeptLoops, Decisions, Trace>;

struct Scheduled {
  tir::PrimFunc func;  // attribute `scheduled`; same parameters up to packed ones
  std::vector<PackedParam> packed;
  std::string explain;  // why this schedule: anchor, tile, blocks; one line each
  Origin origin = {};
};

struct GivenProvider;

struct Request {
  const tir::PrimFunc& func;
  const Target& target;
  std::vector<bool> constant_params;  // per parameter: every caller passes a constant there, so it may be packed
  int opt_level = 3;
  std::span<const GivenProvider> given = {};  // asked before the built-in providers
};

/// A loop function in, a scheduled one out, or nothing: declined.
using Provider = std::optional<Scheduled> (*)(const Request& request);

/// What a provider of the build's own answers.
struct GivenAnswer {
  Scheduled scheduled;
  bool proven = false;  // made by schedule steps, each of which keeps the meaning: not run beside the function it came from
};
/// A provider that a build was given. Several threads may call it at once.
struct GivenProvider {
  std::string name;
  std::function<std::optional<GivenAnswer>(const Request& request)> schedule;
};
/// Asks one. Throws CompileError naming it and the function if the answer has another signature (`provider-signature`), breaks a
/// rule of loop functions, gives another result than the function on small integers (`provider-result`), or is neither proven
/// nor can be run in the interpreter (`provider-unchecked`).
std::optional<Scheduled> ask(const GivenProvider& provider, const Request& request);

/// Valid for any function: the loops as they stand, one element at a time, outermost spatial loop parallel.
/// What -O0 uses.
Scheduled naive(const Request& request);

/// The built-in providers in the order they are asked; the naive one comes last.
struct NamedProvider {
  std::string_view name;
  Provider provider;
};
const std::vector<NamedProvider>& providers();

/// The first provider that accepts, those of the request first. At opt_level 0: naive.
Scheduled schedule(const Request& request);
/// The steps (schedule/steps.h) that make of the request's function what `schedule` made of it; nothing where somebody wrote it.
std::optional<Trace> trace_of(const Request& request, const Scheduled& scheduled);

}  // namespace tenon::schedule
