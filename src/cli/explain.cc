// SPDX-License-Identifier: Apache-2.0
// `tenon explain CODE`
#include <fmt/format.h>

#include <algorithm>

#include "cli/cli.h"
#include "cli/explain_table.h"
#include "cli/output.h"

namespace tenon::cli {
namespace {

int explain(const std::string& code, bool json) {
  std::optional<Explanation> found = find_explanation(code);
  if (!found)
    throw CompileError(Diagnostic{.kind = ErrorKind::Usage,
                                  .code = "unknown-code",
                                  .message = fmt::format("there is no error code `{}`", code),
                                  .input = code,
                                  .hint = "`tenon explain` without a code lists them all"});
  if (json)
    print_json(Json{{"code", code}, {"meaning", found->meaning}, {"next_step", found->next_step}});
  else
    print(fmt::format("{}: {}\nnext step: {}\n", code, found->meaning, found->next_step));
  return 0;
}

int list(bool json) {
  Json codes = Json::array();
  std::string text;
  for (const Explanation& e : all_explanations()) {
    codes.push_back({{"code", e.code}, {"meaning", e.meaning}, {"next_step", e.next_step}});
    text += fmt::format("{:<28} {}\n", e.code, e.meaning);
  }
  json ? print_json(codes) : print(text);
  return 0;
}

}  // namespace

void add_explain(CLI::App& app, Action& action) {
  auto code = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App* sub = app.add_subcommand("explain", "Say what an error code means and what to do");
  sub->add_option("CODE", *code, "The code in brackets at the end of an error; without one, all codes");
  sub->add_flag("--json", *json, "Print one JSON value");
  sub->callback([&action, code, json] { action = [code, json] { return code->empty() ? list(*json) : explain(*code, *json); }; });
}

}  // namespace tenon::cli
