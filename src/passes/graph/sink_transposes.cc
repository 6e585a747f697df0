// SPDX-License-Identifier: Apache-2.0
// Two walks: the first finds for each value the transpose that may stay pending on it and what each region would cost,
// the second builds the function with the pending transposes of the regions that gain.
#include "passes/graph/sink_transposes.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "op/ops.h"
#include "passes/graph/functions.h"

namespace tenon::pass {
namespace {

using graph::Attrs;
using graph::Function;
using graph::Fusion;
using graph::Module;
using graph::Node;
using graph::NodeKind;
using graph::ValueId;
/// Axis k of the transposed value is axis perm[k] of the value before.
using Perm = std::vector<int64_t>;

constexpr uint32_t kNone = UINT32_MAX;
/// What a value of unknown size counts as.
constexpr int64_t kUnknownBytes = int64_t{1} << 20;

bool is_identity(const Perm& p) { return std::is_sorted(p.begin(), p.end()); }

/// The one transpose by `first` and then by `axes`.
Perm compose(const Perm& first, const Perm& axes) {
  Perm out;
  for (int64_t a : axes) out.push_back(first[static_cast<size_t>(a)]);
  return out;
}

Perm inverse(const Perm& p) {
  Perm out(p.size());
  for (size_t k = 0; k < p.size(); ++k) out[static_cast<size_t>(p[k])] = static_cast<int64_t>(k);
  return out;
}

bool is_one(const Dim& d) {
  const int64_t* extent = tir::as_int(d);
  return extent && *extent == 1;
}

/// Whether a transpose with this result only moves axes of extent 1.
bool moves_nothing(const TensorType& result, const Perm& perm) {
  int64_t last = -1;
  for (size_t k = 0; k < perm.size(); ++k) {
    if (is_one(result.shape[k])) continue;
    if (perm[k] < last) return false;
    last = perm[k];
  }
  return true;
}

/// How an operand of a sunk operator is read.
enum class Reading : uint8_t {
  AsIs,
  Base,   // before its pending transpose
  Moved,  // through a transpose of its own
};

/// How an operator can compute on values before their transposes.
struct Plan {
  Perm result;  // the transpose pending on each result
  Perm moved;   // the axes order given to each Moved operand, from its layout in the model
  std::vector<Reading> operands;
  Attrs attrs;
  uint32_t region = kNone;
};

/// What the transposes of a region cost: bytes moved, then their number.
struct Cost {
  int64_t bytes = 0, count = 0;
  auto operator<=>(const Cost&) const = default;
  void operator+=(const Cost& other) {
    bytes += other.bytes;
    count += other.count;
  }
};

struct Region {
  uint32_t parent;
  Cost before, after;
  bool adds_transpose = false;
};

Cost cost(const TensorType& result, const Perm& perm) {
  if (is_identity(perm)) return {};
  if (moves_nothing(result, perm)) return {0, 1};
  return {result.is_static() ? result.bytes() : kUnknownBytes, 1};
}

const Perm& ints(const Attrs& attrs, std::string_view name) { return std::get<Perm>(attrs.find(name)->second); }

/// A per-axis attribute given in the layout before a transpose.
void to_base(Attrs& attrs, std::string_view name, const Perm& perm) {
  attrs.find(name)->second = compose(ints(attrs, name), inverse(perm));
}

void axis_to_base(Attrs& attrs, const Perm& perm) {
  int64_t& axis = std::get<int64_t>(attrs.find("axis")->second);
  axis = perm[static_cast<size_t>(axis)];
}

bool is_reduction(const Node& node) { return node.op->fusion == Fusion::Reduction && node.attrs.contains("axes"); }

class Sinker {
 public:
  Sinker(Module& module, Function& from)
      : from_(from), rewriter_(module, from), pending_(from.value_count()), kept_(from.nodes.size()) {
    definition_.assign(from.params.size(), kNone);
    for (uint32_t i = 0; i < from.nodes.size(); ++i) definition_.insert(definition_.end(), from.nodes[i].types.size(), i);
    region_of_value_.assign(from.value_count(), kNone);
    materialized_.assign(from.value_count(), false);
    base_.resize(from.value_count());
  }

