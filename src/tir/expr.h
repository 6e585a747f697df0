// SPDX-License-Identifier: Apache-2.0
// Every kind of loop-IR expression, and the buffers they read. Read this file first.
//
// Meaning, for every reader of the IR (interpreter, passes, code generators):
// - Expressions have no side effect. Operands may be evaluated in any order, twice, or not at all, except that
//   `Select` evaluates its condition and then only the chosen side: a load in the other side may be out of bounds.
// - Integers wrap in two's complement at their declared width. Index expressions are i64.
// - Float arithmetic is IEEE at the declared width, rounding to nearest even; nothing is reassociated or contracted.
//   An fma is written as one (`Intrinsic::Fma`). f16 and bf16 operations round after each operation.
// - A variable is identified by its name and dtype; a buffer by its name, unique in its PrimFunc. No scope hides a name.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "base/dtype.h"
#include "base/function_ref.h"
#include "base/name_map.h"

namespace tenon::tir {

enum class ExprKind : uint8_t { IntImm, FloatImm, Var, Cast, Binary, Select, Load, Call };

/// Both sides have one dtype. Comparisons and And/Or give bool; And/Or take bool and, like every binary operation,
/// may evaluate both sides (guard a load with Select, not with And).
enum class BinaryOp : uint8_t {
  Add,
  Sub,
  Mul,
  Div,       // floats: IEEE; integers: toward zero
  FloorDiv,  // toward minus infinity, integers and floats
  FloorMod,  // a - FloorDiv(a, b) * b: the sign of b
  TruncMod,  // a - Div(a, b) * b for integers, C's fmod for floats: the sign of a
             // integer Div, FloorDiv, FloorMod and TruncMod by zero give 0; MIN / -1 wraps to MIN (remainder 0)
  Min,
  Max,  // NaN if either side is NaN
  Eq,
  Ne,
  Lt,
  Le,  // IEEE on floats: every comparison with NaN is false but Ne
  And,
  Or,
  BitAnd,
  BitOr,
  BitXor,
  Shl,
  Shr,  // integers; Shr is arithmetic on signed dtypes; a count >= the width gives 0 (or -1 for a negative signed Shr)
};

/// Operations of one dtype unless said otherwise.
enum class Intrinsic : uint8_t {
  Not,     // bool -> bool
  BitNot,  // integers
  Abs,     // integers wrap
  Floor,
  Ceil,
  Trunc,
  RoundEven,  // half to even
  Sqrt,
  Exp,
  Exp2,
  Log,
  Log2,
  Log1p,
  Expm1,
  Sin,
  Cos,
  Tan,
  Asin,
  Acos,
  Atan,
  Sinh,
  Cosh,
  Tanh,
  Asinh,
  Acosh,
  Atanh,
  Erf,
  Pow,  // (x, y); integers: exact by repeated wrapping multiplication, a negative exponent gives 0 unless x is 1 or -1
  Fma,  // (a, b, c) = a * b + c, one rounding
  IsNan,
  IsInf,        // float -> bool
  Reinterpret,  // the same bits as another dtype of equal width
};

/// Gives up one of the references that are counted; whether it was the last. Nobody can copy a handle that is the only one, so
/// that needs no locked instruction.
inline bool release(std::atomic<uint32_t>& refs) noexcept {
  return refs.load(std::memory_order_acquire) == 1 || refs.fetch_sub(1, std::memory_order_acq_rel) == 1;
}

class Expr;
/// `hash`, `names` and `kinds` are of the whole tree; set once, when the node is made.
struct ExprNode {
  ExprKind kind;
  DType dtype;
  uint8_t kinds = 0;  // a bit for each ExprKind in it
  mutable std::atomic<uint32_t> refs = 1;
  uint64_t hash = 0;
  uint64_t names = 0;  // the name_bit of each variable in it
};

/// A shared handle to an immutable expression, or null. Copying costs one increment.
class Expr {
 public:
  Expr() noexcept = default;
  /// Takes over a node that nobody holds yet.
  static Expr adopt(const ExprNode* node) noexcept { return Expr(node); }
  Expr(const Expr& other) noexcept : node_(other.node_) { retain(); }
  Expr(Expr&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  Expr& operator=(Expr other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~Expr() {
    if (node_ && release(node_->refs)) destroy(node_);
  }
  /// An i64 constant: extents and indices read naturally.
  Expr(int64_t value);
  Expr(int value) : Expr(static_cast<int64_t>(value)) {}

  const ExprNode* get() const { return node_; }
  const ExprNode* operator->() const { return node_; }
  explicit operator bool() const { return node_ != nullptr; }
  bool same_as(const Expr& other) const { return node_ == other.node_; }

 private:
  explicit Expr(const ExprNode* node) noexcept : node_(node) {}
  void retain() noexcept {
    if (node_) node_->refs.fetch_add(1, std::memory_order_relaxed);
  }
  static void destroy(const ExprNode* node);
  const ExprNode* node_ = nullptr;
};

/// Where a buffer lives.
enum class Scope : uint8_t {
  Global,  // parameters, constants, and workspace shared by all workers of a parallel loop
  Local,   // scratch of one worker
  Reg,     // registers: every index is a constant after unrolling but for one vectorized innermost axis
};

struct BufferData {
  std::string name;
  DType dtype;
  std::vector<Expr> shape;    // i64, outermost first
  std::vector<Expr> strides;  // in elements; empty means row-major and compact
  Scope scope = Scope::Global;
};

/// A shared handle to an immutable buffer declaration, or null.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(BufferData data) : data_(std::make_shared<const BufferData>(std::move(data))) {}
  const BufferData* operator->() const { return data_.get(); }
  const BufferData& operator*() const { return *data_; }
  explicit operator bool() const { return data_ != nullptr; }
  size_t rank() const { return data_->shape.size(); }
  bool same_as(const Buffer& other) const { return data_ == other.data_; }

 private:
  std::shared_ptr<const BufferData> data_;
};

/// An integer or bool constant. u64 values are kept as their two's complement bits.
struct IntImm : ExprNode {
  static constexpr auto kKind = ExprKind::IntImm;
  int64_t value;
  auto fields() const { return std::tie(value); }
};

/// A float constant, exactly representable at its dtype.
struct FloatImm : ExprNode {
  static constexpr auto kKind = ExprKind::FloatImm;
  double value;
  auto fields() const { return std::tie(value); }
};

struct Var : ExprNode {
  static constexpr auto kKind = ExprKind::Var;
  std::string name;
  uint64_t name_hash;
  auto fields() const { return std::tie(name, name_hash); }
  Name key() const { return {name, name_hash}; }  // in a NameMap
};

/// Float to integer truncates, saturates, and gives 0 for NaN. Integer to integer wraps. To bool: value != 0
/// (NaN is true). From bool: 0 or 1. To a narrower float: rounds to nearest even.
struct Cast : ExprNode {
  static constexpr auto kKind = ExprKind::Cast;
  Expr value;
  auto fields() const { return std::tie(value); }
};

struct Binary : ExprNode {
  static constexpr auto kKind = ExprKind::Binary;
  BinaryOp op;
  Expr a, b;
  auto fields() const { return std::tie(op, a, b); }
};

/// `condition ? a : b`, evaluating only the chosen side.
struct Select : ExprNode {
  static constexpr auto kKind = ExprKind::Select;
  Expr condition, a, b;
  auto fields() const { return std::tie(condition, a, b); }
};

/// One element of a buffer; as many i64 indices as the buffer has axes.
struct Load : ExprNode {
  static constexpr auto kKind = ExprKind::Load;
  Buffer buffer;
  std::vector<Expr> indices;
  auto fields() const { return std::tie(buffer, indices); }
};

struct Call : ExprNode {
  static constexpr auto kKind = ExprKind::Call;
  Intrinsic op;
  std::vector<Expr> args;
  auto fields() const { return std::tie(op, args); }
};

/// The node as a T, or null if it is another kind (or the handle is null).
template <class T>
const T* as(const Expr& e) {
  return e && e->kind == T::kKind ? static_cast<const T*>(e.get()) : nullptr;
}

std::string_view name(BinaryOp op);  // text spelling: `+`, `floordiv`, `min`, …
std::string_view name(Intrinsic op);
int arity(Intrinsic op);
/// Comparisons, And and Or.
bool gives_bool(BinaryOp op);
std::string_view name(Scope scope);
/// Whether the text can hold a variable or buffer of this name: letters, digits, `_` and `.`, no digit first, and not a
/// word that the grammar gives a meaning where a name may stand.
bool is_printable_name(std::string_view name);

// Builders. They check the dtype rules, fold integer constants exactly at their width, and drop neutral index
// arithmetic (x+0, x*1, x*0, x//1, x%1 on i64). They never fold float arithmetic.
Expr int_imm(DType dtype, int64_t value);
Expr bool_imm(bool value);
/// Rounds to the dtype; every NaN becomes the one quiet NaN.
Expr float_imm(DType dtype, double value);
/// A constant of any dtype from a small number.
Expr imm(DType dtype, double value);
Expr var(std::string name, DType dtype = DType::I64);
Expr cast(DType dtype, const Expr& value);
Expr binary(BinaryOp op, const Expr& a, const Expr& b);
Expr select(const Expr& condition, const Expr& a, const Expr& b);
Expr load(const Buffer& buffer, std::vector<Expr> indices);
Expr call(Intrinsic op, std::vector<Expr> args);
Expr reinterpret(DType dtype, const Expr& value);

Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);
Expr floordiv(const Expr& a, const Expr& b);
Expr floormod(const Expr& a, const Expr& b);
Expr min(const Expr& a, const Expr& b);
Expr max(const Expr& a, const Expr& b);
Expr eq(const Expr& a, const Expr& b);
Expr ne(const Expr& a, const Expr& b);
Expr lt(const Expr& a, const Expr& b);
Expr le(const Expr& a, const Expr& b);
Expr logical_and(const Expr& a, const Expr& b);
Expr logical_or(const Expr& a, const Expr& b);
Expr logical_not(const Expr& a);

/// The smallest or largest value of a dtype (-inf and +inf for floats).
Expr lowest(DType dtype);
Expr highest(DType dtype);

/// The value of an integer or bool constant.
const int64_t* as_int(const Expr& e);
/// The value of an IntImm; anything else is an internal error.
int64_t int_value(const Expr& e);

/// Same tree: names, dtypes, constants bit for bit (buffers compared by declaration).
bool structural_equal(const Expr& a, const Expr& b);
bool structural_equal(const Buffer& a, const Buffer& b);
struct ExprHash {
  size_t operator()(const Expr& e) const { return e->hash; }
};
struct ExprEqual {
  bool operator()(const Expr& a, const Expr& b) const { return structural_equal(a, b); }
};

/// Whether a node of this kind is in the tree.
inline bool contains(const Expr& e, ExprKind kind) { return (e->kinds >> static_cast<int>(kind) & 1) != 0; }
/// Whether a variable of this name is in the tree.
bool uses(const Expr& e, Name name);

/// Calls f on each direct child expression (not on a buffer's shape).
void for_each_child(const Expr& e, function_ref<void(const Expr&)> f);
/// The list with f applied to each; nothing if none changed.
template <class T>
std::optional<std::vector<T>> map_list(const std::vector<T>& list, function_ref<T(const T&)> f) {
  std::optional<std::vector<T>> out;
  for (size_t i = 0; i < list.size(); ++i) {
    T mapped = f(list[i]);
    if (!out && mapped.same_as(list[i])) continue;
    if (!out) {
      out.emplace().reserve(list.size());
      out->assign(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(i));
    }
    out->push_back(std::move(mapped));
  }
  return out;
}
/// Rebuilds `e` through the builders with f applied to each child; returns `e` itself if none changed.
Expr map_children(const Expr& e, function_ref<Expr(const Expr&)> f);

}  // namespace tenon::tir
