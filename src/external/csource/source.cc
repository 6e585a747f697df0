// SPDX-License-Identifier: Apache-2.0
// Writing C.
#include "external/csource/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "op/ops.h"

namespace tenon::external {
namespace {

using graph::Node;
using graph::NodeKind;
using graph::ValueId;

/// An operator in C: `a` and `b` are the operands, `T` the type, `F` the suffix of libm's function for it.
struct COperator {
  const graph::OpDef* op;
  const char *floats, *integers;  // null: has none
};

// Integers wrap, so they are computed without a sign.
constexpr COperator kOperators[] = {
    {&op::add, "a + b", "(T)((uint64_t)a + (uint64_t)b)"},
    {&op::subtract, "a - b", "(T)((uint64_t)a - (uint64_t)b)"},
    {&op::multiply, "a * b", "(T)((uint64_t)a * (uint64_t)b)"},
    {&op::divide, "a / b", nullptr},
    {&op::maximum, "a != a ? a : b != b ? b : a < b ? b : a", "a < b ? b : a"},
    {&op::minimum, "a != a ? a : b != b ? b : b < a ? b : a", "b < a ? b : a"},
    {&op::relu, "a < 0 ? 0 : a", "a < 0 ? 0 : a"},
    {&op::neg, "-a", "(T)(0 - (uint64_t)a)"},
    {&op::abs, "a < 0 ? -a : a == 0 ? 0 : a", "(T)(a < 0 ? 0 - (uint64_t)a : (uint64_t)a)"},
    {&op::sqrt, "sqrtF(a)", nullptr},
    {&op::exp, "expF(a)", nullptr},
    {&op::tanh, "tanhF(a)", nullptr},
};

const COperator* find(const graph::OpDef* op) {
  auto found = std::find_if(std::begin(kOperators), std::end(kOperators), [&](const COperator& entry) { return entry.op == op; });
  return found == std::end(kOperators) ? nullptr : found;
}

const char* c_type(DType dtype) {
  switch (dtype) {
    case DType::F32: return "float";
    case DType::F64: return "double";
    case DType::I32: return "int32_t";
    case DType::I64: return "int64_t";
    default: return nullptr;
  }
}

const char* expression(const COperator& entry, DType dtype) { return is_float(dtype) ? entry.floats : entry.integers; }

std::string with_types(std::string text, DType dtype) {
  for (size_t at = 0; (at = text.find_first_of("TF", at)) != text.npos;) {
    std::string with = text[at] == 'T' ? c_type(dtype) : dtype == DType::F32 ? "f" : "";
    text.replace(at, 1, with);
    at += with.size();
  }
  return text;
}

/// Where element `i` of a result reads an operand that broadcasts to it.
std::string index_text(const Shape& operand, const Shape& result) {
  if (operand == result) return "i";
  std::string text;
  int64_t result_stride = 1, operand_stride = 1;
  for (size_t back = 0; back < operand.size(); ++back) {
    int64_t extent = operand[operand.size() - 1 - back], of_result = result[result.size() - 1 - back];
    if (extent != 1) {
      text += fmt::format("{}i / {} % {} * {}", text.empty() ? "" : " + ", result_stride, of_result, operand_stride);
      operand_stride *= extent;
    }
    result_stride *= of_result;
  }
  return text.empty() ? "0" : text;
}

class Writer {
 public:
  explicit Writer(const Region& region) : region_(region), function_(region.function) {}

  CSourceText run() {
    out_.source =
        "#include <math.h>\n#include <stdint.h>\n"
        "struct context { void* parallel_for; uint8_t* const* workspaces; };\n";
    out_.source += fmt::format("void region(void* const* args, struct context* context) __asm__(\"{}\");\n", region_.symbol);
    out_.source += "void region(void* const* args, struct context* context) {\n";
    for (uint32_t i = 0; i < function_.params.size(); ++i) declare({i}, true, argument());
    std::vector<std::pair<std::string_view, size_t>> constants;
    for (const RegionConstant& constant : region_.constants) constants.emplace_back(constant.name, next_argument_++);
    place_results();
    for (const Node& node : function_.nodes) {
      if (node.kind == NodeKind::Constant) {
        auto same = [&](const auto& entry) { return entry.first == node.callee; };
        declare(node.result(), true, fmt::format("args[{}]", std::find_if(constants.begin(), constants.end(), same)->second));
      } else {
        write(node);
      }
    }
    for (size_t k = 0; k < function_.results.size(); ++k) copy_result(k);
    out_.source += "}\n";
    return std::move(out_);
  }

