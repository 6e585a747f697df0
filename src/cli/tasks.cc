// SPDX-License-Identifier: Apache-2.0
// `tenon tasks MODEL`
#include <fmt/format.h>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/output.h"

namespace tenon::cli {
namespace {

int list_tasks(const ModelOptions& model) {
  driver::CompileOptions options = model.compile_options();
  options.stop_after = "fuse";
  graph::Module fused = driver::load_and_run_pipeline(model.path, options);
  std::vector<lower::Task> tasks = lower::extract_tasks(fused, options.caching(), options.workers);
  if (model.json) {
    Json list = Json::array();
    for (const lower::Task& t : tasks)
      list.push_back({{"name", t.name}, {"function", t.function}, {"weight", t.weight}, {"op", t.op}});
    print_json(list);
    return 0;
  }
  std::string text = "weight  op                kernel\n";
  int64_t calls = 0;
  for (const lower::Task& t : tasks) {
    text += fmt::format("{:>6}  {:<16}  {}\n", t.weight, t.op, t.name);
    calls += t.weight;
  }
  print(text);
  note(fmt::format("{} kernels, {} calls", tasks.size(), calls));
  return 0;
}

}  // namespace

void add_tasks(CLI::App& app, Action& action) {
  auto model = std::make_shared<ModelOptions>();
  CLI::App* command = app.add_subcommand("tasks", "List the kernels of a model with how often each is called");
  model->add_to(*command, "MODEL");
  command->callback([model, &action] { action = [model] { return list_tasks(*model); }; });
}

}  // namespace tenon::cli
