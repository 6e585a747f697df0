// SPDX-License-Identifier: Apache-2.0
// From the command line to a session.
#include "cli/model.h"

#include "driver/stopwatch.h"

namespace tenon::cli {

ReadyModel make_ready(const ModelOptions& model, const Inputs& inputs, bool debug_memory) {
  refuse_stop_after(model);
  driver::CompileOptions options = model.compile_options();
  inputs.fix(model.path, options.import);
  ReadyModel ready;
  driver::Stopwatch watch;
  std::shared_ptr<const runtime::Executable> executable = driver::prepare(model.path, options);
  (driver::is_compiled(model.path) ? ready.load_ms : ready.compile_ms) = watch.lap();
  ready.session = std::make_unique<runtime::Session>(
      executable, runtime::SessionOptions{.threads = model.run_threads(), .debug_memory = debug_memory});
  ready.load_ms += watch.lap();
  inputs.set(*ready.session);
  return ready;
}

void refuse_stop_after(const ModelOptions& model) {
  if (model.stop_after.empty()) return;
  throw CompileError(Diagnostic{.kind = ErrorKind::Usage,
                                .code = "usage",
                                .message = "--stop-after leaves nothing to run",
                                .input = "--stop-after",
                                .hint = "use `tenon opt` or `tenon compile` to see the module after a pass"});
}

}  // namespace tenon::cli
