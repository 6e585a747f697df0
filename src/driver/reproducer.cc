// SPDX-License-Identifier: Apache-2.0
// Writing reproducers.
#include "driver/reproducer.h"

#include <fmt/format.h>

#include "base/temporary_folder.h"
#include "base/write_file.h"
#include "graph/text.h"

namespace tenon::driver {
namespace {

std::string new_folder(const CompileOptions& options) {
  if (options.dump_dir.empty()) return make_temporary_folder("tenon-reproducer-");
  std::string folder = options.dump_dir + "/reproducer";
  make_folder(folder);
  return folder;
}

/// Returns what to say about the files.
std::string write(const graph::Module& module, const std::string& arguments, const CompileOptions& options) {
  try {
    std::string folder = new_folder(options), file = folder + "/module.tenon";
    graph::write_module(file, module);
    if (arguments.empty())
      return fmt::format("reproducer: {} is the module before it; give it to the same program to see it again", file);
    std::string command = fmt::format("tenon compile {} {}", file, arguments);
    write_file(folder + "/command.txt", command + "\n");
    return fmt::format("reproducer: {} is the module before it; to see it again: {}", file, command);
  } catch (const std::exception& error) {
    return fmt::format("no reproducer could be written: {}", error.what());
  }
}

}  // namespace

PassFailure::PassFailure(std::string pass, std::string before, bool given, const std::string& why)
    : InternalError(fmt::format("pass `{}` failed: {}", pass, why)),
      pass_(std::move(pass)),
      before_(std::move(before)),
      given_(given) {}

void leave_reproducer(const graph::Module& module, const std::string& arguments, const CompileOptions& options,
                      const std::string& why) {
  throw Reproduced(why + "\n" + write(module, arguments, options));
}

graph::Module load_and_run_pipeline(const std::string& path, const CompileOptions& options, Milliseconds* ms) {
  try {
    return run_pipeline(load_module(path, options, ms), options, ms);
  } catch (const PassFailure& failure) {
    CompileOptions again = options;
    again.dump_dir.clear();
    again.print_after.clear();
    again.on_pass = nullptr;
    again.stop_after = failure.before();
    graph::Module before = run_pipeline(load_module(path, again), again);
    leave_reproducer(before, failure.given() ? "" : "--stop-after " + failure.pass(), options, failure.what());
  }
}

}  // namespace tenon::driver
