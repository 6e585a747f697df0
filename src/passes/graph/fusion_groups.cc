// SPDX-License-Identifier: Apache-2.0
// Fusion by post-dominators (spec.md 7.1): a data-flow graph whose edges carry fusion classes, its post-dominator
// tree, and three rounds of merging with union-find.
//
// Our IR has neither tuples nor projections, but the algorithm decides by them, so they are added to the data-flow
// graph: a tuple in front of the repeated operand of a variadic operator and of several function results, a
// projection behind each used result of an operator that has several, and a scalar constant for each use of one.
#include "passes/graph/fusion_groups.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/function_ref.h"
#include "graph/memory_attr.h"

namespace tenon::pass {
namespace {

using graph::Fusion;
using graph::Node;
using graph::NodeKind;
using graph::ValueId;

/// Fusion classes as numbers, with the class of a tuple between the operators' and opaque.
using Pattern = uint8_t;
constexpr Pattern kElementWise = static_cast<Pattern>(Fusion::ElementWise);
constexpr Pattern kBroadcast = static_cast<Pattern>(Fusion::Broadcast);
constexpr Pattern kInjective = static_cast<Pattern>(Fusion::Injective);
constexpr Pattern kReduction = static_cast<Pattern>(Fusion::Reduction);
constexpr Pattern kOutputFusable = static_cast<Pattern>(Fusion::OutputFusable);
constexpr Pattern kTuple = 7;
constexpr Pattern kOpaque = static_cast<Pattern>(Fusion::Opaque);

constexpr uint32_t kNone = UINT32_MAX;

struct Edge {
  uint32_t to;
  Pattern pattern;
};

/// The data-flow graph; its vertices are numbered in post-order of a depth-first walk from the results.
struct FlowGraph {
  std::vector<Pattern> pattern;
  std::vector<bool> external;  // a result of the function: no dominator, never fused forward
  std::vector<std::vector<Edge>> consumers;
  std::vector<uint32_t> vertex_of_node;  // of the IR; kNone for a scalar constant
  size_t size() const { return pattern.size(); }
};

/// Collects vertices in any order with their operands, then numbers them.
class FlowGraphBuilder {
 public:
  explicit FlowGraphBuilder(const graph::Function& function) : function_(function) {}

  FlowGraph build() {
    node_of_value_.assign(function_.params.size(), kNone);
    for (uint32_t i = 0; i < function_.nodes.size(); ++i) {
      const Node& node = function_.nodes[i];
      node_of_value_.insert(node_of_value_.end(), node.types.size(), i);
      bool scalar = is_simple_scalar(node);
      vertex_of_node_.push_back(scalar ? kNone : add_vertex(own_pattern(node)));
      if (scalar) continue;
      add_operands(node, vertex_of_node_[i]);
      vertices_[vertex_of_node_[i]].external = !graph::place_of_node(node).empty();  // it has to be in memory
    }
    add_results();
    return number();
  }

 private:
  struct Vertex {
    Pattern pattern;
    bool external = false;
    std::vector<Edge> operands;  // `to` is the producer
  };

  static Pattern own_pattern(const Node& node) {
    return node.kind == NodeKind::Op ? static_cast<Pattern>(node.op->fusion) : kOpaque;
  }

  uint32_t add_vertex(Pattern pattern) {
    vertices_.push_back({pattern, false, {}});
    return static_cast<uint32_t>(vertices_.size() - 1);
  }

  /// The vertex that stands for one use of a value; kNone for a parameter.
  uint32_t use(ValueId v) {
    uint32_t index = node_of_value_[v.index];
    if (index == kNone) return kNone;
    const Node& node = function_.nodes[index];
    if (is_simple_scalar(node)) return add_vertex(kElementWise);
    uint32_t vertex = vertex_of_node_[index];
    if (node.types.size() == 1) return vertex;
    auto [it, is_new] = projections_.try_emplace(v.index, kNone);
    if (is_new) {
      it->second = add_vertex(kInjective);
      vertices_[it->second].operands.push_back({vertex, kInjective});
    }
    return it->second;
  }

