// SPDX-License-Identifier: Apache-2.0
// Components: libraries that make kernels at run time, found by name when a program needs them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/program.h"
#include "tenon/component.h"

namespace tenon::runtime {

/// Opens `libtenon_<name>.so` in a folder of the environment variable TENON_COMPONENTS (separated by `:`), in the folder of the
/// file that this code lies in, or in `lib` beside that folder. Stays open as long as the process. Throws CompileError: missing
/// (5, `component-missing`) with the folders, mismatch (9, `component-version`).
const tenon_component& open_component(const std::string& name);

/// The kernel of one step of one session.
class ComponentCall {
 public:
  /// `args` as for `tenon_component::create`. Throws CompileError (device, `component-failed`) with the component's own text.
  ComponentCall(const Executable& executable, const ComponentKernel& kernel, const std::vector<const void*>& args, int threads);
  /// Throws the same.
  void run(void* const* args) const;

 private:
  const Executable& executable_;
  const ComponentKernel& kernel_;
  const tenon_component& component_;
  std::unique_ptr<void, void (*)(void*)> state_;
};

}  // namespace tenon::runtime
