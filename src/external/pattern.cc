// SPDX-License-Identifier: Apache-2.0
// Matching chains.
#include "external/pattern.h"

#include <algorithm>

#include "graph/memory_attr.h"

namespace tenon::external {
namespace {

using graph::Function;
using graph::Node;
using graph::NodeKind;
using graph::ValueId;

constexpr uint32_t kNone = UINT32_MAX;

class Matcher {
 public:
  explicit Matcher(const Function& function)
      : function_(function), readers_(function.value_count(), 0), reader_(function.value_count(), kNone), taken_(nodes().size()) {
    for (uint32_t i = 0; i < nodes().size(); ++i)
      for (ValueId v : nodes()[i].inputs) read(v, i);
    for (ValueId v : function.results) read(v, kNone);
  }

  std::vector<Match> run(std::span<const Pattern> table) {
    std::vector<Match> matches;
    for (uint32_t i = 0; i < nodes().size(); ++i)
      for (const Pattern& pattern : table) {
        Match match = match_at(i, pattern);
        if (match.empty()) continue;
        for (uint32_t node : match) taken_[node] = true;
        matches.push_back(std::move(match));
        break;
      }
    return matches;
  }

 private:
  const std::vector<Node>& nodes() const { return function_.nodes; }

  void read(ValueId v, uint32_t reader) {
    ++readers_[v.index];
    reader_[v.index] = reader;
  }

  bool fits(uint32_t index, const PatternOp& op, std::optional<ValueId> chain) const {
    const Node& node = nodes()[index];
    if (taken_[index] || node.kind != NodeKind::Op || std::find(op.ops.begin(), op.ops.end(), node.op) == op.ops.end())
      return false;
    auto is_static = [](const TensorType& type) { return type.is_static(); };
    if (!graph::place_of_node(node).empty()) return false;
    bool fixed = std::all_of(node.types.begin(), node.types.end(), is_static) &&
                 std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return function_.type(v).is_static(); });
    return fixed && (!op.accepts || op.accepts({function_, node, chain}));
  }

  /// The one node that reads the one result of a node, if there is one.
  uint32_t next(uint32_t index) const {
    const Node& node = nodes()[index];
    return node.types.size() == 1 && readers_[node.first_result] == 1 ? reader_[node.first_result] : kNone;
  }

  Match match_at(uint32_t first, const Pattern& pattern) const {
    if (!fits(first, pattern.chain[0], std::nullopt)) return {};
    Match match{first};
    for (size_t i = 1; i < pattern.chain.size(); ++i) {
      uint32_t node = next(match.back());
      if (node != kNone && fits(node, pattern.chain[i], nodes()[match.back()].result()))
        match.push_back(node);
      else if (!pattern.chain[i].optional)
        return {};
    }
    return match;
  }

  const Function& function_;
  std::vector<uint32_t> readers_, reader_;  // by value: how many operands and results are it; the node of the last
  std::vector<bool> taken_;
};

}  // namespace

bool Candidate::constant(size_t operand) const {
  const Node* definition = function.definition(node.inputs[operand]);
  return definition && definition->kind == NodeKind::Constant;
}

std::vector<Match> find_matches(const Function& function, std::span<const Pattern> table) { return Matcher(function).run(table); }

}  // namespace tenon::external
