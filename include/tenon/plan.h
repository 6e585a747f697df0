// SPDX-License-Identifier: Apache-2.0
/// Memory planning: which bytes of which pool each buffer gets. Knows no IR; a compiler describes its buffers as a
/// LivenessProblem, a planner answers with a MemoryPlan, and the checker judges the plan whoever made it.
///
/// Everything is a value that owns what it holds. Sizes and offsets are bytes. A lifetime is the half-open interval
/// [begin, end) of program points: integers that only their order gives a meaning, such as the index of a step. Buffers and
/// pools are named by their index in the problem, slots by their index in the plan.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::plan {

inline constexpr int64_t kUnlimited = -1;

/// One range of memory that a run reserves, its first byte at offset 0.
struct Pool {
  std::string name = "arena";
  int64_t limit = kUnlimited;    // bytes that it may take
  int64_t alignment = 1;         // every slot in it begins at a multiple of this power of two
  std::string device;            // where it lies; empty: on the only device
  std::string scope;             // kind of memory on that device, such as `global` or `texture`
  int64_t bytes_per_second = 0;  // hint for planners; 0: unknown
};

/// A place that the user chose.
struct Pin {
  uint32_t pool = 0;
  std::optional<int64_t> offset;  // without one: anywhere in the pool
};

/// The bytes [offset, offset + size) of another buffer: a view, which takes no memory of its own and keeps the other alive.
struct Alias {
  uint32_t buffer = 0;
  int64_t offset = 0;
};

/// A part of a lifetime during which only the bytes [low, high) of the buffer hold anything; none if they are equal.
struct Gap {
  int64_t begin = 0, end = 0;
  int64_t low = 0, high = 0;
};

enum class BufferKind : uint8_t { Intermediate, Input, Output, Constant, Workspace };

/// Something that needs memory during [begin, end); an empty lifetime or size needs none.
struct Buffer {
  std::string id;  // unique in the problem
  int64_t begin = 0, end = 0;
  int64_t size = 0;
  int64_t alignment = 1;  // a power of two
  BufferKind kind = BufferKind::Intermediate;
  std::string device;           // only pools of this device will do; empty: any
  std::vector<uint32_t> pools;  // where it may lie, the preferred one first; empty: in any pool
  std::optional<Pin> pin;
  std::vector<uint32_t> may_share_with;  // buffers with which it may lie at one offset though both are alive (in-place)
  std::optional<Alias> alias;
  std::vector<Gap> gaps;        // in order, disjoint, within [begin, end)
  std::optional<int64_t> hint;  // an offset that another tool suggests; kept, and read by no planner
};

struct LivenessProblem {
  std::vector<Buffer> buffers;
  std::vector<Pool> pools = {Pool{}};
};

/// Bytes of a pool with the buffers that lie in them. Two slots may overlap as long as no two of their tenants are alive
/// together.
struct StorageSlot {
  uint32_t id = 0;  // its own index; the storage id of the reference system for `best_fit_tokens`
  uint32_t pool = 0;
  int64_t offset = 0, size = 0, alignment = 1;
  std::vector<uint32_t> tenants;               // by begin, then by index
  int64_t first_tenant_size = 0;               // what the reference system reports as the size (its defect D18)
  int64_t first_def = 0, last_use = 0;         // the hull of the tenants' lifetimes
  BufferKind kind = BufferKind::Intermediate;  // that of the first tenant
  bool pinned = false;                         // a tenant has a pin
};

/// Where a buffer lies: at `offset` bytes from the start of a slot (0 but for views).
struct Assignment {
  uint32_t slot = 0;
  int64_t offset = 0;
};

struct PoolUse {
  int64_t peak_bytes = 0;         // the size that the pool must have
  int64_t lower_bound_bytes = 0;  // no plan needs less: of the buffers that can lie nowhere else
};

struct MemoryPlan {
  std::string planner;
  std::vector<StorageSlot> slots;
  std::vector<Assignment> assignment;  // one for each buffer
  std::vector<PoolUse> pools;          // one for each pool
  int64_t peak_bytes = 0;              // sum over the pools
  int64_t lower_bound_bytes = 0;       // no plan's sum is less
  bool optimal = false;                // proven: by the bound, or by a search that ended
  uint64_t steps = 0;                  // search steps taken; one is a look at one buffer
  int64_t wall_limit_ms = 0;           // the limit that was given; 0: none, so the plan is the same on every machine

  const StorageSlot& slot_of(uint32_t buffer) const { return slots[assignment[buffer].slot]; }
  uint32_t pool_of(uint32_t buffer) const { return slot_of(buffer).pool; }
  int64_t offset_of(uint32_t buffer) const { return slot_of(buffer).offset + assignment[buffer].offset; }
};

/// A chosen place.
struct Place {
  uint32_t pool = 0;
  int64_t offset = 0;
};

