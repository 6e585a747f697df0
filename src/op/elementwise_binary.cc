// SPDX-License-Identifier: Apache-2.0
// Operators on the elements of two or three tensors that broadcast to one shape.
#include <cmath>
#include <concepts>
#include <limits>

#include "op/elementwise.h"
#include "op/fold.h"

namespace tenon::op {

using graph::AttrKind;
using graph::Fusion;
using graph::kAnyDType;
using graph::kBool;
using graph::kFloats;
using graph::kIntegers;
using graph::kNumeric;
using tir::BinaryOp;

namespace {

std::vector<TensorType> infer_binary(const CallSite& call) {
  DType dtype = same_dtype(call);
  return {{dtype, broadcast_shape(call)}};
}

std::vector<TensorType> infer_comparison(const CallSite& call) {
  same_dtype(call);
  return {{DType::Bool, broadcast_shape(call)}};
}

/// The result has the shape of the first operand, onto which the others broadcast. Error broadcast-C2.
std::vector<TensorType> infer_onto_first(const CallSite& call) {
  same_dtype(call);
  if (!same_shape(broadcast_shape(call), call.in(0).shape))
    call.error(0, "broadcast-C2", "a shape that the other operands broadcast to");
  return {call.in(0)};
}

std::vector<TensorType> infer_where(const CallSite& call) {
  DType dtype = same_dtype(call, 1);
  return {{dtype, broadcast_shape(call)}};
}

/// A `compute` that applies F(call, operands) to the elements that broadcast to each element of the result.
template <auto F>
std::vector<te::Tensor> map_broadcast(const CallSite& call, std::span<const te::Tensor> in, te::Graph& graph) {
  return {graph.compute(call.op().name, call.out().shape, [&](const std::vector<Expr>& i) {
    std::vector<Expr> x;
    for (const te::Tensor& t : in) x.push_back(load_broadcast(t, call.out().shape, i));
    return F(call, x);
  })};
}

template <BinaryOp op>
Expr apply(const CallSite&, const std::vector<Expr>& x) {
  return tir::binary(op, x[0], x[1]);
}
template <BinaryOp op>
Expr apply_swapped(const CallSite&, const std::vector<Expr>& x) {
  return tir::binary(op, x[1], x[0]);
}

Expr mod_of(const CallSite& call, const std::vector<Expr>& x) {
  return tir::binary(call.flag("fmod") ? BinaryOp::TruncMod : BinaryOp::FloorMod, x[0], x[1]);
}

OpDef binary(std::string_view name, std::string_view doc, graph::DTypeSet dtypes, std::string_view dtype_note, ComputeFn compute,
             FoldFn fold, std::vector<graph::AttrSpec> attrs = {}) {
  return {.name = name,
          .doc = doc,
          .inputs = {{"a", "any shape"}, {"b", "the dtype of `a`; the shapes broadcast"}},
          .attrs = std::move(attrs),
          .fusion = Fusion::Broadcast,
          .dtypes = dtypes,
          .dtype_note = dtype_note,
          .infer = infer_binary,
          .compute = compute,
          .fold = fold};
}

OpDef comparison(std::string_view name, std::string_view doc, graph::DTypeSet dtypes, std::string_view dtype_note,
                 ComputeFn compute, FoldFn fold) {
  OpDef op = binary(name, doc, dtypes, dtype_note, compute, fold);
  op.infer = infer_comparison;
  return op;
}

// Native meanings. Signed wide integers meet their one overflow, MIN / -1, before the machine would trap on it.

struct Divide {
  double operator()(double a, double b) const { return a / b; }
  uint64_t operator()(uint64_t a, uint64_t b) const { return b == 0 ? 0 : a / b; }
  int64_t operator()(int64_t a, int64_t b) const {
    if (b == 0) return 0;
    return b == -1 ? wrap_subtract<int64_t>(0, a) : a / b;
  }
};

struct Power {
  double operator()(double a, double b) const { return std::pow(a, b); }
  template <std::integral T>
  T operator()(T base, T exponent) const {
    if (exponent < 0) return base == 1 ? 1 : base + 1 == 0 ? (exponent % 2 == 0 ? T{1} : base) : 0;
    T product = 1;
    for (auto bits = static_cast<uint64_t>(exponent); bits != 0; bits >>= 1) {
      if (bits & 1) product = wrap_multiply(product, base);
      base = wrap_multiply(base, base);
    }
    return product;
  }
};

struct Maximum {
  template <class T>
  T operator()(T a, T b) const {
    return a != a ? a : b != b ? b : a < b ? b : a;
  }
};

struct Minimum {
  template <class T>
  T operator()(T a, T b) const {
    return a != a ? a : b != b ? b : b < a ? b : a;
  }
};

/// The remainder with the sign of the dividend.
struct TruncatedMod {
  double operator()(double a, double b) const { return std::fmod(a, b); }
  uint64_t operator()(uint64_t a, uint64_t b) const { return b == 0 ? 0 : a % b; }
  int64_t operator()(int64_t a, int64_t b) const { return b == 0 || b == -1 ? 0 : a % b; }
};

/// The remainder with the sign of the divisor.
struct FlooredMod {
  double operator()(double a, double b) const { return a - std::floor(a / b) * b; }
  uint64_t operator()(uint64_t a, uint64_t b) const { return TruncatedMod{}(a, b); }
  int64_t operator()(int64_t a, int64_t b) const {
    int64_t r = TruncatedMod{}(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  }
};

struct ShiftLeft {
  template <std::integral T>
  T operator()(T a, T count) const {
    auto n = static_cast<uint64_t>(count);
    return n >= 64 ? 0 : static_cast<T>(static_cast<uint64_t>(a) << n);
  }
};

struct ShiftRight {
  template <std::integral T>
  T operator()(T a, T count) const {
    auto n = static_cast<uint64_t>(count);
    return n >= 64 ? (a < 0 ? ~T{0} : T{0}) : a >> n;
  }
};

Folded fold_mod(const CallSite& call, std::span<const Array> in) {
  return call.flag("fmod") ? fold_each<TruncatedMod{}>(call, in) : fold_each<FlooredMod{}>(call, in);
}

Folded fold_where(const CallSite& call, std::span<const Array> in) {
  return with_wide(call.out().dtype, [&](auto wide) -> Folded {
    using Wide = decltype(wide);
    BroadcastReader condition(in[0], call.out().static_shape());
    std::vector<uint64_t> chosen(kFoldChunk);
    return std::vector<Array>{
        fold_chunks<Wide, Wide>(call, in.subspan(1), [&](const std::vector<const Wide*>& x, Wide* y, int64_t count) {
          condition.read(count, chosen.data());
          for (int64_t i = 0; i < count; ++i) y[i] = chosen[static_cast<size_t>(i)] ? x[0][i] : x[1][i];
        })};
  });
}

}  // namespace

const OpDef add = binary("add", "a + b", kNumeric, kNumberNote, map_broadcast<apply<BinaryOp::Add>>,
                         fold_each<[](auto a, decltype(a) b) { return wrap_add(a, b); }>);
const OpDef subtract = binary("subtract", "a - b", kNumeric, kNumberNote, map_broadcast<apply<BinaryOp::Sub>>,
                              fold_each<[](auto a, decltype(a) b) { return wrap_subtract(a, b); }>);
const OpDef multiply = binary("multiply", "a * b", kNumeric, kNumberNote, map_broadcast<apply<BinaryOp::Mul>>,
                              fold_each<[](auto a, decltype(a) b) { return wrap_multiply(a, b); }>);
const OpDef divide = binary("divide", "a / b; integers toward zero, by zero gives 0", kNumeric, kNumberNote,
                            map_broadcast<apply<BinaryOp::Div>>, fold_each<Divide{}>);
const OpDef power = binary(
    "power", "a to the power b; integers wrap, and a negative exponent gives 0 unless a is 1 or -1", kNumeric, kNumberNote,
    map_broadcast<[](const CallSite&, const std::vector<Expr>& x) { return tir::call(tir::Intrinsic::Pow, {x[0], x[1]}); }>,
    fold_each<Power{}>);
const OpDef maximum = binary("maximum", "the larger of a and b; NaN if either is NaN", kNumeric, kNumberNote,
                             map_broadcast<apply<BinaryOp::Max>>, fold_each<Maximum{}>);
const OpDef minimum = binary("minimum", "the smaller of a and b; NaN if either is NaN", kNumeric, kNumberNote,
                             map_broadcast<apply<BinaryOp::Min>>, fold_each<Minimum{}>);
const OpDef mod =
    binary("mod", "the remainder of a / b; of integers by zero 0", kNumeric, kNumberNote, map_broadcast<mod_of>, fold_mod,
           {{"fmod", AttrKind::Bool, false, "whether it has the sign of a, as C's fmod, rather than that of b"}});

const OpDef equal = comparison("equal", "a = b", kAnyDType, "", map_broadcast<apply<BinaryOp::Eq>>,
                               fold_each<[](auto a, decltype(a) b) { return a == b; }>);
const OpDef not_equal = comparison("not_equal", "a is not b; true with NaN", kAnyDType, "", map_broadcast<apply<BinaryOp::Ne>>,
                                   fold_each<[](auto a, decltype(a) b) { return a != b; }>);
const OpDef less = comparison("less", "a < b", kNumeric, kNumberNote, map_broadcast<apply<BinaryOp::Lt>>,
                              fold_each<[](auto a, decltype(a) b) { return a < b; }>);
const OpDef less_equal = comparison("less_equal", "a <= b", kNumeric, kNumberNote, map_broadcast<apply<BinaryOp::Le>>,
                                    fold_each<[](auto a, decltype(a) b) { return a <= b; }>);
const OpDef greater = comparison("greater", "a > b", kNumeric, kNumberNote, map_broadcast<apply_swapped<BinaryOp::Lt>>,
                                 fold_each<[](auto a, decltype(a) b) { return a > b; }>);
const OpDef greater_equal =
    comparison("greater_equal", "a >= b", kNumeric, kNumberNote, map_broadcast<apply_swapped<BinaryOp::Le>>,
               fold_each<[](auto a, decltype(a) b) { return a >= b; }>);

const OpDef logical_and = comparison("logical_and", "a and b", kBool, kBoolNote, map_broadcast<apply<BinaryOp::And>>,
                                     fold_each<[](uint64_t a, uint64_t b) { return a && b; }>);
const OpDef logical_or = comparison("logical_or", "a or b", kBool, kBoolNote, map_broadcast<apply<BinaryOp::Or>>,
                                    fold_each<[](uint64_t a, uint64_t b) { return a || b; }>);
const OpDef logical_xor = comparison("logical_xor", "either a or b", kBool, kBoolNote, map_broadcast<apply<BinaryOp::Ne>>,
                                     fold_each<[](uint64_t a, uint64_t b) { return a != b; }>);
const OpDef bitwise_and =
    binary("bitwise_and", "the bits set in both", kIntegers, kIntegerNote, map_broadcast<apply<BinaryOp::BitAnd>>,
           fold_each<[](std::integral auto a, decltype(a) b) { return a & b; }>);
const OpDef bitwise_or =
    binary("bitwise_or", "the bits set in either", kIntegers, kIntegerNote, map_broadcast<apply<BinaryOp::BitOr>>,
           fold_each<[](std::integral auto a, decltype(a) b) { return a | b; }>);
const OpDef bitwise_xor =
    binary("bitwise_xor", "the bits set in one of the two", kIntegers, kIntegerNote, map_broadcast<apply<BinaryOp::BitXor>>,
           fold_each<[](std::integral auto a, decltype(a) b) { return a ^ b; }>);
const OpDef shift_left = binary("shift_left", "a with its bits moved up by b; 0 when b is the width or more", kIntegers,
                                kIntegerNote, map_broadcast<apply<BinaryOp::Shl>>, fold_each<ShiftLeft{}>);
const OpDef shift_right = binary("shift_right", "a with its bits moved down by b, the sign kept", kIntegers, kIntegerNote,
                                 map_broadcast<apply<BinaryOp::Shr>>, fold_each<ShiftRight{}>);

const OpDef where{
    .name = "where",
    .doc = "a where the condition holds, else b",
    .inputs = {{"condition", "bool"}, {"a", "any dtype"}, {"b", "the dtype of `a`; all three shapes broadcast"}},
    .fusion = Fusion::Broadcast,
    .dtypes = kBool,
    .dtype_note = "bool: a condition holds or not",
    .infer = infer_where,
    .compute = map_broadcast<[](const CallSite&, const std::vector<Expr>& x) { return tir::select(x[0], x[1], x[2]); }>,
    .fold = fold_where};
const OpDef clip{
    .name = "clip",
    .doc = "min(max(x, low), high), so `high` where low > high; NaN stays NaN",
    .inputs = {{"x", "any shape"}, {"low", "the dtype of `x`, broadcast to it"}, {"high", "as `low`"}},
    .fusion = Fusion::Broadcast,
    .dtypes = kNumeric,
    .dtype_note = kNumberNote,
    .infer = infer_onto_first,
    .compute = map_broadcast<[](const CallSite&, const std::vector<Expr>& x) { return tir::min(tir::max(x[0], x[1]), x[2]); }>,
    .fold = fold_each<[](auto x, decltype(x) low, decltype(x) high) { return Minimum{}(Maximum{}(x, low), high); }>};
const OpDef prelu{.name = "prelu",
                  .doc = "x, or slope x below 0",
                  .inputs = {{"x", "any shape"}, {"slope", "the dtype of `x`, broadcast to it"}},
                  .fusion = Fusion::Broadcast,
                  .dtypes = kNumeric,
                  .dtype_note = kNumberNote,
                  .infer = infer_onto_first,
                  .compute = map_broadcast<[](const CallSite&, const std::vector<Expr>& x) {
                    return tir::select(tir::lt(x[0], tir::imm(x[0]->dtype, 0)), x[0] * x[1], x[0]);
                  }>,
                  .fold = fold_each<[](auto x, decltype(x) slope) { return x < 0 ? wrap_multiply(x, slope) : x; }>};

std::vector<const OpDef*> binary_ops() {
  return {&add,         &subtract,   &multiply,    &divide,      &power,      &maximum,     &minimum,
          &mod,         &equal,      &not_equal,   &less,        &less_equal, &greater,     &greater_equal,
          &logical_and, &logical_or, &logical_xor, &bitwise_and, &bitwise_or, &bitwise_xor, &shift_left,
          &shift_right, &where,      &clip,        &prelu};
}

}  // namespace tenon::op
