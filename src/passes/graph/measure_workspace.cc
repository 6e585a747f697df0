// SPDX-License-Identifier: Apache-2.0
// Notes how much memory a mixed module needs, from both of its sides.
//
//   call_lowered @k(%0) : f32[100]              fn @main … {workspace_bytes = 640}
//   primfunc @k … { alloc t: f32[50] … }   ->   primfunc @k … {workspace_bytes = 256}
//
// Of a loop function: the bytes of its scratch (tir/scratch.h), that of workers once. Of a graph function: the most bytes of
// values alive during a call, without parameters, constants and results, each rounded up to 64, with what the callee needs. A
// view holds its operand's memory. Needs a module behind the pass `lower`. Leaves the attribute out where a size is no number or
// a graph function is called.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "passes/graph/passes.h"
#include "tir/scratch.h"

namespace tenon::pass {
namespace {

using graph::Function;
using graph::Module;
using graph::Node;
using graph::NodeKind;
using graph::ValueId;

constexpr std::string_view kAttribute = "workspace_bytes";
constexpr int64_t kAlignment = 64;

int64_t rounded(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::optional<int64_t> size_of(DType dtype, std::span<const tir::Expr> shape) {
  int64_t bytes = byte_size(dtype);
  for (const tir::Expr& extent : shape) {
    const int64_t* number = tir::as_int(extent);
    if (!number) return std::nullopt;
    bytes *= *number;
  }
  return rounded(bytes);
}

/// Nothing where an extent is no number.
std::optional<int64_t> scratch_bytes(const tir::PrimFunc& function) {
  bool known = true;
  if (!function.body) return 0;
  tir::visit(function.body, [&](const tir::Stmt& s) {
    const auto* allocation = tir::as<tir::Allocate>(s);
    known &= !allocation || size_of(allocation->buffer->dtype, allocation->buffer->shape).has_value();
  });
  if (!known) return std::nullopt;
  tir::Scratch scratch = tir::scratch_of(function);
  return scratch.shared_bytes + scratch.worker_bytes;
}

class GraphSide {
 public:
  GraphSide(const Module& module, const Function& function)
      : module_(module), function_(function), root_(function.value_count()), last_use_(function.value_count()) {}

  std::optional<int64_t> measure() {
    for (uint32_t v = 0; v < root_.size(); ++v) root_[v] = v;
    for (size_t i = 0; i < function_.nodes.size(); ++i) read(function_.nodes[i], i);
    for (ValueId v : function_.results) kept_.insert(root_[v.index]);
    int64_t alive = 0, best = 0;
    for (size_t i = 0; i < function_.nodes.size() && known_; ++i) {
      const Node& node = function_.nodes[i];
      for (uint32_t r = 0; r < node.types.size(); ++r) alive += bytes(node.result(r).index);
      best = std::max(best, alive + callee_bytes(node));
      for (uint32_t v : ends_[i]) alive -= bytes(v);
    }
    return known_ ? std::optional(best) : std::nullopt;
  }

 private:
  static bool is_view(const Node& node) {
    auto view = node.attrs.find("view");
    return view != node.attrs.end() && view->second == graph::AttrValue(true);
  }

  void read(const Node& node, size_t i) {
    if (is_view(node) && node.inputs.size() == 1) root_[node.first_result] = root_[node.inputs[0].index];
    for (uint32_t r = 0; r < node.types.size(); ++r) last_use_[root_[node.result(r).index]] = i;
    for (ValueId v : node.inputs) last_use_[root_[v.index]] = i;
    if (i + 1 < function_.nodes.size()) return;
    for (uint32_t v = 0; v < root_.size(); ++v)
      if (root_[v] == v) ends_[last_use_[v]].push_back(v);
  }

  /// Of the memory that a value owns: none for parameters, constants, results and views.
  int64_t bytes(uint32_t v) {
    const Node* node = function_.definition({v});
    if (!node || node->kind == NodeKind::Constant || root_[v] != v || kept_.contains(v)) return 0;
    const TensorType& type = function_.type({v});
    std::optional<int64_t> size = size_of(type.dtype, type.shape);
    known_ &= size.has_value();
    return size.value_or(0);
  }

  int64_t callee_bytes(const Node& node) {
    known_ &= node.kind != NodeKind::Call;
    auto function = module_.prim_funcs.find(node.callee);
    if (node.kind != NodeKind::CallLowered || function == module_.prim_funcs.end()) return 0;
    auto bytes = function->second.attrs.find(kAttribute);
    known_ &= bytes != function->second.attrs.end();
    return known_ ? std::get<int64_t>(bytes->second) : 0;
  }

  const Module& module_;
  const Function& function_;
  std::vector<uint32_t> root_;    // the value whose memory a value is
  std::vector<size_t> last_use_;  // by root
  std::map<size_t, std::vector<uint32_t>> ends_;
  std::set<uint32_t> kept_;
  bool known_ = true;
};

template <class Attributed>
void note(Attributed& function, std::optional<int64_t> bytes) {
  if (bytes)
    function.attrs[std::string(kAttribute)] = *bytes;
  else
    function.attrs.erase(std::string(kAttribute));
}

Module run(Module module, const PassOptions&) {
  for (auto& [name, function] : module.prim_funcs) note(function, scratch_bytes(function));
  for (auto& [name, function] : module.functions)
    if (!function.primitive()) note(function, GraphSide(module, function).measure());
  return module;
}

}  // namespace

const Pass measure_workspace{"measure-workspace", "note how much memory loop functions and `main` need", run};

}  // namespace tenon::pass
