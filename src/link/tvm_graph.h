// SPDX-License-Identifier: Apache-2.0
// From a scheduled mixed module to what TVM's graph executor runs.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "link/liveness.h"
#include "runtime/tvm_graph.h"
#include "runtime/tvm_params.h"
#include "tenon/plan.h"

namespace tenon::link {

/// A function of the library: a loop function called on tensors of these types, inputs then outputs.
struct TvmKernel {
  struct Parameter {
    DType dtype = DType::F32;
    Shape shape;
    bool operator==(const Parameter&) const = default;
  };
  std::string symbol;  // `tvmgen_default_` and the loop function's name; `_1`, … where it is called on other shapes too
  std::string function;
  std::vector<Parameter> parameters;
};

struct TvmLinked {
  runtime::tvm::Graph graph;
  runtime::tvm::Params params;  // views of the module's constants
  std::vector<TvmKernel> kernels;
  plan::LivenessProblem problem;  // what kernels write
  plan::MemoryPlan plan;          // checked
};

/// Needs the module's liveness without results in place and parts, which storage ids cannot say. Inputs keep their names, unnamed
/// ones are called `input`; constants keep theirs where no input has it. Views become `__nop`. Inputs and constants have storage
/// of their own; results share by the reference's planner. Throws what the planner throws.
TvmLinked link_tvm(const graph::Module& module, const Liveness& liveness);

}  // namespace tenon::link
