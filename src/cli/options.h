// SPDX-License-Identifier: Apache-2.0
// Flags that several commands share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "driver/driver.h"

namespace tenon::cli {

/// A flag that may be repeated, one value each time.
CLI::Option* add_repeated(CLI::App& command, const std::string& flag, std::vector<std::string>& values, const std::string& help);

/// The model or artifact, and how to compile it.
struct ModelOptions {
  std::string path;
  bool json = false;
  std::string target, dump_passes, stop_after, verify, cache_dir = "none";
  int opt_level = -1, threads = 0;
  std::vector<std::string> input_shapes, print_after, keep, pools, pins, external;
  std::string planner;
  uint64_t plan_steps = 0;
  int64_t plan_time_limit_ms = 0;
  bool no_in_place = false, keep_order = false;
  bool link_params = false, time_passes = false, allow_unknown_params = false;

  /// `what` names the positional argument: `MODEL` or `MODEL_OR_ARTIFACT`.
  void add_to(CLI::App& command, const std::string& what);
  /// Checks the flags. Throws CompileError (usage, or missing for what this build lacks).
  driver::CompileOptions compile_options() const;
  driver::MemoryOptions memory_options() const;
  /// Threads of a run.
  int run_threads() const { return threads > 0 ? threads : 1; }
};

/// `NAME`, `NAME:LIMIT` or `NAME:LIMIT:ALIGNMENT`, the limit empty for none.
plan::Pool parse_pool(const std::string& text);
std::string planner_list();

/// `NAME:[1,3,224,224]`; the name ends at the last `:[`.
std::pair<std::string, Shape> parse_input_shape(const std::string& text);

}  // namespace tenon::cli
