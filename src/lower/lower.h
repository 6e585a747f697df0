// SPDX-License-Identifier: Apache-2.0
// Lowering: primitive graph functions to loop functions. One pure core and two façades (design.md 3).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/target.h"
#include "graph/op_def.h"
#include "lower/cache.h"
#include "passes/pass.h"

namespace tenon::lower {

/// A constant that the kernel holds inside (`allocate_const`).
struct KernelConstant {
  std::string buffer;  // its buffer in the PrimFunc
  Array data;
};

/// What the core knows after lowering one primitive function.
struct Lowered {
  std::string name;  // candidate: `fused_<op>_<op>…` (candidate_name)
  te::Graph te;
  std::vector<te::Tensor> inputs, outputs;
  std::optional<tir::PrimFunc> func;  // unscheduled, named `name`; parameters are the graph's parameters then results
  std::string reason;                 // why there is no `func`
  std::vector<KernelConstant> constants;
  const graph::OpDef* anchor = nullptr;  // the operator of the largest fusion class, the later one on ties; null if none
};

/// Pure: no global names, no cache, no current target. Throws CompileError naming the function when it is not primitive
/// or external; a dynamic shape gives no `func` and a reason.
Lowered lower_primitive(const graph::Module& module, const graph::Function& function);

/// Façade 1: one primitive graph function to one unscheduled, schedulable PrimFunc, or a CompileError.
tir::PrimFunc lower_to_prim_func(const graph::Module& module, const graph::Function& function);

/// `fused_<op>_<op>…` over the operators in order, [A-Za-z0-9_]; past 80 characters the first 80, `_`, and 16 hex digits
/// of XXH3-64 of the full name.
std::string candidate_name(const graph::Function& function);

/// The function up to renaming: names of functions, values and nodes left out, constants by content.
std::string canonical_text(const graph::Module& module, const graph::Function& function);

/// What is kept of a lowered function. Its tensor expressions are as large again as the loops, and memory that is free at once is
/// used for the next function while it is still near.
struct Kernel {
  tir::PrimFunc func;  // as in Lowered
  const graph::OpDef* anchor = nullptr;
};
/// What both façades are made of: the core through a cache, `key` being the function's canonical text. A function that has no
/// kernel is an error, as in façade 1.
std::shared_ptr<const Kernel> lower_cached(const graph::Module& module, const graph::Function& function, const std::string& key,
                                           const Caching& caching);

/// Whether a code generator of its own compiles the function.
bool is_external(const graph::Function& function);
/// What the code of an external function is called. Throws CompileError (`external-symbol`) naming the function when it lacks
/// generator or symbol.
std::string symbol_of(const graph::Function& external);

/// Façade 2: every primitive function of the module becomes a PrimFunc (one for equal functions), calls of it become
/// `call_lowered`. An external function takes its symbol as its name, unchanged and avoided by all other names, and its calls
/// become `call_lowered` too; a symbol that is not free is an error (`duplicate-symbol`). Other functions stay untouched. Unique
/// names are given in one sorted step. Idempotent.
graph::Module lower_module(graph::Module module, const Caching& caching = {}, int workers = 1);

/// The loop functions of a mixed module, one module for each target, by its text. A primitive function with the text attribute
/// `target` is compiled for that, others are for the module's. Targets are compared whole: two processors are two targets.
std::map<std::string, graph::Module> loop_modules(const graph::Module& mixed);

/// A kernel to tune.
struct Task {
  std::string name;      // of the kernel, as lower_module gives it
  std::string function;  // the first graph function, by name, that it is made of
  std::string op;        // the anchor operator; empty if it computes none
  int64_t weight = 0;    // calls of it in the functions that stay graph functions
};
/// The kernels that lower_module would make of a module of fused functions, one for equal functions, without those that move
/// nothing. Sorted by name.
std::vector<Task> extract_tasks(const graph::Module& module, const Caching& caching = {}, int workers = 1);

}  // namespace tenon::lower