  /// Returns whether the function changed.
  bool run() {
    for (uint32_t i = 0; i < from_.nodes.size(); ++i) analyse(i);
    for (ValueId v : from_.results) charge_materialized(v);
    for (uint32_t r = 0; r < regions_.size(); ++r)
      if (uint32_t top = root(r); top != r) add_costs(regions_[top], regions_[r]);
    materialized_.assign(materialized_.size(), false);
    rewriter_.builder().fold_up_to(std::numeric_limits<int64_t>::max());
    for (uint32_t i = 0; i < from_.nodes.size(); ++i) rewrite(i);
    for (ValueId v : from_.results) materialize(v);
    Function out = rewriter_.finish();
    bool changed = differs(out);
    from_ = std::move(out);
    return changed;
  }

 private:
  const TensorType& type(ValueId v) const {
    uint32_t i = definition_[v.index];
    return i == kNone ? from_.params[v.index].type : from_.nodes[i].types[v.index - from_.nodes[i].first_result];
  }
  bool is_pending(ValueId v) const { return !pending_[v.index].empty(); }
  bool is_constant(ValueId v) const {
    uint32_t i = definition_[v.index];
    return i != kNone && from_.nodes[i].kind == NodeKind::Constant;
  }

  // Regions.
  uint32_t root(uint32_t r) {
    while (regions_[r].parent != r) r = regions_[r].parent = regions_[regions_[r].parent].parent;
    return r;
  }
  uint32_t new_region() {
    auto index = static_cast<uint32_t>(regions_.size());
    regions_.push_back({.parent = index, .before = {}, .after = {}});
    return index;
  }
  void join(uint32_t& into, uint32_t region) {
    if (into == kNone)
      into = region;
    else
      regions_[root(region)].parent = root(into);
  }
  static void add_costs(Region& to, const Region& from) {
    to.before += from.before;
    to.after += from.after;
    to.adds_transpose |= from.adds_transpose;
  }
  bool gains(uint32_t region) {
    const Region& r = regions_[root(region)];
    return r.after < r.before || (r.after == r.before && !r.adds_transpose);
  }
  void charge_materialized(ValueId v) {
    if (!is_pending(v) || materialized_[v.index]) return;
    materialized_[v.index] = true;
    regions_[region_of_value_[v.index]].after += cost(type(v), pending_[v.index]);
  }

  // The first walk.
  void analyse(uint32_t index) {
    const Node& node = from_.nodes[index];
    std::optional<Plan> plan = make_plan(node);
    if (!plan) {
      for (ValueId v : node.inputs) charge_materialized(v);
      return;
    }
    for (size_t k = 0; k < node.inputs.size(); ++k)
      if (is_pending(node.inputs[k]) && plan->operands[k] != Reading::AsIs)
        join(plan->region, region_of_value_[node.inputs[k].index]);
    if (plan->region == kNone) plan->region = new_region();
    Region& region = regions_[plan->region];
    if (node.op == &op::transpose) region.before += cost(node.types[0], ints(node.attrs, "axes"));
    for (size_t k = 0; k < node.inputs.size(); ++k) charge_operand(node.inputs[k], plan->operands[k], plan->moved, region);
    if (!is_identity(plan->result))
      for (uint32_t r = 0; r < node.types.size(); ++r) {
        pending_[node.first_result + r] = plan->result;
        region_of_value_[node.first_result + r] = plan->region;
      }
    plans_.emplace(index, std::move(*plan));
  }

  void charge_operand(ValueId v, Reading reading, const Perm& moved, Region& region) {
    bool same_rank = type(v).shape.size() == moved.size();
    if (reading == Reading::AsIs || (reading == Reading::Moved && !same_rank)) charge_materialized(v);
    if (reading != Reading::Moved || is_constant(v)) return;
    std::vector<Dim> shape(moved.size() - type(v).shape.size(), 1);
    shape.insert(shape.end(), type(v).shape.begin(), type(v).shape.end());
    TensorType result{type(v).dtype, {}};
    for (int64_t axis : moved) result.shape.push_back(shape[static_cast<size_t>(axis)]);
    Cost added = cost(result, same_rank && is_pending(v) ? compose(pending_[v.index], moved) : moved);
    region.after += added;
    region.adds_transpose |= added.count > 0;
  }

