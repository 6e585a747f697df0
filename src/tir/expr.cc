// SPDX-License-Identifier: Apache-2.0
// Construction, equality, hash and child walk of expressions; the one switch over every kind.
#include "tir/expr.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/array.h"
#include "base/hash.h"

namespace tenon::tir {
namespace {

template <class F>
decltype(auto) dispatch(const ExprNode* node, F&& f) {
  switch (node->kind) {
    case ExprKind::IntImm: return f(static_cast<const IntImm*>(node));
    case ExprKind::FloatImm: return f(static_cast<const FloatImm*>(node));
    case ExprKind::Var: return f(static_cast<const Var*>(node));
    case ExprKind::Cast: return f(static_cast<const Cast*>(node));
    case ExprKind::Binary: return f(static_cast<const Binary*>(node));
    case ExprKind::Select: return f(static_cast<const Select*>(node));
    case ExprKind::Load: return f(static_cast<const Load*>(node));
    case ExprKind::Call: return f(static_cast<const Call*>(node));
  }
  fail_internal("an expression of no known kind");
}

uint64_t hash_field(int64_t v) { return static_cast<uint64_t>(v); }
uint64_t hash_field(double v) { return std::bit_cast<uint64_t>(v); }
uint64_t hash_field(const std::string&) { return 0; }  // a variable has that of its name in another field
uint64_t hash_field(uint64_t v) { return v; }
uint64_t hash_field(BinaryOp v) { return static_cast<uint64_t>(v); }
uint64_t hash_field(Intrinsic v) { return static_cast<uint64_t>(v); }
uint64_t hash_field(const Expr& v) { return v->hash; }
uint64_t hash_field(const Buffer& v) { return hash64(v->name); }
uint64_t hash_field(const std::vector<Expr>& v) {
  uint64_t h = v.size();
  for (const Expr& e : v) h = hash_combine(h, e->hash);
  return h;
}

bool equal_field(int64_t a, int64_t b) { return a == b; }
bool equal_field(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }
bool equal_field(const std::string& a, const std::string& b) { return a == b; }
bool equal_field(uint64_t a, uint64_t b) { return a == b; }
bool equal_field(BinaryOp a, BinaryOp b) { return a == b; }
bool equal_field(Intrinsic a, Intrinsic b) { return a == b; }
bool equal_field(const Expr& a, const Expr& b) { return structural_equal(a, b); }
bool equal_field(const Buffer& a, const Buffer& b) { return structural_equal(a, b); }
bool equal_field(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!structural_equal(a[i], b[i])) return false;
  return true;
}

template <class F>
void visit_field(const Expr& v, F& f) {
  f(v);
}
template <class F>
void visit_field(const std::vector<Expr>& v, F& f) {
  for (const Expr& e : v) f(e);
}
template <class T, class F>
void visit_field(const T&, F&) {}

template <class T, class... Fields>
Expr make(DType dtype, Fields&&... fields) {
  auto* node = new T{{T::kKind, dtype}, std::forward<Fields>(fields)...};
  uint64_t h = hash_combine(static_cast<uint64_t>(T::kKind), static_cast<uint64_t>(dtype));
  std::apply([&](const auto&... field) { ((h = hash_combine(h, hash_field(field))), ...); }, node->fields());
  node->hash = h;
  auto note = [&](const Expr& child) {
    node->names |= child->names;
    node->kinds |= child->kinds;
  };
  std::apply([&](const auto&... field) { (visit_field(field, note), ...); }, node->fields());
  node->kinds |= static_cast<uint8_t>(1 << static_cast<int>(T::kKind));
  if constexpr (std::is_same_v<T, Var>) node->names = name_bit(node->name_hash);
  return Expr::adopt(node);
}

/// Two's complement value of the low bits, sign- or zero-extended as the dtype says.
int64_t wrap(DType dtype, int64_t value) {
  if (dtype == DType::Bool) return value != 0;
  int bits = bit_width(dtype);
  if (bits == 64) return value;
  int shift = 64 - bits;
  auto raised = static_cast<uint64_t>(value) << shift;
  return is_signed_integer(dtype) ? static_cast<int64_t>(raised) >> shift : static_cast<int64_t>(raised >> shift);
}

/// Folds i64 and bool arithmetic, which is all that index expressions use.
const Expr* fold_neutral(BinaryOp op, const Expr& a, const Expr& b) {
  const int64_t* ka = as_int(a);
  const int64_t* kb = as_int(b);
  if (a->dtype != DType::I64) return nullptr;
  switch (op) {
    case BinaryOp::Add:
      if (kb && *kb == 0) return &a;
      if (ka && *ka == 0) return &b;
      return nullptr;
    case BinaryOp::Sub: return kb && *kb == 0 ? &a : nullptr;
    case BinaryOp::Mul:
      if (kb && (*kb == 1)) return &a;
      if (ka && (*ka == 1)) return &b;
      if (kb && (*kb == 0)) return &b;
      if (ka && (*ka == 0)) return &a;
      return nullptr;
    case BinaryOp::FloorDiv:
    case BinaryOp::Div: return kb && *kb == 1 ? &a : nullptr;
    default: return nullptr;
  }
}

int64_t floor_div(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

/// The folded value, or nothing for operations left to run time.
bool fold_i64(BinaryOp op, int64_t a, int64_t b, int64_t& out) {
  auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  bool divisible = b != 0 && !(a == std::numeric_limits<int64_t>::min() && b == -1);
  switch (op) {
    case BinaryOp::Add: out = static_cast<int64_t>(ua + ub); return true;
    case BinaryOp::Sub: out = static_cast<int64_t>(ua - ub); return true;
    case BinaryOp::Mul: out = static_cast<int64_t>(ua * ub); return true;
    case BinaryOp::Div:
      if (divisible) out = a / b;
      return divisible;
    case BinaryOp::FloorDiv:
      if (divisible) out = floor_div(a, b);
      return divisible;
    case BinaryOp::FloorMod:
      if (divisible) out = a - floor_div(a, b) * b;
      return divisible;
    case BinaryOp::TruncMod:
      if (divisible) out = a % b;
      return divisible;
    case BinaryOp::Min: out = a < b ? a : b; return true;
    case BinaryOp::Max: out = a < b ? b : a; return true;
    case BinaryOp::Eq: out = a == b; return true;
    case BinaryOp::Ne: out = a != b; return true;
    case BinaryOp::Lt: out = a < b; return true;
    case BinaryOp::Le: out = a <= b; return true;
    default: return false;
  }
}

constexpr std::string_view kBinaryNames[] = {"+",  "-", "*",  "/",  "floordiv", "floormod", "truncmod", "min", "max", "==",
                                             "!=", "<", "<=", "&&", "||",       "&",        "|",        "^",   "<<",  ">>"};

struct IntrinsicRow {
  std::string_view name;
  int arity;
};
constexpr IntrinsicRow kIntrinsics[] = {
    {"not", 1},   {"bitnot", 1}, {"abs", 1},  {"floor", 1}, {"ceil", 1},  {"trunc", 1}, {"round_even", 1}, {"sqrt", 1},
    {"exp", 1},   {"exp2", 1},   {"log", 1},  {"log2", 1},  {"log1p", 1}, {"expm1", 1}, {"sin", 1},        {"cos", 1},
    {"tan", 1},   {"asin", 1},   {"acos", 1}, {"atan", 1},  {"sinh", 1},  {"cosh", 1},  {"tanh", 1},       {"asinh", 1},
    {"acosh", 1}, {"atanh", 1},  {"erf", 1},  {"pow", 2},   {"fma", 3},   {"isnan", 1}, {"isinf", 1},      {"reinterpret", 1},
};
static_assert(std::size(kIntrinsics) == static_cast<size_t>(Intrinsic::Reinterpret) + 1);
static_assert(std::size(kBinaryNames) == static_cast<size_t>(BinaryOp::Shr) + 1);

}  // namespace

void Expr::destroy(const ExprNode* node) {
  dispatch(node, [](const auto* n) { delete n; });
}

Expr::Expr(int64_t value) : Expr(int_imm(DType::I64, value)) {}

std::string_view name(BinaryOp op) { return kBinaryNames[static_cast<int>(op)]; }
std::string_view name(Intrinsic op) { return kIntrinsics[static_cast<int>(op)].name; }
int arity(Intrinsic op) { return kIntrinsics[static_cast<int>(op)].arity; }
bool gives_bool(BinaryOp op) { return op >= BinaryOp::Eq && op <= BinaryOp::Or; }
std::string_view name(Scope scope) {
  constexpr std::string_view kNames[] = {"global", "local", "reg"};
  return kNames[static_cast<int>(scope)];
}

bool is_printable_name(std::string_view name) {
  constexpr std::string_view kReserved[] = {"true", "false", "inf", "nan", "cast", "reinterpret", "local", "reg", "strides"};
  auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (name.empty() || !is_letter(name[0])) return false;
  for (char c : name)
    if (!is_letter(c) && !(c >= '0' && c <= '9') && c != '.') return false;
  if (name.find('_') != name.npos) return true;  // no word of the grammar has one
  return !dtype_from_name(name) && std::find(std::begin(kReserved), std::end(kReserved), name) == std::end(kReserved);
}

Expr int_imm(DType dtype, int64_t value) {
  check(!is_float(dtype), "an integer constant has an integer or bool dtype");
  return make<IntImm>(dtype, wrap(dtype, value));
}

Expr bool_imm(bool value) { return int_imm(DType::Bool, value); }

Expr float_imm(DType dtype, double value) {
  check(is_float(dtype), "a float constant has a float dtype");
  if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();
  switch (dtype) {
    case DType::F32: value = static_cast<float>(value); break;
    case DType::F16: value = half_to_float(float_to_half(static_cast<float>(value))); break;
    case DType::BF16: value = bfloat_to_float(float_to_bfloat(static_cast<float>(value))); break;
    default: break;
  }
  return make<FloatImm>(dtype, value);
}

Expr imm(DType dtype, double value) {
  return is_float(dtype) ? float_imm(dtype, value) : int_imm(dtype, static_cast<int64_t>(value));
}

Expr var(std::string name, DType dtype) {
  uint64_t hash = hash64(name);
  return make<Var>(dtype, std::move(name), hash);
}

Expr cast(DType dtype, const Expr& value) {
  if (value->dtype == dtype) return value;
  if (const int64_t* k = as_int(value); k && !is_float(dtype) && value->dtype != DType::U64) return int_imm(dtype, *k);
  return make<Cast>(dtype, value);
}

Expr binary(BinaryOp op, const Expr& a, const Expr& b) {
  check(a && b, "a binary operation has two operands");
  check(a->dtype == b->dtype, "both sides of a binary operation have one dtype");
  if (op == BinaryOp::And || op == BinaryOp::Or) {
    check(a->dtype == DType::Bool, "`&&` and `||` take bool");
    if (const int64_t* k = as_int(a)) return (*k != 0) == (op == BinaryOp::And) ? b : a;
    if (const int64_t* k = as_int(b)) return (*k != 0) == (op == BinaryOp::And) ? a : b;
  } else if (a->dtype == DType::I64) {
    const int64_t* ka = as_int(a);
    const int64_t* kb = as_int(b);
    int64_t folded = 0;
    if (ka && kb && fold_i64(op, *ka, *kb, folded)) return int_imm(gives_bool(op) ? DType::Bool : DType::I64, folded);
    if (const Expr* kept = fold_neutral(op, a, b)) return *kept;
    if (op == BinaryOp::FloorMod && kb && *kb == 1) return int_imm(DType::I64, 0);
  }
  return make<Binary>(gives_bool(op) ? DType::Bool : a->dtype, op, a, b);
}

Expr select(const Expr& condition, const Expr& a, const Expr& b) {
  check(condition->dtype == DType::Bool, "a select's condition is bool");
  check(a->dtype == b->dtype, "both sides of a select have one dtype");
  if (const int64_t* k = as_int(condition)) return *k ? a : b;
  return make<Select>(a->dtype, condition, a, b);
}

Expr load(const Buffer& buffer, std::vector<Expr> indices) {
  check(indices.size() == buffer.rank(), "a load has one index for each axis of its buffer");
  for (const Expr& i : indices) check(i->dtype == DType::I64, "an index is i64");
  return make<Load>(buffer->dtype, buffer, std::move(indices));
}

Expr call(Intrinsic op, std::vector<Expr> args) {
  check(static_cast<int>(args.size()) == arity(op), "a call has as many arguments as its intrinsic takes");
  check(op != Intrinsic::Reinterpret, "build a reinterpret with its own builder");
  bool to_bool = op == Intrinsic::IsNan || op == Intrinsic::IsInf || op == Intrinsic::Not;
  if (op == Intrinsic::Not) {
    check(args[0]->dtype == DType::Bool, "`not` takes bool");
    if (const int64_t* k = as_int(args[0])) return bool_imm(*k == 0);
  }
  for (const Expr& a : args) check(a->dtype == args[0]->dtype, "the arguments of an intrinsic have one dtype");
  DType dtype = to_bool ? DType::Bool : args[0]->dtype;
  return make<Call>(dtype, op, std::move(args));
}

Expr reinterpret(DType dtype, const Expr& value) {
  check(byte_size(dtype) == byte_size(value->dtype), "a reinterpret keeps the width");
  if (value->dtype == dtype) return value;
  return make<Call>(dtype, Intrinsic::Reinterpret, std::vector<Expr>{value});
}

Expr operator+(const Expr& a, const Expr& b) { return binary(BinaryOp::Add, a, b); }
Expr operator-(const Expr& a, const Expr& b) { return binary(BinaryOp::Sub, a, b); }
Expr operator*(const Expr& a, const Expr& b) { return binary(BinaryOp::Mul, a, b); }
Expr floordiv(const Expr& a, const Expr& b) { return binary(BinaryOp::FloorDiv, a, b); }
Expr floormod(const Expr& a, const Expr& b) { return binary(BinaryOp::FloorMod, a, b); }
Expr min(const Expr& a, const Expr& b) { return binary(BinaryOp::Min, a, b); }
Expr max(const Expr& a, const Expr& b) { return binary(BinaryOp::Max, a, b); }
Expr eq(const Expr& a, const Expr& b) { return binary(BinaryOp::Eq, a, b); }
Expr ne(const Expr& a, const Expr& b) { return binary(BinaryOp::Ne, a, b); }
Expr lt(const Expr& a, const Expr& b) { return binary(BinaryOp::Lt, a, b); }
Expr le(const Expr& a, const Expr& b) { return binary(BinaryOp::Le, a, b); }
Expr logical_and(const Expr& a, const Expr& b) { return binary(BinaryOp::And, a, b); }
Expr logical_or(const Expr& a, const Expr& b) { return binary(BinaryOp::Or, a, b); }
Expr logical_not(const Expr& a) { return call(Intrinsic::Not, {a}); }

Expr lowest(DType dtype) {
  if (is_float(dtype)) return float_imm(dtype, -std::numeric_limits<double>::infinity());
  if (!is_signed_integer(dtype)) return int_imm(dtype, 0);
  return int_imm(dtype, static_cast<int64_t>(~uint64_t{0} << (bit_width(dtype) - 1)));
}

Expr highest(DType dtype) {
  if (is_float(dtype)) return float_imm(dtype, std::numeric_limits<double>::infinity());
  if (!is_signed_integer(dtype)) return int_imm(dtype, -1);
  return int_imm(dtype, static_cast<int64_t>(~uint64_t{0} >> (65 - bit_width(dtype))));
}

const int64_t* as_int(const Expr& e) {
  const IntImm* k = as<IntImm>(e);
  return k ? &k->value : nullptr;
}

int64_t int_value(const Expr& e) {
  const int64_t* k = as_int(e);
  check(k != nullptr, "an integer constant was needed here");
  return *k;
}

bool structural_equal(const Buffer& a, const Buffer& b) {
  if (a.same_as(b)) return true;
  if (!a || !b) return false;
  return a->name == b->name && a->dtype == b->dtype && a->scope == b->scope && equal_field(a->shape, b->shape) &&
         equal_field(a->strides, b->strides);
}

bool structural_equal(const Expr& a, const Expr& b) {
  if (a.same_as(b)) return true;
  if (!a || !b || a->hash != b->hash || a->kind != b->kind || a->dtype != b->dtype) return false;
  return dispatch(a.get(), [&](const auto* node) {
    using T = std::remove_cvref_t<decltype(*node)>;
    auto fa = node->fields();
    auto fb = static_cast<const T*>(b.get())->fields();
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return (equal_field(std::get<I>(fa), std::get<I>(fb)) && ...);
    }(std::make_index_sequence<std::tuple_size_v<decltype(fa)>>{});
  });
}

