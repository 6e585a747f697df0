// SPDX-License-Identifier: Apache-2.0
// One primitive graph function to tensor expressions and one loop function; pure.
#include <fmt/format.h>

#include "lower/lower.h"
#include "tir/text.h"

namespace tenon::lower {
namespace {

using graph::Function;
using graph::Module;
using graph::Node;
using graph::NodeKind;
using graph::ValueId;

[[noreturn]] void fail(const Function& function, ErrorKind kind, std::string code, std::string message, std::string expected,
                       std::string found, std::string node = {}) {
  throw CompileError(Diagnostic{.kind = kind,
                                .code = std::move(code),
                                .message = std::move(message),
                                .node = std::move(node),
                                .expected = std::move(expected),
                                .found = std::move(found),
                                .function = function.name});
}

void check_lowerable(const Function& function) {
  if (auto external = function.attrs.find("external"); external != function.attrs.end())
    fail(function, ErrorKind::Malformed, "lower-external",
         fmt::format("`@{}` is compiled by an external code generator, so it is not lowered", function.name),
         "a primitive function without attribute `external`", tir::print_attrs(function.attrs));
  if (!function.primitive())
    fail(function, ErrorKind::Malformed, "lower-not-primitive",
         fmt::format("`@{}` is not primitive; only fused groups are lowered to one kernel", function.name),
         "a function with attribute `primitive = true`",
         function.attrs.empty() ? "no attributes" : tir::print_attrs(function.attrs));
}

/// Why the function has no static shape, or nothing if it has.
std::string dynamic_reason(const Function& function) {
  for (const graph::Param& param : function.params)
    if (!param.type.is_static())
      return fmt::format("parameter {} has the dynamic shape {}", &param - function.params.data(), to_string(param.type));
  for (const Node& node : function.nodes)
    for (const TensorType& type : node.types)
      if (!type.is_static())
        return fmt::format("a result of `{}` has the dynamic shape {}", node.op ? node.op->name : node.callee, to_string(type));
  return {};
}

/// The value of a rank-0 array as a constant of its dtype.
tir::Expr scalar_constant(const Array& array) {
  switch (array.dtype) {
    case DType::Bool: return tir::bool_imm(array.read<uint8_t>(0) != 0);
    case DType::I8: return tir::int_imm(array.dtype, array.read<int8_t>(0));
    case DType::U8: return tir::int_imm(array.dtype, array.read<uint8_t>(0));
    case DType::I16: return tir::int_imm(array.dtype, array.read<int16_t>(0));
    case DType::U16: return tir::int_imm(array.dtype, array.read<uint16_t>(0));
    case DType::I32: return tir::int_imm(array.dtype, array.read<int32_t>(0));
    case DType::U32: return tir::int_imm(array.dtype, array.read<uint32_t>(0));
    case DType::I64:
    case DType::U64: return tir::int_imm(array.dtype, array.read<int64_t>(0));
    case DType::F16: return tir::float_imm(array.dtype, half_to_float(array.read<uint16_t>(0)));
    case DType::BF16: return tir::float_imm(array.dtype, bfloat_to_float(array.read<uint16_t>(0)));
    case DType::F32: return tir::float_imm(array.dtype, array.read<float>(0));
    case DType::F64: return tir::float_imm(array.dtype, array.read<double>(0));
  }
  fail_internal("a dtype of no known kind");
}

/// Appends the function's meaning to a tensor-expression graph. Names depend on positions alone, never on names in the
/// model, so that functions equal up to naming give equal kernels.
class Translator {
 public:
  Translator(const Module& module, const Function& function, te::Graph& te)
      : module_(module), function_(function), te_(te), values_(function.value_count()) {}

  void run(Lowered& out) {
    for (size_t i = 0; i < function_.params.size(); ++i) {
      const TensorType& type = function_.params[i].type;
      values_[i] = te_.placeholder(fmt::format("p{}", i), type.dtype, type.shape);
      out.inputs.push_back(values_[i]);
    }
    for (const Node& node : function_.nodes) translate(node);
    for (ValueId v : function_.results) out.outputs.push_back(values_[v.index]);
  }

