// SPDX-License-Identifier: Apache-2.0
// `tenon doctor`: what this build and this machine are, and whether compiled code runs here.
#include <fmt/format.h>

#include <thread>

#include "cli/cli.h"
#include "cli/output.h"
#include "codegen/backend.h"
#include "driver/driver.h"
#include "graph/text.h"
#include "op/all_ops.h"
#include "runtime/component.h"
#include "runtime/session.h"

namespace tenon::cli {
namespace {

constexpr std::string_view kProbe = R"(fn @main(%0: f32[8] "x") -> ("y") {
  %1 = add(%0, %0) : f32[8]
  return %1
}
)";

/// Compiles and runs a small model; returns what went wrong, or nothing.
std::string probe() {
  try {
    driver::CompileOptions options;
    graph::Module module = graph::parse("probe", kProbe, op::all_ops());
    runtime::Session session(driver::load(driver::build(driver::run_pipeline(std::move(module), options), options)));
    session.set_input("x", array_of<float>(DType::F32, {8}, {1, 2, 3, 4, 5, 6, 7, 8}));
    session.run();
    return session.output(0).read<float>(7) == 16 ? "" : "a compiled sum is wrong";
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// The version of what is behind a component.
std::string component(const std::string& name) {
  try {
    return runtime::open_component(name).version;
  } catch (const CompileError&) {
    return "not installed";
  }
}

int doctor(bool json) {
  std::string problem = probe();
  Target host = host_target();
  Json report{{"version", "0.1.0"},
              {"llvm", codegen::llvm_version()},
              {"onednn", component("onednn")},
              {"target", host.text()},
              {"features", host_features()},
              {"threads", std::thread::hardware_concurrency()},
              {"code_runs", problem.empty()},
              {"problem", problem}};
  if (json)
    print_json(report);
  else
    for (const auto& [key, value] : report.items())
      print(fmt::format("{:<10} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump()));
  return problem.empty() ? 0 : static_cast<int>(ErrorKind::CheckFailed);
}

}  // namespace

void add_doctor(CLI::App& app, Action& action) {
  auto json = std::make_shared<bool>(false);
  CLI::App* sub = app.add_subcommand("doctor", "Check that this build works on this machine");
  sub->add_flag("--json", *json, "Print one JSON value");
  sub->callback([&action, json] { action = [json] { return doctor(*json); }; });
}

}  // namespace tenon::cli
