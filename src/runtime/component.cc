// SPDX-License-Identifier: Apache-2.0
// Finding, opening and calling components.
#include "runtime/component.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "base/diagnostic.h"
#include "base/own_file.h"

namespace tenon::runtime {
namespace {

std::vector<std::string> folders() {
  std::vector<std::string> found;
  if (const char* named = std::getenv("TENON_COMPONENTS")) {
    std::string list = named;
    for (size_t begin = 0; begin <= list.size();) {
      size_t end = std::min(list.find(':', begin), list.size());
      if (end > begin) found.push_back(list.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  std::error_code failed;
  std::filesystem::path file = std::filesystem::canonical(own_file(), failed);
  if (!failed) {
    found.push_back(file.parent_path().string());
    found.push_back((file.parent_path().parent_path() / "lib").string());
  }
  return found;
}

[[noreturn]] void fail_missing(const std::string& name, std::string message, std::string expected, std::string found) {
  throw CompileError(Diagnostic{.kind = ErrorKind::Missing,
                                .code = "component-missing",
                                .message = std::move(message),
                                .input = name,
                                .expected = std::move(expected),
                                .found = std::move(found),
                                .hint = "install the component, or set TENON_COMPONENTS to the folder that holds it"});
}

[[noreturn]] void fail_call(const Executable& executable, const ComponentKernel& kernel, const char* text) {
  throw CompileError(
      Diagnostic{.kind = ErrorKind::Device,
                 .code = "component-failed",
                 .message = fmt::format("component `{}`: {}", kernel.component, *text ? text : "it does not say why"),
                 .node = executable.program.kernels[kernel.kernel],
                 .input = kernel.component,
                 .hint = "compile the model again with this version, or without --external"});
}

}  // namespace

const tenon_component& open_component(const std::string& name) {
  std::string file = fmt::format("libtenon_{}.so", name), looked;
  if (name.find('/') != std::string::npos) fail_missing(name, fmt::format("`{}` names no component", name), "a name", name);
  for (const std::string& folder : folders()) {
    std::string path = fmt::format("{}/{}", folder, file);
    looked += (looked.empty() ? "" : ", ") + folder;
    std::error_code none;
    if (!std::filesystem::exists(path, none)) continue;
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char* why = ::dlerror();
      fail_missing(name, fmt::format("component `{}` can't be opened: {}", name, why), "a library that loads", why);
    }
    auto open = reinterpret_cast<tenon_component_open_function>(::dlsym(library, "tenon_component_open"));
    const tenon_component* component = open ? open() : nullptr;
    if (!component || component->abi != TENON_COMPONENT_ABI)
      throw CompileError(Diagnostic{.kind = ErrorKind::Mismatch,
                                    .code = "component-version",
                                    .message = fmt::format("`{}` is a component for another version of Tenon", path),
                                    .input = name,
                                    .expected = fmt::format("interface {}", TENON_COMPONENT_ABI),
                                    .found = component ? fmt::format("interface {}", component->abi) : "none",
                                    .hint = "install the component that belongs to this version"});
    return *component;
  }
  fail_missing(name, fmt::format("the model needs component `{}`, which is not installed", name),
               fmt::format("{} in {}", file, looked), "no such file");
}

const ComponentKernel* Program::component_kernel(uint32_t kernel) const {
  auto found = std::lower_bound(component_kernels.begin(), component_kernels.end(), kernel,
                                [](const ComponentKernel& entry, uint32_t wanted) { return entry.kernel < wanted; });
  return found != component_kernels.end() && found->kernel == kernel ? &*found : nullptr;
}

void bind_kernels(Executable& executable, function_ref<tenon_kernel(const std::string& symbol)> address) {
  const Program& program = executable.program;
  for (const ComponentKernel& kernel : program.component_kernels)
    executable.components.push_back(&open_component(kernel.component));
  for (uint32_t i = 0; i < program.kernels.size(); ++i)
    executable.kernels.push_back(program.component_kernel(i) ? nullptr : address(program.kernels[i]));
}

ComponentCall::ComponentCall(const Executable& executable, const ComponentKernel& kernel, const std::vector<const void*>& args,
                             int threads)
    : executable_(executable),
      kernel_(kernel),
      component_(*executable.components[static_cast<size_t>(&kernel - executable.program.component_kernels.data())]),
      state_(nullptr, component_.destroy) {
  std::array<char, 512> error{};
  state_.reset(component_.create(kernel.description.c_str(), args.data(), static_cast<int32_t>(args.size()), threads,
                                 error.data(), error.size()));
  if (!state_) fail_call(executable, kernel, error.data());
}

void ComponentCall::run(void* const* args) const {
  std::array<char, 512> error;
  error[0] = '\0';
  if (component_.run(state_.get(), args, error.data(), error.size()) != 0) fail_call(executable_, kernel_, error.data());
}

}  // namespace tenon::runtime