bool uses(const Expr& e, Name name) {
  if ((e->names & name_bit(name.hash)) == 0) return false;
  if (const Var* v = as<Var>(e)) return v->name_hash == name.hash && v->name == name.text;
  bool found = false;
  for_each_child(e, [&](const Expr& child) { found = found || uses(child, name); });
  return found;
}

void for_each_child(const Expr& e, function_ref<void(const Expr&)> f) {
  dispatch(e.get(),
           [&](const auto* node) { std::apply([&](const auto&... field) { (visit_field(field, f), ...); }, node->fields()); });
}

Expr map_children(const Expr& e, function_ref<Expr(const Expr&)> f) {
  bool changed = false;
  auto map_one = [&](const Expr& child) {
    Expr mapped = f(child);
    changed |= !mapped.same_as(child);
    return mapped;
  };
  switch (e->kind) {
    case ExprKind::IntImm:
    case ExprKind::FloatImm:
    case ExprKind::Var: return e;
    case ExprKind::Cast: {
      Expr value = map_one(as<Cast>(e)->value);
      return changed ? cast(e->dtype, value) : e;
    }
    case ExprKind::Binary: {
      const auto* n = as<Binary>(e);
      Expr a = map_one(n->a), b = map_one(n->b);
      return changed ? binary(n->op, a, b) : e;
    }
    case ExprKind::Select: {
      const auto* n = as<Select>(e);
      Expr c = map_one(n->condition), a = map_one(n->a), b = map_one(n->b);
      return changed ? select(c, a, b) : e;
    }
    case ExprKind::Load: {
      const auto* n = as<Load>(e);
      auto indices = map_list(n->indices, f);
      return indices ? load(n->buffer, std::move(*indices)) : e;
    }
    case ExprKind::Call: {
      const auto* n = as<Call>(e);
      auto args = map_list(n->args, f);
      if (!args) return e;
      return n->op == Intrinsic::Reinterpret ? reinterpret(e->dtype, (*args)[0]) : call(n->op, std::move(*args));
    }
  }
  fail_internal("an expression of no known kind");
}

}  // namespace tenon::tir
