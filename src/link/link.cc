// SPDX-License-Identifier: Apache-2.0
// From liveness to a memory problem, its plan, and the steps with the places of their arguments.
#include "link/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "base/content_index.h"
#include "base/target.h"
#include "link/main_function.h"
#include "link/places.h"

namespace tenon::link {
namespace {

using graph::Node;
using runtime::Argument;
using runtime::Place;
using runtime::Program;
using runtime::Step;

constexpr uint64_t kAlignment = runtime::kConstantAlignment;

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

/// Ids of buffers: the node's name in the model, or the value's number.
class BufferNames {
 public:
  std::string take(const std::string& name, uint32_t value) {
    std::string id = name.empty() ? fmt::format("%{}", value) : name;
    std::replace(id.begin(), id.end(), ' ', '_');  // blanks separate ids in the CSV form
    std::string candidate = id;
    for (size_t& next = next_[id]; !taken_.insert(candidate).second;) candidate = fmt::format("{}_{}", id, ++next);
    return candidate;
  }

 private:
  std::set<std::string> taken_;
  std::map<std::string, size_t> next_;
};

class Linker {
 public:
  Linker(const graph::Module& module, const Liveness& liveness, const GivenScratch& scratch, const LinkOptions& options)
      : module_(module),
        scratch_(scratch),
        options_(options),
        main_(main_of(module)),
        live_(liveness),
        places_(liveness.regions.size()),
        ends_(liveness.regions.size()) {}

