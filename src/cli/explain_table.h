// SPDX-License-Identifier: Apache-2.0
// Every error code with what it means and what to do.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tenon::cli {

struct Explanation {
  std::string_view code, meaning, next_step;
};

/// Sorted by code. Constraints of operators (`conv-C2`) are not in it.
std::span<const Explanation> all_explanations();
/// Knows constraints of operators too.
std::optional<Explanation> find_explanation(std::string_view code);

}  // namespace tenon::cli
