// SPDX-License-Identifier: Apache-2.0
// Printing.
#include "cli/output.h"

#include <cstdio>

namespace tenon::cli {

void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void print_json(const Json& value) { print(value.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"); }

void note(std::string_view line) {
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fputc('\n', stderr);
}

static Json to_json(const Diagnostic& d) {
  return {{"code", d.code},         {"message", d.message}, {"node", d.node}, {"input", d.input},
          {"expected", d.expected}, {"found", d.found},     {"hint", d.hint}};
}

Json error_json(std::span<const Diagnostic> diagnostics) {
  Json error = to_json(diagnostics.front());
  for (const Diagnostic& d : diagnostics.subspan(1)) error["more"].push_back(to_json(d));
  return {{"error", error}};
}

}  // namespace tenon::cli