 private:
  void translate(const Node& node) {
    switch (node.kind) {
      case NodeKind::Op: return translate_op(node);
      case NodeKind::Constant: values_[node.first_result] = constant(node); return;
      case NodeKind::Call:
      case NodeKind::CallLowered:
        fail(function_, ErrorKind::Unsupported, "lower-nested-call",
             fmt::format("`@{}` calls `@{}`", function_.name, node.callee),
             "operators and constants only inside a primitive function",
             fmt::format("{} @{}", node.kind == NodeKind::Call ? "call" : "call_lowered", node.callee), node.name);
    }
  }

  te::Tensor constant(const Node& node) {
    auto [known, inserted] = constants_.try_emplace(node.callee);
    if (!inserted) return known->second;
    auto entry = module_.constants.find(node.callee);
    if (entry == module_.constants.end())
      fail(function_, ErrorKind::Malformed, "lower-missing-constant",
           fmt::format("`@{}` reads constant `@{}`, which the module lacks", function_.name, node.callee),
           "an entry of the module's constant table", "@" + node.callee, node.name);
    const Array& data = entry->second;
    known->second = data.shape.empty() ? te_.compute("scalar", {}, [&](const auto&) { return scalar_constant(data); })
                                       : te_.constant("constant", data);
    return known->second;
  }

  /// The operator's stages; an error of its own is completed by the place.
  std::vector<te::Tensor> compute(const Node& node, const graph::CallSite& call, std::span<const te::Tensor> inputs) {
    try {
      return node.op->compute(call, inputs, te_);
    } catch (const CompileError& error) {
      std::vector<Diagnostic> placed = error.diagnostics();
      for (Diagnostic& d : placed) {
        d.function = function_.name;
        if (!node.name.empty()) d.node = fmt::format("{} ({})", node.name, d.node);
      }
      throw CompileError(std::move(placed));
    }
  }

  void translate_op(const Node& node) {
    std::vector<TensorType> types;
    std::vector<te::Tensor> inputs;
    for (ValueId v : node.inputs) {
      inputs.push_back(values_[v.index]);
      types.emplace_back(inputs.back().dtype(), inputs.back().shape());
    }
    std::vector<te::Tensor> results = compute(node, graph::CallSite(*node.op, types, node.attrs, node.types), inputs);
    bool fits = results.size() == node.types.size();
    for (size_t k = 0; fits && k < results.size(); ++k) {
      fits = TensorType(results[k].dtype(), results[k].shape()) == node.types[k];
      values_[node.first_result + k] = results[k];
    }
    if (!fits) fail_internal(fmt::format("`{}` computes tensors of other types than it infers", node.op->name));
  }

  const Module& module_;
  const Function& function_;
  te::Graph& te_;
  std::vector<te::Tensor> values_;                            // by value id
  std::map<std::string, te::Tensor, std::less<>> constants_;  // by table entry
};

const graph::OpDef* find_anchor(const Function& function) {
  const graph::OpDef* anchor = nullptr;
  for (const Node& node : function.nodes)
    if (node.kind == NodeKind::Op && (!anchor || node.op->fusion >= anchor->fusion)) anchor = node.op;
  return anchor;
}

}  // namespace

Lowered lower_primitive(const Module& module, const Function& function) {
  check_lowerable(function);
  Lowered out;
  out.name = candidate_name(function);
  out.anchor = find_anchor(function);
  out.reason = dynamic_reason(function);
  if (!out.reason.empty()) return out;
  Translator(module, function, out.te).run(out);
  out.func = te::create_prim_func(out.te, out.inputs, out.outputs, out.name);
  tir::visit(out.func->body, [&](const tir::Stmt& s) {
    if (const auto* n = tir::as<tir::AllocateConst>(s)) out.constants.push_back({n->buffer->name, n->data});
  });
  return out;
}

static Kernel lower_static(const Module& module, const Function& function) {
  Lowered lowered = lower_primitive(module, function);
  if (!lowered.func)
    fail(function, ErrorKind::Unsupported, "lower-dynamic", fmt::format("`@{}` has no kernel: {}", function.name, lowered.reason),
         "shapes that are numbers", lowered.reason);
  return {*std::move(lowered.func), lowered.anchor};
}

tir::PrimFunc lower_to_prim_func(const Module& module, const Function& function) { return lower_static(module, function).func; }

std::shared_ptr<const Kernel> lower_cached(const Module& module, const Function& function, const std::string& key,
                                           const Caching& caching) {
  return caching.get<Kernel>(Stage::Lowering, key, [&] { return lower_static(module, function); });
}

}  // namespace tenon::lower
