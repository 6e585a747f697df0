// SPDX-License-Identifier: Apache-2.0
// What an operator is: contract, type relation, fusion class, meaning and constant folding, in one struct that its
// family's file under op/ fills in.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "te/te.h"

namespace tenon::graph {

/// How an operator may be fused (spec.md 5.1). The order matters: a larger value is harder to fuse.
enum class Fusion : uint8_t {
  ElementWise = 0,    // output index = input index
  Broadcast = 1,      // output axes map in order onto input axes
  Injective = 2,      // each output element reads one input element, by any index map
  Reduction = 3,      // reduces axes
  OutputFusable = 4,  // a complex operator that element-wise operators may follow
  Opaque = 8,         // never fused
};

enum class AttrKind : uint8_t { Bool, Int, Float, String, Ints };

struct AttrSpec {
  std::string_view name;
  AttrKind kind;
  std::optional<AttrValue> default_value;  // required when absent
  std::string_view doc;
};

struct OperandSpec {
  std::string_view name;
  std::string_view doc;
};

/// A bit per DType.
using DTypeSet = uint32_t;
constexpr DTypeSet dtypes(std::initializer_list<DType> list) {
  DTypeSet set = 0;
  for (DType d : list) set |= 1u << static_cast<int>(d);
  return set;
}
inline constexpr DTypeSet kAnyDType = (1u << 13) - 1;
inline constexpr DTypeSet kFloats = dtypes({DType::F16, DType::BF16, DType::F32, DType::F64});
inline constexpr DTypeSet kSigned = dtypes({DType::I8, DType::I16, DType::I32, DType::I64}) | kFloats;
inline constexpr DTypeSet kNumeric = kSigned | dtypes({DType::U8, DType::U16, DType::U32, DType::U64});
inline constexpr DTypeSet kIntegers = kNumeric & ~kFloats;
inline constexpr DTypeSet kBool = dtypes({DType::Bool});
constexpr bool contains(DTypeSet set, DType d) { return set >> static_cast<int>(d) & 1; }

/// Of types that lie side by side.
std::vector<const TensorType*> pointers_to(std::span<const TensorType> types);

/// One use of an operator, as `infer` and `compute` see it. Attributes have passed the schema: every one is present.
class CallSite {
 public:
  CallSite(const OpDef& op, std::vector<const TensorType*> inputs, const Attrs& attrs, std::span<const TensorType> outputs = {})
      : op_(op), inputs_(std::move(inputs)), attrs_(attrs), outputs_(outputs) {}
  CallSite(const OpDef& op, std::span<const TensorType> inputs, const Attrs& attrs, std::span<const TensorType> outputs = {})
      : CallSite(op, pointers_to(inputs), attrs, outputs) {}
  const OpDef& op() const { return op_; }
  size_t input_count() const { return inputs_.size(); }
  const TensorType& in(size_t i) const { return *inputs_[i]; }
  /// Result types; only in `compute`.
  const TensorType& out(size_t i = 0) const { return outputs_[i]; }
  bool flag(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const std::vector<int64_t>& integers(std::string_view name) const;
  /// A constraint that does not hold: operand `operand` (-1: the whole call), a code such as `dense-C1`, and what was
  /// expected in words. The found part is the operand's type. Throws CompileError (malformed).
  [[noreturn]] void error(int operand, std::string code, std::string expected) const;
  /// As `error`, but the operator is right and this build cannot do it (exit 4).
  [[noreturn]] void unsupported(int operand, std::string code, std::string reason) const;

 private:
  const OpDef& op_;
  std::vector<const TensorType*> inputs_;
  const Attrs& attrs_;
  std::span<const TensorType> outputs_;
};

struct OpDef {
  std::string_view name;
  std::string_view doc;
  std::vector<OperandSpec> inputs;  // with `variadic`, the last one repeats one or more times
  bool variadic = false;
  std::vector<AttrSpec> attrs;
  Fusion fusion = Fusion::Opaque;
  /// Dtypes of the first operand; `dtype_note` says why the others are missing.
  DTypeSet dtypes = kAnyDType;
  std::string_view dtype_note;
  /// Result types from operand types and attributes. Reports a broken constraint through CallSite::error.
  std::vector<TensorType> (*infer)(const CallSite& call) = nullptr;
  /// The meaning: appends stages that define the results.
  std::vector<te::Tensor> (*compute)(const CallSite& call, std::span<const te::Tensor> in, te::Graph& graph) = nullptr;
  /// Optional native evaluation for the constant folder; returns nothing if it declines. Shares no arithmetic with
  /// `compute` or an interpreter.
  std::optional<std::vector<Array>> (*fold)(const CallSite& call, std::span<const Array> in) = nullptr;
  /// Moves no data: a view of its operand (reshape class).
  bool view = false;
};

/// Checks operand count, dtype and attributes (filling defaults) and infers. `node_name` and `span` go into errors.
std::vector<TensorType> infer_types(const OpDef& op, std::vector<const TensorType*> inputs, Attrs& attrs,
                                    const std::string& node_name, const Span& span);
std::vector<TensorType> infer_types(const OpDef& op, std::span<const TensorType> inputs, Attrs& attrs,
                                    const std::string& node_name, const Span& span);

/// Operators by name: what the text parser and the passes look things up in. Filled from op/all_ops.cc and passed
/// where needed; there is no global registry.
class OpTable {
 public:
  explicit OpTable(std::vector<const OpDef*> ops);
  /// Null if unknown.
  const OpDef* find(std::string_view name) const;
  std::span<const OpDef* const> all() const { return ops_; }

 private:
  std::vector<const OpDef*> ops_;  // sorted by name
};

}  // namespace tenon::graph
