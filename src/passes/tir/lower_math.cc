// SPDX-License-Identifier: Apache-2.0
// Elementary functions as arithmetic.
//
//   y[i] = exp(x[i])   becomes   let v = x[i]; let t = v * 1.44 + 12582912.0; …; y[i] = p * 2^(n/2) * 2^(n - n/2)
//
// Every intermediate value is a Let before the statement, so the size stays linear. A value that a Select may leave
// unread is bound behind the same condition. Needs: nothing. Leaves: a scheduled function stays scheduled.
#include <limits>
#include <map>

#include "passes/tir/passes.h"

namespace tenon::tir {
namespace {

constexpr double kLog2E = 1.4426950408889634;
// ln 2 in two parts; the first has few enough bits that multiplying it by an exponent is exact.
constexpr double kLn2High = 0.693359375, kLn2Low = -2.12194440e-4;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Expr f32(double value) { return float_imm(DType::F32, value); }
Expr i32(int64_t value) { return int_imm(DType::I32, value); }

/// A condition under which an expression is evaluated.
struct Guard {
  Expr condition;
  bool negated;
};

/// Rewrites the expressions of one statement; the Lets that they need are collected in order.
class Expansion {
 public:
  Expansion(NameSupply& names, const MathOptions& options, std::vector<Stmt>& lets)
      : names_(names), options_(options), lets_(lets) {}
  Expr rewrite(const Expr& e);

 private:
  Expr bind(const Expr& value);
  Expr argument(const Expr& value);
  Expr fma(const Expr& a, const Expr& b, const Expr& c) { return options_.fma ? call(Intrinsic::Fma, {a, b, c}) : a * b + c; }
  Expr polynomial(const Expr& x, std::initializer_list<double> ascending);
  Expr rewrite_select(const Select& n);
  Expr rewrite_call(const Call& n);
  Expr power(const Expr& base, double exponent);
  Expr expand(Intrinsic op, const Expr& x);

  struct Reduced {
    Expr n, rest;  // i32 and f32
  };
  Reduced nearest(const Expr& scaled_sum);
  Expr power_of_two(const Expr& n);
  Expr scaled(const Expr& value, const Expr& n);
  Reduced reduce_exp(const Expr& x);
  Expr exp(const Expr& x);
  Expr exp2(const Expr& x);
  Expr expm1(const Expr& x);
  struct Logarithm {
    Expr exponent, fraction, tail;  // log(x) = exponent * ln 2 + fraction + tail
  };
  Logarithm split_log(const Expr& x);
  Expr log_domain(const Expr& x, const Expr& value);
  Expr log(const Expr& x);
  Expr log2(const Expr& x);
  Expr log1p(const Expr& x);
  Expr tanh(const Expr& x);
  Expr erf(const Expr& x);