  void connect(ValueId from, uint32_t to, Pattern pattern) {
    if (uint32_t producer = use(from); producer != kNone) vertices_[to].operands.push_back({producer, pattern});
  }

  /// A broadcast edge is element-wise where the argument has the result's shape.
  Pattern edge_pattern(const Node& node, ValueId operand) const {
    Pattern pattern = own_pattern(node);
    if (pattern != kBroadcast || node.types.size() != 1) return pattern;
    uint32_t producer = node_of_value_[operand.index];
    const TensorType& type = producer == kNone
                                 ? function_.params[operand.index].type
                                 : function_.nodes[producer].types[operand.index - function_.nodes[producer].first_result];
    return same_shape(type.shape, node.types[0].shape) ? kElementWise : kBroadcast;
  }

  void add_operands(const Node& node, uint32_t vertex) {
    bool variadic = node.kind == NodeKind::Op && node.op->variadic;
    size_t plain = variadic ? node.op->inputs.size() - 1 : node.inputs.size();
    for (size_t i = 0; i < plain; ++i) connect(node.inputs[i], vertex, edge_pattern(node, node.inputs[i]));
    if (!variadic) return;
    uint32_t tuple = add_vertex(kTuple);
    for (size_t i = plain; i < node.inputs.size(); ++i) connect(node.inputs[i], tuple, kInjective);
    vertices_[vertex].operands.push_back({tuple, own_pattern(node)});
  }

  void add_results() {
    if (function_.results.size() == 1) {
      root_ = use(function_.results[0]);
    } else {
      root_ = add_vertex(kTuple);
      for (ValueId v : function_.results) connect(v, root_, kInjective);
    }
    if (root_ != kNone) vertices_[root_].external = true;
  }

  /// Depth first from the results, then from whatever they do not reach.
  FlowGraph number() {
    std::vector<uint32_t> position(vertices_.size(), kNone);
    std::vector<uint32_t> order;
    if (root_ != kNone) visit(root_, position, order);
    for (uint32_t vertex : vertex_of_node_)
      if (vertex != kNone) visit(vertex, position, order);
    FlowGraph graph;
    graph.consumers.resize(order.size());
    for (uint32_t i = 0; i < order.size(); ++i) {
      const Vertex& vertex = vertices_[order[i]];
      graph.pattern.push_back(vertex.pattern);
      graph.external.push_back(vertex.external);
      for (const Edge& edge : vertex.operands) graph.consumers[position[edge.to]].push_back({i, edge.pattern});
    }
    for (uint32_t vertex : vertex_of_node_) graph.vertex_of_node.push_back(vertex == kNone ? kNone : position[vertex]);
    return graph;
  }

  void visit(uint32_t from, std::vector<uint32_t>& position, std::vector<uint32_t>& order) {
    constexpr uint32_t kOpen = kNone - 1;
    if (position[from] != kNone) return;
    std::vector<std::pair<uint32_t, size_t>> stack = {{from, 0}};
    position[from] = kOpen;
    while (!stack.empty()) {
      auto& [vertex, next] = stack.back();
      if (next == vertices_[vertex].operands.size()) {
        position[vertex] = static_cast<uint32_t>(order.size());
        order.push_back(vertex);
        stack.pop_back();
        continue;
      }
      uint32_t operand = vertices_[vertex].operands[next++].to;
      if (position[operand] != kNone) continue;
      position[operand] = kOpen;
      stack.push_back({operand, 0});
    }
  }

  const graph::Function& function_;
  std::vector<Vertex> vertices_;
  std::vector<uint32_t> node_of_value_;
  std::vector<uint32_t> vertex_of_node_;
  std::map<uint32_t, uint32_t> projections_;  // by value
  uint32_t root_ = kNone;
};

/// Post-dominators with the largest pattern met on the way to each. `jump` skips ahead as in a skew-binary list, so
/// that a common ancestor takes logarithmic time however long the graph is. Vertex `size` is a root above all.
struct PostDominators {
  struct Entry {
    uint32_t parent, jump, depth;
    Pattern pattern;       // of the edges and dominators between this vertex and its parent
    Pattern jump_pattern;  // the largest `pattern` from here up to, not including, `jump`
  };
  std::vector<Entry> entries;

