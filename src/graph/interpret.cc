// SPDX-License-Identifier: Apache-2.0
// Runs graph functions node by node with each operator's own meaning.
#include "graph/interpret.h"

#include <fmt/format.h>

#include "tir/interpret.h"

namespace tenon::graph {
namespace {

TensorType concrete(const TensorType& type, const tir::VarMap& symbols) {
  TensorType out = type;
  for (Dim& dim : out.shape) dim = tir::substitute(dim, symbols);
  return out;
}

std::vector<TensorType> concrete(std::span<const TensorType> types, const tir::VarMap& symbols) {
  std::vector<TensorType> out;
  for (const TensorType& type : types) out.push_back(concrete(type, symbols));
  return out;
}

/// One call of one function.
class Frame {
 public:
  Frame(const Module& module, const Function& function) : module_(module), function_(function), values_(function.value_count()) {
    last_use_.assign(values_.size(), kNever);
    for (size_t i = 0; i < function.nodes.size(); ++i)
      for (ValueId v : function.nodes[i].inputs) last_use_[v.index] = static_cast<int64_t>(i);
    for (ValueId v : function.results) last_use_[v.index] = kResult;
  }

  std::vector<Array> run(std::span<const Array> inputs, const ValueObserver& observer) {
    bind_inputs(inputs);
    for (size_t i = 0; i < function_.nodes.size(); ++i) {
      const Node& node = function_.nodes[i];
      std::vector<Array> results = run(node);
      check(results.size() == node.types.size(), "a node gives as many values as it has types");
      for (uint32_t k = 0; k < results.size(); ++k) {
        ValueId v = node.result(k);
        if (observer) observer(v, results[k]);
        if (last_use_[v.index] != kNever) values_[v.index] = std::move(results[k]);
      }
      for (ValueId v : node.inputs)
        if (last_use_[v.index] == static_cast<int64_t>(i)) values_[v.index] = Array{};
    }
    std::vector<Array> out;
    for (ValueId v : function_.results) out.push_back(values_[v.index]);
    return out;
  }

 private:
  static constexpr int64_t kNever = -1, kResult = -2;

  [[noreturn]] void fail(ErrorKind kind, std::string code, std::string message, std::string expected, std::string found,
                         std::string node = {}, std::string input = {}) const {
    throw CompileError(Diagnostic{.kind = kind,
                                  .code = std::move(code),
                                  .message = std::move(message),
                                  .node = std::move(node),
                                  .input = std::move(input),
                                  .expected = std::move(expected),
                                  .found = std::move(found),
                                  .function = function_.name});
  }

  void bind_inputs(std::span<const Array> inputs) {
    size_t count = function_.params.size();
    if (inputs.size() != count)
      fail(ErrorKind::Malformed, "interpret-input", fmt::format("{} arrays were given", inputs.size()),
           fmt::format("{} arrays", count), fmt::format("{} arrays", inputs.size()));
    for (size_t i = 0; i < count; ++i) {
      const Param& param = function_.params[i];
      const Array& array = inputs[i];
      if (array.shape.size() == param.type.shape.size())
        for (size_t axis = 0; axis < array.shape.size(); ++axis)
          if (const auto* symbol = tir::as<tir::Var>(param.type.shape[axis]))
            symbols_.try_emplace(symbol->name, Dim(array.shape[axis]));
      TensorType found = type_of(array);
      if (!(concrete(param.type, symbols_) == found))
        fail(ErrorKind::Malformed, "interpret-input", fmt::format("parameter %{} was given an array of another type", i),
             to_string(param.type), to_string(found), {}, param.name);
      values_[i] = array;
    }
  }

  std::vector<Array> run(const Node& node) {
    std::vector<Array> inputs;
    for (ValueId v : node.inputs) inputs.push_back(values_[v.index]);
    switch (node.kind) {
      case NodeKind::Op: return run_op(node, inputs);
      case NodeKind::Constant: return {found(module_.constants, node)};
      case NodeKind::Call: return Frame(module_, found(module_.functions, node)).run(inputs, {});
      case NodeKind::CallLowered:
        if (auto external = module_.functions.find(node.callee); external != module_.functions.end())
          return Frame(module_, external->second).run(inputs, {});
        return run_lowered(node, std::move(inputs));
    }
    fail_internal("a node of no known kind");
  }

  template <class T>
  const T& found(const std::map<std::string, T, std::less<>>& table, const Node& node) const {
    auto it = table.find(node.callee);
    if (it != table.end()) return it->second;
    fail(ErrorKind::Unsupported, "interpret-callee", fmt::format("`@{}` has no definition in this module", node.callee),
         "a constant, a graph function or a loop function of the module", "@" + node.callee, node.name);
  }

  /// A scheduled function may see a tensor as another shape over the same memory.
  std::vector<Array> run_lowered(const Node& node, std::vector<Array> inputs) {
    const tir::PrimFunc& function = found(module_.prim_funcs, node);
    for (size_t i = 0; i < inputs.size() && i < function.params.size() && function.scheduled(); ++i) {
      Shape shape = TensorType(function.params[i]->dtype, function.params[i]->shape).static_shape();
      if (element_count(shape) == inputs[i].elements()) inputs[i].shape = std::move(shape);
    }
    std::vector<Array> results = tir::interpret(function, inputs);
    std::vector<TensorType> types = concrete(node.types, symbols_);
    for (size_t i = 0; i < results.size() && i < types.size() && function.scheduled(); ++i)
      results[i].shape = types[i].static_shape();
    return results;
  }

  std::vector<Array> run_op(const Node& node, std::span<const Array> inputs) {
    std::vector<TensorType> input_types, output_types = concrete(node.types, symbols_);
    te::Graph te;
    std::vector<te::Tensor> tensors;
    std::map<std::string, Array, std::less<>> arrays;
    for (const Array& array : inputs) {
      input_types.push_back(type_of(array));
      tensors.push_back(te.placeholder("x", array.dtype, input_types.back().shape));
      arrays.emplace(tensors.back().buffer->name, array);
    }
    for (const TensorType& type : output_types)
      if (!type.is_static())
        fail(ErrorKind::Unsupported, "interpret-dynamic", fmt::format("a result of `{}` has no known shape", node.op->name),
             "dimensions that follow from the inputs' shapes", to_string(type), node.name);
    return te::evaluate(te, arrays, node.op->compute(CallSite(*node.op, input_types, node.attrs, output_types), tensors, te));
  }

  const Module& module_;
  const Function& function_;
  std::vector<Array> values_;      // by value id; empty once released
  std::vector<int64_t> last_use_;  // by value id: a node's index, kNever or kResult
  tir::VarMap symbols_;
};

}  // namespace

std::vector<Array> interpret(const Module& module, std::string_view function, std::span<const Array> inputs,
                             const ValueObserver& observer) {
  auto it = module.functions.find(function);
  if (it == module.functions.end())
    throw CompileError(Diagnostic{.code = "unknown-function",
                                  .message = fmt::format("the module has no function `@{}`", function),
                                  .expected = "the name of a graph function",
                                  .found = std::string(function)});
  return Frame(module, it->second).run(inputs, observer);
}

}  // namespace tenon::graph