  NameSupply& names_;
  const MathOptions& options_;
  std::vector<Stmt>& lets_;
  std::vector<Guard> guards_;
};

bool is_expanded(Intrinsic op) {
  switch (op) {
    case Intrinsic::Exp:
    case Intrinsic::Exp2:
    case Intrinsic::Expm1:
    case Intrinsic::Log:
    case Intrinsic::Log2:
    case Intrinsic::Log1p:
    case Intrinsic::Tanh:
    case Intrinsic::Erf: return true;
    default: return false;
  }
}

/// A constant exponent whose power is a few multiplications; 0 if it is none.
double simple_exponent(const Expr& e) {
  const auto* constant = as<FloatImm>(e);
  for (double known : {-1.0, 0.5, 1.0, 2.0, 3.0})
    if (constant && constant->value == known) return known;
  return 0;
}

bool needs_rewrite(const Expr& e) {
  if (!contains(e, ExprKind::Call)) return false;
  bool found = false;
  visit_exprs(e, [&](const Expr& part) {
    const auto* n = as<Call>(part);
    if (!n || !is_float(n->dtype)) return;
    bool simple_power = n->op == Intrinsic::Pow && simple_exponent(n->args[1]) != 0;
    found = found || simple_power || (is_expanded(n->op) && n->dtype != DType::F64);
  });
  return found;
}

bool needs_rewrite(const Stmt& s) {
  bool found = false;
  for_each_child(
      s, [&](const Stmt& child) { found = found || needs_rewrite(child); },
      [&](const Expr& e) { found = found || needs_rewrite(e); });
  return found;
}

Expr Expansion::bind(const Expr& value) {
  if (value->kind == ExprKind::Var || value->kind == ExprKind::FloatImm || value->kind == ExprKind::IntImm) return value;
  Expr name = var(names_.fresh("m"), value->dtype);
  lets_.push_back(let(name, value));
  return name;
}

/// Binds a value of the original code, which may only be read where the Selects around chose it.
Expr Expansion::argument(const Expr& value) {
  Expr guarded = value;
  if (contains(value, ExprKind::Load))
    for (size_t i = guards_.size(); i-- > 0;) {
      Expr other = imm(value->dtype, 1);
      guarded = guards_[i].negated ? select(guards_[i].condition, other, guarded) : select(guards_[i].condition, guarded, other);
    }
  return bind(guarded);
}

Expr Expansion::polynomial(const Expr& x, std::initializer_list<double> ascending) {
  Expr sum;
  for (const double* c = std::end(ascending); c-- != std::begin(ascending);) sum = sum ? bind(fma(sum, x, f32(*c))) : f32(*c);
  return sum;
}

Expr Expansion::rewrite(const Expr& e) {
  if (!needs_rewrite(e)) return e;
  if (const auto* n = as<Select>(e)) return rewrite_select(*n);
  if (const auto* n = as<Call>(e)) return rewrite_call(*n);
  return map_children(e, [&](const Expr& child) { return rewrite(child); });
}

Expr Expansion::rewrite_select(const Select& n) {
  Expr condition = argument(rewrite(n.condition));
  guards_.push_back({condition, false});
  Expr a = rewrite(n.a);
  guards_.back().negated = true;
  Expr b = rewrite(n.b);
  guards_.pop_back();
  return select(condition, a, b);
}

Expr Expansion::rewrite_call(const Call& n) {
  std::vector<Expr> args;
  for (const Expr& arg : n.args) args.push_back(rewrite(arg));
  if (n.op == Intrinsic::Pow && simple_exponent(args[1]) != 0) return power(argument(args[0]), simple_exponent(args[1]));
  if (!is_expanded(n.op) || n.dtype == DType::F64) return call(n.op, std::move(args));
  Expr x = bind(cast(DType::F32, argument(args[0])));
  return cast(n.dtype, bind(expand(n.op, x)));
}

/// pow(x, ±0.5) differs from the square root at -0 and at -inf.
Expr Expansion::power(const Expr& x, double exponent) {
  if (exponent == -1) return binary(BinaryOp::Div, imm(x->dtype, 1), x);
  if (exponent == 1) return x;
  if (exponent == 2) return x * x;
  if (exponent == 3) return x * x * x;
  Expr root = call(Intrinsic::Sqrt, {x + imm(x->dtype, 0)});
  return select(eq(x, lowest(x->dtype)), highest(x->dtype), root);
}

Expr Expansion::expand(Intrinsic op, const Expr& x) {
  switch (op) {
    case Intrinsic::Exp: return exp(x);
    case Intrinsic::Exp2: return exp2(x);
    case Intrinsic::Expm1: return expm1(x);
    case Intrinsic::Log: return log(x);
    case Intrinsic::Log2: return log2(x);
    case Intrinsic::Log1p: return log1p(x);
    case Intrinsic::Tanh: return tanh(x);
    case Intrinsic::Erf: return erf(x);
    default: fail_internal("an intrinsic that is not expanded");
  }
}

/// `scaled_sum` is a value plus 1.5 * 2^23, which rounds it to an integer in its lowest bits.
Expansion::Reduced Expansion::nearest(const Expr& scaled_sum) {
  Expr t = bind(scaled_sum);
  return {bind(reinterpret(DType::I32, t) - i32(0x4b400000)), bind(t - f32(12582912.0))};
}

Expr Expansion::power_of_two(const Expr& n) { return reinterpret(DType::F32, binary(BinaryOp::Shl, n + i32(127), i32(23))); }

/// value * 2^n for |n| <= 252, in two steps, so that results below the normal range round once.
Expr Expansion::scaled(const Expr& value, const Expr& n) {
  Expr half = bind(binary(BinaryOp::Shr, n, i32(1)));
  return bind(value * power_of_two(half)) * power_of_two(n - half);
}

/// x = n ln 2 + rest.
Expansion::Reduced Expansion::reduce_exp(const Expr& x) {
  auto [n, rounded] = nearest(fma(x, f32(kLog2E), f32(12582912.0)));
  Expr high = bind(fma(rounded, f32(-kLn2High), x));
  return {n, bind(fma(rounded, f32(-kLn2Low), high))};
}

Expr Expansion::exp(const Expr& x) {
  Expr held = bind(max(min(x, f32(89)), f32(-105)));  // NaN stays; beyond, the result is infinite or zero
  auto [n, r] = reduce_exp(held);
  Expr q = polynomial(r, {0.49999993, 0.16666521, 0.04166839, 0.00836872, 0.00138146});
  Expr p = bind(fma(bind(r * r), q, r) + f32(1));
  return scaled(p, n);
}

Expr Expansion::exp2(const Expr& x) {
  Expr held = bind(max(min(x, f32(129)), f32(-152)));
  auto [n, rounded] = nearest(held + f32(12582912.0));
  Expr r = bind(held - rounded);
  Expr q = polynomial(r, {6.93147203e-01, 2.40226479e-01, 5.55033241e-02, 9.61843761e-03, 1.33989002e-03, 1.53533410e-04});
  return scaled(bind(fma(r, q, f32(1))), n);
}

/// 2 * (2^(n-1) * expm1(r) + (2^(n-1) - 1/2)), which neither overflows early nor cancels near zero.
Expr Expansion::expm1(const Expr& x) {
  Expr held = bind(max(min(x, f32(89)), f32(-20)));
  auto [n, r] = reduce_exp(held);
  Expr q = polynomial(r, {0.49999993, 0.16666521, 0.04166839, 0.00836872, 0.00138146});
  Expr p = bind(fma(bind(r * r), q, r));
  Expr half_scale = bind(power_of_two(n - i32(1)));
  return bind(fma(half_scale, p, half_scale - f32(0.5))) * f32(2);
}

/// x = 2^e * (1 + f) with 1 + f within [sqrt(1/2), sqrt(2)).
Expansion::Logarithm Expansion::split_log(const Expr& x) {
  Expr small = bind(lt(x, f32(0x1p-126)));
  Expr bits = bind(reinterpret(DType::I32, select(small, x * f32(0x1p23), x)) - i32(0x3f3504f3));
  Expr e = bind(cast(DType::F32, binary(BinaryOp::Shr, bits, i32(23))) - select(small, f32(23), f32(0)));
  Expr mantissa = binary(BinaryOp::BitAnd, bits, i32(0x7fffff)) + i32(0x3f3504f3);
  Expr f = bind(reinterpret(DType::F32, mantissa) - f32(1));
  Expr p = polynomial(f, {0.33333332, -0.25000822, 0.20001228, -0.16623336, 0.14201719, -0.13160365, 0.1276196, -0.07634482});
  Expr square = bind(f * f);
  return {e, f, bind(fma(bind(f * square), p, square * f32(-0.5)))};
}

/// The logarithm outside the positive finite numbers.
Expr Expansion::log_domain(const Expr& x, const Expr& value) {
  Expr finite = select(lt(x, f32(kInfinity)), value, x);
  return select(eq(x, f32(0)), f32(-kInfinity), select(lt(x, f32(0)), f32(kNan), finite));
}

Expr Expansion::log(const Expr& x) {
  auto [e, f, tail] = split_log(x);
  Expr low = bind(fma(e, f32(kLn2Low), tail));
  return log_domain(x, bind(fma(e, f32(kLn2High), bind(f + low))));
}

/// The fraction's logarithm is multiplied by log2(e) = 1 + 0.44…, the larger part exactly.
Expr Expansion::log2(const Expr& x) {
  auto [e, f, tail] = split_log(x);
  Expr low = bind(fma(tail, f32(kLog2E - 1), f * f32(kLog2E - 1)));
  Expr sum = bind(bind(low + tail) + f);
  return log_domain(x, bind(sum + e));
}

/// log(u) for u = 1 + x, with what the rounding of u lost added back.
Expr Expansion::log1p(const Expr& x) {
  Expr u = bind(x + f32(1));
  Expr lost = bind(x - (u - f32(1)));
  Expr correctable = bind(logical_and(lt(f32(0), u), lt(u, f32(kInfinity))));
  Expr correction = bind(select(correctable, binary(BinaryOp::Div, lost, u), f32(0)));
  Expr value = bind(bind(log(u)) + correction);
  return select(eq(u, f32(1)), x, value);
}

Expr Expansion::tanh(const Expr& x) {
  Expr held = bind(max(min(x, f32(9.5)), f32(-9.5)));
  Expr em1 = bind(expm1(bind(held * f32(2))));
  return binary(BinaryOp::Div, em1, em1 + f32(2));
}

/// x + x P(x^2) inside [-1, 1], else 1 - exp(-t Q(t)) with the sign of x.
Expr Expansion::erf(const Expr& x) {
  Expr t = bind(call(Intrinsic::Abs, {x}));
  Expr square = bind(x * x);
  Expr inner = bind(fma(x,
                        polynomial(square, {1.28379166e-01, -3.76126258e-01, 1.12835851e-01, -2.68538119e-02, 5.18832766e-03,
                                            -8.01019342e-04, 7.85386068e-05}),
                        x));
  Expr held = bind(min(t, f32(4)));
  Expr q = polynomial(
      held, {1.12869433, 6.34969540e-01, 1.06530850e-01, -2.40100556e-02, 3.75747060e-03, -3.50590482e-04, 1.39622861e-05});
  Expr tail = bind(f32(1) - exp(bind(held * q * f32(-1))));
  Expr outer = bind(select(lt(x, f32(0)), tail * f32(-1), tail));
  return select(lt(f32(1), t), outer, inner);
}

/// Rewrites statements; a statement becomes its Lets and itself.
class Rewriter {
 public:
  Rewriter(const PrimFunc& function, const MathOptions& options) : names_(function), options_(options) {}

