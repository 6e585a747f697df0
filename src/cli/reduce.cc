// SPDX-License-Identifier: Apache-2.0
// `tenon reduce FILE --check CMD`: the smallest graph on which a command still fails in the same way.
#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdlib>

#include "base/temporary_folder.h"
#include "base/write_file.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/output.h"
#include "driver/reduce.h"
#include "graph/text.h"

namespace tenon::cli {
namespace {

struct ReduceCommand {
  ModelOptions model;
  std::string check, output;
};

/// The exit status of the command on a file, its output dropped.
int status_of(const std::string& check, const std::string& file) {
  size_t place = check.find("{}");
  std::string line = place == std::string::npos ? check + " '" + file + "'" : check;
  if (place != std::string::npos) line.replace(place, 2, "'" + file + "'");
  int status = std::system(("( " + line + " ) >/dev/null 2>&1").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

size_t nodes_of(const graph::Module& module) { return module.functions.find("main")->second.nodes.size(); }

int reduce_model(const ReduceCommand& command) {
  driver::CompileOptions options = command.model.compile_options();
  graph::Module module = driver::load_module(command.model.path, options);
  if (!options.stop_after.empty()) module = driver::run_pipeline(std::move(module), options);
  TemporaryFolder folder;
  std::string scratch = folder.file("candidate.tenon");
  graph::write_module(scratch, module);  // its constants serve every candidate
  int status = status_of(command.check, scratch);
  if (status == 0)
    throw CompileError(Diagnostic{.kind = ErrorKind::Usage,
                                  .code = "nothing-to-reduce",
                                  .message = fmt::format("`{}` succeeds on the whole module", command.check),
                                  .input = "--check",
                                  .expected = "a command that fails on the module, given its file as last argument or at {}",
                                  .found = "exit status 0"});
  int64_t tries = 0;
  graph::Module reduced = driver::reduce(module, [&](const graph::Module& candidate) {
    tir::ConstantBytes held;
    write_file(scratch, graph::print(candidate, &held));
    ++tries;
    return status_of(command.check, scratch) == status;
  });
  graph::write_module(command.output, reduced);
  if (command.model.json)
    print_json({{"file", command.output},
                {"nodes", nodes_of(reduced)},
                {"nodes_before", nodes_of(module)},
                {"status", status},
                {"tries", tries}});
  note(fmt::format("{}: {} of {} nodes still exit with {}, after {} tries", command.output, nodes_of(reduced), nodes_of(module),
                   status, tries));
  return 0;
}

}  // namespace

void add_reduce(CLI::App& app, Action& action) {
  auto command = std::make_shared<ReduceCommand>();
  CLI::App* sub = app.add_subcommand("reduce", "Find the smallest graph on which a command still fails in the same way");
  command->model.add_to(*sub, "MODEL");
  sub->add_option("--check", command->check, "Command that fails; it gets the file as last argument, or where it says {}")
      ->required();
  sub->add_option("-o,--output", command->output, "Write the reduced module and its constants.bin")->required();
  sub->callback([&action, command] { action = [command] { return reduce_model(*command); }; });
}

}  // namespace tenon::cli