  explicit PostDominators(const FlowGraph& graph) : entries(graph.size() + 1) {
    uint32_t root = static_cast<uint32_t>(graph.size());
    entries[root] = {root, root, 0, kOpaque, kOpaque};
    for (uint32_t v = root; v-- > 0;) {
      Pattern pattern = kElementWise;
      uint32_t parent = graph.external[v] || graph.consumers[v].empty() ? root : graph.consumers[v][0].to;
      if (parent != root)
        for (const Edge& edge : graph.consumers[v]) {
          pattern = std::max(pattern, edge.pattern);
          parent = common_ancestor(parent, edge.to, pattern);
        }
      link(v, parent, pattern);
    }
  }

  bool has_parent(uint32_t v) const { return entries[v].depth > 1; }

 private:
  void link(uint32_t v, uint32_t parent, Pattern pattern) {
    const Entry& p = entries[parent];
    const Entry& j = entries[p.jump];
    bool balanced = p.depth - j.depth == j.depth - entries[j.jump].depth;
    Pattern jump_pattern = balanced ? std::max({pattern, p.jump_pattern, j.jump_pattern}) : pattern;
    entries[v] = {parent, balanced ? j.jump : parent, p.depth + 1, pattern, jump_pattern};
  }

  void climb(uint32_t& v, bool far, Pattern& pattern) const {
    pattern = std::max(pattern, far ? entries[v].jump_pattern : entries[v].pattern);
    v = far ? entries[v].jump : entries[v].parent;
  }

  uint32_t common_ancestor(uint32_t a, uint32_t b, Pattern& pattern) const {
    while (entries[a].depth > entries[b].depth) climb(a, entries[entries[a].jump].depth >= entries[b].depth, pattern);
    while (entries[b].depth > entries[a].depth) climb(b, entries[entries[b].jump].depth >= entries[a].depth, pattern);
    while (a != b) {
      bool far = entries[a].jump != entries[b].jump;
      climb(a, far, pattern);
      climb(b, far, pattern);
    }
    return a;
  }
};

class Grouping {
 public:
  Grouping(const FlowGraph& graph, int64_t max_nodes)
      : graph_(graph), tree_(graph), max_nodes_(max_nodes), parent_(graph.size()), groups_(graph.size()), seen_(graph.size()) {
    std::iota(parent_.begin(), parent_.end(), 0u);
    for (size_t v = 0; v < graph.size(); ++v) groups_[v] = {graph.pattern[v], graph.pattern[v] == kOutputFusable, 1};
  }

  void run_round(int round) {
    for (uint32_t v = 0; v < graph_.size(); ++v) {
      if (groups_[v].pattern == kOpaque || !tree_.has_parent(v)) continue;
      uint32_t to = tree_.entries[v].parent;
      if (!fits(v, to)) continue;
      if (round == 2 ? may_join_tuple(v, to) : may_join(v, to, round)) merge_paths(v, to);
    }
  }

  uint32_t root(uint32_t v) {
    while (parent_[v] != v) v = parent_[v] = parent_[parent_[v]];
    return v;
  }

 private:
  /// Kept per vertex: of its group when it is the root, of what it had absorbed before when it is not.
  struct Group {
    Pattern pattern;
    bool anchored;
    int64_t size;
  };

  bool may_join(uint32_t v, uint32_t to, int round) {
    Pattern own = groups_[v].pattern, aggregate = tree_.entries[v].pattern;
    if (root(v) == root(to) || groups_[to].pattern == kTuple) return false;
    Pattern sink = groups_[root(to)].pattern;
    if (own == kOutputFusable)
      return round == 0 && aggregate == kElementWise && sink <= kBroadcast && between_at_most(v, to, kBroadcast);
    if (own <= kBroadcast)
      return (aggregate <= kInjective || aggregate == kReduction) && sink <= kOutputFusable && between_at_most(v, to, kInjective);
    if (own == kInjective || own == kTuple) return round == 1 && sink <= kInjective && between_at_most(v, to, kInjective);
    return false;
  }