  Stmt rewrite(const Stmt& s) {
    if (!s) return s;
    if (const auto* n = as<Seq>(s)) {
      std::vector<Stmt> stmts;
      bool changed = false;
      for (const Stmt& child : n->stmts) {
        size_t before = stmts.size();
        Stmt rewritten = rewrite_into(child, stmts);
        changed = changed || stmts.size() > before || !rewritten.same_as(child);
        stmts.push_back(std::move(rewritten));
      }
      return changed ? scoped(std::move(stmts)) : s;
    }
    std::vector<Stmt> stmts;
    Stmt rewritten = rewrite_into(s, stmts);
    if (stmts.empty()) return rewritten;
    stmts.push_back(std::move(rewritten));
    return scoped(std::move(stmts));
  }

 private:
  Stmt rewrite_into(const Stmt& s, std::vector<Stmt>& lets) {
    if (as<Seq>(s)) return rewrite(s);  // what it declares stays inside
    Expansion expansion(names_, options_, lets);
    return map_children(
        s, [&](const Stmt& child) { return rewrite(child); }, [&](const Expr& e) { return expansion.rewrite(e); });
  }

  NameSupply names_;
  const MathOptions& options_;
};

}  // namespace

PrimFunc lower_math(const PrimFunc& function, const MathOptions& options) {
  PrimFunc out = function;
  if (needs_rewrite(function.body)) out.body = Rewriter(function, options).rewrite(function.body);
  return out;
}

}  // namespace tenon::tir