 private:
  std::string argument() { return fmt::format("args[{}]", next_argument_++); }

  DType dtype(ValueId v) const { return function_.type(v).dtype; }
  Shape shape(ValueId v) const { return function_.type(v).static_shape(); }

  void declare(ValueId v, bool constant, const std::string& place) {
    out_.source += fmt::format("  {}{}* const v{} = {};\n", constant ? "const " : "", c_type(dtype(v)), v.index, place);
  }

  /// A result that a node makes is written where the output lies, the first of several; others are copied.
  void place_results() {
    output_of_.resize(function_.value_count());
    for (ValueId v : function_.results) {
      std::string place = argument();
      const Node* definition = function_.definition(v);
      if (definition && definition->kind == NodeKind::Op && output_of_[v.index].empty()) {
        output_of_[v.index] = place;
        copied_to_.emplace_back();
      } else {
        copied_to_.push_back(place);
      }
    }
  }

  std::string scratch(ValueId v) {
    int64_t offset = out_.scratch_bytes, bytes = element_count(shape(v)) * byte_size(dtype(v));
    out_.scratch_bytes += (bytes + 63) / 64 * 64;
    return fmt::format("(void*)(context->workspaces[0] + {})", offset);
  }

  void write(const Node& node) {
    ValueId result = node.result();
    const COperator* entry = node.op ? find(node.op) : nullptr;
    const char* text = entry && c_type(dtype(result)) ? expression(*entry, dtype(result)) : nullptr;
    if (!text)
      throw CompileError(Diagnostic{.kind = ErrorKind::Unsupported,
                                    .code = "external-region",
                                    .message = fmt::format("`csource` cannot write `{}` on {} in C",
                                                           node.op ? node.op->name : node.callee, to_string(node.types[0])),
                                    .node = node.name,
                                    .found = node.op ? std::string(node.op->name) : node.callee,
                                    .function = region_.symbol,
                                    .hint = "compile with --external none"});
    const std::string& output = output_of_[result.index];
    declare(result, false, output.empty() ? scratch(result) : output);
    out_.source += fmt::format("  for (int64_t i = 0; i < {}; ++i) {{\n", element_count(shape(result)));
    for (size_t k = 0; k < node.inputs.size(); ++k)
      out_.source += fmt::format("    const {} {} = v{}[{}];\n", c_type(dtype(node.inputs[k])), k == 0 ? 'a' : 'b',
                                 node.inputs[k].index, index_text(shape(node.inputs[k]), shape(result)));
    out_.source += fmt::format("    v{}[i] = {};\n  }}\n", result.index, with_types(text, dtype(result)));
  }

  void copy_result(size_t k) {
    if (copied_to_[k].empty()) return;
    ValueId v = function_.results[k];
    out_.source += fmt::format("  for (int64_t i = 0; i < {}; ++i) (({}*){})[i] = v{}[i];\n", element_count(shape(v)),
                               c_type(dtype(v)), copied_to_[k], v.index);
  }

  const Region& region_;
  const graph::Function& function_;
  CSourceText out_;
  size_t next_argument_ = 0;
  std::vector<std::string> output_of_;  // by value: the argument it is written to; empty: scratch
  std::vector<std::string> copied_to_;  // by result: the argument it is copied to at the end; empty: is there already
};

}  // namespace

std::vector<const graph::OpDef*> c_operators() {
  std::vector<const graph::OpDef*> ops;
  for (const COperator& entry : kOperators) ops.push_back(entry.op);
  return ops;
}

bool writable_in_c(const Candidate& candidate) {
  DType dtype = candidate.node.types[0].dtype;
  for (size_t i = 0; i < candidate.node.inputs.size(); ++i)
    if (candidate.type(i).dtype != dtype) return false;
  return c_type(dtype) && expression(*find(candidate.node.op), dtype);
}

CSourceText write_c(const Region& region) { return Writer(region).run(); }

}  // namespace tenon::external
