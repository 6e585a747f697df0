// SPDX-License-Identifier: Apache-2.0
// Options of generators.
#include <fmt/format.h>

#include "base/diagnostic.h"
#include "external/external.h"

namespace tenon::external {

std::string take_option(Options& options, std::string_view key, std::string otherwise) {
  auto option = options.find(key);
  if (option == options.end()) return otherwise;
  std::string value = std::move(option->second);
  options.erase(option);
  return value;
}

void refuse_options(const Options& left, std::string_view generator, std::string_view known) {
  if (left.empty()) return;
  const auto& [key, value] = *left.begin();
  throw CompileError(Diagnostic{.kind = ErrorKind::Usage,
                                .code = "external-option",
                                .message = fmt::format("external code generator `{}` has no option `-{}`", generator, key),
                                .input = "--external",
                                .expected = std::string(known),
                                .found = fmt::format("-{}={}", key, value)});
}

void refuse_option_value(std::string_view key, std::string_view found, std::string_view expected) {
  throw CompileError(Diagnostic{.kind = ErrorKind::Usage,
                                .code = "external-option",
                                .message = fmt::format("option `-{}` of an external code generator cannot be `{}`", key, found),
                                .input = "--external",
                                .expected = std::string(expected),
                                .found = std::string(found)});
}

}  // namespace tenon::external
