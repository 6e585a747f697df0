// SPDX-License-Identifier: Apache-2.0
// Steps as text: one line each, `split conv.i0 6 outer=i_o inner=i_i`. `#` starts a comment to the end of the line.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "tir/stmt.h"

namespace tenon::schedule {

/// A primitive's name, its arguments in order, and named ones. Arguments are names, integers or quoted strings.
struct Step {
  std::string primitive;
  std::vector<std::string> args;
  std::map<std::string, std::string, std::less<>> named;
  Span span;  // where it was read; not printed

  bool operator==(const Step& other) const { return primitive == other.primitive && args == other.args && named == other.named; }
};
using Trace = std::vector<Step>;

/// The loop function of this name, or null.
using IntrinsicLookup = std::function<const tir::PrimFunc*(std::string_view name)>;

std::string print(const Step& step);
std::string print(const Trace& trace);
/// Reads what print wrote. Throws CompileError at the first token that is no part of a step.
Trace parse_trace(std::string_view file, std::string_view text);

}  // namespace tenon::schedule
