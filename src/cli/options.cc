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
  command.add_option("--cache-dir", cache_dir, "Keep the code of kernels in this folder and look for it there; none by default");
  command.add_option("--external", external, "External code generator; none by default");
}

driver::CompileOptions ModelOptions::compile_options() const {
  check_target(target);
  if (external != "none") missing("--external", external, "external code generator");
  driver::CompileOptions options;
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
