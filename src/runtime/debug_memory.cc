// SPDX-License-Identifier: Apache-2.0
#include "runtime/debug_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/diagnostic.h"
#include "base/hash.h"

namespace tenon::runtime {
namespace {

constexpr uint64_t kGuard = 256;                                       // bytes of canaries before, between and behind blocks
constexpr std::byte kPatterns[] = {std::byte{0xFF}, std::byte{0x41}};  // floats: NaN, 12.08
constexpr std::byte kCanaries[] = {std::byte{0xFE}, std::byte{0x42}};

bool overlap(const Argument& a, const Argument& b) {
  return a.place == b.place && a.index == b.index && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

/// The first byte that is not `value`; `count` if there is none.
size_t first_other(const std::byte* bytes, size_t count, std::byte value) {
  return static_cast<size_t>(std::find_if(bytes, bytes + count, [&](std::byte b) { return b != value; }) - bytes);
}

}  // namespace

DebugMemory::DebugMemory(const Program& program, uint64_t workers)
    : program_(program), memory_(DType::U8, {0}), ending_(program.steps.size()), results_(program.steps.size()) {
  if (program.regions.empty() && program.arena_bytes() > 0)
    throw CompileError(Diagnostic{.kind = ErrorKind::Unsupported,
                                  .code = "debug-memory",
                                  .message = "what runs does not say what its arena holds when",
                                  .input = program.model,
                                  .expected = "a model or an artifact",
                                  .found = "a folder of TVM's files"});
  for (size_t i = 0; i < program.regions.size(); ++i) {
    const Region& region = program.regions[i];
    regions_.push_back(next_block(region.bytes, region.name));
    if (region.end > 0 && region.end <= ending_.size()) ending_[region.end - 1].push_back(i);
  }
  for (const TensorSpec& spec : program.outputs) outputs_.push_back(next_block(spec.bytes(), spec.name));
  for (uint64_t w = 0; w < workers; ++w)
    workers_.push_back(next_block(program.worker_scratch_bytes, fmt::format("scratch of worker {}", w)));
  find_workspaces();
  find_operands();
  worker_stride_ = workers > 1 ? workers_[1].offset - workers_[0].offset : 0;
  memory_ = MutableArray(DType::U8, {static_cast<int64_t>(end_ + kGuard)});
}

DebugMemory::Block DebugMemory::next_block(uint64_t bytes, std::string name) {
  Block block{end_ + kGuard, bytes, std::move(name)};
  end_ = (block.offset + bytes + 63) / 64 * 64;
  return block;
}

void DebugMemory::fill(const Block& block) { std::memset(at(block), static_cast<int>(pattern_), block.bytes); }

size_t DebugMemory::region_at(size_t step, const Argument& argument) const {
  for (size_t i = 0; i < program_.regions.size(); ++i) {
    const Region& r = program_.regions[i];
    bool alive = r.begin <= step && step < r.end && r.arena == argument.index;
    bool inside = r.offset <= argument.offset && argument.offset + std::max<uint64_t>(argument.bytes, 1) <= r.offset + r.bytes;
    if (alive && inside) return i;
  }
  return regions_.size();
}

/// Those of a step that are needed one after the other may lie in the same bytes of an arena, each a region of its own.
void DebugMemory::find_workspaces() {
  for (size_t step = 0; step < program_.steps.size(); ++step) {
    std::vector<size_t>& found = workspaces_.emplace_back();
    for (const Argument& w : program_.steps[step].workspaces) {
      auto own = [&](const Region& r) {
        return r.begin == step && r.end == step + 1 && r.arena == w.index && r.offset == w.offset && r.bytes == w.bytes;
      };
      size_t region = 0;
      while (region < regions_.size() && (!own(program_.regions[region]) || std::ranges::count(found, region) > 0)) ++region;
      found.push_back(region);
    }
  }
}

std::byte* DebugMemory::address(const Argument& argument, size_t region) {
  if (region == regions_.size()) return nullptr;  // nothing to hold
  return at(regions_[region]) + (argument.offset - program_.regions[region].offset);
}

/// All but those that a result overwrites by plan.
void DebugMemory::find_operands() {
  for (const Step& step : program_.steps) {
    std::vector<size_t>& operands = operands_.emplace_back();
    auto results = std::span(step.args).subspan(step.inputs);
    for (size_t k = 0; k < step.inputs; ++k) {
      const Argument& operand = step.args[k];
      bool overwritten = std::any_of(results.begin(), results.end(), [&](const Argument& r) { return overlap(operand, r); });
      if (operand.place != Place::Input && !overwritten) operands.push_back(k);  // inputs are looked at all together
    }
  }
}

uint64_t DebugMemory::hash_of_argument(size_t step, size_t k, void* const* args) const {
  return hash64({static_cast<const char*>(args[k]), program_.steps[step].args[k].bytes});
}

void DebugMemory::before(size_t step, void* const* args) {
  operand_hashes_.clear();
  for (size_t k : operands_[step]) operand_hashes_.push_back(hash_of_argument(step, k, args));
}

void DebugMemory::begin(int round, std::span<const void* const> inputs) {
  pattern_ = kPatterns[round];
  canary_ = kCanaries[round];
  first_ = round == 0;
  std::memset(memory_.data(), static_cast<int>(canary_), memory_.size_bytes);
  for (std::vector<Block>* blocks : {&regions_, &outputs_, &workers_})
    for (Block& block : *blocks) {
      fill(block);
      block.holds = false;
    }
  inputs_hash_ = hash_of_inputs(inputs);
}

void DebugMemory::after(size_t step, std::span<const void* const> inputs, void* const* args) {
  check_canaries(step);
  check_operands(step, args);
  check_regions(step);
  check_inputs(step, inputs);
  check_results(step, args);
  for (size_t i : ending_[step]) {
    fill(regions_[i]);
    regions_[i].holds = false;
  }
}

void DebugMemory::check_canaries(size_t step) {
  uint64_t from = 0;
  const Block* before = nullptr;
  auto check_up_to = [&](uint64_t to, const Block* block) {
    uint64_t found = first_other(memory_.data() + from, to - from, canary_);
    if (found == to - from) return;
    if (before && found < kGuard / 2)
      fail(step, "memory-write", fmt::format("wrote {} bytes behind the end of `{}`", found + 1, before->name));
    fail(step, "memory-write", fmt::format("wrote before the first byte of `{}`", block ? block->name : before->name));
  };
  for (const std::vector<Block>* blocks : {&regions_, &outputs_, &workers_})
    for (const Block& block : *blocks) {
      check_up_to(block.offset, &block);
      from = block.offset + block.bytes;
      before = &block;
    }
  check_up_to(memory_.size_bytes, nullptr);
}

void DebugMemory::check_regions(size_t step) {
  std::vector<bool> own(regions_.size() + 1);
  for (const Argument& argument : program_.steps[step].args)
    if (argument.place == Place::Arena) own[region_at(step, argument)] = true;
  for (size_t region : workspaces_[step]) own[region] = true;
  for (size_t i = 0; i < regions_.size(); ++i) {
    Block& block = regions_[i];
    if (!own[i] && !block.holds && first_other(at(block), block.bytes, pattern_) < block.bytes)
      fail(step, "memory-write", fmt::format("wrote to `{}`, which is not alive", block.name));
    if (!own[i] && !block.holds) continue;
    uint64_t hash = hash64({reinterpret_cast<const char*>(at(block)), block.bytes});
    if (!own[i] && hash != block.hash)
      fail(step, "memory-write", fmt::format("wrote to `{}`, which is none of its operands or results", block.name));
    block.hash = hash;
    block.holds = true;
  }
}

void DebugMemory::check_operands(size_t step, void* const* args) const {
  for (size_t i = 0; i < operands_[step].size(); ++i) {
    size_t k = operands_[step][i];
    if (hash_of_argument(step, k, args) == operand_hashes_[i]) continue;
    fail(step, "memory-write", fmt::format("wrote to operand {}, {}", k, name_of(step, program_.steps[step].args[k])));
  }
}

std::string DebugMemory::name_of(size_t step, const Argument& argument) const {
  if (argument.place == Place::Constant) return "a constant";
  return fmt::format("`{}`",
                     argument.place == Place::Output ? outputs_[argument.index].name : regions_[region_at(step, argument)].name);
}

void DebugMemory::check_inputs(size_t step, std::span<const void* const> inputs) const {
  if (hash_of_inputs(inputs) != inputs_hash_) fail(step, "memory-write", "wrote to an input of the model");
}

/// Arguments are all that a step may depend on and leave behind.
void DebugMemory::check_results(size_t step, void* const* args) {
  std::string hashes;
  for (size_t k = 0; k < program_.steps[step].args.size(); ++k) {
    const Argument& argument = program_.steps[step].args[k];
    if (argument.place == Place::Constant) continue;
    hashes += fmt::format("{:x} ", hash_of_argument(step, k, args));
  }
  uint64_t hash = hash64(hashes);
  if (first_) results_[step] = hash;
  if (results_[step] != hash) fail(step, "memory-read", "read memory that holds nothing, or left a part of its result unwritten");
}

uint64_t DebugMemory::hash_of_inputs(std::span<const void* const> inputs) const {
  uint64_t sum = 0;
  for (size_t i = 0; i < inputs.size(); ++i)
    sum = sum * 31 + hash64({static_cast<const char*>(inputs[i]), program_.inputs[i].bytes()});
  return sum;
}

void DebugMemory::fail(size_t step, std::string code, const std::string& message) const {
  const Step& s = program_.steps[step];
  std::string kernel = s.kernel == Step::kCopy ? "copy" : program_.kernels[s.kernel];
  throw CompileError(Diagnostic{.kind = ErrorKind::CheckFailed,
                                .code = std::move(code),
                                .message = fmt::format("step {}, `{}`, {}", step, s.label, message),
                                .node = s.label,
                                .function = kernel,
                                .hint = fmt::format("look at the loop function `{}`", kernel)});
}

}  // namespace tenon::runtime
