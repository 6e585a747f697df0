// SPDX-License-Identifier: Apache-2.0
// A list schedule: of the nodes whose operands are there, one that gives memory back, the one that needs least meanwhile; else
// the one that adds least. What a node adds is what is left of it after the nodes that follow from it alone.
#include "link/order.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_map>

#include "link/main_function.h"
#include "tir/scratch.h"

namespace tenon::link {
namespace {

using graph::Function;
using graph::Node;
using graph::NodeKind;
using graph::ValueId;

constexpr size_t kMostCompared = 64;  // of the nodes that could come next, so that the walk stays linear

/// Regions that are planned for, and who touches them.
class Touches {
 public:
  Touches(const graph::Module& module, const Function& main, const Liveness& live) : live_(live), planned_(live.regions.size()) {
    std::unordered_map<const tir::PrimFunc*, int64_t> scratch_of;
    for (size_t r = 0; r < live.regions.size(); ++r) planned_[r] = live.regions[r].source == Source::Kernel;
    for (ValueId v : main.results)
      if (live.whole(v.index)) planned_[live.values[v.index].region] = false;  // the caller's memory
    for (const Node& node : main.nodes) {
      std::vector<uint32_t>& touched = of_node.emplace_back();
      auto note = [&](uint32_t value) {
        uint32_t region = live.values[value].region;
        if (planned_[region] && std::find(touched.begin(), touched.end(), region) == touched.end()) touched.push_back(region);
      };
      for (ValueId v : node.inputs) note(v.index);
      for (uint32_t k = 0; k < node.types.size(); ++k) note(node.first_result + k);
      scratch.push_back(0);
      if (node.kind != NodeKind::CallLowered || is_view(node)) continue;
      const tir::PrimFunc& kernel = kernel_of(module, node);
      auto [known, is_new] = scratch_of.try_emplace(&kernel, 0);
      if (is_new) known->second = tir::scratch_of(kernel).shared_bytes;
      scratch.back() = known->second;
    }
  }

  int64_t bytes(uint32_t region) const { return live_.regions[region].bytes; }
  size_t regions() const { return planned_.size(); }

  std::vector<std::vector<uint32_t>> of_node;
  std::vector<int64_t> scratch;  // by node

 private:
  const Liveness& live_;
  std::vector<bool> planned_;
};

/// The most bytes that are alive at a step in the order in which the nodes stand.
int64_t most_alive(const Touches& touches) {
  std::vector<size_t> left(touches.regions());
  for (const auto& regions : touches.of_node)
    for (uint32_t r : regions) ++left[r];
  std::vector<bool> begun(touches.regions());
  int64_t alive = 0, most = 0;
  for (size_t n = 0; n < touches.of_node.size(); ++n) {
    for (uint32_t r : touches.of_node[n]) {
      if (!begun[r]) alive += touches.bytes(r);
      begun[r] = true;
    }
    most = std::max(most, alive + touches.scratch[n]);
    for (uint32_t r : touches.of_node[n])
      if (--left[r] == 0) alive -= touches.bytes(r);
  }
  return most;
}

class ListSchedule {
 public:
  ListSchedule(const Function& main, const Touches& touches)
      : touches_(touches), left_(touches.regions()), begun_(touches.regions()), waits_(main.nodes.size()) {
    for (const auto& regions : touches.of_node)
      for (uint32_t r : regions) ++left_[r];
    std::vector<size_t> maker(main.value_count(), SIZE_MAX);
    for (size_t n = 0; n < main.nodes.size(); ++n)
      for (uint32_t k = 0; k < main.nodes[n].types.size(); ++k) maker[main.nodes[n].first_result + k] = n;
    readers_.resize(main.nodes.size());
    for (size_t n = 0; n < main.nodes.size(); ++n) {
      for (ValueId v : main.nodes[n].inputs)
        if (size_t from = maker[v.index]; from != SIZE_MAX && main.nodes[from].kind != NodeKind::Constant) {
          readers_[from].push_back(n);
          ++waits_[n];
        }
      if (main.nodes[n].kind != NodeKind::Constant && waits_[n] == 0) ready_.insert(n);
    }
  }

  /// Indices of the nodes, without constants.
  std::vector<size_t> run() {
    std::vector<size_t> order;
    while (!ready_.empty()) {
      size_t next = best();
      ready_.erase(next);
      order.push_back(next);
      for (uint32_t r : touches_.of_node[next]) {
        begun_[r] = true;
        --left_[r];
      }
      for (size_t reader : readers_[next])
        if (--waits_[reader] == 0) ready_.insert(reader);
    }
    return order;
  }

