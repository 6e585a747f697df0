// SPDX-License-Identifier: Apache-2.0
// Liveness, placement and steps of `main`. One walk over its nodes; values that share memory share a root.
#include "link/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/content_index.h"
#include "base/target.h"
#include "link/in_place.h"
#include "link/main_function.h"

namespace tenon::link {
namespace {

using graph::Node;
using graph::NodeKind;
using graph::ValueId;
using runtime::Argument;
using runtime::Place;
using runtime::Program;
using runtime::Step;

constexpr uint64_t kAlignment = runtime::kConstantAlignment;
constexpr uint32_t kNone = UINT32_MAX;

uint64_t align_up(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// The constants that steps read, each content once, in the order of first use.
class ConstantList {
 public:
  /// Where the content will lie.
  uint64_t add(const Array& data) {
    size_t number = index_.add(data.bytes);
    if (number == arrays_.size()) {
      arrays_.push_back(data);
      offsets_.push_back(bytes_);
      bytes_ += align_up(data.bytes.size());
    }
    return offsets_[number];
  }
  uint64_t bytes() const { return bytes_; }
  std::vector<Array> finish() && { return std::move(arrays_); }

 private:
  ContentIndex index_;
  std::vector<Array> arrays_;
  std::vector<uint64_t> offsets_;
  uint64_t bytes_ = 0;
};

/// What a value's memory is known to be before planning.
struct Value {
  uint32_t root;                  // the value whose memory it shares; itself if none
  std::optional<Argument> place;  // of a root: fixed here, or still to be planned
  int64_t begin = 0, end = 0;     // of a root: the steps during which it is needed
};

class Linker {
 public:
  Linker(const graph::Module& module, const std::map<std::string, KernelScratch, std::less<>>& scratch,
         const LinkOptions& options)
      : module_(module), scratch_(scratch), options_(options), main_(main_of(module)) {}

  Linked run() {
    describe_interface();
    place_params();
    for (const Node& node : main_.nodes) visit(node);
    place_results();
    plan_arena();
    resolve();
    return std::move(linked_);
  }

 private:
  void describe_interface() {
    Program& program = linked_.program;
    program.target = attribute<std::string>(module_.attrs, "target", "llvm");
    program.features = features(program.target);
    program.opt_level = static_cast<int32_t>(attribute<int64_t>(module_.attrs, "opt_level", 3));
    program.model = attribute<std::string>(module_.attrs, "model", "");
    for (const graph::Param& param : main_.params)
      program.inputs.push_back({param.name, param.type.dtype, static_shape(param.type, nullptr, param.name)});
    std::vector<const TensorType*> types = value_types();
    for (size_t i = 0; i < main_.results.size(); ++i) {
      std::string name = main_.result_names.empty() ? fmt::format("out{}", i) : main_.result_names[i];
      const TensorType& type = *types[main_.results[i].index];
      program.outputs.push_back({name, type.dtype, static_shape(type, nullptr, name)});
    }
  }

  /// Of the module's target and of those that loop functions have of their own, sorted.
  std::vector<std::string> features(const std::string& target) const {
    std::set<std::string> targets = {target}, all;
    for (const auto& [name, function] : module_.prim_funcs) targets.insert(attribute(function.attrs, "target", target));
    for (const std::string& text : targets)
      for (const std::string& feature : parse_target(text).features) all.insert(feature);
    return {all.begin(), all.end()};
  }

  std::vector<const TensorType*> value_types() const {
    std::vector<const TensorType*> types;
    for (const graph::Param& param : main_.params) types.push_back(&param.type);
    for (const Node& node : main_.nodes)
      for (const TensorType& type : node.types) types.push_back(&type);
    return types;
  }

  void place_params() {
    for (uint32_t i = 0; i < main_.params.size(); ++i) define(Argument{Place::Input, i});
  }

  /// The next value: memory of its own, or that of a root.
  void define(std::optional<Argument> place, int64_t bytes = 0, uint32_t root = kNone) {
    auto index = static_cast<uint32_t>(values_.size());
    int64_t now = this_step();
    if (root == kNone) root = index;
    values_.push_back({root, place, now, now + 1});
    values_[root].end = std::max(values_[root].end, now + 1);
    bytes_.push_back(bytes);
    reads_left_.push_back(0);
    reads_left_[root] += uses_[index];
  }

  int64_t this_step() const { return static_cast<int64_t>(linked_.program.steps.size()); }

  void visit(const Node& node) {
    switch (node.kind) {
      case NodeKind::Constant: {
        bool used = uses_[values_.size()] > 0;
        define(Argument{Place::Constant, used ? constants_.add(module_.constants.at(node.callee)) : 0});
        return;
      }
      case NodeKind::CallLowered: visit_call(node); return;
      case NodeKind::Op:
      case NodeKind::Call: fail_not_lowered(node);
    }
  }

  void visit_call(const Node& node) {
    if (is_view(node)) {
      uint32_t root = values_[node.inputs[0].index].root;
      --reads_left_[root];
      define(std::nullopt, 0, root);
      return;
    }
    Step step;
    step.flops = attribute<double>(kernel_of(module_, node).attrs, "flops", 0.0);
    step.kernel = kernel_index(node.callee);
    step.label = node.name.empty() ? node.callee : node.name;
    std::vector<uint32_t> roots;
    for (ValueId input : node.inputs) {
      uint32_t root = values_[input.index].root;
      values_[root].end = std::max(values_[root].end, this_step() + 1);
      --reads_left_[root];
      roots.push_back(root);
    }
    std::vector<uint32_t> taken = memory_taken_over(node, roots);
    for (size_t k = 0; k < node.types.size(); ++k) {
      Shape shape = static_shape(node.types[k], &node, node.callee);
      define(std::nullopt, element_count(shape) * byte_size(node.types[k].dtype), taken[k]);
      roots.push_back(values_.back().root);
    }
    step_values_.push_back(std::move(roots));
    linked_.program.steps.push_back(std::move(step));
  }

  /// For each result the operand's root whose memory it overwrites, or kNone: planned memory that nothing reads after this
  /// step, that this step reads once, and that its loops are proven to read no later than they overwrite it.
  std::vector<uint32_t> memory_taken_over(const Node& node, const std::vector<uint32_t>& roots) {
    std::vector<uint32_t> taken(node.types.size(), kNone);
    if (!options_.in_place) return taken;
    auto [known, inserted] = in_place_.try_emplace(node.callee);
    if (inserted) known->second = in_place_pairs(module_.prim_funcs.find(node.callee)->second);
    for (const InPlace& pair : known->second) {
      uint32_t root = roots[pair.input];
      bool free = taken[pair.output] == kNone && std::find(taken.begin(), taken.end(), root) == taken.end();
      bool last = !values_[root].place && reads_left_[root] == 0 && std::count(roots.begin(), roots.end(), root) == 1;
      if (free && last) taken[pair.output] = root;
    }
    return taken;
  }

  uint32_t kernel_index(const std::string& name) {
    auto [it, inserted] = kernels_.try_emplace(name, static_cast<uint32_t>(linked_.program.kernels.size()));
    if (inserted) linked_.program.kernels.push_back(name);
    return it->second;
  }

  /// A root that a kernel makes lives in the first output it is a result for; every other result is copied at the end.
  void place_results() {
    for (uint32_t i = 0; i < main_.results.size(); ++i) {
      uint32_t root = values_[main_.results[i].index].root;
      Argument output{Place::Output, i};
      if (!values_[root].place) {
        values_[root].place = output;
        continue;
      }
      Step copy{.kernel = Step::kCopy, .args = {*values_[root].place, output}};
      copy.copy_bytes = linked_.program.outputs[i].bytes();
      copy.label = fmt::format("copy to output {}", linked_.program.outputs[i].name);
      step_values_.emplace_back();
      linked_.program.steps.push_back(std::move(copy));
    }
  }

  void plan_arena() {
    for (uint32_t i = 0; i < values_.size(); ++i) {
      if (values_[i].root != i || values_[i].place) continue;
      planned_.push_back(i);
      add_buffer(fmt::format("%{}", i), values_[i].begin, values_[i].end, bytes_[i], plan::BufferKind::Intermediate);
    }
    std::vector<size_t> scratch_steps;
    Program& program = linked_.program;
    for (size_t i = 0; i < program.steps.size(); ++i) {
      const KernelScratch needs = scratch_of(program.steps[i]);
      program.worker_scratch_bytes = std::max(program.worker_scratch_bytes, static_cast<uint64_t>(needs.per_worker_bytes));
      if (needs.shared_bytes == 0) continue;
      auto step = static_cast<int64_t>(i);
      scratch_steps.push_back(i);
      add_buffer(fmt::format("scratch-{}", i), step, step + 1, needs.shared_bytes, plan::BufferKind::Workspace);
    }
    linked_.plan = plan::make_plan(linked_.problem, plan::find_planner(plan::kDefaultPlanner));
    for (size_t i = 0; i < planned_.size(); ++i)
      values_[planned_[i]].place =
          Argument{Place::Arena, static_cast<uint64_t>(linked_.plan.offset_of(static_cast<uint32_t>(i)))};
    for (size_t i = 0; i < scratch_steps.size(); ++i)
      program.steps[scratch_steps[i]].shared_scratch =
          static_cast<uint64_t>(linked_.plan.offset_of(static_cast<uint32_t>(planned_.size() + i)));
    program.arena_bytes = static_cast<uint64_t>(linked_.plan.peak_bytes);
    program.arena_lower_bound = static_cast<uint64_t>(linked_.plan.lower_bound_bytes);
  }

  void add_buffer(std::string id, int64_t begin, int64_t end, int64_t bytes, plan::BufferKind kind) {
    linked_.problem.buffers.push_back(
        {.id = std::move(id), .begin = begin, .end = end, .size = bytes, .alignment = kAlignment, .kind = kind});
  }

  KernelScratch scratch_of(const Step& step) const {
    if (step.kernel == Step::kCopy) return {};
    auto it = scratch_.find(linked_.program.kernels[step.kernel]);
    return it == scratch_.end() ? KernelScratch{} : it->second;
  }

  void resolve() {
    for (size_t i = 0; i < step_values_.size(); ++i)
      for (uint32_t root : step_values_[i]) linked_.program.steps[i].args.push_back(*values_[root].place);
    linked_.program.constants_bytes = constants_.bytes();
    linked_.constants = std::move(constants_).finish();
  }

  const graph::Module& module_;
  const std::map<std::string, KernelScratch, std::less<>>& scratch_;
  const LinkOptions& options_;
  const graph::Function& main_;
  Linked linked_;
  std::vector<uint32_t> uses_ = graph::use_counts(main_);
  ConstantList constants_;
  std::vector<Value> values_;         // by value id
  std::vector<int64_t> bytes_;        // of what kernels make
  std::vector<uint32_t> reads_left_;  // of a root: operands and results of `main` to come that are its memory
  std::map<std::string, std::vector<InPlace>, std::less<>> in_place_;  // by kernel
  std::map<std::string, uint32_t, std::less<>> kernels_;
  std::vector<std::vector<uint32_t>> step_values_;  // per step, the root behind each argument
  std::vector<uint32_t> planned_;                   // the roots in the arena
};

}  // namespace

Linked link_program(const graph::Module& module, const std::map<std::string, KernelScratch, std::less<>>& scratch,
                    const LinkOptions& options) {
  return Linker(module, scratch, options).run();
}

}  // namespace tenon::link
