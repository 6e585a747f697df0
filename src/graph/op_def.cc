// SPDX-License-Identifier: Apache-2.0
// The checks every operator shares: operand count, dtypes, attribute schema.
#include "graph/op_def.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/memory_attr.h"

namespace tenon::graph {
namespace {

template <class T>
const T& attr_as(const Attrs& attrs, std::string_view name) {
  auto it = attrs.find(name);
  check(it != attrs.end() && std::holds_alternative<T>(it->second), "an attribute read by its operator is in the schema");
  return std::get<T>(it->second);
}

std::string_view kind_name(AttrKind kind) {
  constexpr std::string_view kNames[] = {"a bool", "an integer", "a float", "a text", "a list of integers"};
  return kNames[static_cast<int>(kind)];
}

std::string operand_name(const OpDef& op, size_t index) {
  size_t last = op.inputs.size() - 1;
  if (op.inputs.empty()) return fmt::format("operand {}", index);
  if (index < last || (!op.variadic && index == last)) return std::string(op.inputs[index].name);
  return op.variadic ? fmt::format("{}{}", op.inputs[last].name, index - last) : fmt::format("operand {}", index);
}

Diagnostic operand_error(const CallSite& call, int operand, std::string code, std::string expected, ErrorKind kind) {
  Diagnostic d;
  d.kind = kind;
  d.code = std::move(code);
  d.node = call.op().name;
  d.expected = std::move(expected);
  if (operand >= 0) {
    d.input = operand_name(call.op(), static_cast<size_t>(operand));
    d.found = to_string(call.in(static_cast<size_t>(operand)));
    d.message = fmt::format("`{}` is {}", d.input, d.found);
  } else {
    for (size_t i = 0; i < call.input_count(); ++i) d.found += fmt::format("{}{}", i ? ", " : "", to_string(call.in(i)));
    d.message = fmt::format("the operands are {}", d.found);
  }
  return d;
}

/// Adds the place to an error thrown while a node is built.
[[noreturn]] void rethrow_at(const CompileError& error, const std::string& node_name, const Span& span) {
  std::vector<Diagnostic> placed = error.diagnostics();
  for (Diagnostic& d : placed) {
    if (!node_name.empty()) d.node = fmt::format("{} ({})", node_name, d.node);
    if (!d.span.file) d.span = span;
  }
  throw CompileError(std::move(placed));
}

void check_attrs(const OpDef& op, Attrs& attrs) {
  auto fail = [&](std::string code, std::string message, std::string expected, std::string found) {
    throw CompileError(Diagnostic{.code = std::move(code),
                                  .message = std::move(message),
                                  .node = std::string(op.name),
                                  .expected = std::move(expected),
                                  .found = std::move(found)});
  };
  size_t known_attrs = 0;
  for (const auto& [name, value] : attrs) {
    if (name == kMemoryAttr && std::holds_alternative<std::string>(value)) continue;  // any node may have it
    auto spec = std::find_if(op.attrs.begin(), op.attrs.end(), [&](const AttrSpec& s) { return s.name == name; });
    if (spec == op.attrs.end()) {
      std::string known;
      for (const AttrSpec& s : op.attrs) known += fmt::format("{}`{}`", known.empty() ? "" : ", ", s.name);
      fail("unknown-attribute", fmt::format("`{}` is not an attribute of this operator", name),
           known.empty() ? "no attribute" : "one of " + known, name);
    }
    if (value.index() != static_cast<size_t>(spec->kind))
      fail("attribute-kind", fmt::format("attribute `{}` has the wrong kind", name), std::string(kind_name(spec->kind)),
           std::string(kind_name(static_cast<AttrKind>(value.index()))));
    ++known_attrs;
  }
  if (known_attrs == op.attrs.size()) return;
  for (const AttrSpec& spec : op.attrs) {
    if (attrs.contains(spec.name)) continue;
    if (!spec.default_value)
      fail("missing-attribute", fmt::format("attribute `{}` is missing", spec.name), std::string(kind_name(spec.kind)),
           "nothing");
    attrs.emplace(spec.name, *spec.default_value);
  }
}

}  // namespace

bool CallSite::flag(std::string_view name) const { return attr_as<bool>(attrs_, name); }
int64_t CallSite::integer(std::string_view name) const { return attr_as<int64_t>(attrs_, name); }
double CallSite::number(std::string_view name) const { return attr_as<double>(attrs_, name); }
const std::string& CallSite::text(std::string_view name) const { return attr_as<std::string>(attrs_, name); }
const std::vector<int64_t>& CallSite::integers(std::string_view name) const {
  return attr_as<std::vector<int64_t>>(attrs_, name);
}

void CallSite::error(int operand, std::string code, std::string expected) const {
  throw CompileError(operand_error(*this, operand, std::move(code), std::move(expected), ErrorKind::Malformed));
}

void CallSite::unsupported(int operand, std::string code, std::string reason) const {
  throw CompileError(operand_error(*this, operand, std::move(code), std::move(reason), ErrorKind::Unsupported));
}

[[noreturn]] static void fail_operand_count(const OpDef& op, std::span<const TensorType* const> inputs) {
  std::string given;
  for (const TensorType* type : inputs) given += (given.empty() ? ": " : ", ") + to_string(*type);
  throw CompileError(Diagnostic{.code = "operand-count",
                                .message = fmt::format("{} operands given{}", inputs.size(), given),
                                .node = std::string(op.name),
                                .expected = fmt::format("{}{}", op.variadic ? "at least " : "", op.inputs.size()),
                                .found = std::to_string(inputs.size())});
}

std::vector<const TensorType*> pointers_to(std::span<const TensorType> types) {
  std::vector<const TensorType*> out;
  for (const TensorType& type : types) out.push_back(&type);
  return out;
}

std::vector<TensorType> infer_types(const OpDef& op, std::span<const TensorType> inputs, Attrs& attrs,
                                    const std::string& node_name, const Span& span) {
  return infer_types(op, pointers_to(inputs), attrs, node_name, span);
}

std::vector<TensorType> infer_types(const OpDef& op, std::vector<const TensorType*> inputs, Attrs& attrs,
                                    const std::string& node_name, const Span& span) {
  try {
    size_t declared = op.inputs.size();
    bool count_fits = op.variadic ? inputs.size() >= declared : inputs.size() == declared;
    if (!count_fits) fail_operand_count(op, inputs);
    check_attrs(op, attrs);
    CallSite call(op, std::move(inputs), attrs);
    if (call.input_count() > 0 && !contains(op.dtypes, call.in(0).dtype))
      call.unsupported(0, "operand-dtype",
                       op.dtype_note.empty() ? "a dtype that this operator takes" : std::string(op.dtype_note));
    return op.infer(call);
  } catch (const CompileError& error) {
    rethrow_at(error, node_name, span);
  }
}

OpTable::OpTable(std::vector<const OpDef*> ops) : ops_(std::move(ops)) {
  std::sort(ops_.begin(), ops_.end(), [](const OpDef* a, const OpDef* b) { return a->name < b->name; });
  for (size_t i = 1; i < ops_.size(); ++i) check(ops_[i - 1]->name != ops_[i]->name, "operator names are unique");
}

const OpDef* OpTable::find(std::string_view name) const {
  auto it = std::lower_bound(ops_.begin(), ops_.end(), name, [](const OpDef* op, std::string_view n) { return op->name < n; });
  return it != ops_.end() && (*it)->name == name ? *it : nullptr;
}

}  // namespace tenon::graph
