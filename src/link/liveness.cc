// SPDX-License-Identifier: Apache-2.0
// One walk over the nodes with regions that are joined as it goes; where operands may become parts of results, a walk without
// that comes first, to know how much memory is alive when.
#include "link/liveness.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "link/in_place.h"
#include "link/main_function.h"
#include "link/places.h"
#include "link/views.h"

namespace tenon::link {
namespace {

using graph::Node;
using graph::NodeKind;
using graph::place_of_node;
using graph::ValueId;

constexpr uint32_t kNone = UINT32_MAX;
constexpr int64_t kAlignment = 64;          // parts of a result begin at a multiple, as its own memory does
constexpr int64_t kMostLooks = 20'000'000;  // at a step, to see whether operands may become parts

/// What the loops of one function prove.
struct Proofs {
  std::optional<std::vector<InPlace>> in_place;  // none: nobody has asked
  std::optional<std::vector<Part>> outputs;
  std::optional<std::vector<int64_t>> inputs;
};

/// A region that may have become a part of another.
struct Joined {
  Region region;
  uint32_t parent;
  int64_t offset = 0;       // in the parent
  uint32_t reads_left = 0;  // operands and results of `main` to come that are its memory
};

class Walk {
 public:
  Walk(const graph::Module& module, const graph::Function& main, const LivenessOptions& options,
       std::map<std::string, Proofs, std::less<>>& proofs)
      : module_(module), main_(main), options_(options), proofs_(proofs) {}

  /// `alive`: bytes at each node, to be kept below the most of all; null to leave operands where they are.
  Liveness run(std::vector<int64_t>* alive) {
    alive_ = alive;
    if (alive) most_alive_ = alive->empty() ? 0 : *std::max_element(alive->begin(), alive->end());
    for (uint32_t i = 0; i < main_.params.size(); ++i) define(main_.params[i].type, nullptr, Source::Input, main_.params[i].name);
    for (const Node& node : main_.nodes) {
      visit(node);
      ++node_;
    }
    return finish();
  }

  /// The bytes of planned regions that are alive at each node.
  std::vector<int64_t> bytes_alive() {
    std::vector<int64_t> alive(main_.nodes.size() + 1);
    for (uint32_t r = 0; r < regions_.size(); ++r) {
      const Region& region = regions_[r].region;
      if (regions_[r].parent != r || region.source != Source::Kernel || is_output(r)) continue;
      alive[static_cast<size_t>(region.begin)] += region.bytes;
      alive[static_cast<size_t>(region.end)] -= region.bytes;
    }
    for (size_t i = 1; i < alive.size(); ++i) alive[i] += alive[i - 1];
    alive.pop_back();
    return alive;
  }

 private:
  uint32_t root_of(uint32_t region, int64_t& offset) {
    while (regions_[region].parent != region) {
      offset += regions_[region].offset;
      region = regions_[region].parent;
    }
    return region;
  }
  uint32_t root_of(uint32_t region) {
    int64_t ignored = 0;
    return root_of(region, ignored);
  }
  ValueMemory memory_of(ValueId value) {
    ValueMemory memory = values_[value.index];
    memory.region = root_of(memory.region, memory.offset);
    return memory;
  }
  bool whole(const ValueMemory& memory) const { return memory.bytes == regions_[memory.region].region.bytes; }
  bool is_output(uint32_t root) const { return outputs_.contains(root); }

  /// The next value, in a region of its own.
  void define(const TensorType& type, const Node* node, Source source, const std::string& name, bool used = true) {
    int64_t bytes = used || source != Source::Constant ? bytes_of_type(type, node, name) : 0;
    auto region = static_cast<uint32_t>(regions_.size());
    regions_.push_back(
        {.region =
             {.source = source, .value = static_cast<uint32_t>(values_.size()), .bytes = bytes, .begin = node_, .end = node_ + 1},
         .parent = region});
    define_in({region, 0, bytes});
  }

  static int64_t bytes_of_type(const TensorType& type, const Node* node, const std::string& name) {
    return element_count(static_shape(type, node, name)) * byte_size(type.dtype);
  }

