// SPDX-License-Identifier: Apache-2.0
// The steps between loop functions as lowered and as compiled: schedules with constants in the layout they want, and the order of
// calls.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/parallel.h"
#include "driver/attributes.h"
#include "driver/driver.h"
#include "driver/flops.h"
#include "driver/pack.h"
#include "link/order.h"
#include "passes/graph/passes.h"
#include "schedule/steps.h"

namespace tenon::driver {
namespace {

using graph::Function;
using graph::Module;
using graph::Node;
using graph::NodeKind;

/// By loop function.
using PackedParams = std::unordered_map<std::string_view, std::vector<schedule::PackedParam>>;
using ConstantParams = std::unordered_map<std::string_view, std::vector<bool>>;

/// For each value the Constant node that it is of, or null.
std::vector<const Node*> constant_values(const Function& function) {
  std::vector<const Node*> constants(function.value_count());
  for (const Node& node : function.nodes)
    if (node.kind == NodeKind::Constant) constants[node.first_result] = &node;
  return constants;
}

/// For each loop function and parameter: whether every call passes a constant there.
ConstantParams all_constant_params(const Module& module) {
  ConstantParams constant;
  for (const auto& [name, function] : module.functions) {
    std::vector<const Node*> constants = constant_values(function);
    for (const Node& node : function.nodes) {
      if (node.kind != NodeKind::CallLowered) continue;
      std::vector<bool>& params = constant.try_emplace(node.callee, node.inputs.size(), true).first->second;
      for (size_t i = 0; i < node.inputs.size(); ++i) params[i] = params[i] && constants[node.inputs[i].index];
    }
  }
  return constant;
}

/// Schedules what is not scheduled yet, in place; returns what is to be packed.
PackedParams schedule_functions(Module& module, const CompileOptions& options) {
  ConstantParams constant = all_constant_params(module);
  Target otherwise = target_of(module);
  std::vector<std::pair<const std::string, tir::PrimFunc>*> entries;
  for (auto& entry : module.prim_funcs)
    if (!entry.second.scheduled()) entries.push_back(&entry);
  std::vector<std::vector<schedule::PackedParam>> packed_of(entries.size());
  parallel_for(entries.size(), options.workers, [&](size_t i) {
    auto& [name, function] = *entries[i];
    auto params = constant.find(name);
    std::vector<bool> is_constant = params == constant.end() ? std::vector<bool>() : params->second;
    is_constant.resize(function.params.size());  // outputs are not constant
    Target target = target_of(function, otherwise);
    schedule::Scheduled result = schedule::schedule({.func = function,
                                                     .target = target,
                                                     .constant_params = is_constant,
                                                     .opt_level = pass_options(module).opt_level,
                                                     .given = options.extensions.schedules});
    double flops = count_flops(function);
    packed_of[i] = std::move(result.packed);
    function = std::move(result.func);
    function.attrs["flops"] = flops;
  });
  PackedParams packed;
  for (size_t i = 0; i < entries.size(); ++i)
    if (!packed_of[i].empty()) packed[entries[i]->first] = std::move(packed_of[i]);
  return packed;
}

/// One constant to be packed: for the node `node` of `function`, its operand `param`.
struct Use {
  const Function* function;
  size_t node, param, job;
};

class Packer {
 public:
  Packer(Module& module, const PackedParams& packed) : module_(module), packed_(packed) {}

  void run(const CompileOptions& options) {
    for (const auto& [name, function] : module_.functions) collect(function);
    drop_constants_only_packed();
    std::vector<Array> results = run_packs(std::move(jobs_), options.workers);
    graph::ConstantTable table(module_);
    for (size_t i = 0; i < results.size(); ++i)
      entries_.push_back(table.add(std::move(results[i]), constants_[i] + "_packed")->first);
    for (auto& [name, function] : module_.functions) function = rewrite(function);
  }

 private:
  void collect(const Function& function) {
    std::vector<const Node*> constants = constant_values(function);
    for (size_t i = 0; i < function.nodes.size(); ++i) {
      const Node& node = function.nodes[i];
      auto packed = node.kind == NodeKind::CallLowered ? packed_.find(node.callee) : packed_.end();
      if (packed == packed_.end()) continue;
      for (const schedule::PackedParam& param : packed->second) {
        const std::string& constant = constants[node.inputs[param.param].index]->callee;
        const Array& array = module_.constants.at(constant);
        auto [job, inserted] = job_of_.try_emplace({&param, &array}, jobs_.size());
        if (inserted) {
          jobs_.push_back({&param.pack, array});
          constants_.push_back(constant);
        }
        uses_.push_back({&function, i, param.param, job->second});
      }
    }
  }

