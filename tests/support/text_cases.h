// SPDX-License-Identifier: Apache-2.0
// Test cases kept as text files: an input, a line `----`, and exactly what must come out. TENON_BLESS=1 rewrites the latter.
#pragma once

#include <string>
#include <vector>

namespace tenon::testing {

struct TextCase {
  std::string path;
  std::string input;
  std::string expected;
};

/// The `.tenon` files below tests/<folder>, as sorted paths relative to it.
std::vector<std::string> text_cases(const std::string& folder);
/// A gtest failure unless the file starts with a comment that says what it shows.
TextCase read_text_case(const std::string& folder, const std::string& relative_path);
/// Compares, or rewrites the file when blessing.
void expect_text(const TextCase& text_case, const std::string& got);
/// `fuse/two_convs.tenon` as a gtest name: `fuse_two_convs`.
std::string test_name(const std::string& relative_path);

}  // namespace tenon::testing
