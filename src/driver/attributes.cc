// SPDX-License-Identifier: Apache-2.0
// How a module is compiled is written in the module, so that a dump goes on as the whole would have.
#include "driver/attributes.h"

#include <fmt/format.h>

namespace tenon::driver {
namespace {

template <class T>
const T* find(const graph::Attrs& attrs, std::string_view name) {
  auto it = attrs.find(name);
  return it == attrs.end() ? nullptr : std::get_if<T>(&it->second);
}

template <class T>
const T* find(const graph::Module& module, std::string_view name) {
  return find<T>(module.attrs, name);
}

[[noreturn]] void mismatch(const std::string& option, const std::string& has, const std::string& wanted) {
  throw CompileError(Diagnostic{.kind = ErrorKind::Mismatch,
                                .code = "stage-mismatch",
                                .message = fmt::format("the module went through passes for {} = {}", option, has),
                                .input = option,
                                .expected = wanted,
                                .found = has,
                                .hint = "leave the option out, or start from an earlier stage"});
}

/// Writes the option if it was given, the fallback if the module says nothing.
template <class T>
void settle(graph::Module& module, const std::string& name, const std::optional<T>& given, const T& fallback) {
  const T* has = find<T>(module, name);
  if (has && given && *has != *given && !stage_of(module).empty() && stage_of(module) != "import")
    mismatch(name, fmt::format("{}", *has), fmt::format("{}", *given));
  if (given)
    module.attrs[name] = *given;
  else if (!has)
    module.attrs[name] = fallback;
}

}  // namespace

std::string stage_of(const graph::Module& module) {
  const std::string* stage = find<std::string>(module, "stage");
  return stage ? *stage : "";
}

Target target_of(const graph::Module& module) {
  const std::string* target = find<std::string>(module, "target");
  return target ? parse_target(*target) : host_target();
}

Target target_of(const tir::PrimFunc& function, const Target& otherwise) {
  const std::string* target = find<std::string>(function.attrs, "target");
  return target ? parse_target(*target) : otherwise;
}

pass::PassOptions pass_options(const graph::Module& module) {
  pass::PassOptions options;
  if (const int64_t* level = find<int64_t>(module, "opt_level")) options.opt_level = static_cast<int>(*level);
  if (const bool* link = find<bool>(module, "link_params")) options.link_params = *link;
  return options;
}

void settle_attributes(graph::Module& module, const std::string& model, const CompileOptions& options) {
  std::optional<std::string> target;
  if (!options.target.empty()) target = parse_target(options.target).text();
  std::optional<int64_t> level;
  if (options.opt_level) level = *options.opt_level;
  settle<std::string>(module, "target", target, host_target().text());
  settle<int64_t>(module, "opt_level", level, 3);
  if (options.link_params) settle<bool>(module, "link_params", true, true);
  settle<std::string>(module, "model", std::nullopt, model);
}

}  // namespace tenon::driver
