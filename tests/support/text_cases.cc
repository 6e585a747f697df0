// SPDX-License-Identifier: Apache-2.0
// Reading and blessing of test cases kept as text files.
#include "support/text_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "base/mapped_file.h"
#include "base/write_file.h"
#include "support/paths.h"

namespace tenon::testing {
namespace {

constexpr std::string_view kSeparator = "\n----\n";

std::filesystem::path root(const std::string& folder) { return std::filesystem::path(tests_dir()) / folder; }

}  // namespace

std::vector<std::string> text_cases(const std::string& folder) {
  std::vector<std::string> files;
  if (!std::filesystem::exists(root(folder))) return files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root(folder)))
    if (entry.path().extension() == ".tenon") files.push_back(entry.path().lexically_relative(root(folder)).string());
  std::sort(files.begin(), files.end());
  return files;
}

TextCase read_text_case(const std::string& folder, const std::string& relative_path) {
  TextCase out{.path = (root(folder) / relative_path).string(), .input = {}, .expected = {}};
  MappedFile file = map_file(out.path);
  std::string_view text(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
  EXPECT_TRUE(text.starts_with("# ")) << out.path << " starts with a comment that says what it shows";
  size_t end = text.find(kSeparator);
  out.input = text.substr(0, end == text.npos ? end : end + 1);
  if (end != text.npos) out.expected = text.substr(end + kSeparator.size());
  return out;
}

void expect_text(const TextCase& text_case, const std::string& got) {
  const char* bless = std::getenv("TENON_BLESS");
  if (bless && std::string_view(bless) == "1")
    write_file(text_case.path, text_case.input + std::string(kSeparator.substr(1)) + got);
  else
    EXPECT_EQ(got, text_case.expected) << text_case.path;
}

std::string test_name(const std::string& relative_path) {
  std::string name = std::filesystem::path(relative_path).replace_extension().string();
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

}  // namespace tenon::testing
