// SPDX-License-Identifier: Apache-2.0
// Shared flags.
#include "cli/options.h"

#include <fmt/format.h>

#include <charconv>
#include <thread>

#include "cli/output.h"

namespace tenon::cli {
namespace {

[[noreturn]] void usage(std::string message, std::string input, std::string expected) {
  throw CompileError(Diagnostic{.kind = ErrorKind::Usage,
                                .code = "usage",
                                .message = std::move(message),
                                .input = std::move(input),
                                .expected = std::move(expected)});
}

[[noreturn]] void missing(const std::string& option, const std::string& value, const std::string& what) {
  throw CompileError(Diagnostic{.kind = ErrorKind::Missing,
                                .code = "component-missing",
                                .message = fmt::format("{} `{}` is not part of this build", what, value),
                                .input = option,
                                .found = value});
}

void check_target(const std::string& target) {
  if (target.empty()) return;
  Target parsed = parse_target(target);
  if (parsed.kind != "llvm") missing("--target", parsed.kind, "back end");
}

}  // namespace

CLI::Option* add_repeated(CLI::App& command, const std::string& flag, std::vector<std::string>& values, const std::string& help) {
  return command.add_option(flag, values, help)
      ->type_size(1)
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void ModelOptions::add_to(CLI::App& command, const std::string& what) {
  const bool artifacts = what != "MODEL";
  command
      .add_option(what, path,
                  "A .onnx or .tenon file" + std::string(artifacts ? ", an artifact, or a folder of TVM's files" : ""))
      ->required();
  if (artifacts)
    command.add_flag("--allow-unknown-params", allow_unknown_params, "Leave out parameters of a TVM folder that its graph lacks");
  command.add_flag("--json", json, "Print one JSON value on stdout and nothing else there");
  command.add_option("--target", target, "What to compile for, such as \"llvm -mcpu=haswell\"; this machine by default");
  command.add_option("-O", opt_level, "Optimisation level, 0 to 3; 3 by default")->check(CLI::Range(0, 3));
  command.add_option("--threads", threads, "Threads of the run, 1 by default; the compiler's, all by default")
      ->check(CLI::Range(1, 1024));
  add_repeated(command, "--input-shapes", input_shapes, "Shape of an input, such as \"x:[1,3,224,224]\"; repeatable");
  add_repeated(command, "--keep", keep, "Make the result of this node an output too; repeatable");
  command.add_option("--dump-passes", dump_passes, "Write NNN-PASS.tenon and constants.bin into this folder");
  add_repeated(command, "--print-after", print_after, "Print the module after this pass; repeatable");
  command.add_option("--stop-after", stop_after, "Stop after this pass");
  command.add_flag("--time-passes", time_passes, "Print the time of each pass on stderr");
  command.add_option("--verify", verify, "Check the module after each pass or at the end")->check(CLI::IsMember({"each", "end"}));
  command.add_flag("--link-params", link_params, "Keep constants inside the kernels");
  add_repeated(command, "--pool", pools, "NAME[:BYTES[:ALIGNMENT]], memory to plan in; repeatable, the preferred one first");
  add_repeated(command, "--pin", pins, "NODE=POOL or NODE=POOL@OFFSET: where the result of this node is to lie; repeatable");
  command.add_option("--planner", planner, "Memory planner, one of " + planner_list());
  command.add_option("--plan-steps", plan_steps, "Search steps that the planner may take");
  command
      .add_option("--plan-time-limit-ms", plan_time_limit_ms,
                  "Stop its search after this time; the plan then depends on the machine")
      ->check(CLI::NonNegativeNumber);
  command.add_flag("--no-in-place", no_in_place, "Let no result overwrite an operand");
  command.add_flag("--keep-order", keep_order, "Run the kernels in the model's order, though another needs less memory");
  command.add_option("--cache-dir", cache_dir, "Keep the code of kernels in this folder and look for it there; none by default");
  add_repeated(command, "--external", external,
               "Let this external code generator take what it can, such as \"onednn\"; none: leave out all; repeatable");
}

driver::MemoryOptions ModelOptions::memory_options() const {
  driver::MemoryOptions memory;
  if (!pools.empty()) memory.pools.clear();
  for (const std::string& text : pools) memory.pools.push_back(parse_pool(text));
  for (const std::string& text : pins) {
    size_t equals = text.rfind('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      usage(fmt::format("the pin `{}` cannot be read", text), "--pin", "NODE=POOL or NODE=POOL@OFFSET");
    memory.pins[text.substr(0, equals)] = text.substr(equals + 1);
  }
  if (!planner.empty())  // it lives as long as the program
    memory.planner = {std::shared_ptr<const void>(), &plan::find_planner(planner)};
  memory.planner_options = {.max_steps = plan_steps, .wall_limit_ms = plan_time_limit_ms};
  memory.in_place = !no_in_place;
  memory.reorder = !keep_order;
  return memory;
}

driver::CompileOptions ModelOptions::compile_options() const {
  check_target(target);
  driver::CompileOptions options;
  for (const std::string& text : external) driver::add_external(options.external, text);
  options.target = target;
  if (opt_level >= 0) options.opt_level = opt_level;
  options.workers = threads > 0 ? threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  options.link_params = link_params;
  options.verify_each = verify == "each";
  options.verify_end = verify == "end";
  options.keep = keep;
  options.tvm.allow_unknown_params = allow_unknown_params;
  options.dump_dir = dump_passes;
  options.cache = cache_dir == "none" ? std::make_shared<lower::KernelCache>() : driver::open_cache(cache_dir);
  options.print_after = print_after;
  options.stop_after = stop_after;
  options.memory = memory_options();
  for (const std::string& text : input_shapes) {
    auto [name, shape] = parse_input_shape(text);
    if (!options.import.input_shapes.emplace(name, shape).second)
      usage(fmt::format("`{}` has two shapes", name), "--input-shapes", "one");
  }
  if (time_passes) options.on_pass = [](std::string_view pass, double ms) { note(fmt::format("{:10.2f} ms  {}", ms, pass)); };
  bool quiet = json;
  options.on_print = [quiet](std::string_view, const std::string& text) { quiet ? note(text) : print(text); };
  return options;
}

plan::Pool parse_pool(const std::string& text) {
  plan::Pool pool;
  std::vector<std::string> parts = CLI::detail::split(text, ':');
  auto number = [&](const std::string& part) {
    int64_t value = 0;
    auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || end != part.data() + part.size() || value < 0)
      usage(fmt::format("the pool `{}` cannot be read", text), "--pool", "NAME[:BYTES[:ALIGNMENT]]");
    return value;
  };
  if (parts.empty() || parts.size() > 3 || parts[0].empty())
    usage(fmt::format("the pool `{}` cannot be read", text), "--pool", "NAME[:BYTES[:ALIGNMENT]]");
  pool.name = parts[0];
  if (parts.size() > 1 && !parts[1].empty()) pool.limit = number(parts[1]);
  if (parts.size() > 2) pool.alignment = number(parts[2]);
  return pool;
}

std::string planner_list() {
  std::string names;
  for (std::string_view name : plan::planner_names()) names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

std::pair<std::string, Shape> parse_input_shape(const std::string& text) {
  size_t colon = text.rfind(":[");
  if (colon == std::string::npos || colon == 0 || text.back() != ']')
    usage(fmt::format("the shape `{}` cannot be read", text), "--input-shapes", "NAME:[1,3,224,224]");
  Shape shape;
  std::string_view list = std::string_view(text).substr(colon + 2, text.size() - colon - 3);
  while (!list.empty()) {
    int64_t extent = 0;
    while (list.starts_with(' ')) list.remove_prefix(1);
    auto [end, error] = std::from_chars(list.data(), list.data() + list.size(), extent);
    list.remove_prefix(static_cast<size_t>(end - list.data()));
    while (list.starts_with(' ')) list.remove_prefix(1);
    bool more = list.starts_with(',');
    if (more) list.remove_prefix(1);
    if (error != std::errc() || extent < 0 || more == list.empty())
      usage(fmt::format("the shape `{}` cannot be read", text), "--input-shapes", "NAME:[1,3,224,224]");
    shape.push_back(extent);
  }
  return {text.substr(0, colon), shape};
}

}  // namespace tenon::cli
