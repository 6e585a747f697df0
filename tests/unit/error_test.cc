// SPDX-License-Identifier: Apache-2.0
// Error tests: tests/errors/<code>_<case>.tenon holds a text that is refused, `----`, and the diagnostics as rendered.
#include <gtest/gtest.h>

#include "graph/text.h"
#include "op/all_ops.h"
#include "support/round_trip.h"
#include "support/text_cases.h"

namespace tenon {
namespace {

class ErrorText : public ::testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ErrorText);

/// Whether a file is named `<code>_<case>.tenon`.
bool names(const std::string& file, const std::string& code) { return file.starts_with(code + '_'); }

TEST_P(ErrorText, IsRefusedWithTheDiagnosticsBelowTheLine) {
  testing::TextCase wrong = testing::read_text_case("errors", GetParam());
  std::string rendered = testing::compile_error([&] { graph::parse(GetParam(), wrong.input, op::all_ops()); });
  testing::expect_text(wrong, rendered);
  size_t code = rendered.find("  [");
  while (code != rendered.npos && !names(GetParam(), rendered.substr(code + 3, rendered.find(']', code) - code - 3)))
    code = rendered.find("  [", code + 1);
  EXPECT_NE(code, rendered.npos) << "the file is named after a code that is reported";
}

INSTANTIATE_TEST_SUITE_P(File, ErrorText, ::testing::ValuesIn(testing::text_cases("errors")),
                         [](const auto& info) { return testing::test_name(info.param); });

}  // namespace
}  // namespace tenon
