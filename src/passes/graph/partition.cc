// SPDX-License-Identifier: Apache-2.0
//
// Makes functions of the parts of a graph that an external code generator compiles.
//
//   %1 = conv(%0, %w)                 %1 = call @onednn_0(%0)
//   %2 = relu(%1)                =>   fn @onednn_0(%0) -> … {external = "onednn", primitive = true, symbol = "onednn_0"} { conv,
//   relu }
//
// Units grow to regions along edges. Every unit has a level: the largest among its operands', where a value that has passed
// through a node outside of all units counts one more than the unit it comes from. Units of one level that read each other are
// one region. Levels never fall along an edge and rise on every path that leaves a region, so no path comes back: no cycle. The
// work is linear in the graph.
#include "passes/graph/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "passes/graph/functions.h"

namespace tenon::pass {
namespace {

using graph::Function;
using graph::Module;
using graph::Node;
using graph::NodeKind;
using graph::ValueId;

constexpr uint32_t kNone = UINT32_MAX;

/// The region of each node, by the index of one of its nodes; kNone outside.
class Regions {
 public:
  Regions(const Function& function, const Units& units, bool merge)
      : function_(function), region_(function.nodes.size(), kNone), producer_(function.params.size(), kNone) {
    for (uint32_t i = 0; i < function.nodes.size(); ++i) producer_.insert(producer_.end(), function.nodes[i].types.size(), i);
    for (const std::vector<uint32_t>& unit : units)
      for (uint32_t node : unit) {
        check(region_[node] == kNone, "a node is in one unit");
        region_[node] = unit.back();
      }
    if (merge) merge_levels(units);
  }

  /// A region by its name, or kNone.
  uint32_t of(uint32_t node) {
    if (region_[node] == kNone) return kNone;
    uint32_t root = node;
    while (region_[root] != root) root = region_[root];
    while (region_[node] != root) node = std::exchange(region_[node], root);
    return root;
  }
  uint32_t producer(ValueId v) const { return producer_[v.index]; }

 private:
  void merge_levels(const Units& units) {
    std::vector<const std::vector<uint32_t>*> unit_at(region_.size());  // by last node
    for (const std::vector<uint32_t>& unit : units) unit_at[unit.back()] = &unit;
    std::vector<uint32_t> level(region_.size());
    // The nodes of a unit before its last are read within it alone, so every operand of a unit has its level when the last
    // node comes.
    for (uint32_t i = 0; i < region_.size(); ++i) {
      if (region_[i] == kNone) {
        level[i] = level_of_operands(i, level, 1, kNone);
      } else if (unit_at[i]) {
        for (uint32_t node : *unit_at[i]) level[i] = std::max(level[i], level_of_operands(node, level, 0, i));
        for (uint32_t node : *unit_at[i]) level[node] = level[i];
        for (uint32_t node : *unit_at[i]) join(node, level);
      }
    }
  }

  uint32_t level_of_operands(uint32_t node, const std::vector<uint32_t>& level, uint32_t step, uint32_t unit) {
    uint32_t highest = 0;
    for (ValueId v : function_.nodes[node].inputs) {
      uint32_t from = producer_[v.index];
      if (from == kNone || (unit != kNone && region_[from] == unit)) continue;
      highest = std::max(highest, level[from] + (region_[from] == kNone ? 0 : step));
    }
    return highest;
  }

  void join(uint32_t node, const std::vector<uint32_t>& level) {
    for (ValueId v : function_.nodes[node].inputs) {
      uint32_t from = producer_[v.index];
      if (from != kNone && region_[from] != kNone && level[from] == level[node]) region_[of(from)] = of(node);
    }
  }

  const Function& function_;
  std::vector<uint32_t> region_;    // of a node in a unit: a node nearer to the region's name
  std::vector<uint32_t> producer_;  // by value
};

class Names {
 public:
  explicit Names(const Module& module) {
    for (const auto& [name, function] : module.functions) reserve(name, function);
    for (const auto& [name, function] : module.prim_funcs) taken_.insert(name);
  }
  std::string fresh(const std::string& generator) {
    for (;; ++next_)
      if (std::string name = fmt::format("{}_{}", generator, next_); taken_.insert(name).second) return name;
  }

