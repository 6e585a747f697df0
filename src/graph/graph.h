// SPDX-License-Identifier: Apache-2.0
// The graph IR: a module of functions, each a flat list of nodes in topological order. Read this file first.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/array.h"
#include "base/diagnostic.h"
#include "tir/stmt.h"
#include "type/type.h"

namespace tenon::graph {

struct OpDef;
using tir::Attrs;
using tir::AttrValue;

/// A value of one function: `%index`. Parameters come first, then the results of the nodes in order.
struct ValueId {
  uint32_t index = 0;
  auto operator<=>(const ValueId&) const = default;
};

enum class NodeKind : uint8_t {
  Op,           // an operator: `relu(%1) {…}`
  Constant,     // an entry of the module's constant table: `constant @w`
  Call,         // a graph function of the module by name: `call @fused_relu(%1)`
  CallLowered,  // a loop function or external symbol by name: `call_lowered @fused_relu(%1)`
};

/// One step of a function. Its inputs come before it; it defines `types.size()` values, `first_result` onward.
struct Node {
  NodeKind kind = NodeKind::Op;
  const OpDef* op = nullptr;  // Op
  std::string callee;         // Constant: the table entry; Call, CallLowered: the function
  std::vector<ValueId> inputs;
  Attrs attrs;
  std::vector<TensorType> types;
  uint32_t first_result = 0;
  std::string name;  // the node's name in the user's model, kept as data; may be empty
  Span span;

  ValueId result(uint32_t output = 0) const { return {first_result + output}; }
};

struct Param {
  std::string name;  // the user's name, exactly as written in the file; may be empty inside fused functions
  TensorType type;
};

/// Attributes in use: `primitive` (bool: a fused group, to be lowered as one kernel), `external` (text: the code
/// generator's name).
struct Function {
  std::string name;
  std::vector<Param> params;
  std::vector<Node> nodes;
  std::vector<ValueId> results;
  std::vector<std::string> result_names;  // the user's output names; empty or one per result
  Attrs attrs;

  uint32_t value_count() const;
  bool is_param(ValueId v) const { return v.index < params.size(); }
  const TensorType& type(ValueId v) const;
  /// The node that defines a value; null for a parameter. O(log n).
  const Node* definition(ValueId v) const;
  bool primitive() const;
};

/// Functions, lowered loop functions and constants that name each other. Sorted by name, so iteration is deterministic.
/// Attributes in use: `stage` (the last pass that ran), `target`, `opt_level`.
struct Module {
  std::map<std::string, Function, std::less<>> functions;
  std::map<std::string, tir::PrimFunc, std::less<>> prim_funcs;
  std::map<std::string, Array, std::less<>> constants;
  Attrs attrs;
};

bool operator==(const Function& a, const Function& b);
bool operator==(const Module& a, const Module& b);

/// For each value, how many node inputs and function results read it.
std::vector<uint32_t> use_counts(const Function& function);

/// Adds arrays to the constant table of a module.
class ConstantTable {
 public:
  using Entries = decltype(Module::constants);

  explicit ConstantTable(Module& module) : entries_(module.constants) {}
  /// The first entry among `hint`, `hint_1`, … that is free or holds an equal array. What was seen of such a series is
  /// remembered, so that a long one is not searched again; entries may not be taken away meanwhile.
  Entries::iterator add(Array data, std::string_view hint);

 private:
  struct Series {
    int next = 1;                                         // the first number not looked at
    std::unordered_multimap<uint64_t, int> by_beginning;  // numbers by a hash of what the entry holds
  };
  Entries& entries_;
  std::unordered_map<std::string, Series> series_;  // by the name without a number, which is taken
};

/// Appends nodes to a function; types are computed as each node is built.
class Builder {
 public:
  /// `module` receives constants and is where callees are found; it must outlive the builder.
  Builder(Module& module, std::string function_name);

  ValueId param(std::string name, TensorType type);
  /// Checks attributes against the operator's schema, fills defaults and infers the types. Throws CompileError with the
  /// node's name when a constraint of the operator does not hold.
  std::vector<ValueId> call(const OpDef& op, std::vector<ValueId> inputs, Attrs attrs = {});
  /// The one result of an operator that has one.
  ValueId call1(const OpDef& op, std::vector<ValueId> inputs, Attrs attrs = {});
  /// A node as it stands, types included; only its value ids are assigned here. Returns the first of its results.
  ValueId add(Node&& node);
  /// The same for who wants all results.
  std::vector<ValueId> append(Node node);
  /// Adds an entry to the constant table (equal arrays share one) and a node that reads it.
  ValueId constant(Array data, std::string_view name_hint = "c");
  /// A node that reads an existing entry.
  ValueId constant_ref(const std::string& entry);
  /// The array behind a value that is a Constant node, else null.
  const Array* constant_value(ValueId v) const;
  /// Those behind several values; nothing if one is no Constant node.
  std::optional<std::vector<Array>> constant_values(std::span<const ValueId> values) const;

  /// The node that defines a value; null for a parameter. Valid until a node is added.
  const Node* definition(ValueId v) const;
  /// The reference stays valid while the builder lives; that of a parameter's type from the first node on.
  const TensorType& type(ValueId v) const;
  const Function& function() const { return function_; }
  Module& module() { return module_; }
  /// From now on, `call` evaluates an operator whose operands are all constants with its native `fold` when the results
  /// take at most `bytes`. The importer uses it so that shapes computed by the model are known.
  void fold_up_to(int64_t bytes) { fold_limit_ = bytes; }
  /// Name and span given to the nodes built from now on.
  void at(std::string_view node_name, const Span& span = {});
  /// Makes room for this many nodes.
  void reserve(size_t nodes);
  Function finish(std::vector<ValueId> results, std::vector<std::string> result_names = {});

 private:
  Module& module_;
  ConstantTable constants_;
  Function function_;
  std::vector<uint32_t> definition_;  // node index by value; of a parameter without meaning
  int64_t fold_limit_ = 0;
  std::string node_name_;
  Span span_;
};

/// The results of an operator on constant operands by its native `fold`, or nothing when it has none, declines, or a
/// result would take more than `max_bytes`.
std::optional<std::vector<Array>> fold_node(const OpDef& op, std::span<const Array> inputs, std::span<const TensorType> outputs,
                                            const Attrs& attrs, int64_t max_bytes);

/// ConstantTable::add for one array. Returns the entry's name.
std::string add_constant(Module& module, Array data, std::string_view hint);

/// Builds the new version of one function by walking the old one in order.
class Rewriter {
 public:
  Rewriter(Module& module, const Function& from);
  /// Adds an old node, its inputs renamed. Whoever owns the old function may give its nodes away.
  void keep(Node old);
  /// The same in two steps: gives the node the inputs that it has in the new function; adds such a node, whose results stand for
  /// those that it had.
  void rename(Node& old) const;
  void add(Node&& renamed);
  /// Uses of the old value become uses of a new one.
  void replace(ValueId old, ValueId with) { map_[old.index] = with; }
  /// The new value that stands for an old one.
  ValueId operator()(ValueId old) const { return map_[old.index]; }
  std::vector<ValueId> operator()(std::span<const ValueId> old) const;
  Builder& builder() { return builder_; }
  const Function& from() const { return from_; }
  /// Names, attributes and results of the old function.
  Function finish();

 private:
  const Function& from_;
  Builder builder_;
  std::vector<ValueId> map_;
};

}  // namespace tenon::graph
