// SPDX-License-Identifier: Apache-2.0
// Laws of the memory that kernels allocate, over random loop functions. Which blocks may share bytes is judged by a run of the
// loops that notes when each block is accessed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "driver/driver.h"
#include "graph/text.h"
#include "link/link.h"
#include "op/all_ops.h"
#include "runtime/serialize.h"
#include "runtime/session.h"
#include "support/long_run.h"
#include "support/memory_problem.h"
#include "support/random_allocations.h"
#include "support/schedule_pool.h"
#include "tir/interpret.h"
#include "tir/scratch.h"
#include "tir/text.h"

namespace tenon {
namespace {

using tir::PrimFunc;
using tir::ScratchBlock;

/// Runs the loops of a function, both ways of each branch, and counts accesses. Each time a block is declared it is another one.
/// All iterations of a loop that runs on workers happen at once, for blocks that workers share.
class Trace {
 public:
  explicit Trace(const PrimFunc& function) {
    stmt(function.body);
    std::sort(uses_.begin(), uses_.end(), [](const Use& a, const Use& b) { return a.first < b.first; });
    std::vector<const Use*> open;
    for (const Use& use : uses_) {
      if (use.last < 0) continue;
      std::erase_if(open, [&](const Use* other) { return other->last < use.first; });
      for (const Use* other : open)
        if (other->of_worker == use.of_worker && other->block != use.block) meet_.insert(std::minmax(other->block, use.block));
      open.push_back(&use);
    }
  }

  /// Blocks that hold something at one time.
  const std::set<std::pair<std::string, std::string>>& meet() const { return meet_; }
  const std::map<std::string, bool>& of_worker() const { return of_worker_; }  // every block
  const std::set<std::string>& touched() const { return touched_; }

 private:
  struct Use {
    std::string block;
    bool of_worker;
    int64_t first = INT64_MAX, last = -1;
  };

  static bool on_workers(const tir::For& loop) {
    using enum tir::ForKind;
    bool kind = loop.loop_kind == Parallel || loop.loop_kind == BlockX || loop.loop_kind == BlockY || loop.loop_kind == BlockZ;
    return kind && tir::int_value(loop.extent) > 1;
  }

  void access(const std::string& buffer) {
    touched_.insert(buffer);
    auto use = now_.find(buffer);
    if (use == now_.end() || skipped_ > 0) return;
    Use& u = uses_[use->second];
    u.first = std::min(u.first, time_);
    u.last = time_++;
    if (workers_ > 0 && !u.of_worker) shared_by_workers_.insert(use->second);
  }

  void expr(const tir::Expr& e) {
    tir::visit_loads(e, [&](const tir::Load& load) { access(load.buffer->name); });
  }

  void stmt(const tir::Stmt& s) {
    if (const auto* allocation = tir::as<tir::Allocate>(s)) {
      const tir::BufferData& buffer = *allocation->buffer;
      if (buffer.scope == tir::Scope::Reg) return;
      bool of_worker = buffer.scope == tir::Scope::Local && workers_ > 0;
      of_worker_[buffer.name] = of_worker;
      now_[buffer.name] = uses_.size();
      uses_.push_back({buffer.name, of_worker});
      return;
    }
    if (const auto* loop = tir::as<tir::For>(s)) return run(*loop);
    tir::for_each_child(s, [](const tir::Stmt&) {}, [&](const tir::Expr& e) { expr(e); });
    tir::for_each_child(s, [&](const tir::Stmt& child) { stmt(child); }, [](const tir::Expr&) {});
    if (const auto* n = tir::as<tir::Store>(s)) access(n->buffer->name);
  }

  void run(const tir::For& loop) {
    bool outermost = on_workers(loop) && workers_ == 0;
    workers_ += on_workers(loop);
    int64_t begin = time_++, extent = tir::int_value(loop.extent);
    skipped_ += extent == 0;
    for (int64_t i = 0; i < std::max<int64_t>(extent, 1); ++i) stmt(loop.body);
    skipped_ -= extent == 0;
    workers_ -= on_workers(loop);
    if (!outermost) return;
    for (size_t use : std::exchange(shared_by_workers_, {})) {
      uses_[use].first = std::min(uses_[use].first, begin);
      uses_[use].last = time_;
    }
    ++time_;
  }