  /// The next value, in a region that is there.
  void define_in(ValueMemory memory) {
    auto index = static_cast<uint32_t>(values_.size());
    values_.push_back(memory);
    Joined& joined = regions_[root_of(memory.region)];
    joined.reads_left += uses_[index];
  }

  void visit(const Node& node) {
    switch (node.kind) {
      case NodeKind::Constant: return define(node.types[0], &node, Source::Constant, node.callee, uses_[values_.size()] > 0);
      case NodeKind::CallLowered: return visit_call(node);
      case NodeKind::Op:
      case NodeKind::Call: fail_not_lowered(node);
    }
  }

  const Proofs& proofs_of(const Node& node) {
    auto [known, inserted] = proofs_.try_emplace(node.callee);
    if (inserted) {
      const tir::PrimFunc& function = kernel_of(module_, node);
      if (options_.parts && !function.attrs.contains(kMemoryAttr)) {
        known->second.outputs = outputs_as_parts(function);
        known->second.inputs = inputs_as_parts(function);
      }
    }
    return known->second;
  }

  void visit_call(const Node& node) {
    const tir::PrimFunc& function = kernel_of(module_, node);
    if (is_view(node)) return define_parts(node, {{0, 0}});
    const Proofs& proofs = proofs_of(node);
    if (proofs.outputs && proofs.outputs->size() == node.types.size()) return define_parts(node, *proofs.outputs);
    if (alive_ && proofs.inputs && proofs.inputs->size() == node.inputs.size() && join(node, *proofs.inputs)) return;
    run_step(node, function);
  }

  void run_step(const Node& node, const tir::PrimFunc& function) {
    std::vector<ValueMemory> operands;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      operands.push_back(memory_of(node.inputs[i]));
      Joined& joined = regions_[operands.back().region];
      joined.region.end = std::max(joined.region.end, node_ + 1);
      --joined.reads_left;
      if (i < function.params.size()) set_place(operands.back().region, place_of_buffer(function, function.params[i]->name));
    }
    std::vector<std::optional<std::string>> places(node.types.size());
    for (size_t k = 0; k < places.size(); ++k) {
      size_t param = static_cast<size_t>(function.num_inputs) + k;
      if (param < function.params.size()) places[k] = place_of_buffer(function, function.params[param]->name);
      if (std::string place = place_of_node(node); !place.empty()) places[k] = place;
    }
    steps_.push_back(&node);
    step_nodes_.push_back(node_);
    step_results_.push_back(static_cast<uint32_t>(values_.size()));
    std::vector<uint32_t> taken = memory_taken_over(node, operands, places);
    for (size_t k = 0; k < node.types.size(); ++k) {
      if (taken[k] == kNone) {
        define(node.types[k], &node, Source::Kernel, node.callee);
      } else {
        regions_[taken[k]].region.end = std::max(regions_[taken[k]].region.end, node_ + 1);
        define_in({taken[k], 0, bytes_of_type(node.types[k], &node, node.callee)});
      }
      note_results(static_cast<uint32_t>(values_.size() - 1));
      set_place(root_of(values_.back().region), places[k]);
    }
  }

  /// For each result the region that it overwrites, or kNone: planned memory that nothing reads after this step, that this step
  /// reads once, and that its loops are proven to read no later than they overwrite it.
  std::vector<uint32_t> memory_taken_over(const Node& node, const std::vector<ValueMemory>& operands,
                                          const std::vector<std::optional<std::string>>& places) {
    std::vector<uint32_t> taken(node.types.size(), kNone);
    if (!options_.in_place || !may_take_over(node, operands)) return taken;
    std::optional<std::vector<InPlace>>& pairs = proofs_.find(node.callee)->second.in_place;
    if (!pairs) pairs = in_place_pairs(kernel_of(module_, node));
    for (const InPlace& pair : *pairs) {
      if (pair.input >= operands.size() || pair.output >= taken.size()) continue;
      const ValueMemory& operand = operands[pair.input];
      const Joined& joined = regions_[operand.region];
      bool free = taken[pair.output] == kNone && std::find(taken.begin(), taken.end(), operand.region) == taken.end();
      bool once =
          std::count_if(operands.begin(), operands.end(), [&](const ValueMemory& m) { return m.region == operand.region; }) == 1;
      if (free && once && ends_here(operand) && places[pair.output] == joined.region.place) taken[pair.output] = operand.region;
    }
    return taken;
  }