  std::optional<Plan> make_plan(const Node& node) const {
    if (node.kind != NodeKind::Op) return std::nullopt;
    if (node.op == &op::transpose) return plan_transpose(node);
    if (std::none_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return is_pending(v); })) return std::nullopt;
    if (is_elementwise(*node.op) || node.op == &op::concat) return plan_joint(node);
    if (node.op == &op::split || node.op == &op::pad || node.op == &op::strided_slice) return plan_cut(node);
    if (is_reduction(node)) return plan_reduction(node);
    return std::nullopt;
  }

  Plan plan_transpose(const Node& node) const {
    ValueId x = node.inputs[0];
    const Perm& axes = ints(node.attrs, "axes");
    Plan plan{.result = axes, .operands = {Reading::AsIs}};
    if (is_pending(x)) plan = {.result = compose(pending_[x.index], axes), .operands = {Reading::Base}};
    return plan;
  }

  /// Element-wise operators and concat: the largest operand decides; the others follow it.
  std::optional<Plan> plan_joint(const Node& node) const {
    int64_t rank = node.types[0].rank();
    ValueId lead;
    int64_t lead_bytes = -1;
    for (ValueId v : node.inputs) {
      if (is_constant(v) || type(v).rank() != rank) continue;
      int64_t bytes = type(v).is_static() ? type(v).bytes() : kUnknownBytes;
      if (bytes > lead_bytes || (bytes == lead_bytes && !is_pending(lead))) lead = v, lead_bytes = bytes;
    }
    if (lead_bytes < 0 || !is_pending(lead)) return std::nullopt;
    const Perm& perm = pending_[lead.index];
    Plan plan{.result = perm, .moved = inverse(perm), .attrs = node.attrs};
    if (node.op == &op::concat) axis_to_base(plan.attrs, perm);
    for (ValueId v : node.inputs) {
      const TensorType& t = type(v);
      bool single = node.op != &op::concat && std::all_of(t.shape.begin(), t.shape.end(), is_one);
      if (t.rank() < rank && !single && !t.is_static()) return std::nullopt;
      if (single)
        plan.operands.push_back(Reading::AsIs);
      else
        plan.operands.push_back(is_pending(v) && pending_[v.index] == perm ? Reading::Base : Reading::Moved);
    }
    return plan;
  }

  /// Operators whose first operand gives the layout and whose attributes count axes.
  std::optional<Plan> plan_cut(const Node& node) const {
    if (!is_pending(node.inputs[0])) return std::nullopt;
    const Perm& perm = pending_[node.inputs[0].index];
    Plan plan{.result = perm, .operands = std::vector(node.inputs.size(), Reading::AsIs), .attrs = node.attrs};
    plan.operands[0] = Reading::Base;
    if (node.op == &op::split) axis_to_base(plan.attrs, perm);
    for (std::string_view name : {"before", "after", "begin", "end", "strides"})
      if (plan.attrs.contains(name)) to_base(plan.attrs, name, perm);
    return plan;
  }

  std::optional<Plan> plan_reduction(const Node& node) const {
    const Perm& perm = pending_[node.inputs[0].index];
    Plan plan{.operands = {Reading::Base}, .attrs = node.attrs};
    Perm axes;
    int64_t rank = static_cast<int64_t>(perm.size());
    for (int64_t a : ints(node.attrs, "axes")) axes.push_back(perm[static_cast<size_t>(a < 0 ? a + rank : a)]);
    std::sort(axes.begin(), axes.end());
    bool keepdims = std::get<bool>(node.attrs.find("keepdims")->second);
    for (int64_t axis : perm) {
      if (keepdims)
        plan.result.push_back(axis);
      else if (!std::binary_search(axes.begin(), axes.end(), axis))
        plan.result.push_back(axis - (std::lower_bound(axes.begin(), axes.end(), axis) - axes.begin()));
    }
    plan.attrs.find("axes")->second = std::move(axes);
    return plan;
  }

  // The second walk.
  void rewrite(uint32_t index) {
    Node& node = from_.nodes[index];
    auto plan = plans_.find(index);
    if (plan == plans_.end() || !gains(plan->second.region)) {
      for (ValueId v : node.inputs) materialize(v);
      for (ValueId v : node.inputs) rewired_ |= rewriter_(v) != v;
      kept_[index] = true;
      rewriter_.rename(node);
      rewriter_.add(std::move(node));
      return;
    }
    rewriter_.builder().at(node.name, node.span);
    std::vector<ValueId> operands;
    for (size_t k = 0; k < node.inputs.size(); ++k) operands.push_back(read(node.inputs[k], plan->second, k));
    std::vector<ValueId> results = operands;
    if (node.op != &op::transpose) results = rewriter_.builder().call(*node.op, std::move(operands), plan->second.attrs);
    for (uint32_t r = 0; r < node.types.size(); ++r) {
      base_[node.first_result + r] = results[r];
      if (!is_pending(node.result(r))) rewriter_.replace(node.result(r), results[r]);
    }
  }