/// Builds the plan that puts each buffer at its place: slots in order of pool and offset, peaks, bounds. `places` has one
/// entry for each buffer; that of a view is ignored. Judges nothing.
MemoryPlan plan_from_places(const LivenessProblem& problem, const std::vector<Place>& places, std::string planner);

/// Throws CompileError (malformed, `plan-problem`) naming a buffer or pool that makes no sense: a size below 0, a lifetime
/// that ends before it begins, an alignment that is no power of two, an index out of range, an id given twice.
void validate(const LivenessProblem& problem);

struct PlannerOptions {
  uint64_t max_steps = 0;     // of each stage of the planner; 0: its own budget
  int64_t wall_limit_ms = 0;  // 0: none. With one, the plan depends on the machine
};

/// A pure function from a problem to a plan. Throws CompileError (limit) naming a buffer that finds no room.
class MemoryPlanner {
 public:
  virtual ~MemoryPlanner() = default;
  virtual std::string_view name() const = 0;
  virtual MemoryPlan plan(const LivenessProblem& problem, const PlannerOptions& options) const = 0;
};

inline constexpr std::string_view kDefaultPlanner = "auto";

/// Of this build, in the order in which `tenon plan --help` lists them.
std::vector<std::string_view> planner_names();
/// Throws CompileError (usage, `unknown-planner`).
const MemoryPlanner& find_planner(std::string_view name);

/// Validates the problem, plans, checks the plan. Throws what these throw.
MemoryPlan make_plan(const LivenessProblem& problem, const MemoryPlanner& planner, const PlannerOptions& options = {});

/// Independent of every planner, in O(n log n). Throws CompileError (check-failed) with every fault found:
/// `plan-missing` a buffer without a place, `plan-size` a slot smaller than its tenant, `plan-overlap` two tenants alive
/// together on the same bytes, `plan-alignment`, `plan-pool` a pool that the buffer may not use, `plan-pool-limit`,
/// `plan-pin`, `plan-alias` a view that lies elsewhere, `plan-peak` a claimed peak or bound that is not so.
void check_plan(const LivenessProblem& problem, const MemoryPlan& plan);

/// What no plan can go below, by a sweep over the live bytes: for each pool, and for the sum of all.
struct LowerBound {
  std::vector<int64_t> pools;
  int64_t total = 0;
};
/// Throws CompileError (limit, `memory-too-large`) if the live bytes pass 2^62.
LowerBound lower_bound(const LivenessProblem& problem);

/// MiniMalloc's CSV: a header line, then a line for each buffer. Columns `id`, `lower`, `upper`, `size`, and optionally
/// `alignment`, `gaps` (`4-6 8-9@0:16`: without bytes in [4,6), with bytes [0,16) in [8,9)), `offset` (a pin, or empty),
/// `hint`; and ours: `kind`, `device`, `pools` (names, separated by blanks), `pin` (`pool` or `pool@offset`), `share` (ids),
/// `alias` (`id@offset`). `begin`, `start`, `buffer`, `buffer_id` and the inclusive `end` are read as MiniMalloc reads them.
/// Throws CompileError (malformed: `csv-header`, `csv-row`, `csv-field`) with the line, what was found and what was expected.
LivenessProblem read_problem_csv(const std::string& file, std::string_view text, std::vector<Pool> pools = {Pool{}});
/// The columns that any buffer uses.
std::string write_problem_csv(const LivenessProblem& problem);

/// A plan's CSV: the problem's columns, then `pool` if there are several, then `offset`. Reading needs `id` and `offset`
/// (and `pool`), compares `lower`, `upper` and `size` with the problem where they are given, and throws CompileError
/// (check-failed, `plan-missing` or `plan-size`) naming a buffer that lacks a line, has two, is unknown or has changed.
MemoryPlan read_plan_csv(const LivenessProblem& problem, const std::string& file, std::string_view text);
std::string write_plan_csv(const LivenessProblem& problem, const MemoryPlan& plan);

/// For people: a line for each pool and slot.
std::string print_plan(const LivenessProblem& problem, const MemoryPlan& plan);
/// One JSON object: `planner`, `peak_bytes`, `lower_bound_bytes`, `optimal`, `steps`, `wall_limit_ms`, `pools`, `slots`,
/// `buffers`.
std::string write_plan_json(const LivenessProblem& problem, const MemoryPlan& plan);
/// A picture of one pool: program points to the right, offsets upwards, the live bytes as a line, the peak as another, each
/// buffer's id, size and place when the pointer is on it.
std::string write_plan_svg(const LivenessProblem& problem, const MemoryPlan& plan, uint32_t pool = 0);
/// One page, which needs no other file, with a table of the pools and the picture of each; the buffer under the pointer is
/// described beside it.
std::string write_plan_html(const LivenessProblem& problem, const MemoryPlan& plan);

}  // namespace tenon::plan
