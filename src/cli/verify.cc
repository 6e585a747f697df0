// SPDX-License-Identifier: Apache-2.0
// `tenon verify MODEL`
#include <fmt/format.h>

#include "cli/cli.h"
#include "cli/model.h"
#include "cli/output.h"
#include "driver/verify.h"

namespace tenon::cli {
namespace {

struct VerifyCommand {
  ModelOptions model;
  InputOptions inputs;
  Tolerance tolerance;
};

std::vector<runtime::TensorSpec> input_specs(const graph::Module& module) {
  std::vector<runtime::TensorSpec> specs;
  for (const graph::Param& param : module.functions.at("main").params) {
    if (!param.type.is_static())
      throw CompileError(
          Diagnostic{.kind = ErrorKind::Unsupported,
                     .code = "dynamic-shape",
                     .message = fmt::format("input `{}` has the shape {}", param.name, to_string(param.type.shape)),
                     .input = param.name,
                     .expected = "a shape known when compiling",
                     .hint = "fix it with --input-shapes, or give the input with -i"});
    specs.push_back({param.name, param.type.dtype, param.type.static_shape()});
  }
  return specs;
}

Json to_json(const driver::FirstDifference& found) {
  const Difference& d = found.difference;
  return {{"pass", found.pass}, {"opt_level", found.opt_level}, {"node", found.node}, {"value", found.value}, {"index", d.index},
          {"got", d.got},       {"expected", d.want},           {"ulp", d.ulp}};
}

int verify(const VerifyCommand& command) {
  refuse_stop_after(command.model);
  driver::CompileOptions options = command.model.compile_options();
  Inputs inputs(command.inputs);
  inputs.fix(command.model.path, options.import);
  graph::Module module = driver::load_module(command.model.path, options);
  if (!module.functions.contains("main"))
    throw CompileError(
        Diagnostic{.kind = ErrorKind::Malformed, .code = "no-main", .message = "the module has no function `main`"});
  std::vector<Array> arrays = inputs.list(input_specs(module));
  auto found = driver::verify_module(module, arrays, options, command.tolerance);
  if (command.model.json)
    print_json(Json{{"ok", !found}, {"first_difference", found ? to_json(*found) : Json(nullptr)}});
  else if (!found)
    print("ok: interpreter, -O0 and optimised code agree\n");
  if (!found) return 0;
  note(fmt::format("-O{}: pass `{}` changes node `{}` ({}): element {} is {:.9g}, expected {:.9g}", found->opt_level, found->pass,
                   found->node, found->value, found->difference.index, found->difference.got, found->difference.want));
  return static_cast<int>(ErrorKind::CheckFailed);
}

}  // namespace

void add_verify(CLI::App& app, Action& action) {
  auto command = std::make_shared<VerifyCommand>();
  CLI::App* sub = app.add_subcommand("verify", "Compare optimised code, unoptimised code and the interpreter");
  command->model.add_to(*sub, "MODEL");
  command->inputs.add_to(*sub);
  sub->add_option("--rtol", command->tolerance.rtol, "Relative tolerance");
  sub->add_option("--atol", command->tolerance.atol, "Absolute tolerance");
  sub->callback([&action, command] { action = [command] { return verify(*command); }; });
}

}  // namespace tenon::cli