  Linked run() {
    describe_interface();
    place_inputs_and_constants();
    place_outputs();
    add_steps();
    add_copies();
    plan_arenas();
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

  uint32_t region_of(uint32_t value) const { return live_.values[value].region; }

  void place_inputs_and_constants() {
    for (uint32_t i = 0; i < main_.params.size(); ++i) places_[region_of(i)] = Argument{Place::Input, i};
    std::vector<uint32_t> uses = graph::use_counts(main_);
    for (const Node& node : main_.nodes) {
      if (node.kind != graph::NodeKind::Constant) continue;
      uint32_t value = node.first_result;
      uint64_t offset = uses[value] > 0 ? constants_.add(module_.constants.at(node.callee)) : 0;
      places_[region_of(value)] = Argument{Place::Constant, 0, offset};
    }
  }

  /// A planned region lives in the first output that is all of it, unless the user chose a place.
  void place_outputs() {
    for (uint32_t i = 0; i < main_.results.size(); ++i) {
      uint32_t value = main_.results[i].index, region = region_of(value);
      if (!places_[region] && live_.whole(value) && !live_.regions[region].place) places_[region] = Argument{Place::Output, i};
    }
  }

  void add_steps() {
    for (size_t i = 0; i < live_.regions.size(); ++i) ends_[i] = live_.regions[i].end;
    for (size_t i = 0; i < live_.steps.size(); ++i) {
      const Node& node = *live_.steps[i];
      const tir::PrimFunc& kernel = kernel_of(module_, node);
      Step step{.kernel = kernel_index(kernel), .inputs = static_cast<uint32_t>(node.inputs.size())};
      step.flops = attribute<double>(kernel.attrs, "flops", 0.0);
      step.label = node.name.empty() ? node.callee : node.name;
      std::vector<uint32_t> values;
      for (graph::ValueId input : node.inputs) values.push_back(input.index);
      for (uint32_t k = 0; k < node.types.size(); ++k) values.push_back(live_.step_results[i] + k);
      note_memory(kernel, step.kernel, node);
      add_step(std::move(step), std::move(values));
    }
  }

  void add_step(Step step, std::vector<uint32_t> values) {
    points_.push_back(points_.back() + (step.kernel == Step::kCopy ? 1 : kernel_scratch_[step.kernel].points));
    linked_.program.steps.push_back(std::move(step));
    step_values_.push_back(std::move(values));
  }

  /// A result that does not live in its output is copied there at the end.
  void add_copies() {
    for (uint32_t i = 0; i < main_.results.size(); ++i) {
      uint32_t value = main_.results[i].index, region = region_of(value);
      Argument output{Place::Output, i, 0, linked_.program.outputs[i].bytes()};
      if (places_[region] == Argument{Place::Output, i}) continue;
      ends_[region] = static_cast<int64_t>(linked_.program.steps.size()) + 1;
      Step copy{.kernel = Step::kCopy, .inputs = 1, .copy_bytes = output.bytes};
      copy.label = fmt::format("copy to output {}", linked_.program.outputs[i].name);
      copies_.emplace_back(linked_.program.steps.size(), output);
      add_step(std::move(copy), {value});
    }
  }

  uint32_t kernel_index(const tir::PrimFunc& kernel) {
    auto [it, inserted] = kernels_.try_emplace(kernel.name, static_cast<uint32_t>(linked_.program.kernels.size()));
    if (!inserted) return it->second;
    linked_.program.kernels.push_back(kernel.name);
    const tir::Scratch& scratch = kernel_scratch_.emplace_back(scratch_of(kernel, scratch_));
    check_places(kernel, scratch);
    linked_.program.kernel_memory.push_back({.constant_bytes = constants_inside(kernel),
                                             .workspace_bytes = static_cast<uint64_t>(scratch.shared_bytes),
                                             .worker_bytes = static_cast<uint64_t>(scratch.worker_bytes)});
    uint64_t& worker_bytes = linked_.program.worker_scratch_bytes;
    worker_bytes = std::max(worker_bytes, static_cast<uint64_t>(scratch.worker_bytes));
    return it->second;
  }

  static uint64_t constants_inside(const tir::PrimFunc& kernel) {
    uint64_t bytes = 0;
    if (!kernel.body) return bytes;
    tir::visit(kernel.body, [&](const tir::Stmt& s) {
      if (const tir::AllocateConst* n = tir::as<tir::AllocateConst>(s)) bytes += n->data.bytes.size();
    });
    return bytes;
  }

  /// The bytes of the operands and results of a kernel's first call: those of the others are the same.
  void note_memory(const tir::PrimFunc& kernel, uint32_t index, const Node& node) {
    if (!noted_.insert(kernel.name).second) return;
    runtime::KernelMemory& memory = linked_.program.kernel_memory[index];
    for (graph::ValueId input : node.inputs) {
      bool constant = live_.regions[region_of(input.index)].source == Source::Constant;
      (constant ? memory.constant_bytes : memory.io_bytes) += static_cast<uint64_t>(live_.values[input.index].bytes);
    }
    for (const TensorType& type : node.types)
      memory.io_bytes += static_cast<uint64_t>(element_count(static_shape(type, &node, kernel.name)) * byte_size(type.dtype));
  }

  void plan_arenas() {
    linked_.problem.pools = options_.pools;
    add_regions();
    add_parts();
    add_workspaces();
    const plan::MemoryPlanner& planner = options_.planner ? *options_.planner : plan::find_planner(plan::kDefaultPlanner);
    linked_.plan = plan::make_plan(linked_.problem, planner, options_.planner_options);
    take_places();
  }

  /// The name of the node that makes a value.
  const std::string& name_of(uint32_t value) const { return main_.definition({value})->name; }

  void add_regions() {
    for (uint32_t r = 0; r < live_.regions.size(); ++r) {
      if (places_[r]) continue;
      const Region& region = live_.regions[r];
      buffer_of_[r] = static_cast<uint32_t>(linked_.problem.buffers.size());
      plan::Buffer& buffer =
          add_buffer(names_.take(name_of(region.value), region.value), point_at(region.begin), point_at(ends_[r]), region.bytes);
      if (region.place) buffer.pin = parse_place(*region.place, options_.pools, buffer.id);
    }
  }

  /// Values that are parts of a region, for whoever looks at the plan.
  void add_parts() {
    for (uint32_t v = 0; v < live_.values.size(); ++v) {
      auto buffer = buffer_of_.find(region_of(v));
      if (buffer == buffer_of_.end() || live_.whole(v) || live_.values[v].bytes == 0) continue;
      const plan::Buffer& base = linked_.problem.buffers[buffer->second];
      add_buffer(names_.take(name_of(v), v), base.begin, base.end, live_.values[v].bytes).alias =
          plan::Alias{buffer->second, live_.values[v].offset};
      linked_.problem.buffers.back().alignment = 1;
    }
  }

  void add_workspaces() {
    for (size_t i = 0; i < live_.steps.size(); ++i) {
      Step& step = linked_.program.steps[i];
      const tir::PrimFunc& kernel = kernel_of(module_, *live_.steps[i]);
      const std::vector<tir::ScratchBlock>& blocks = kernel_scratch_[step.kernel].shared;
      step.workspaces.resize(blocks.size());
      for (size_t k = 0; k < blocks.size(); ++k) {
        if (blocks[k].bytes == 0) continue;
        workspaces_.emplace_back(i, k, linked_.problem.buffers.size());
        plan::Buffer& buffer = add_buffer(names_.take(step.label + "." + blocks[k].name, 0), points_[i] + blocks[k].begin,
                                          points_[i] + blocks[k].end, blocks[k].bytes);
        buffer.kind = plan::BufferKind::Workspace;
        if (std::optional<std::string> place = place_of_buffer(kernel, blocks[k].name))
          buffer.pin = parse_place(*place, options_.pools, buffer.id);
      }
    }
  }

  /// The first point of a step.
  int64_t point_at(int64_t step) const { return points_[static_cast<size_t>(step)]; }
  /// The step that a point is in.
  uint64_t step_at(int64_t point) const {
    return static_cast<uint64_t>(std::upper_bound(points_.begin(), points_.end(), point) - points_.begin() - 1);
  }

  plan::Buffer& add_buffer(std::string id, int64_t begin, int64_t end, int64_t bytes) {
    return linked_.problem.buffers.emplace_back(
        plan::Buffer{.id = std::move(id), .begin = begin, .end = end, .size = bytes, .alignment = kAlignment});
  }

  Argument place_of(size_t buffer) const {
    auto index = static_cast<uint32_t>(buffer);
    return {Place::Arena, linked_.plan.pool_of(index), static_cast<uint64_t>(linked_.plan.offset_of(index))};
  }

  void take_places() {
    Program& program = linked_.program;
    for (auto [region, buffer] : buffer_of_) places_[region] = place_of(buffer);
    for (auto [step, block, buffer] : workspaces_) {
      if (linked_.problem.buffers[buffer].begin == linked_.problem.buffers[buffer].end) continue;  // nothing touches it
      Argument& workspace = program.steps[step].workspaces[block];
      workspace = place_of(buffer);
      workspace.bytes = static_cast<uint64_t>(linked_.problem.buffers[buffer].size);
    }
    for (size_t p = 0; p < options_.pools.size(); ++p)
      program.arenas.push_back({options_.pools[p].name, static_cast<uint64_t>(linked_.plan.pools[p].peak_bytes),
                                static_cast<uint64_t>(linked_.plan.pools[p].lower_bound_bytes)});
    program.arena_lower_bound = static_cast<uint64_t>(linked_.plan.lower_bound_bytes);
    program.planner = linked_.plan.planner;
    program.plan_optimal = linked_.plan.optimal;
    program.plan_time_limit_ms = static_cast<uint64_t>(linked_.plan.wall_limit_ms);
    for (uint32_t i = 0; i < linked_.problem.buffers.size(); ++i) {
      const plan::Buffer& b = linked_.problem.buffers[i];
      if (b.alias || b.size == 0 || b.begin == b.end) continue;
      Argument place = place_of(i);
      program.regions.push_back(
          {b.id, place.index, place.offset, static_cast<uint64_t>(b.size), step_at(b.begin), step_at(b.end - 1) + 1});
    }
  }

  void resolve() {
    for (size_t i = 0; i < step_values_.size(); ++i)
      for (uint32_t value : step_values_[i]) {
        const ValueMemory& memory = live_.values[value];
        Argument argument = *places_[memory.region];
        argument.offset += static_cast<uint64_t>(memory.offset);
        argument.bytes = static_cast<uint64_t>(memory.bytes);
        linked_.program.steps[i].args.push_back(argument);
      }
    for (const auto& [step, output] : copies_) linked_.program.steps[step].args.push_back(output);
    linked_.program.constants_bytes = constants_.bytes();
    linked_.constants = std::move(constants_).finish();
  }

  const graph::Module& module_;
  const GivenScratch& scratch_;
  const LinkOptions& options_;
  const graph::Function& main_;
  const Liveness& live_;
  Linked linked_;
  ConstantList constants_;
  std::vector<std::optional<Argument>> places_;  // by region: where it begins, once that is known
  std::vector<int64_t> ends_;                    // by region, with the copies at the end
  std::map<std::string, uint32_t, std::less<>> kernels_;
  std::set<std::string> noted_;
  std::vector<std::vector<uint32_t>> step_values_;  // the values behind each step's arguments
  std::vector<std::pair<size_t, Argument>> copies_;
  BufferNames names_;
  std::map<uint32_t, uint32_t> buffer_of_;                      // by planned region
  std::vector<tir::Scratch> kernel_scratch_;                    // by kernel of the program
  std::vector<int64_t> points_ = {0};                           // at which each step begins, and the last ends
  std::vector<std::tuple<size_t, size_t, size_t>> workspaces_;  // step, which of its kernel's blocks, and buffer
};

}  // namespace

tir::Scratch scratch_of(const tir::PrimFunc& kernel, const GivenScratch& given) {
  auto it = given.find(kernel.name);
  return it == given.end() ? tir::scratch_of(kernel) : it->second;
}

Linked link_program(const graph::Module& module, const Liveness& liveness, const GivenScratch& scratch,
                    const LinkOptions& options) {
  return Linker(module, liveness, scratch, options).run();
}

}  // namespace tenon::link
