// SPDX-License-Identifier: Apache-2.0
// Parsing of the command line, and the one place where errors become exit codes.
#include "cli/cli.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <new>

#include "cli/output.h"
#include "driver/reproducer.h"

namespace tenon::cli {
namespace {

void interrupted(int signal) { _exit(128 + signal); }

/// Prints the error for people, and for scripts if they asked; returns the exit code.
int fail(std::span<const Diagnostic> diagnostics, const std::string& text, bool json) {
  note(text);
  if (json) print_json(error_json(diagnostics));
  return static_cast<int>(diagnostics.front().kind);
}

int fail(Diagnostic diagnostic, bool json) {
  std::string text = render(diagnostic);
  text.pop_back();
  return fail(std::span(&diagnostic, 1), text, json);
}

int fail_internal_error(const std::string& message, const std::string& advice, bool json) {
  note(message);
  note("This is a mistake in Tenon, not in your model. " + advice);
  if (json) {
    Diagnostic diagnostic{.kind = ErrorKind::Internal, .code = "internal-error", .message = message};
    print_json(error_json(std::span(&diagnostic, 1)));
  }
  return static_cast<int>(ErrorKind::Internal);
}

int parse_and_run(int argc, const char* const* argv, bool json) {
  CLI::App app("Tenon compiles neural networks to machine code, in stages that anyone can look at.", "tenon");
  app.require_subcommand(1);
  Action action;
  for (auto add : {add_compile, add_run, add_bench, add_profile, add_lower, add_opt, add_plan, add_inspect, add_verify, add_tasks,
                   add_reduce, add_lists, add_explain, add_doctor})
    add(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return fail(Diagnostic{.kind = ErrorKind::Usage,
                           .code = "usage",
                           .message = error.what(),
                           .hint = "`tenon --help` and `tenon COMMAND --help` list what there is"},
                json);
  }
  return action();
}

}  // namespace

int run(int argc, const char* const* argv) {
  std::signal(SIGINT, interrupted);
  std::signal(SIGTERM, interrupted);
  bool json = std::any_of(argv, argv + argc, [](const char* argument) { return std::string_view(argument) == "--json"; });
  try {
    return parse_and_run(argc, argv, json);
  } catch (const CompileError& error) {
    return fail(error.diagnostics(), error.what(), json);
  } catch (const std::bad_alloc&) {
    return fail(Diagnostic{.kind = ErrorKind::Limit, .code = "out-of-memory", .message = "there is not enough memory"}, json);
  } catch (const driver::Reproduced& error) {
    return fail_internal_error(error.what(), "Report it with the folder of the reproducer.", json);
  } catch (const std::exception& error) {
    return fail_internal_error(error.what(), "Run the command again with --dump-passes DIR and report it with that folder.",
                               json);
  }
}

}  // namespace tenon::cli