 private:
  void reserve(const std::string& name, const Function& function) {
    taken_.insert(name);
    auto symbol = function.attrs.find("symbol");
    if (symbol != function.attrs.end() && std::holds_alternative<std::string>(symbol->second))
      taken_.insert(std::get<std::string>(symbol->second));
  }
  std::set<std::string> taken_;
  size_t next_ = 0;
};

class Partitioner {
 public:
  Partitioner(Module& out, const Function& from, const PartitionRequest& request, const Units& units, Names& names,
              std::vector<Function>& made)
      : out_(out),
        from_(from),
        request_(request),
        names_(names),
        made_(made),
        regions_(from, units, request.merge),
        rewriter_(out, from) {}

  Function run() {
    std::map<uint32_t, std::vector<uint32_t>> members;
    for (uint32_t i = 0; i < from_.nodes.size(); ++i)
      if (uint32_t region = regions_.of(i); region != kNone) members[region].push_back(i);
    for (uint32_t first : order()) {
      uint32_t region = regions_.of(first);
      if (region == kNone)
        rewriter_.keep(from_.nodes[first]);
      else
        emit(members.at(region));
    }
    return rewriter_.finish();
  }

 private:
  /// The name of the part of the result that a node becomes: its region, or itself.
  uint32_t part(uint32_t node) {
    uint32_t region = regions_.of(node);
    return region == kNone ? node : region;
  }

  /// A node of each region and every other node, what is read before what reads it, otherwise as they stand.
  std::vector<uint32_t> order() {
    size_t count = from_.nodes.size();
    std::vector<std::vector<uint32_t>> readers(count);
    std::vector<uint32_t> waits_for(count), first(count, kNone);
    for (uint32_t i = 0; i < count; ++i) {
      uint32_t to = part(i);
      if (first[to] == kNone) first[to] = i;
      for (ValueId v : from_.nodes[i].inputs) {
        uint32_t producer = regions_.producer(v);
        if (producer == kNone || part(producer) == to) continue;
        readers[part(producer)].push_back(to);
        ++waits_for[to];
      }
    }
    using Entry = std::pair<uint32_t, uint32_t>;  // the first node of a part, the part
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (uint32_t i = 0; i < count; ++i)
      if (part(i) == i && waits_for[i] == 0) ready.emplace(first[i], i);
    std::vector<uint32_t> sorted;
    while (!ready.empty()) {
      auto [node, done] = ready.top();
      ready.pop();
      sorted.push_back(node);
      for (uint32_t reader : readers[done])
        if (--waits_for[reader] == 0) ready.emplace(first[reader], reader);
    }
    return sorted;
  }

  std::vector<ValueId> results_of(const std::vector<uint32_t>& nodes) {
    if (read_outside_.empty()) {
      read_outside_.resize(from_.value_count());
      for (uint32_t i = 0; i < from_.nodes.size(); ++i)
        for (ValueId v : from_.nodes[i].inputs) {
          uint32_t producer = regions_.producer(v);
          if (producer != kNone && part(producer) != part(i)) read_outside_[v.index] = true;
        }
      for (ValueId v : from_.results) read_outside_[v.index] = true;
    }
    std::vector<ValueId> results;
    for (uint32_t i : nodes)
      for (uint32_t k = 0; k < from_.nodes[i].types.size(); ++k)
        if (ValueId v = from_.nodes[i].result(k); read_outside_[v.index]) results.push_back(v);
    return results;
  }

