// SPDX-License-Identifier: Apache-2.0
// Lowers every primitive function of a module, and makes their calls calls of loop functions.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_map>

#include "base/parallel.h"
#include "lower/lower.h"
#include "tir/text.h"

namespace tenon::lower {
namespace {

using graph::Function;
using graph::Module;
using graph::Node;
using graph::NodeKind;

/// Primitive functions that are equal up to naming, and their one kernel.
struct Group {
  std::string text;  // canonical
  std::vector<const Function*> functions;
  std::shared_ptr<const Kernel> kernel;
  std::string name;
};

bool lowerable(const Function& function) { return function.primitive() && !is_external(function); }

[[noreturn]] void fail_external(const Function& function, std::string code, std::string message, std::string expected,
                                std::string hint) {
  throw CompileError(Diagnostic{.code = std::move(code),
                                .message = std::move(message),
                                .expected = std::move(expected),
                                .found = tir::print_attrs(function.attrs),
                                .function = function.name,
                                .hint = std::move(hint)});
}

/// External functions by the symbols that their code has to have. No symbol is ever changed, so each must be free.
std::map<std::string, const Function*, std::less<>> external_symbols(const Module& module) {
  std::map<std::string, const Function*, std::less<>> by_symbol;
  for (const auto& [name, function] : module.functions) {
    if (!is_external(function)) continue;
    std::string symbol = symbol_of(function);
    auto refuse = [&](const std::string& other) {
      fail_external(function, "duplicate-symbol", fmt::format("`@{}` is to have the symbol `{}`, as has {}", name, symbol, other),
                    "symbols of external functions that differ from each other and from every other name of the module",
                    "give one of them another symbol");
    };
    auto [known, inserted] = by_symbol.emplace(symbol, &function);
    if (!inserted) refuse(fmt::format("`@{}`", known->second->name));
    if (module.prim_funcs.contains(symbol)) refuse(fmt::format("loop function `@{}`", symbol));
    auto other = module.functions.find(symbol);
    if (other != module.functions.end() && &other->second != &function && !lowerable(other->second))
      refuse(fmt::format("graph function `@{}`", symbol));
  }
  return by_symbol;
}

/// In the order of the first function of each.
std::vector<Group> find_groups(const Module& module, int workers) {
  std::vector<const Function*> functions;
  for (const auto& [name, function] : module.functions)
    if (lowerable(function)) functions.push_back(&function);
  std::vector<std::string> texts(functions.size());
  parallel_for(functions.size(), workers, [&](size_t i) { texts[i] = canonical_text(module, *functions[i]); });
  std::vector<Group> groups;
  std::unordered_map<std::string_view, size_t> by_text;
  for (size_t i = 0; i < functions.size(); ++i) {
    auto [known, is_new] = by_text.try_emplace(texts[i], groups.size());
    if (is_new) groups.emplace_back();
    groups[known->second].functions.push_back(functions[i]);
  }
  for (auto& [text, group] : by_text) groups[group].text = text;
  return groups;
}

void lower_groups(const Module& module, std::vector<Group>& groups, const Caching& caching, int workers) {
  std::vector<std::vector<Diagnostic>> errors(groups.size());
  parallel_for(groups.size(), workers, [&](size_t i) {
    Group& group = groups[i];
    const Function& function = *group.functions[0];
    try {
      group.kernel = lower_cached(module, function, group.text, caching);
    } catch (const CompileError& error) {
      errors[i] = error.diagnostics();
    }
  });
  std::vector<Diagnostic> all;
  for (const auto& list : errors) all.insert(all.end(), list.begin(), list.end());
  if (!all.empty()) throw CompileError(std::move(all));
}

/// Gives each kernel a name that is unused in the module; equal candidates get `_1`, `_2`, … by canonical text.
void assign_names(const Module& module, std::vector<Group>& groups) {
  tir::NameSupply names;
  for (const auto& [symbol, function] : external_symbols(module)) names.reserve(symbol);
  for (const auto& [name, function] : module.functions)
    if (!lowerable(function)) names.reserve(name);
  for (const auto& [name, function] : module.prim_funcs) names.reserve(name);
  std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return std::tie(a.kernel->func.name, a.text) < std::tie(b.kernel->func.name, b.text);
  });
  for (Group& group : groups) group.name = names.fresh(group.kernel->func.name);
}

/// Whether the function only gives its one operand another shape, so that no byte has to move.
bool is_view(const Function& function) {
  auto moves_nothing = [](const Node& node) { return node.kind == NodeKind::Op && node.op->view; };
  return function.params.size() == 1 && function.results.size() == 1 && !function.nodes.empty() &&
         std::all_of(function.nodes.begin(), function.nodes.end(), moves_nothing);
}

/// What calls of a function become.
struct Callee {
  std::string_view name;
  bool view = false;
};
using Callees = std::unordered_map<std::string_view, Callee>;

