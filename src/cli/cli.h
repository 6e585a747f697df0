// SPDX-License-Identifier: Apache-2.0
// The command line: one function for the whole, one for each command.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace tenon::cli {

/// Runs a command line and returns the exit code. Catches everything.
int run(int argc, const char* const* argv);

/// What a command does once its line is parsed; returns the exit code.
using Action = std::function<int()>;

// Each adds one command to `app`, which sets `action` when it is chosen.
void add_compile(CLI::App& app, Action& action);
void add_run(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_profile(CLI::App& app, Action& action);
void add_lower(CLI::App& app, Action& action);
void add_opt(CLI::App& app, Action& action);
void add_plan(CLI::App& app, Action& action);
void add_inspect(CLI::App& app, Action& action);
void add_verify(CLI::App& app, Action& action);
void add_tasks(CLI::App& app, Action& action);
void add_reduce(CLI::App& app, Action& action);
void add_lists(CLI::App& app, Action& action);  // ops, passes, targets
void add_explain(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);

}  // namespace tenon::cli
