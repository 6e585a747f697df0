// SPDX-License-Identifier: Apache-2.0
// ONNX rules of the element-wise operators, and of those that hand a tensor on: Constant, Identity, Cast, Dropout.
#include <fmt/format.h>

#include "op/elementwise.h"
#include "op/onnx_build.h"

namespace tenon::op {
namespace {

using Values = std::vector<ValueId>;

Values build_identity(OnnxNode& node, Builder&) { return {node.in(0)}; }

/// An activation with the one attribute `alpha`.
template <const OpDef& op, double fallback>
Values with_alpha(OnnxNode& node, Builder& builder) {
  return {builder.call1(op, {node.in(0)}, {{"alpha", node.attr("alpha", fallback)}})};
}

Values build_selu(OnnxNode& node, Builder& builder) {
  return {builder.call1(
      selu, {node.in(0)},
      {{"alpha", node.attr("alpha", 1.67326319217681884765625)}, {"gamma", node.attr("gamma", 1.05070102214813232421875)}})};
}

Values build_hard_sigmoid(OnnxNode& node, Builder& builder) {
  return {builder.call1(hard_sigmoid, {node.in(0)}, {{"alpha", node.attr("alpha", 0.2)}, {"beta", node.attr("beta", 0.5)}})};
}

Values build_gelu(OnnxNode& node, Builder& builder) {
  return {builder.call1(gelu, {node.in(0)}, {{"approximate", node.attr("approximate", "none")}})};
}

Values build_shrink(OnnxNode& node, Builder& builder) {
  return {builder.call1(shrink, {node.in(0)}, {{"bias", node.attr("bias", 0.0)}, {"lambd", node.attr("lambd", 0.5)}})};
}

Values build_swish(OnnxNode& node, Builder& builder) {
  ValueId x = node.in(0);
  ValueId scaled = builder.call1(multiply, {x, scalar(builder, node.type(0).dtype, node.attr("alpha", 1.0))});
  return {builder.call1(multiply, {x, builder.call1(sigmoid, {scaled})})};
}

Values build_isinf(OnnxNode& node, Builder& builder) {
  return {builder.call1(isinf, {node.in(0)},
                        {{"detect_positive", node.attr("detect_positive", int64_t{1}) != 0},
                         {"detect_negative", node.attr("detect_negative", int64_t{1}) != 0}})};
}

// Clip: the bounds became inputs at opset 11; a bound left out does not limit.

Values clip_between(OnnxNode& node, Builder& builder, std::optional<ValueId> low, std::optional<ValueId> high) {
  ValueId x = node.in(0);
  if (low && high) return {builder.call1(clip, {x, *low, *high})};
  if (low) return {builder.call1(maximum, {x, *low})};
  if (high) return {builder.call1(minimum, {x, *high})};
  return {x};
}

Values build_clip_6(OnnxNode& node, Builder& builder) {
  std::optional<ValueId> low, high;
  DType dtype = node.type(0).dtype;
  if (node.has_attr("min")) low = scalar(builder, dtype, node.attr("min", 0.0));
  if (node.has_attr("max")) high = scalar(builder, dtype, node.attr("max", 0.0));
  return clip_between(node, builder, low, high);
}

Values build_clip_11(OnnxNode& node, Builder& builder) {
  std::optional<ValueId> low, high;
  if (node.has(1)) low = node.in(1);
  if (node.has(2)) high = node.in(2);
  return clip_between(node, builder, low, high);
}

/// Both operands may have different dtypes; the result has the base's. An integer base with a float exponent is computed
/// in f64.
Values build_pow(OnnxNode& node, Builder& builder) {
  DType base = node.type(0).dtype, exponent = node.type(1).dtype;
  DType common = is_float(exponent) && !is_float(base) ? DType::F64 : base;
  ValueId result = builder.call1(power, {cast_to(builder, node.in(0), common), cast_to(builder, node.in(1), common)});
  return {cast_to(builder, result, base)};
}

Values build_mod(OnnxNode& node, Builder& builder) {
  bool fmod = node.attr("fmod", int64_t{0}) != 0;
  if (!fmod && is_float(node.type(0).dtype)) node.malformed("floats with `fmod` 0", "`fmod` 1 for floats", "0");
  return {builder.call1(mod, {node.in(0), node.in(1)}, {{"fmod", fmod}})};
}

Values build_bit_shift(OnnxNode& node, Builder& builder) {
  std::string direction = node.attr("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") node.malformed("`direction` is neither", "LEFT or RIGHT", direction);
  return {builder.call1(direction == "LEFT" ? shift_left : shift_right, {node.in(0), node.in(1)})};
}

/// Folds any number of inputs from the left.
template <const OpDef& op>
Values variadic(OnnxNode& node, Builder& builder) {
  Values inputs = all_inputs(node);
  if (inputs.empty()) node.malformed("no input given", "one input or more", "0");
  ValueId result = inputs[0];
  for (size_t i = 1; i < inputs.size(); ++i) result = builder.call1(op, {result, inputs[i]});
  return {result};
}

Values build_mean(OnnxNode& node, Builder& builder) {
  ValueId total = variadic<add>(node, builder)[0];
  return {builder.call1(divide, {total, scalar(builder, node.type(0).dtype, static_cast<double>(node.input_count()))})};
}

Values build_cast(OnnxNode& node, Builder& builder) {
  node.ignore("saturate");  // concerns 8-bit floats only
  int64_t to = node.attr("to", int64_t{0});
  auto dtype = dtype_from_onnx(to);
  if (!dtype) node.unsupported(fmt::format("a cast to data type {}", to));
  return {cast_to(builder, node.in(0), *dtype)};
}

Values build_cast_like(OnnxNode& node, Builder& builder) {
  node.ignore("saturate");
  return {cast_to(builder, node.in(0), node.type(1).dtype)};
}

/// Inference keeps every element, so the mask is all ones: bool from opset 10 on, of the data's dtype before.
Values build_dropout(OnnxNode& node, Builder& builder) {
  node.ignore("seed");
  node.ignore("ratio");
  if (node.has(2)) {
    bool may_drop = !node.constant(2) || node.constant_ints(2) != std::vector<int64_t>{0};
    if (may_drop && node.has(1) && node.constant_floats(1) == std::vector<double>{0}) may_drop = false;
    if (may_drop) node.unsupported("dropout in training mode");
  }
  Values results{node.in(0)};
  if (node.wants(1)) {
    const TensorType& type = node.type(0);
    if (!type.is_static()) node.unsupported("the mask of a dropout of symbolic shape");
    results.push_back(full(builder, node.opset() >= 10 ? DType::Bool : type.dtype, type.static_shape(), 1));
  }
  return results;
}

Values build_constant(OnnxNode& node, Builder& builder) {
  if (auto value = node.tensor("value")) return {builder.constant(std::move(*value), "constant")};
  if (node.has_attr("value_int"))
    return {builder.constant(array_of<int64_t>(DType::I64, {}, {node.attr("value_int", int64_t{0})}))};
  if (node.has_attr("value_ints")) {
    std::vector<int64_t> values = node.ints("value_ints", {});
    return {builder.constant(array_of(DType::I64, {static_cast<int64_t>(values.size())}, values))};
  }
  if (node.has_attr("value_float")) return {scalar(builder, DType::F32, node.attr("value_float", 0.0))};
  if (node.has_attr("value_floats")) {
    std::vector<double> values = node.floats("value_floats", {});
    std::vector<float> narrow(values.begin(), values.end());
    return {builder.constant(array_of(DType::F32, {static_cast<int64_t>(narrow.size())}, narrow))};
  }
  node.unsupported("a constant of strings or in sparse form");
}

const OnnxRule kUnaryRules[] = {
    {"Identity", 1, build_identity}, {"Neg", 6, direct<neg>},         {"Abs", 6, direct<abs>},
    {"Floor", 6, direct<floor>},     {"Ceil", 6, direct<ceil>},       {"Round", 11, direct<round>},
    {"Sign", 9, direct<sign>},       {"Sqrt", 6, direct<sqrt>},       {"Reciprocal", 6, direct<reciprocal>},
    {"Exp", 6, direct<exp>},         {"Log", 6, direct<log>},         {"Erf", 9, direct<erf>},
    {"Sin", 7, direct<sin>},         {"Cos", 7, direct<cos>},         {"Tan", 7, direct<tan>},
    {"Asin", 7, direct<asin>},       {"Acos", 7, direct<acos>},       {"Atan", 7, direct<atan>},
    {"Sinh", 9, direct<sinh>},       {"Cosh", 9, direct<cosh>},       {"Tanh", 6, direct<tanh>},
    {"Asinh", 9, direct<asinh>},     {"Acosh", 9, direct<acosh>},     {"Atanh", 9, direct<atanh>},
    {"Not", 1, direct<logical_not>}, {"IsNaN", 9, direct<isnan>},     {"BitwiseNot", 18, direct<bitwise_not>},
    {"IsInf", 10, build_isinf},      {"Cast", 6, build_cast},         {"CastLike", 15, build_cast_like},
    {"Dropout", 7, build_dropout},   {"Constant", 1, build_constant},
};

const OnnxRule kActivationRules[] = {
    {"Relu", 6, direct<relu>},
    {"Sigmoid", 6, direct<sigmoid>},
    {"Softplus", 1, direct<softplus>},
    {"Softsign", 1, direct<softsign>},
    {"HardSwish", 14, direct<hard_swish>},
    {"Mish", 18, direct<mish>},
    {"LeakyRelu", 6, with_alpha<leaky_relu, 0.01>},
    {"Elu", 6, with_alpha<elu, 1.0>},
    {"Celu", 12, with_alpha<celu, 1.0>},
    {"ThresholdedRelu", 10, with_alpha<thresholded_relu, 1.0>},
    {"Selu", 6, build_selu},
    {"HardSigmoid", 6, build_hard_sigmoid},
    {"Gelu", 20, build_gelu},
    {"Shrink", 9, build_shrink},
    {"Swish", 24, build_swish},
};

const OnnxRule kBinaryRules[] = {
    {"Add", 7, direct<add>},
    {"Sub", 7, direct<subtract>},
    {"Mul", 7, direct<multiply>},
    {"Div", 7, direct<divide>},
    {"Pow", 7, build_pow},
    {"Mod", 10, build_mod},
    {"Equal", 7, direct<equal>},
    {"Less", 7, direct<less>},
    {"LessOrEqual", 12, direct<less_equal>},
    {"Greater", 7, direct<greater>},
    {"GreaterOrEqual", 12, direct<greater_equal>},
    {"And", 7, direct<logical_and>},
    {"Or", 7, direct<logical_or>},
    {"Xor", 7, direct<logical_xor>},
    {"BitwiseAnd", 18, direct<bitwise_and>},
    {"BitwiseOr", 18, direct<bitwise_or>},
    {"BitwiseXor", 18, direct<bitwise_xor>},
    {"BitShift", 11, build_bit_shift},
    {"Where", 9, direct<where>},
    {"PRelu", 7, direct<prelu>},
    {"Clip", 6, build_clip_6},
    {"Clip", 11, build_clip_11},
    {"Max", 6, variadic<maximum>},
    {"Min", 6, variadic<minimum>},
    {"Sum", 6, variadic<add>},
    {"Mean", 6, build_mean},
};

}  // namespace

std::vector<OnnxRule> elementwise_rules() {
  std::vector<OnnxRule> rules(std::begin(kUnaryRules), std::end(kUnaryRules));
  rules.insert(rules.end(), std::begin(kActivationRules), std::end(kActivationRules));
  rules.insert(rules.end(), std::begin(kBinaryRules), std::end(kBinaryRules));
  return rules;
}

}  // namespace tenon::op
