// SPDX-License-Identifier: Apache-2.0
// `tenon run MODEL_OR_ARTIFACT`
#include <fmt/format.h>

#include "base/compare.h"
#include "base/hash.h"
#include "cli/cli.h"
#include "cli/model.h"
#include "cli/output.h"

namespace tenon::cli {
namespace {

struct RunCommand {
  ModelOptions model;
  InputOptions inputs;
  std::string output, check;
  bool debug_memory = false;
  Tolerance tolerance;
};

[[noreturn]] void check_failed(std::string message, const std::string& name, std::string expected, std::string found) {
  throw CompileError(Diagnostic{.kind = ErrorKind::CheckFailed,
                                .code = "check-failed",
                                .message = std::move(message),
                                .input = name,
                                .expected = std::move(expected),
                                .found = std::move(found)});
}

std::string type_text(const Array& array) { return fmt::format("{}{}", tenon::name(array.dtype), to_string(array.shape)); }

/// Throws when an output differs from the array of its name; returns the largest difference of all.
double check_outputs(const RunCommand& command, const Arrays& outputs) {
  double max_abs = 0;
  for (const auto& [name, want] : read_npz(command.check)) {
    auto got = outputs.find(name);
    if (got == outputs.end())
      throw CompileError(
          Diagnostic{.kind = ErrorKind::Malformed,
                     .code = "output-unknown",
                     .message = fmt::format("`{}` holds `{}`, which is no output of the model", command.check, name),
                     .input = name});
    if (got->second.dtype != want.dtype || got->second.shape != want.shape)
      check_failed(fmt::format("output `{}` is {}", name, type_text(got->second)), name, type_text(want), type_text(got->second));
    Difference difference = compare(got->second, want, command.tolerance);
    max_abs = std::max(max_abs, difference.max_abs);
    if (difference.count > 0)
      check_failed(fmt::format("{} elements of output `{}` differ by up to {:.6g}; the first, element {}, is {:.9g}",
                               difference.count, name, difference.max_abs, difference.index, difference.got),
                   name, fmt::format("{:.9g}", difference.want), fmt::format("{:.9g}", difference.got));
  }
  return max_abs;
}

void report(const RunCommand& command, const runtime::Session& session, const Arrays& outputs, std::optional<double> max_abs) {
  Json list = Json::array();
  std::string text;
  for (const runtime::TensorSpec& spec : session.program().outputs) {
    const Array& array = outputs.find(spec.name)->second;
    std::string_view bytes(reinterpret_cast<const char*>(array.bytes.data()), array.bytes.size());
    list.push_back({{"name", spec.name},
                    {"dtype", tenon::name(spec.dtype)},
                    {"shape", spec.shape},
                    {"xxh3", fmt::format("{:016x}", hash64(bytes))}});
    text += summary(spec.name, array);
  }
  if (!command.model.json) {
    print(text);
    if (max_abs) note(fmt::format("check passed; largest difference {:.6g}", *max_abs));
    return;
  }
  Json json{{"outputs", list}};
  json["max_abs_difference"] = max_abs ? Json(*max_abs) : Json(nullptr);
  print_json(json);
}

int run_once(const RunCommand& command) {
  ReadyModel ready = make_ready(command.model, Inputs(command.inputs), command.debug_memory);
  ready.session->run();
  Arrays outputs = outputs_of(*ready.session);
  if (!command.output.empty()) write_npz(command.output, outputs);
  std::optional<double> max_abs;
  if (!command.check.empty()) max_abs = check_outputs(command, outputs);
  report(command, *ready.session, outputs, max_abs);
  return 0;
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  auto command = std::make_shared<RunCommand>();
  CLI::App* sub = app.add_subcommand("run", "Run a model or an artifact once");
  command->model.add_to(*sub, "MODEL_OR_ARTIFACT");
  command->inputs.add_to(*sub);
  sub->add_option("-o,--output", command->output, "Write the outputs by name, a .npz file");
  sub->add_option("--check", command->check, "Compare the outputs with this .npz file; exit 1 if they differ");
  sub->add_option("--rtol", command->tolerance.rtol, "Relative tolerance of --check");
  sub->add_option("--atol", command->tolerance.atol, "Absolute tolerance of --check");
  sub->add_flag("--debug-memory", command->debug_memory,
                "Find kernels that read or write what is not theirs; slow. Exits 1 naming the step");
  sub->callback([&action, command] { action = [command] { return run_once(*command); }; });
}

}  // namespace tenon::cli