  void emit(const std::vector<uint32_t>& nodes) {
    uint32_t region = part(nodes[0]);
    std::string symbol = names_.fresh(request_.generator);
    graph::Builder builder(out_, symbol);
    std::map<uint32_t, ValueId> inside;
    Node call;
    call.kind = NodeKind::Call;
    call.callee = symbol;
    auto is_constant = [&](uint32_t producer) { return producer != kNone && from_.nodes[producer].kind == NodeKind::Constant; };
    auto reads = [&](auto visit) {
      for (uint32_t i : nodes)
        for (ValueId v : from_.nodes[i].inputs) {
          uint32_t producer = regions_.producer(v);
          if ((producer == kNone || part(producer) != region) && !inside.contains(v.index)) visit(v, producer);
        }
    };
    reads([&](ValueId v, uint32_t producer) {  // parameters come before nodes
      if (is_constant(producer)) return;
      inside[v.index] = builder.param("", from_.type(v));
      call.inputs.push_back(rewriter_(v));
    });
    reads([&](ValueId v, uint32_t producer) { inside[v.index] = builder.constant_ref(from_.nodes[producer].callee); });
    for (uint32_t i : nodes) {
      Node node = from_.nodes[i];
      for (ValueId& v : node.inputs) v = inside.at(v.index);
      std::vector<ValueId> results = builder.append(std::move(node));
      for (uint32_t k = 0; k < results.size(); ++k) inside[from_.nodes[i].result(k).index] = results[k];
    }
    std::vector<ValueId> results = results_of(nodes), inner;
    for (ValueId v : results) {
      inner.push_back(inside.at(v.index));
      call.types.push_back(from_.type(v));
    }
    const Node& last = from_.nodes[nodes.back()];
    call.name = last.name;
    call.span = last.span;
    Function function = builder.finish(std::move(inner));
    function.attrs = {{"external", request_.generator}, {"primitive", true}, {"symbol", symbol}};
    made_.push_back(std::move(function));
    std::vector<ValueId> made = rewriter_.builder().append(std::move(call));
    for (size_t k = 0; k < results.size(); ++k) rewriter_.replace(results[k], made[k]);
  }

  Module& out_;
  const Function& from_;
  const PartitionRequest& request_;
  Names& names_;
  std::vector<Function>& made_;
  Regions regions_;
  graph::Rewriter rewriter_;
  std::vector<bool> read_outside_;  // by value
};

bool is_external(const Function& function) { return function.attrs.contains("external"); }

/// Copies the nodes of the callee in place of a call.
void inline_call(graph::Rewriter& rewriter, const Node& call, const Function& callee) {
  std::vector<ValueId> values;
  for (ValueId v : call.inputs) values.push_back(rewriter(v));
  for (Node node : callee.nodes) {
    for (ValueId& v : node.inputs) v = values[v.index];
    std::vector<ValueId> results = rewriter.builder().append(std::move(node));
    values.insert(values.end(), results.begin(), results.end());
  }
  for (uint32_t k = 0; k < call.types.size(); ++k) rewriter.replace(call.result(k), values[callee.results[k].index]);
}

}  // namespace

Module partition(Module module, const PartitionRequest& request) {
  Names names(module);
  std::vector<Function> made;
  Module out = map_functions(std::move(module), [&](Module& whole, Function function) {
    Function live = remove_dead_nodes(std::move(function));
    Units units = request.units(live);
    if (units.empty()) return live;
    return remove_dead_nodes(Partitioner(whole, live, request, units, names, made).run());
  });
  for (Function& function : made) out.functions.emplace(function.name, std::move(function));
  return out;
}

Module inline_external(Module module) {
  Module out = map_functions(std::move(module), [](Module& whole, Function function) {
    graph::Rewriter rewriter(whole, function);
    for (Node& node : function.nodes) {
      auto callee = node.kind == NodeKind::Call ? whole.functions.find(node.callee) : whole.functions.end();
      if (callee != whole.functions.end() && is_external(callee->second))
        inline_call(rewriter, node, callee->second);
      else
        rewriter.keep(std::move(node));
    }
    return rewriter.finish();
  });
  std::erase_if(out.functions, [](const auto& entry) { return is_external(entry.second); });
  return out;
}

}  // namespace tenon::pass
