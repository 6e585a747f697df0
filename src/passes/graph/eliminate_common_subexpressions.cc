// SPDX-License-Identifier: Apache-2.0
//
// Computes equal things once: nodes of one operator with equal operands and attributes, and calls of one graph function.
//
//   %1 = relu(%0)
//   %2 = relu(%0)                =>   %1 = relu(%0)
//   %3 = add(%1, %2)                  %2 = add(%1, %1)
//
// Constants are equal by dtype, shape and bytes, so a different dtype or shape keeps equal bytes apart. Operators are
// pure; calls of lowered functions are left alone, since a foreign one may not be.
//
// Needs inferred types. Leaves unread table entries to `eliminate-dead`.
#include <algorithm>
#include <unordered_map>

#include "base/content_index.h"
#include "passes/graph/functions.h"
#include "passes/graph/passes.h"

namespace tenon::pass {
namespace {

using graph::Function;
using graph::Module;
using graph::Node;
using graph::NodeKind;
using graph::ValueId;

using Entry = decltype(Module::constants)::value_type;

/// For each entry of the constant table that holds the same array as one before it, by name, the first of these.
std::unordered_map<std::string_view, const Entry*> repeated(const Module& module) {
  std::unordered_map<std::string_view, const Entry*> out;
  std::vector<std::vector<const Entry*>> by_content;  // of different types
  ContentIndex contents;
  for (const Entry& entry : module.constants) {
    const Array& array = entry.second;
    size_t content = contents.add(array.bytes);
    by_content.resize(contents.size());
    std::vector<const Entry*>& equal = by_content[content];
    auto same_type = [&](const Entry* e) { return e->second.dtype == array.dtype && e->second.shape == array.shape; };
    if (auto first = std::find_if(equal.begin(), equal.end(), same_type); first != equal.end())
      out.emplace(entry.first, *first);
    else
      equal.push_back(&entry);
  }
  return out;
}

/// Nodes added so far by what they compute.
class Seen {
 public:
  explicit Seen(const graph::Builder& builder) : builder_(builder) {}

  /// The first result of a node that computes the same, if there is one.
  std::optional<ValueId> find(const Node& node, uint64_t hash) const {
    auto [begin, end] = by_hash_.equal_range(hash);
    auto same = std::find_if(begin, end, [&](const auto& e) { return same_computation(*builder_.definition(e.second), node); });
    return same == end ? std::nullopt : std::optional(same->second);
  }
  void add(uint64_t hash, ValueId first) { by_hash_.emplace(hash, first); }

 private:
  const graph::Builder& builder_;
  std::unordered_multimap<uint64_t, ValueId> by_hash_;
};

Module run(Module module, const PassOptions&) {
  auto repeats = repeated(module);
  return map_functions(std::move(module), [&](Module& whole, Function function) {
    graph::Rewriter rewriter(whole, function);
    Seen seen(rewriter.builder());
    for (Node& node : function.nodes) {
      if (node.kind == NodeKind::CallLowered) {
        rewriter.keep(std::move(node));
        continue;
      }
      rewriter.rename(node);
      auto repeat = node.kind == NodeKind::Constant ? repeats.find(node.callee) : repeats.end();
      if (repeat != repeats.end()) node.callee = repeat->second->first;
      uint64_t hash = computation_hash(node);
      ValueId old = node.result();
      if (std::optional<ValueId> same = seen.find(node, hash)) {
        for (uint32_t i = 0; i < node.types.size(); ++i) rewriter.replace(node.result(i), {same->index + i});
      } else {
        rewriter.add(std::move(node));
        seen.add(hash, rewriter(old));
      }
    }
    return rewriter.finish();
  });
}

}  // namespace

const Pass eliminate_common_subexpressions{"eliminate-common-subexpressions", "compute equal things once", run};

}  // namespace tenon::pass