  bool may_join_tuple(uint32_t v, uint32_t to) {
    return groups_[v].pattern <= kInjective && groups_[to].pattern == kTuple && groups_[root(to)].pattern <= kInjective &&
           between_at_most(v, to, kInjective);
  }

  /// Calls `f` on each vertex strictly between `from` and its dominator `to`; stops and returns false when `f` does.
  bool each_between(uint32_t from, uint32_t to, function_ref<bool(uint32_t)> f) {
    ++mark_;
    stack_.assign(1, from);
    while (!stack_.empty()) {
      uint32_t v = stack_.back();
      stack_.pop_back();
      for (const Edge& edge : graph_.consumers[v]) {
        if (edge.to == to || seen_[edge.to] == mark_) continue;
        seen_[edge.to] = mark_;
        if (!f(edge.to)) return false;
        stack_.push_back(edge.to);
      }
    }
    return true;
  }

  bool between_at_most(uint32_t from, uint32_t to, Pattern limit) {
    return each_between(from, to, [&](uint32_t v) { return groups_[root(v)].pattern <= limit; });
  }

  /// The walk ends as soon as the limit is passed, so it never costs more than the limit.
  bool fits(uint32_t from, uint32_t to) {
    int64_t size = groups_[root(to)].size + groups_[from].size;
    return size <= max_nodes_ && each_between(from, to, [&](uint32_t v) { return (size += groups_[v].size) <= max_nodes_; });
  }

  void merge_paths(uint32_t from, uint32_t to) {
    merge(from, to);
    each_between(from, to, [&](uint32_t v) {
      merge(v, to);
      return true;
    });
  }

  void merge(uint32_t child, uint32_t to) {
    child = root(child);
    to = root(to);
    if (child == to) return;
    parent_[child] = to;
    Group &from = groups_[child], &into = groups_[to];
    into.size += from.size;
    if (!from.anchored) return;
    check(!into.anchored, "a fused group has one anchor");
    check(from.pattern <= kBroadcast || into.pattern <= kBroadcast, "one of two merged groups is simple");
    into.anchored = true;
    into.pattern = std::max(from.pattern, into.pattern);
  }

  const FlowGraph& graph_;
  PostDominators tree_;
  int64_t max_nodes_;
  std::vector<uint32_t> parent_;
  std::vector<Group> groups_;
  std::vector<uint32_t> seen_;
  uint32_t mark_ = 0;
  std::vector<uint32_t> stack_;
};

}  // namespace

bool is_simple_scalar(const Node& node) {
  constexpr graph::DTypeSet kSimple = graph::dtypes({DType::I32, DType::I64, DType::F32, DType::F64, DType::Bool});
  return node.kind == NodeKind::Constant && node.types[0].rank() == 0 && graph::contains(kSimple, node.types[0].dtype);
}

std::vector<uint32_t> fusion_groups(const graph::Function& function, int64_t max_nodes) {
  FlowGraph graph = FlowGraphBuilder(function).build();
  Grouping grouping(graph, max_nodes);
  for (int round = 0; round < 3; ++round) grouping.run_round(round);

  // Later nodes overwrite earlier ones, so each group ends with its last operator.
  std::vector<uint32_t> last(graph.size(), kNone);
  auto group_of = [&](size_t i) { return grouping.root(graph.vertex_of_node[i]); };
  for (uint32_t i = 0; i < function.nodes.size(); ++i)
    if (function.nodes[i].kind == NodeKind::Op) last[group_of(i)] = i;
  std::vector<uint32_t> groups(function.nodes.size());
  for (uint32_t i = 0; i < function.nodes.size(); ++i) groups[i] = function.nodes[i].kind == NodeKind::Op ? last[group_of(i)] : i;
  return groups;
}

}  // namespace tenon::pass