  /// Whether nothing reads an operand's memory, which is planned, after this step.
  bool ends_here(const ValueMemory& operand) const {
    const Joined& joined = regions_[operand.region];
    return joined.region.source == Source::Kernel && joined.reads_left == 0 && whole(operand);
  }

  /// Whether some operand ends here and is as large as a result: else there is nothing to prove.
  bool may_take_over(const Node& node, const std::vector<ValueMemory>& operands) const {
    return std::any_of(node.types.begin(), node.types.end(), [&](const TensorType& type) {
      int64_t bytes = bytes_of_type(type, &node, node.callee);
      return std::any_of(operands.begin(), operands.end(),
                         [&](const ValueMemory& operand) { return operand.bytes == bytes && ends_here(operand); });
    });
  }

  /// A call that is no step: each result is a part of an operand.
  void define_parts(const Node& node, const std::vector<Part>& parts) {
    std::vector<ValueMemory> operands;
    for (ValueId input : node.inputs) {
      operands.push_back(memory_of(input));
      --regions_[operands.back().region].reads_left;
    }
    for (size_t k = 0; k < node.types.size(); ++k) {
      ValueMemory memory = operands[parts[k].input];
      memory.offset += parts[k].offset;
      memory.bytes = bytes_of_type(node.types[k], &node, node.callee);
      define_in(memory);
      note_results(static_cast<uint32_t>(values_.size() - 1));
      if (std::string place = place_of_node(node); !place.empty()) set_place(memory.region, place);
    }
  }

  /// Makes the operands parts of the one result, so that the call is no step; false if that can't be.
  bool join(const Node& node, const std::vector<int64_t>& offsets) {
    std::vector<uint32_t> roots;
    for (size_t k = 0; k < offsets.size(); ++k) {
      ValueMemory memory = memory_of(node.inputs[k]);
      const Joined& joined = regions_[memory.region];
      bool planned = joined.region.source == Source::Kernel && !is_output(memory.region) && !joined.region.place;
      bool again = std::find(roots.begin(), roots.end(), memory.region) != roots.end();
      if (!planned || again || !whole(memory) || offsets[k] % kAlignment != 0) return false;
      roots.push_back(memory.region);
    }
    int64_t bytes = bytes_of_type(node.types[0], &node, node.callee);
    if (!place_of_node(node).empty() || !worthwhile(roots, bytes)) return false;
    define(node.types[0], &node, Source::Kernel, node.callee);
    auto joint = static_cast<uint32_t>(regions_.size() - 1);
    Joined& result = regions_[joint];
    for (size_t k = 0; k < roots.size(); ++k) {
      Joined& part = regions_[roots[k]];
      --part.reads_left;
      result.reads_left += part.reads_left;
      result.region.begin = std::min(result.region.begin, part.region.begin);
      result.region.end = std::max(result.region.end, part.region.end);
      part.parent = joint;
      part.offset = offsets[k];
    }
    note_results(static_cast<uint32_t>(values_.size() - 1));
    return true;
  }

  /// From the first operand on, all of the result is needed; takes that into account if it raises no maximum.
  bool worthwhile(const std::vector<uint32_t>& roots, int64_t bytes) {
    int64_t begin = node_;
    for (uint32_t r : roots) begin = std::min(begin, regions_[r].region.begin);
    looks_ += (node_ - begin) * static_cast<int64_t>(roots.size());
    if (looks_ > kMostLooks) return false;
    if (is_result_[values_.size()]) return true;  // the caller's memory
    std::vector<int64_t> more(static_cast<size_t>(node_ - begin), bytes);
    for (uint32_t r : roots)
      for (int64_t n = regions_[r].region.begin; n < node_; ++n) more[static_cast<size_t>(n - begin)] -= regions_[r].region.bytes;
    for (size_t i = 0; i < more.size(); ++i)
      if ((*alive_)[static_cast<size_t>(begin) + i] + more[i] > most_alive_) return false;
    for (size_t i = 0; i < more.size(); ++i) (*alive_)[static_cast<size_t>(begin) + i] += more[i];
    return true;
  }