void rewrite_calls(Function& function, const Callees& callees) {
  for (Node& node : function.nodes) {
    if (node.kind != NodeKind::Call) continue;
    auto it = callees.find(node.callee);
    if (it == callees.end()) continue;
    node.kind = NodeKind::CallLowered;
    if (it->second.view) node.attrs["view"] = true;
    node.callee = it->second.name;
  }
}

const std::string* target_text(const graph::Attrs& attrs) {
  auto target = attrs.find("target");
  return target == attrs.end() ? nullptr : std::get_if<std::string>(&target->second);
}

/// Takes what only kernels read from the table: its bytes are inside those now.
void drop_constants_of_kernels(Module& lowered, const std::set<std::string>& read_by_kernels) {
  if (read_by_kernels.empty()) return;
  std::set<std::string_view> left;
  for (const auto& [name, function] : lowered.functions)
    for (const Node& node : function.nodes)
      if (node.kind == NodeKind::Constant) left.insert(node.callee);
  for (const std::string& name : read_by_kernels)
    if (!left.contains(name)) lowered.constants.erase(name);
}

/// The kernels of a module, lowered and named.
std::vector<Group> lowered_groups(const Module& module, const Caching& caching, int workers) {
  std::vector<Group> groups = find_groups(module, workers);
  lower_groups(module, groups, caching, workers);
  assign_names(module, groups);
  return groups;
}

}  // namespace

bool is_external(const Function& function) { return function.attrs.contains("external"); }

std::string symbol_of(const Function& external) {
  auto text = [&](std::string_view name) {
    auto attr = external.attrs.find(name);
    const std::string* value = attr == external.attrs.end() ? nullptr : std::get_if<std::string>(&attr->second);
    return value && !value->empty() ? *value : "";
  };
  std::string generator = text("external"), symbol = text("symbol");
  if (generator.empty() || symbol.empty())
    fail_external(external, "external-symbol",
                  generator.empty() ? fmt::format("`@{}` does not name its external code generator", external.name)
                                    : fmt::format("`@{}`, which `{}` compiles, has no symbol", external.name, generator),
                  "an external function with the texts `external`, its code generator, and `symbol`, what its code is called",
                  fmt::format("add `symbol = \"{}\"` to its attributes", external.name));
  return symbol;
}

std::vector<Task> extract_tasks(const Module& module, const Caching& caching, int workers) {
  std::map<std::string_view, int64_t> calls;
  for (const auto& [name, function] : module.functions)
    if (!lowerable(function))
      for (const Node& node : function.nodes)
        if (node.kind == NodeKind::Call) ++calls[node.callee];
  std::vector<Task> tasks;
  for (const Group& group : lowered_groups(module, caching, workers)) {
    if (is_view(*group.functions[0])) continue;
    const graph::OpDef* anchor = group.kernel->anchor;
    Task task{group.name, group.functions[0]->name, anchor ? std::string(anchor->name) : "", 0};
    for (const Function* function : group.functions) task.weight += calls[function->name];
    tasks.push_back(std::move(task));
  }
  return tasks;
}

Module lower_module(Module module, const Caching& caching, int workers) {
  std::vector<Group> groups = lowered_groups(module, caching, workers);
  std::map<std::string, const Function*, std::less<>> externals = external_symbols(module);
  std::map<std::string, tir::PrimFunc, std::less<>> prim_funcs = std::move(module.prim_funcs);
  std::set<std::string> read_by_kernels;
  Callees callees;
  for (const Group& group : groups) {
    tir::PrimFunc func = group.kernel->func;
    func.name = group.name;
    if (const std::string* target = target_text(group.functions[0]->attrs)) func.attrs["target"] = *target;
    prim_funcs.emplace(group.name, std::move(func));
    for (const Function* function : group.functions) {
      callees[function->name] = {group.name, is_view(*function)};
      for (const Node& node : function->nodes)
        if (node.kind == NodeKind::Constant) read_by_kernels.insert(node.callee);
    }
  }
  for (const auto& [symbol, function] : externals) callees[module.functions.find(function->name)->first] = {symbol, false};

  Module out{.functions = {},
             .prim_funcs = std::move(prim_funcs),
             .constants = std::move(module.constants),
             .attrs = std::move(module.attrs)};
  for (auto& [name, function] : module.functions) {
    if (lowerable(function)) continue;
    rewrite_calls(function, callees);
    std::string kept(is_external(function) ? callees.at(name).name : name);
    Function& moved = out.functions.emplace(kept, std::move(function)).first->second;
    moved.name = kept;
  }
  drop_constants_of_kernels(out, read_by_kernels);
  return out;
}

std::map<std::string, Module> loop_modules(const Module& mixed) {
  const std::string* given = target_text(mixed.attrs);
  std::string otherwise = given ? *given : host_target().text();
  std::map<std::string, Module> modules;
  for (const auto& [name, function] : mixed.prim_funcs) {
    const std::string* own = target_text(function.attrs);
    std::string target = parse_target(own ? *own : otherwise).text();
    Module& module = modules[target];
    module.attrs["target"] = target;
    module.prim_funcs.emplace(name, function);
  }
  return modules;
}

}  // namespace tenon::lower
