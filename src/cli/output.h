// SPDX-License-Identifier: Apache-2.0
// Everything that is printed: data on stdout, everything else on stderr.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "base/diagnostic.h"

namespace tenon::cli {

using Json = nlohmann::ordered_json;

/// Data, to stdout.
void print(std::string_view text);
/// One JSON value and a line end, to stdout. Text that is not UTF-8 comes with replacement characters.
void print_json(const Json& value);
/// A line for people, to stderr.
void note(std::string_view line);

/// `{"error": {…}}` of the first diagnostic; the others stand in `more`.
Json error_json(std::span<const Diagnostic> diagnostics);

}  // namespace tenon::cli
