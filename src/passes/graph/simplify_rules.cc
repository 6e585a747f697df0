// SPDX-License-Identifier: Apache-2.0
// Rewrites around one node. Each gives the same bits as what it replaces, for every float value.
#include "passes/graph/simplify_rules.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "op/fold.h"
#include "op/ops.h"
#include "passes/graph/functions.h"

namespace tenon::pass {
namespace {

using graph::Attrs;
using graph::Builder;
using graph::Node;
using graph::NodeKind;
using graph::OpDef;
using graph::ValueId;
using Replacement = std::optional<ValueId>;
using Ints = std::vector<int64_t>;

/// A concat of concats reads at most this many parts after flattening.
constexpr size_t kMaxConcatParts = 32;

/// What a rule sees.
struct Site {
  Builder& builder;
  const Node& node;
  const std::vector<bool>& sole_reader;

  ValueId in(size_t i = 0) const { return node.inputs[i]; }
  const TensorType& in_type(size_t i = 0) const { return builder.type(node.inputs[i]); }
  const TensorType& type() const { return node.types[0]; }
  const Ints& ints(std::string_view name) const { return std::get<Ints>(node.attrs.find(name)->second); }
  int64_t integer(std::string_view name) const { return std::get<int64_t>(node.attrs.find(name)->second); }
  /// The node behind an operand if it is a use of `op`, else null. Valid until a node is appended.
  const Node* operand(size_t i, const OpDef& op) const {
    const Node* def = builder.definition(in(i));
    return def && def->kind == NodeKind::Op && def->op == &op ? def : nullptr;
  }
};

/// The value of all elements, if they are equal bit for bit and there is one.
std::optional<double> uniform(const Array& array) {
  if (array.bytes.empty()) return std::nullopt;
  size_t step = static_cast<size_t>(byte_size(array.dtype));
  if (std::memcmp(array.bytes.data(), array.bytes.data() + step, array.bytes.size() - step) != 0) return std::nullopt;
  return op::with_wide(array.dtype, [&](auto wide) {
    op::widen(array, 0, 1, &wide);
    return static_cast<double>(wide);
  });
}

std::optional<double> uniform(const Site& site, size_t operand) {
  const Array* array = site.builder.constant_value(site.in(operand));
  return array ? uniform(*array) : std::nullopt;
}

/// Whether every value of `from` is one of `to`.
bool lossless(DType from, DType to) {
  auto digits = [](DType d) {
    switch (d) {
      case DType::F16: return 11;
      case DType::BF16: return 8;
      case DType::F32: return 24;
      case DType::F64: return 53;
      default: return bit_width(d) - (is_signed_integer(d) ? 1 : 0);
    }
  };
  if (from == to || from == DType::Bool) return true;
  if (to == DType::Bool || (is_float(from) && !is_float(to))) return false;
  if (is_float(from)) return byte_size(from) < byte_size(to);
  if (is_signed_integer(from) && is_unsigned_integer(to)) return false;
  return digits(from) <= digits(to);
}

Replacement simplify_identity(const Site& site) { return site.in(); }

// cast(cast(x)) -> cast(x), when the inner one loses nothing and the outer one treats out-of-range values alike: an
// integer wraps, but one that went through a float saturates.
Replacement simplify_cast(const Site& site) {
  DType to = site.type().dtype;
  if (site.in_type().dtype == to) return site.in();
  const Node* inner = site.operand(0, op::cast);
  if (!inner) return std::nullopt;
  ValueId x = inner->inputs[0];
  DType from = site.builder.type(x).dtype, middle = inner->types[0].dtype;
  bool saturates = is_float(middle) && !is_float(from) && !is_float(to) && !lossless(from, to);
  if (!lossless(from, middle) || saturates) return std::nullopt;
  if (from == to) return x;
  return site.builder.call1(op::cast, {x}, {{"to", std::string(name(to))}});
}

Replacement simplify_transpose(const Site& site) {
  const Ints& outer = site.ints("axes");
  if (const Node* inner = site.operand(0, op::transpose)) {
    const Ints& first = std::get<Ints>(inner->attrs.find("axes")->second);
    Ints axes;
    for (int64_t a : outer) axes.push_back(first[static_cast<size_t>(a)]);
    if (!std::is_sorted(axes.begin(), axes.end())) return site.builder.call1(op::transpose, {inner->inputs[0]}, {{"axes", axes}});
    return inner->inputs[0];
  }
  if (std::is_sorted(outer.begin(), outer.end())) return site.in();
  return std::nullopt;
}

/// The innermost operand of a chain of one operator whose result depends on the last shape only.
Replacement last_of_chain(const Site& site, const OpDef& op) {
  if (site.in_type() == site.type()) return site.in();
  const Node* inner = site.operand(0, op);
  if (!inner || !site.type().is_static()) return std::nullopt;
  ValueId x = inner->inputs[0];
  if (site.builder.type(x) == site.type()) return x;
  return site.builder.call1(op, {x}, {{"shape", site.type().static_shape()}});
}

Replacement simplify_reshape(const Site& site) { return last_of_chain(site, op::reshape); }
Replacement simplify_broadcast_to(const Site& site) { return last_of_chain(site, op::broadcast_to); }

/// Operand i unless the other one stretches it.
Replacement keep_operand(const Site& site, size_t i) {
  if (site.in_type(i) == site.type()) return site.in(i);
  return std::nullopt;
}

Replacement simplify_multiply(const Site& site) {
  for (size_t i = 0; i < 2; ++i)
    if (uniform(site, 1 - i) == 1) return keep_operand(site, i);
  return std::nullopt;
}

/// x + 0 is x for integers; for floats only -0 is neutral, since -0 + 0 is 0.
Replacement simplify_add(const Site& site) {
  for (size_t i = 0; i < 2; ++i) {
    std::optional<double> c = uniform(site, 1 - i);
    if (c && *c == 0 && (!is_float(site.type().dtype) || std::signbit(*c))) return keep_operand(site, i);
  }
  return std::nullopt;
}

Replacement simplify_subtract(const Site& site) {
  std::optional<double> c = uniform(site, 1);
  if (c && *c == 0 && !std::signbit(*c)) return keep_operand(site, 0);
  return std::nullopt;
}

// x / 2^k -> x * 2^-k: both round the same exact quotient. The reciprocal must be a normal number.
Replacement simplify_divide(const Site& site) {
  std::optional<double> c = uniform(site, 1);
  if (!c) return std::nullopt;
  if (*c == 1) return keep_operand(site, 0);
  DType dtype = site.type().dtype;
  int exponent = 0;
  bool power_of_two = std::isfinite(*c) && std::fabs(std::frexp(*c, &exponent)) == 0.5;
  if ((dtype != DType::F32 && dtype != DType::F64) || !power_of_two) return std::nullopt;
  double reciprocal = 1 / *c;
  double smallest =
      dtype == DType::F32 ? static_cast<double>(std::numeric_limits<float>::min()) : std::numeric_limits<double>::min();
  if (!std::isfinite(reciprocal) || std::fabs(reciprocal) < smallest) return std::nullopt;
  MutableArray factor(dtype, site.in_type(1).static_shape());
  std::vector<double> values(static_cast<size_t>(element_count(factor.shape)), reciprocal);
  op::narrow(values.data(), static_cast<int64_t>(values.size()), factor, 0);
  ValueId by = site.builder.constant(std::move(factor).freeze(), "reciprocal");
  return site.builder.call1(op::multiply, {site.in(0), by});
}

// x ^ 2 -> x * x where the power is computed in f64, in which the square of a narrower float is exact.
Replacement simplify_power(const Site& site) {
  DType dtype = site.type().dtype;
  if (!is_float(dtype) || site.in_type(0) != site.type()) return std::nullopt;
  std::optional<double> c = uniform(site, 1);
  if (c == 1) return site.in(0);
  if (c != 2 || dtype == DType::F64) return std::nullopt;
  return site.builder.call1(op::multiply, {site.in(0), site.in(0)});
}

/// f(f(x)) -> x.
Replacement simplify_involution(const Site& site) {
  const Node* inner = site.operand(0, *site.node.op);
  return inner ? Replacement(inner->inputs[0]) : std::nullopt;
}

Replacement simplify_slice(const Site& site) {
  const Ints& strides = site.ints("strides");
  bool forward = std::all_of(strides.begin(), strides.end(), [](int64_t s) { return s == 1; });
  if (forward && site.in_type() == site.type()) return site.in();
  return std::nullopt;
}

bool all_zero(const Ints& values) {
  return std::all_of(values.begin(), values.end(), [](int64_t v) { return v == 0; });
}

Replacement simplify_split(const Site& site) { return site.in(); }

Replacement simplify_pad(const Site& site) {
  if (all_zero(site.ints("before")) && all_zero(site.ints("after"))) return site.in();
  return std::nullopt;
}

// conv(pad(x, 0)) -> conv(x) with wider padding.
Replacement simplify_conv(const Site& site) {
  const Node* inner = site.operand(0, op::pad);
  if (!inner || std::get<std::string>(inner->attrs.find("mode")->second) != "constant") return std::nullopt;
  const Array* border = site.builder.constant_value(inner->inputs[1]);
  if (!border || uniform(*border) != 0) return std::nullopt;
  const Ints &before = std::get<Ints>(inner->attrs.find("before")->second),
             &after = std::get<Ints>(inner->attrs.find("after")->second);
  auto negative = [](int64_t width) { return width < 0; };
  if (std::any_of(before.begin(), before.end(), negative) || std::any_of(after.begin(), after.end(), negative))
    return std::nullopt;
  if (before[0] || before[1] || after[0] || after[1]) return std::nullopt;
  Attrs attrs = site.node.attrs;
  Ints& pads = std::get<Ints>(attrs.find("pads")->second);
  size_t spatial = before.size() - 2;
  for (size_t k = 0; k < spatial; ++k) {
    pads[k] += before[k + 2];
    pads[spatial + k] += after[k + 2];
  }
  return site.builder.call1(op::conv, {inner->inputs[0], site.in(1)}, std::move(attrs));
}

// concat(a, concat(b, c)) -> concat(a, b, c) on one axis, if nothing else needs the inner one.
Replacement simplify_concat(const Site& site) {
  if (site.node.inputs.size() == 1) return site.in();
  std::vector<ValueId> parts;
  for (size_t i = 0; i < site.node.inputs.size(); ++i) {
    const Node* inner = site.sole_reader[i] ? site.operand(i, op::concat) : nullptr;
    bool same_axis = inner && inner->attrs == site.node.attrs;
    if (same_axis)
      parts.insert(parts.end(), inner->inputs.begin(), inner->inputs.end());
    else
      parts.push_back(site.in(i));
  }
  if (parts.size() == site.node.inputs.size() || parts.size() > kMaxConcatParts) return std::nullopt;
  return site.builder.call1(op::concat, std::move(parts), site.node.attrs);
}

/// The extents of shapes broadcast together.
Shape broadcast_extents(const std::vector<Shape>& shapes) {
  Shape out;
  for (const Shape& shape : shapes) {
    if (shape.size() > out.size()) out.insert(out.begin(), shape.size() - out.size(), 1);
    for (size_t k = 1; k <= shape.size(); ++k)
      if (shape[shape.size() - k] != 1) out[out.size() - k] = shape[shape.size() - k];
  }
  return out;
}

/// The shape of something smaller that broadcasts to what an operand is: what a broadcast_to read, or one value of a
/// constant whose elements are all equal.
std::optional<Shape> narrower_shape(const Site& site, size_t i) {
  if (const Node* inner = site.operand(i, op::broadcast_to)) {
    const TensorType& type = site.builder.type(inner->inputs[0]);
    return type.is_static() ? std::optional(type.static_shape()) : std::nullopt;
  }
  const Array* array = site.builder.constant_value(site.in(i));
  return array && !array->shape.empty() && uniform(*array) ? std::optional(Shape{}) : std::nullopt;
}

ValueId narrower(const Site& site, size_t i) {
  if (const Node* inner = site.operand(i, op::broadcast_to)) return inner->inputs[0];
  Array scalar = *site.builder.constant_value(site.in(i));
  scalar.shape.clear();
  scalar.bytes = scalar.bytes.first(static_cast<size_t>(byte_size(scalar.dtype)));
  return site.builder.constant(std::move(scalar), site.builder.definition(site.in(i))->callee);
}

/// The shapes of the operands; nothing if one is not known.
std::optional<std::vector<Shape>> operand_shapes(const Site& site) {
  std::vector<Shape> shapes;
  for (size_t i = 0; i < site.node.inputs.size(); ++i) {
    if (!site.in_type(i).is_static()) return std::nullopt;
    shapes.push_back(site.in_type(i).static_shape());
  }
  return shapes;
}

// add(broadcast_to(x), y) -> add(x, y), where y alone gives the result its shape; so for constants of one value.
Replacement narrow_operands(const Site& site) {
  bool onto_first = site.node.op == &op::clip || site.node.op == &op::prelu;
  std::vector<Shape> shapes;  // these two once an operand may be narrower
  std::vector<ValueId> operands;
  for (size_t i = onto_first ? 1 : 0; i < site.node.inputs.size(); ++i) {
    std::optional<Shape> lean = narrower_shape(site, i);
    if (!lean) continue;
    if (shapes.empty()) {
      std::optional<std::vector<Shape>> known = operand_shapes(site);
      if (!known) return std::nullopt;
      shapes = std::move(*known);
      operands = site.node.inputs;
    }
    std::swap(shapes[i], *lean);
    if (broadcast_extents(shapes) == site.type().static_shape())
      operands[i] = narrower(site, i);
    else
      std::swap(shapes[i], *lean);
  }
  if (operands.empty() || operands == site.node.inputs) return std::nullopt;
  return site.builder.call1(*site.node.op, std::move(operands), site.node.attrs);
}

struct Rule {
  const OpDef* op;
  Replacement (*apply)(const Site& site);
};

constexpr Rule kRules[] = {
    {&op::identity, simplify_identity},
    {&op::cast, simplify_cast},
    {&op::transpose, simplify_transpose},
    {&op::reshape, simplify_reshape},
    {&op::broadcast_to, simplify_broadcast_to},
    {&op::multiply, simplify_multiply},
    {&op::add, simplify_add},
    {&op::subtract, simplify_subtract},
    {&op::divide, simplify_divide},
    {&op::power, simplify_power},
    {&op::neg, simplify_involution},
    {&op::logical_not, simplify_involution},
    {&op::bitwise_not, simplify_involution},
    {&op::strided_slice, simplify_slice},
    {&op::split, simplify_split},
    {&op::pad, simplify_pad},
    {&op::conv, simplify_conv},
    {&op::concat, simplify_concat},
};

}  // namespace

std::optional<ValueId> simplify_node(Builder& builder, const Node& node, const std::vector<bool>& sole_reader) {
  Site site{builder, node, sole_reader};
  for (const Rule& rule : kRules)
    if (rule.op == node.op)
      if (Replacement r = rule.apply(site)) return r;
  if (is_elementwise(*node.op)) return narrow_operands(site);
  return std::nullopt;
}

}  // namespace tenon::pass