  int64_t time_ = 0;
  int workers_ = 0;  // loops around that run on workers
  int skipped_ = 0;  // and those of no iterations, inside of which nothing happens
  std::vector<Use> uses_;
  std::map<std::string, size_t> now_;
  std::set<size_t> shared_by_workers_;
  std::map<std::string, bool> of_worker_;
  std::set<std::string> touched_;
  std::set<std::pair<std::string, std::string>> meet_;
};

bool together(const ScratchBlock& a, const ScratchBlock& b) { return a.begin < b.end && b.begin < a.end; }

bool apart(int64_t a, int64_t a_bytes, int64_t b, int64_t b_bytes) { return a + a_bytes <= b || b + b_bytes <= a; }

/// Blocks of one list: placed without overlaps in as many bytes as are said, and needed when and only when they are touched.
void expect_laid_out(const std::vector<ScratchBlock>& blocks, int64_t bytes, int64_t points, const Trace& trace) {
  for (const ScratchBlock& a : blocks) {
    SCOPED_TRACE(a.name);
    EXPECT_EQ(a.begin < a.end, trace.touched().contains(a.name)) << "[" << a.begin << ", " << a.end << ")";
    EXPECT_TRUE(a.begin >= 0 && a.begin <= a.end && a.end <= points) << "[" << a.begin << ", " << a.end << ")";
    EXPECT_TRUE(a.bytes % 64 == 0 && a.offset % 64 == 0 && a.offset >= 0);
    if (a.begin < a.end) EXPECT_LE(a.offset + a.bytes, bytes);
    for (const ScratchBlock& b : blocks)
      if (&a < &b && together(a, b)) EXPECT_TRUE(apart(a.offset, a.bytes, b.offset, b.bytes)) << b.name;
  }
}

/// Two points next to each other could be one unless a block ends where another begins.
void expect_no_point_too_many(const tir::Scratch& scratch) {
  std::set<int64_t> begins, ends;
  for (const auto* list : {&scratch.shared, &scratch.worker})
    for (const ScratchBlock& b : *list)
      if (b.begin < b.end) begins.insert(b.begin), ends.insert(b.end);
  EXPECT_GE(scratch.points, 1);
  for (int64_t point = 1; point < scratch.points; ++point)
    EXPECT_TRUE(begins.contains(point) && ends.contains(point)) << "points " << point - 1 << " and " << point;
}

void expect_scratch_fits(const tir::Scratch& scratch, const Trace& trace) {
  std::map<std::string, const ScratchBlock*> blocks;
  for (const auto* list : {&scratch.shared, &scratch.worker})
    for (const ScratchBlock& b : *list) EXPECT_TRUE(blocks.emplace(b.name, &b).second) << b.name;
  EXPECT_EQ(blocks.size(), trace.of_worker().size());
  for (const auto& [name, of_worker] : trace.of_worker()) {
    ASSERT_TRUE(blocks.contains(name)) << name;
    EXPECT_EQ(scratch.worker_block(name) != nullptr, of_worker) << name;
  }
  expect_laid_out(scratch.shared, scratch.shared_bytes, scratch.points, trace);
  expect_laid_out(scratch.worker, scratch.worker_bytes, scratch.points, trace);
  expect_no_point_too_many(scratch);
  for (const auto& [a, b] : trace.meet()) EXPECT_TRUE(together(*blocks.at(a), *blocks.at(b))) << a << " and " << b;
}

struct Case {
  std::vector<PrimFunc> functions;  // each takes what it gives
  std::vector<size_t> calls;        // of `main`, one after the other
};

Case random_case(uint64_t seed) {
  std::mt19937_64 random(seed);
  static constexpr int64_t kExtents[] = {1, 2, 3, 5, 8};
  int64_t extent = kExtents[random() % std::size(kExtents)];
  Case c;
  c.functions.push_back(test::random_allocations(random(), extent, "f"));
  if (random() % 3 == 0) c.functions.push_back(test::random_allocations(random(), extent, "g"));
  for (size_t count = 2 + random() % 2; c.calls.size() < count;) c.calls.push_back(random() % c.functions.size());
  return c;
}

/// Both results of the last call, and one of the first.
std::vector<Array> interpreted(const Case& c, std::vector<Array> values) {
  std::vector<Array> first;
  for (size_t call : c.calls) {
    values = tir::interpret_independent(c.functions[call], values);
    if (first.empty()) first = values;
  }
  return {values[0], values[1], first[0]};
}

/// As text, with the attributes that each function is given.
std::string module_text(const Case& c, int level, bool scheduled, const std::vector<std::string>& memory) {
  auto type = [&](size_t i) {
    const tir::Buffer& p = c.functions[0].params[i];
    std::string shape;
    for (const tir::Expr& extent : p->shape) shape += (shape.empty() ? "" : ",") + std::to_string(tir::int_value(extent));
    return fmt::format("{}[{}]", name(p->dtype), shape);
  };
  std::string text = fmt::format("module {{opt_level = {}, stage = \"{}\"}}\n", level, scheduled ? "schedule" : "lower");
  text += fmt::format("fn @main(%0: {} \"a\", %1: {} \"b\") -> (\"c\", \"d\", \"first\") {{\n", type(0), type(1));
  for (size_t i = 0; i < c.calls.size(); ++i)
    text += fmt::format("  %{}, %{} = call_lowered @{}(%{}, %{}) : {}, {} \"call{}\"\n", 2 * i + 2, 2 * i + 3,
                        c.functions[c.calls[i]].name, 2 * i, 2 * i + 1, type(0), type(1), i);
  text += fmt::format("  return %{}, %{}, %2\n}}\n", 2 * c.calls.size(), 2 * c.calls.size() + 1);
  for (size_t i = 0; i < c.functions.size(); ++i) {
    PrimFunc f = c.functions[i];
    if (scheduled) f.attrs["scheduled"] = true;
    if (!memory.empty() && !memory[i].empty()) f.attrs["memory"] = memory[i];
    text += tir::print(f);
  }
  return text;
}

/// Places for some blocks that can be had together: those that a function needs at one time lie apart in both pools.
std::string random_pins(const PrimFunc& function, std::mt19937_64& random) {
  tir::Scratch scratch = tir::scratch_of(function);
  auto base = static_cast<int64_t>(random() % 4) * 64;
  std::string pins;
  for (const ScratchBlock& b : scratch.shared) {
    if (b.bytes == 0 || random() % 3 == 0) continue;
    pins += fmt::format("{}{}: {}", pins.empty() ? "" : ", ", b.name, random() % 2 ? "fast" : "slow");
    if (random() % 2) pins += fmt::format("@{}", base + b.offset);
  }
  return pins;
}

/// Blocks of each step's kernel that meet in a run lie apart, and apart from what else the step reads and writes.
void expect_places_apart(const runtime::Program& program, const std::map<std::string, PrimFunc, std::less<>>& functions) {
  using runtime::Argument;
  auto overlap = [](const Argument& a, const Argument& b) {
    return a.place == b.place && a.index == b.index &&
           !apart(static_cast<int64_t>(a.offset), static_cast<int64_t>(a.bytes), static_cast<int64_t>(b.offset),
                  static_cast<int64_t>(b.bytes));
  };
  for (const runtime::Step& step : program.steps) {
    if (step.kernel == runtime::Step::kCopy) continue;
    const PrimFunc& function = functions.find(program.kernels[step.kernel])->second;
    tir::Scratch scratch = tir::scratch_of(function);
    ASSERT_EQ(step.workspaces.size(), scratch.shared.size());
    std::map<std::string, Argument> places;
    for (size_t i = 0; i < scratch.shared.size(); ++i) {
      if (scratch.shared[i].begin == scratch.shared[i].end) continue;
      places[scratch.shared[i].name] = step.workspaces[i];
      EXPECT_EQ(static_cast<int64_t>(step.workspaces[i].bytes), scratch.shared[i].bytes);
      for (const Argument& argument : step.args)
        EXPECT_FALSE(overlap(step.workspaces[i], argument)) << step.label << ": " << scratch.shared[i].name;
    }
    Trace trace(function);
    for (const auto& [a, b] : trace.meet())
      if (places.contains(a)) EXPECT_FALSE(overlap(places.at(a), places.at(b))) << step.label << ": " << a << " and " << b;
  }
}

TEST(WorkspacesLaw, LiveFromFirstToLastAccess) {
  int met = 0, shared_bytes = 0, workers = 0;
  const int cases = test::long_run() ? 40000 : 1000;
  for (int seed = 1; seed <= cases && !::testing::Test::HasFailure(); ++seed)
    for (const PrimFunc& f : random_case(static_cast<uint64_t>(seed)).functions) {
      SCOPED_TRACE(fmt::format("seed {}:\n{}", seed, tir::print(f)));
      tir::verify(f);
      tir::Scratch scratch = tir::scratch_of(f);
      Trace trace(f);
      expect_scratch_fits(scratch, trace);
      int64_t all = 0;
      for (const ScratchBlock& b : scratch.shared) all += b.begin < b.end ? b.bytes : 0;
      met += !trace.meet().empty();
      shared_bytes += scratch.shared_bytes < all;
      workers += scratch.worker_bytes > 0;
    }
  for (int count : {met, shared_bytes, workers}) EXPECT_GE(count * 10, cases) << "too few functions of a kind are drawn";
}

struct Variant {
  int level;
  bool scheduled, pinned;
  std::string_view planner;
};

std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (std::string_view planner : {"auto", "naive", "greedy_by_size", "best_fit_tokens"})
    for (int level : {0, 3})
      for (bool scheduled : {false, true})
        for (bool pinned : {false, true}) all.push_back({level, scheduled, pinned, planner});
  return all;
}

/// Compiles the case in one way and runs it on one thread and on three, with an eye on memory and without.
void expect_runs(const Case& c, uint64_t seed, const Variant& v) {
  std::mt19937_64 random(seed);
  std::vector<std::string> pins;
  for (const PrimFunc& f : c.functions) pins.push_back(v.pinned ? random_pins(f, random) : "");
  std::string text = module_text(c, v.level, v.scheduled, pins);
  SCOPED_TRACE(fmt::format("seed {}, planner {}:\n{}", seed, v.planner, text));
  driver::CompileOptions options{.verify_each = true};
  options.memory.planner = std::shared_ptr<const plan::MemoryPlanner>(std::shared_ptr<void>(), &plan::find_planner(v.planner));
  if (v.pinned) options.memory.pools = {{.name = "slow"}, {.name = "fast", .alignment = 64}};
  std::vector<Array> inputs = test::integer_inputs(c.functions[0], seed), expected = interpreted(c, inputs);
  graph::Module module = driver::run_pipeline(graph::parse("law.tenon", text, op::all_ops()), options);
  driver::Built built = driver::build(module, options);
  EXPECT_EQ(testing::fault_of(built.problem, built.plan), "");
  EXPECT_TRUE(testing::is_free_of_overlaps(built.problem, built.plan));
  expect_places_apart(built.program, module.prim_funcs);
  std::string bytes = runtime::serialize(built.program);
  runtime::Program read = runtime::deserialize(std::as_bytes(std::span(bytes)));
  EXPECT_TRUE(read.steps == built.program.steps && read.regions == built.program.regions);
  std::shared_ptr<const runtime::Executable> executable = driver::load(std::move(built));
  for (int threads : {1, 3})
    for (bool debug : {false, true}) {
      runtime::Session session(executable, {.threads = threads, .debug_memory = debug});
      for (size_t i = 0; i < inputs.size(); ++i) session.bind_input(i, inputs[i].bytes.data());
      for (int run = 0; run < 2; ++run) {
        session.run();
        for (size_t i = 0; i < expected.size(); ++i)
          ASSERT_TRUE(session.output(i) == expected[i])
              << "output " << i << ", run " << run << " on " << threads << " threads" << (debug ? ", debugging" : "");
      }
    }
}

TEST(WorkspacesLaw, KeepTheResult) {
  const std::vector<Variant> all = variants();
  const int cases = test::long_run() ? 4000 : 160;
  for (int seed = 1; seed <= cases && !::testing::Test::HasFailure(); ++seed) {
    const Variant& variant = all[static_cast<size_t>(seed) % all.size()];
    try {
      expect_runs(random_case(static_cast<uint64_t>(seed)), static_cast<uint64_t>(seed), variant);
    } catch (const CompileError& error) {
      FAIL() << "seed " << seed << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace tenon