  /// The operand as its plan reads it, in the new function.
  ValueId read(ValueId v, const Plan& plan, size_t operand) {
    if (plan.operands[operand] == Reading::Base) return base_[v.index];
    if (plan.operands[operand] == Reading::AsIs) {
      materialize(v);
      return rewriter_(v);
    }
    graph::Builder& builder = rewriter_.builder();
    if (is_pending(v) && gains(region_of_value_[v.index]) && type(v).shape.size() == plan.moved.size())
      return transposed(base_[v.index], compose(pending_[v.index], plan.moved));
    materialize(v);
    ValueId x = rewriter_(v);
    if (size_t rank = plan.moved.size(); builder.type(x).shape.size() < rank) {
      Shape shape = builder.type(x).static_shape();
      shape.insert(shape.begin(), rank - shape.size(), 1);
      x = builder.call1(op::reshape, {x}, {{"shape", shape}});
    }
    return transposed(x, plan.moved);
  }

  ValueId transposed(ValueId x, const Perm& axes) {
    return is_identity(axes) ? x : rewriter_.builder().call1(op::transpose, {x}, {{"axes", axes}});
  }

  /// Makes the value itself available to a node that is not sunk.
  void materialize(ValueId v) {
    if (!is_pending(v) || materialized_[v.index] || !gains(region_of_value_[v.index])) return;
    materialized_[v.index] = true;
    const Node& node = from_.nodes[definition_[v.index]];
    rewriter_.builder().at(node.name, node.span);
    rewriter_.replace(v, transposed(base_[v.index], pending_[v.index]));
  }

  /// Whether `out` is another function than the old one, whose kept nodes are in it.
  bool differs(const Function& out) const {
    if (rewired_ || out.nodes.size() != from_.nodes.size() || out.results != from_.results) return true;
    for (size_t i = 0; i < out.nodes.size(); ++i) {
      const Node &now = out.nodes[i], &old = from_.nodes[i];
      bool same = kept_[i] || (same_computation(now, old) && now.types == old.types && now.name == old.name);
      if (!same || now.first_result != old.first_result) return true;
    }
    return false;
  }

  Function& from_;  // gives its nodes away in the second walk
  graph::Rewriter rewriter_;
  std::vector<Perm> pending_;         // by value of `from`; empty for none
  std::vector<uint32_t> definition_;  // the node; kNone for a parameter
  std::vector<uint32_t> region_of_value_;
  std::vector<bool> materialized_;
  std::vector<ValueId> base_;       // what a pending transpose applies to, in the new function
  std::map<uint32_t, Plan> plans_;  // by node
  std::vector<Region> regions_;
  std::vector<bool> kept_;  // by node: it is in the new function
  bool rewired_ = false;    // a kept node reads something else
};

bool is_transpose(const Node& node) { return node.kind == NodeKind::Op && node.op == &op::transpose; }

bool is_reshape(const Node& node) {
  return is_transpose(node) && node.types[0].is_static() && moves_nothing(node.types[0], ints(node.attrs, "axes"));
}

}  // namespace

bool sink_transposes(Module& module, Function& function) {
  bool any = std::any_of(function.nodes.begin(), function.nodes.end(), is_transpose);
  return any && Sinker(module, function).run();
}

bool transposes_to_reshapes(Module& module, Function& function) {
  if (std::none_of(function.nodes.begin(), function.nodes.end(), is_reshape)) return false;
  graph::Rewriter rewriter(module, function);
  for (Node& node : function.nodes) {
    if (!is_reshape(node)) {
      rewriter.keep(std::move(node));
      continue;
    }
    rewriter.builder().at(node.name, node.span);
    ValueId x = rewriter(node.inputs[0]);
    rewriter.replace(node.result(), rewriter.builder().call1(op::reshape, {x}, {{"shape", node.types[0].static_shape()}}));
  }
  function = rewriter.finish();
  return true;
}

}  // namespace tenon::pass
