// SPDX-License-Identifier: Apache-2.0
// External code against our own, function by function, before it goes into an artifact.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/compare.h"
#include "base/parallel.h"
#include "driver/attributes.h"
#include "driver/module_code.h"
#include "runtime/session.h"

namespace tenon::driver {
namespace {

using graph::Function;
using graph::Module;
using graph::Node;
using graph::NodeKind;
using graph::ValueId;

constexpr double kLimit = 1e-4;  // of the output's scale, where a sum may be added in another order
constexpr uint64_t kSeed = 1;

bool runs_here(const Module& module) {
  runtime::Program program;
  program.features = target_of(module).features;
  try {
    runtime::check_host(program);
  } catch (const CompileError&) {
    return false;
  }
  return true;
}

/// A module whose `main` is one call of the external function, with the constants that the call has.
Module with_one_call(const Module& module, const Function& caller, const Node& call) {
  Module out;
  out.attrs = module.attrs;
  out.prim_funcs.emplace(call.callee, module.prim_funcs.at(call.callee));
  graph::Builder builder(out, "main");
  Node copy = call;
  std::vector<const Node*> definitions;
  for (ValueId v : call.inputs) {
    const Node* definition = caller.definition(v);
    definitions.push_back(definition && definition->kind == NodeKind::Constant ? definition : nullptr);
  }
  for (size_t i = 0; i < copy.inputs.size(); ++i)  // parameters come before nodes
    if (!definitions[i]) copy.inputs[i] = builder.param(fmt::format("x{}", i), caller.type(call.inputs[i]));
  for (size_t i = 0; i < copy.inputs.size(); ++i) {
    if (!definitions[i]) continue;
    out.constants.emplace(definitions[i]->callee, module.constants.at(definitions[i]->callee));
    copy.inputs[i] = builder.constant_ref(definitions[i]->callee);
  }
  out.functions.emplace("main", builder.finish(builder.append(std::move(copy))));
  return out;
}

/// The external function's body as a model of its own.
Module as_model(const Module& from, const Function& external) {
  Module out;
  out.attrs = from.attrs;
  out.attrs["stage"] = std::string("import");
  Function main = external;
  main.name = "main";
  main.attrs.clear();
  for (size_t i = 0; i < main.params.size(); ++i) main.params[i].name = fmt::format("x{}", i);
  for (const Node& node : main.nodes)
    if (node.kind == NodeKind::Constant) out.constants.emplace(node.callee, from.constants.at(node.callee));
  out.functions.emplace("main", std::move(main));
  return out;
}

std::vector<Array> results_of(Built built) {
  runtime::Session session(load(std::move(built)));
  runtime::fill_random(session, kSeed);
  session.run();
  std::vector<Array> results;
  for (size_t i = 0; i < session.program().outputs.size(); ++i) results.push_back(session.output(i));
  return results;
}

void check_equal(const Function& external, size_t output, const Array& got, const Array& want) {
  double limit = is_float(want.dtype) ? kLimit * scale_of(want) : 0;
  Difference difference = compare(got, want, {.rtol = 0, .atol = limit});
  if (difference.count == 0) return;
  throw CompileError(Diagnostic{
      .kind = ErrorKind::CheckFailed,
      .code = "external-self-test",
      .message = fmt::format(
          "external code generator `{}` computes `@{}` wrong: {} elements of result {} differ, by {:g} at most",
          std::get<std::string>(external.attrs.at("external")), external.name, difference.count, output, difference.max_abs),
      .input = "--external",
      .expected = fmt::format("{:g} at index {}, by no more than {:g}", difference.want, difference.index, limit),
      .found = fmt::format("{:g}", difference.got),
      .function = external.name,
      .hint = "compile with --external none; the option -self-test=off of --external leaves the test out"});
}

struct Call {
  const Function* caller;
  const Node* node;
};

/// A call of each external function, but of one only among those for which a component gets equal descriptions.
std::vector<Call> calls_to_test(const Module& from, const ModuleCode& code) {
  std::vector<Call> calls;
  std::set<std::string_view> seen;
  for (const auto& [name, function] : code.module.functions)
    for (const Node& node : function.nodes) {
      auto external = from.functions.find(node.callee);
      if (node.kind != NodeKind::CallLowered || external == from.functions.end() || !seen.insert(node.callee).second) continue;
      auto kernel = code.component_kernels.find(node.callee);
      if (kernel == code.component_kernels.end() || seen.insert(kernel->second.description).second)
        calls.push_back({&function, &node});
    }
  return calls;
}

}  // namespace

void self_test(const Module& from, const ModuleCode& code, const CompileOptions& options) {
  if (!runs_here(from)) return;
  CompileOptions own;
  own.cache = options.cache;
  std::vector<Call> calls = calls_to_test(from, code);
  parallel_for(calls.size(), options.workers, [&](size_t i) {
    const Function& external = from.functions.find(calls[i].node->callee)->second;
    bool in_component = code.component_kernels.contains(calls[i].node->callee);
    ModuleCode one{.module = with_one_call(code.module, *calls[i].caller, *calls[i].node),
                   .liveness = {},
                   .objects = in_component ? std::vector<std::string>() : code.objects,
                   .scratch = code.scratch,
                   .component_kernels = code.component_kernels,
                   .external = {}};
    one.liveness = link::analyse_liveness(one.module);
    std::vector<Array> got = results_of(link_code(std::move(one)));
    std::vector<Array> want = results_of(build(run_pipeline(as_model(from, external), own), own));
    for (size_t k = 0; k < want.size(); ++k) check_equal(external, k, got[k], want[k]);
  });
}

}  // namespace tenon::driver