  /// A result of `main` that is all of a planned region will live in the caller's memory.
  void note_results(uint32_t value) {
    ValueMemory memory = memory_of({value});
    if (is_result_[value] && whole(memory) && regions_[memory.region].region.source == Source::Kernel)
      outputs_.insert(memory.region);
  }

  void set_place(uint32_t root, const std::optional<std::string>& place) {
    if (!place) return;
    Region& region = regions_[root].region;
    if (region.source != Source::Kernel || (region.place && *region.place != *place))
      throw CompileError(
          Diagnostic{.kind = ErrorKind::Malformed,
                     .code = "memory-place",
                     .message = fmt::format("%{} cannot lie in `{}`", region.value, *place),
                     .input = fmt::format("%{}", region.value),
                     .expected = region.place ? "one place for values that share memory" : "a value that a kernel makes",
                     .found = region.place ? fmt::format("`{}` and `{}`", *region.place, *place) : "an input or a constant",
                     .hint = "take one of the `memory` attributes away"});
    region.place = place;
  }

  Liveness finish() {
    Liveness out;
    std::vector<uint32_t> number(regions_.size(), kNone);
    for (uint32_t v = 0; v < values_.size(); ++v) {
      ValueMemory memory = memory_of({v});
      if (number[memory.region] == kNone) {
        number[memory.region] = static_cast<uint32_t>(out.regions.size());
        Region region = regions_[memory.region].region;
        region.begin = step_at(region.begin);
        region.end = region.source == Source::Kernel ? step_at(region.end) : region.begin;
        out.regions.push_back(std::move(region));
      }
      memory.region = number[memory.region];
      out.values.push_back(memory);
    }
    out.steps = steps_;
    out.step_results = step_results_;
    return out;
  }

  /// How many steps there are before a node.
  int64_t step_at(int64_t node) const {
    return std::lower_bound(step_nodes_.begin(), step_nodes_.end(), node) - step_nodes_.begin();
  }

  static std::vector<bool> results_of(const graph::Function& main) {
    std::vector<bool> is_result(main.value_count());
    for (ValueId v : main.results) is_result[v.index] = true;
    return is_result;
  }

  const graph::Module& module_;
  const graph::Function& main_;
  const LivenessOptions& options_;
  std::map<std::string, Proofs, std::less<>>& proofs_;  // by kernel
  std::vector<uint32_t> uses_ = graph::use_counts(main_);
  std::vector<bool> is_result_ = results_of(main_);
  std::vector<ValueMemory> values_;
  std::vector<Joined> regions_;
  std::set<uint32_t> outputs_;  // roots that live in the caller's memory
  std::vector<const Node*> steps_;
  std::vector<int64_t> step_nodes_;
  std::vector<uint32_t> step_results_;
  std::vector<int64_t>* alive_ = nullptr;
  int64_t most_alive_ = 0, looks_ = 0;
  int64_t node_ = 0;  // the one visited now
};

}  // namespace

Liveness analyse_liveness(const graph::Module& module, const LivenessOptions& options) {
  const graph::Function& main = main_of(module);
  std::map<std::string, Proofs, std::less<>> proofs;
  Walk first(module, main, options, proofs);
  Liveness liveness = first.run(nullptr);
  bool parts =
      options.parts && std::any_of(proofs.begin(), proofs.end(), [](const auto& p) { return p.second.inputs.has_value(); });
  if (!parts) return liveness;
  std::vector<int64_t> alive = first.bytes_alive();
  return Walk(module, main, options, proofs).run(&alive);
}

}  // namespace tenon::link