  /// Takes from the table what nothing reads but the packing, so that the memory of one is free for the next.
  void drop_constants_only_packed() {
    std::unordered_map<std::string_view, int64_t> reads_left;
    for (const auto& [name, function] : module_.functions) {
      std::vector<uint32_t> uses = graph::use_counts(function);
      for (const Node& node : function.nodes)
        if (node.kind == NodeKind::Constant) reads_left[node.callee] += uses[node.result().index];
    }
    for (const Use& use : uses_) --reads_left[constants_[use.job]];
    for (const std::string& constant : constants_)
      if (reads_left[constant] == 0) module_.constants.erase(constant);
  }

  /// Takes the nodes of `from`.
  Function rewrite(Function& from) {
    graph::Rewriter rewriter(module_, from);
    for (size_t i = 0; i < from.nodes.size(); ++i) {
      Node& node = from.nodes[i];
      rewriter.rename(node);
      for (; next_use_ < uses_.size() && uses_[next_use_].function == &from && uses_[next_use_].node == i; ++next_use_)
        node.inputs[uses_[next_use_].param] = rewriter.builder().constant_ref(entries_[uses_[next_use_].job]);
      rewriter.add(std::move(node));
    }
    return rewriter.finish();
  }

  Module& module_;
  const PackedParams& packed_;
  std::map<std::pair<const schedule::PackedParam*, const Array*>, size_t> job_of_;
  std::vector<PackJob> jobs_;
  std::vector<std::string> constants_;  // what each job packs
  std::vector<std::string> entries_;    // and its result
  std::vector<Use> uses_;               // in the order of functions and nodes
  size_t next_use_ = 0;
};

/// Stores in the module's constants what the schedules want stored in another layout.
Module with_packed(Module module, const PackedParams& packed, const CompileOptions& options) {
  if (packed.empty()) return module;
  Packer(module, packed).run(options);
  pass::PassOptions passes = pass_options(module);
  return pass::eliminate_dead.run(std::move(module), passes);  // the constants as they were
}

}  // namespace

std::vector<bool> constant_params(const Module& module, const std::string& function) {
  std::vector<bool> params = all_constant_params(module)[function];
  params.resize(module.prim_funcs.find(function)->second.params.size());
  return params;
}

Module schedule_module(Module module, const CompileOptions& options) {
  PackedParams packed = schedule_functions(module, options);
  return with_packed(std::move(module), packed, options);
}

Module order_module(Module module, const CompileOptions& options) {
  const MemoryOptions& memory = options.memory;
  auto external = [](const auto& entry) { return lower::is_external(entry.second); };
  if (std::any_of(module.functions.begin(), module.functions.end(), external)) return module;  // ordered once their code is there
  if (!memory.reorder || pass_options(module).opt_level == 0) return module;
  return link::order_for_memory(std::move(module), {.in_place = memory.in_place, .parts = memory.parts});
}

Module take_steps(Module module, const std::string& function, std::string_view file, std::string_view steps,
                  const CompileOptions& options) {
  auto find = [&](std::string_view name) {
    auto it = module.prim_funcs.find(name);
    return it == module.prim_funcs.end() ? nullptr : &it->second;
  };
  tir::PrimFunc& before = module.prim_funcs.at(function);
  schedule::Schedule taken = schedule::replay(before, file, steps, find);
  std::vector<bool> constant = constant_params(module, function);
  for (const schedule::PackedParam& p : taken.packed())
    if (!constant[p.param])
      throw CompileError(Diagnostic{
          .code = "schedule-packed",
          .message = fmt::format("the steps pack `{}`, which is no constant in every call", before.params[p.param]->name),
          .input = std::string(file),
          .expected = "a constant of `main` at every call, or a nest whose operand is `in_place`",
          .found = before.params[p.param]->name,
          .function = function});
  tir::PrimFunc after = taken.func();
  if (after.scheduled()) after.attrs["flops"] = count_flops(before);
  before = std::move(after);
  PackedParams packed;
  if (!taken.packed().empty()) packed[function] = taken.packed();
  return with_packed(std::move(module), packed, options);
}

}  // namespace tenon::driver
