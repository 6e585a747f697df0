// SPDX-License-Identifier: Apache-2.0
// Plans as text for people and as JSON for programs.
#include <fmt/format.h>

#include "tenon/plan.h"

namespace tenon::plan {
namespace {

std::string_view name(BufferKind kind) {
  switch (kind) {
    case BufferKind::Intermediate: return "intermediate";
    case BufferKind::Input: return "input";
    case BufferKind::Output: return "output";
    case BufferKind::Constant: return "constant";
    case BufferKind::Workspace: return "workspace";
  }
  return "";
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      out += fmt::format("\\{}", c);
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    else
      out += c;
  }
  return out + '"';
}

template <class List, class Text>
std::string json_list(const List& list, Text text) {
  std::string out;
  for (const auto& entry : list) out += (out.empty() ? "" : ",") + text(entry);
  return "[" + out + "]";
}

}  // namespace

std::string print_plan(const LivenessProblem& problem, const MemoryPlan& plan) {
  std::string out = fmt::format("{}: {} bytes for {} buffers, lower bound {}{}, {} steps", plan.planner, plan.peak_bytes,
                                problem.buffers.size(), plan.lower_bound_bytes, plan.optimal ? ", optimal" : "", plan.steps);
  out += plan.wall_limit_ms ? fmt::format(", limited to {} ms\n", plan.wall_limit_ms) : "\n";
  for (uint32_t pool = 0; pool < plan.pools.size(); ++pool)
    out += fmt::format("pool {}: {} bytes, lower bound {}\n", problem.pools[pool].name, plan.pools[pool].peak_bytes,
                       plan.pools[pool].lower_bound_bytes);
  for (const StorageSlot& slot : plan.slots) {
    out += fmt::format("slot {}: {} [{}, {}) aligned {}, alive [{}, {}), {}{}:", slot.id, problem.pools[slot.pool].name,
                       slot.offset, slot.offset + slot.size, slot.alignment, slot.first_def, slot.last_use, name(slot.kind),
                       slot.pinned ? ", pinned" : "");
    for (uint32_t tenant : slot.tenants) out += fmt::format(" {}({})", problem.buffers[tenant].id, problem.buffers[tenant].size);
    out += '\n';
  }
  return out;
}

std::string write_plan_json(const LivenessProblem& problem, const MemoryPlan& plan) {
  uint32_t pool = 0, buffer = 0;
  std::string pools = json_list(plan.pools, [&](const PoolUse& use) {
    return fmt::format("{{\"name\":{},\"peak_bytes\":{},\"lower_bound_bytes\":{}}}", json_string(problem.pools[pool++].name),
                       use.peak_bytes, use.lower_bound_bytes);
  });
  std::string slots = json_list(plan.slots, [&](const StorageSlot& slot) {
    std::string tenants = json_list(slot.tenants, [&](uint32_t i) { return json_string(problem.buffers[i].id); });
    return fmt::format(
        "{{\"id\":{},\"pool\":{},\"offset\":{},\"size\":{},\"first_tenant_size\":{},\"alignment\":{},\"kind\":\"{}\","
        "\"pinned\":{},\"first_def\":{},\"last_use\":{},\"tenants\":{}}}",
        slot.id, json_string(problem.pools[slot.pool].name), slot.offset, slot.size, slot.first_tenant_size, slot.alignment,
        name(slot.kind), slot.pinned, slot.first_def, slot.last_use, tenants);
  });
  std::string buffers = json_list(problem.buffers, [&](const Buffer& b) {
    uint32_t index = buffer++;
    return fmt::format("{{\"id\":{},\"slot\":{},\"offset\":{}}}", json_string(b.id), plan.assignment[index].slot,
                       plan.offset_of(index));
  });
  return fmt::format(
      "{{\"planner\":{},\"peak_bytes\":{},\"lower_bound_bytes\":{},\"optimal\":{},\"steps\":{},\"wall_limit_ms\":{},"
      "\"pools\":{},\"slots\":{},\"buffers\":{}}}\n",
      json_string(plan.planner), plan.peak_bytes, plan.lower_bound_bytes, plan.optimal, plan.steps, plan.wall_limit_ms, pools,
      slots, buffers);
}

}  // namespace tenon::plan