 private:
  size_t best() const {
    std::tuple<bool, int64_t, size_t> least;
    size_t compared = 0;
    for (size_t n : ready_) {
      if (compared == kMostCompared) break;
      Outlook outlook = outlook_of(n);
      bool grows = outlook.added > 0;
      std::tuple<bool, int64_t, size_t> key(grows, grows ? outlook.added : outlook.most, n);
      if (compared++ == 0 || key < least) least = key;
    }
    return std::get<size_t>(least);
  }

  /// The least that stays alive of a node and those that only wait for the one before, and the most until then.
  struct Outlook {
    int64_t added = INT64_MAX, most = 0;
  };
  Outlook outlook_of(size_t first) const {
    constexpr int kSteps = 4;
    Outlook out;
    std::vector<std::pair<uint32_t, size_t>> touched;  // regions, and how often on the way
    int64_t alive = 0, most = 0;
    size_t n = first;
    for (int step = 0; step < kSteps; ++step) {
      auto place_of = [&](uint32_t region) {
        return std::find_if(touched.begin(), touched.end(), [&](const auto& entry) { return entry.first == region; });
      };
      for (uint32_t r : touches_.of_node[n]) {
        if (auto known = place_of(r); known != touched.end()) {
          ++known->second;
          continue;
        }
        touched.emplace_back(r, 1);
        if (!begun_[r]) alive += touches_.bytes(r);
      }
      most = std::max(most, alive + touches_.scratch[n]);
      for (uint32_t r : touches_.of_node[n])
        if (place_of(r)->second == left_[r]) alive -= touches_.bytes(r);
      if (alive < out.added) out = {alive, most};
      if (readers_[n].size() != 1 || waits_[readers_[n][0]] != 1) break;
      n = readers_[n][0];
    }
    return out;
  }

  const Touches& touches_;
  std::vector<size_t> left_;   // by region, the nodes to come that touch it
  std::vector<bool> begun_;    // by region
  std::vector<size_t> waits_;  // by node, the operands that are not there yet
  std::vector<std::vector<size_t>> readers_;
  std::set<size_t> ready_;
};

/// `main` with its nodes in another order, each constant before the first node that reads it.
Function reordered(graph::Module& module, const Function& main, const std::vector<size_t>& order) {
  graph::Rewriter rewriter(module, main);
  std::vector<bool> kept(main.nodes.size());
  auto keep_constant = [&](ValueId v) {
    const Node* definition = main.definition(v);
    if (!definition || definition->kind != NodeKind::Constant) return;
    auto index = static_cast<size_t>(definition - main.nodes.data());
    if (!kept[index]) rewriter.keep(*definition);
    kept[index] = true;
  };
  for (size_t n : order) {
    for (ValueId v : main.nodes[n].inputs) keep_constant(v);
    rewriter.keep(main.nodes[n]);
  }
  for (ValueId v : main.results) keep_constant(v);
  return rewriter.finish();
}

/// Whether every node is a constant, or a call of a loop function on known shapes.
bool is_lowered(const graph::Module& module) {
  auto main = module.functions.find("main");
  if (main == module.functions.end()) return false;
  auto known = [](const TensorType& type) { return type.is_static(); };
  return std::all_of(main->second.params.begin(), main->second.params.end(),
                     [&](const graph::Param& p) { return p.type.is_static(); }) &&
         std::all_of(main->second.nodes.begin(), main->second.nodes.end(), [&](const Node& node) {
           bool calls = node.kind == NodeKind::CallLowered && module.prim_funcs.contains(node.callee);
           return (node.kind == NodeKind::Constant || calls) && std::all_of(node.types.begin(), node.types.end(), known);
         });
}

int64_t most_alive(const graph::Module& module, const LivenessOptions& options) {
  const Function& main = main_of(module);
  return most_alive(Touches(module, main, analyse_liveness(module, options)));
}

}  // namespace

graph::Module order_for_memory(graph::Module module, const LivenessOptions& options) {
  if (!is_lowered(module)) return module;
  const Function& main = main_of(module);
  Liveness live = analyse_liveness(module, options);
  Touches touches(module, main, live);
  std::vector<size_t> order = ListSchedule(main, touches).run();
  if (std::is_sorted(order.begin(), order.end())) return module;
  graph::Module other = module;
  other.functions.find("main")->second = reordered(other, main, order);
  return most_alive(other, options) < most_alive(touches) ? other : module;
}

}  // namespace tenon::link
