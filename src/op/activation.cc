// SPDX-License-Identifier: Apache-2.0
// Activation functions of one element. Those made of several steps compute 16-bit floats at f32 and round once.
#include <cmath>

#include "op/elementwise.h"
#include "op/fold.h"

namespace tenon::op {

using graph::AttrKind;
using graph::kFloats;
using graph::kNumeric;
using tir::BinaryOp;
using tir::Intrinsic;
using tir::select;

namespace {

Expr number(const Expr& like, double value) { return tir::imm(like->dtype, value); }
Expr ratio(const Expr& a, const Expr& b) { return tir::binary(BinaryOp::Div, a, b); }
Expr clamp(const Expr& x, double low, double high) { return tir::min(tir::max(x, number(x, low)), number(x, high)); }
Expr expm1(const Expr& x) { return tir::call(Intrinsic::Expm1, {x}); }

/// F(call, x) at the accumulation dtype of x, rounded to the dtype of x.
template <auto F>
Expr widened(const CallSite& call, const Expr& x) {
  return tir::cast(x->dtype, F(call, tir::cast(accumulation_dtype(x->dtype), x)));
}

template <auto F>
OpDef activation(std::string_view name, std::string_view doc, std::vector<graph::AttrSpec> attrs = {}) {
  return unary(name, doc, kFloats, kFloatNote, map_unary<widened<F>>, nullptr, std::move(attrs));
}

Expr sigmoid_of(const CallSite&, const Expr& x) {
  return ratio(number(x, 1), number(x, 1) + tir::call(Intrinsic::Exp, {number(x, 0) - x}));
}

/// log(1 + e^x) without overflow for large x.
Expr softplus_of(const CallSite&, const Expr& x) {
  Expr small = tir::call(Intrinsic::Exp, {number(x, 0) - tir::call(Intrinsic::Abs, {x})});
  return tir::max(x, number(x, 0)) + tir::call(Intrinsic::Log1p, {small});
}

Expr softsign_of(const CallSite&, const Expr& x) { return ratio(x, number(x, 1) + tir::call(Intrinsic::Abs, {x})); }

Expr leaky_relu_of(const CallSite& call, const Expr& x) {
  return select(tir::lt(x, number(x, 0)), x * number(x, call.number("alpha")), x);
}

Expr elu_of(const CallSite& call, const Expr& x) {
  return select(tir::lt(x, number(x, 0)), number(x, call.number("alpha")) * expm1(x), x);
}

Expr celu_of(const CallSite& call, const Expr& x) {
  Expr alpha = number(x, call.number("alpha"));
  return select(tir::lt(x, number(x, 0)), alpha * expm1(ratio(x, alpha)), x);
}

Expr selu_of(const CallSite& call, const Expr& x) {
  double alpha = call.number("alpha"), gamma = call.number("gamma");
  return select(tir::le(x, number(x, 0)), number(x, gamma * alpha) * expm1(x), number(x, gamma) * x);
}

Expr hard_sigmoid_of(const CallSite& call, const Expr& x) {
  return clamp(number(x, call.number("alpha")) * x + number(x, call.number("beta")), 0, 1);
}

Expr hard_swish_of(const CallSite&, const Expr& x) { return x * clamp(number(x, 1.0 / 6) * x + number(x, 0.5), 0, 1); }

Expr gelu_of(const CallSite& call, const Expr& x) {
  Expr gate;
  if (call.text("approximate") == "tanh") {
    Expr inner = number(x, std::sqrt(2 / M_PI)) * (x + number(x, 0.044715) * (x * x * x));
    gate = tir::call(Intrinsic::Tanh, {inner});
  } else {
    gate = tir::call(Intrinsic::Erf, {x * number(x, M_SQRT1_2)});
  }
  return number(x, 0.5) * x * (number(x, 1) + gate);
}

Expr mish_of(const CallSite& call, const Expr& x) { return x * tir::call(Intrinsic::Tanh, {softplus_of(call, x)}); }

Expr thresholded_relu_of(const CallSite& call, const Expr& x) {
  return select(tir::le(x, number(x, call.number("alpha"))), number(x, 0), x);
}

Expr shrink_of(const CallSite& call, const Expr& x) {
  DType wide = is_float(x->dtype) ? accumulation_dtype(x->dtype) : DType::F64;
  Expr w = tir::cast(wide, x);
  Expr lambd = number(w, call.number("lambd")), bias = number(w, call.number("bias"));
  Expr low = number(w, -call.number("lambd"));
  return tir::cast(x->dtype, select(tir::lt(w, low), w + bias, select(tir::lt(lambd, w), w - bias, number(w, 0))));
}

// gelu-C1  `approximate` is `none` or `tanh`
std::vector<TensorType> infer_gelu(const CallSite& call) {
  const std::string& form = call.text("approximate");
  if (form != "none" && form != "tanh") call.error(-1, "gelu-C1", "`none` or `tanh` in `approximate`, not `" + form + "`");
  return infer_same(call);
}

OpDef make_gelu() {
  OpDef op = activation<gelu_of>("gelu", "x times the normal distribution function of x",
                                 {{"approximate", AttrKind::String, "none", "`tanh` for the form with tanh, else `none`"}});
  op.infer = infer_gelu;
  return op;
}

}  // namespace

const OpDef relu = unary("relu", "max(x, 0); NaN stays NaN", kNumeric, kNumberNote,
                         map_unary<[](const Expr& x) { return tir::max(x, number(x, 0)); }>,
                         fold_each<[](auto x) { return x < 0 ? decltype(x){0} : x; }>);
const OpDef sigmoid = activation<sigmoid_of>("sigmoid", "1 / (1 + e^-x)");
const OpDef softplus = activation<softplus_of>("softplus", "log(1 + e^x)");
const OpDef softsign = activation<softsign_of>("softsign", "x / (1 + |x|)");
const OpDef leaky_relu =
    activation<leaky_relu_of>("leaky_relu", "x, or alpha x below 0", {{"alpha", AttrKind::Float, 0.01, "the slope below 0"}});
const OpDef elu =
    activation<elu_of>("elu", "x, or alpha (e^x - 1) below 0", {{"alpha", AttrKind::Float, 1.0, "the limit below 0, negated"}});
const OpDef celu = activation<celu_of>("celu", "x, or alpha (e^(x/alpha) - 1) below 0",
                                       {{"alpha", AttrKind::Float, 1.0, "the limit below 0, negated; not 0"}});
const OpDef selu =
    activation<selu_of>("selu", "gamma x, or gamma alpha (e^x - 1) below 0",
                        {{"alpha", AttrKind::Float, 1.67326319217681884765625, "the limit below 0 over gamma, negated"},
                         {"gamma", AttrKind::Float, 1.05070102214813232421875, "the slope above 0"}});
const OpDef hard_sigmoid =
    activation<hard_sigmoid_of>("hard_sigmoid", "alpha x + beta, clamped to [0, 1]",
                                {{"alpha", AttrKind::Float, 0.2, "the slope"}, {"beta", AttrKind::Float, 0.5, "the value at 0"}});
const OpDef hard_swish = activation<hard_swish_of>("hard_swish", "x times (x/6 + 1/2 clamped to [0, 1])");
const OpDef gelu = make_gelu();
const OpDef mish = activation<mish_of>("mish", "x tanh(log(1 + e^x))");
const OpDef thresholded_relu = activation<thresholded_relu_of>("thresholded_relu", "x above alpha, else 0; NaN stays NaN",
                                                               {{"alpha", AttrKind::Float, 1.0, "the threshold"}});
const OpDef shrink = unary("shrink", "x + bias below -lambd, x - bias above lambd, else 0; integers by way of f64", kNumeric,
                           kNumberNote, map_unary<shrink_of>, nullptr,
                           {{"bias", AttrKind::Float, 0.0, "what is taken off the magnitude"},
                            {"lambd", AttrKind::Float, 0.5, "the largest magnitude that becomes 0"}});

std::vector<const OpDef*> activation_ops() {
  return {&relu,         &sigmoid,    &softplus, &softsign, &leaky_relu,       &elu,   &celu, &selu,
          &hard_sigmoid, &hard_swish, &gelu,     &mish,     &thresholded_relu, &shrink};
}

}  // namespace tenon::op
