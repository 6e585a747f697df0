// SPDX-License-Identifier: Apache-2.0
// Laws of traces: every built-in schedule is a trace that replays to the same function, and no nest step, whatever its sizes,
// changes a result: it keeps every bit on small whole numbers or is refused.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "schedule/steps.h"
#include "support/long_run.h"
#include "support/schedule_pool.h"
#include "support/trace_replay.h"
#include "te/te.h"
#include "tir/interpret.h"
#include "tir/text.h"

namespace tenon {
namespace {

using schedule::Step;
using schedule::Trace;
using te::Tensor;
using tir::Expr;

tir::PrimFunc product(int64_t batch, int64_t m, int64_t n, int64_t k) {
  te::Graph g;
  Tensor x = g.placeholder("x", DType::F32, {batch, m, k}), w = g.placeholder("w", DType::F32, {k, n});
  Tensor y = g.sum("y", DType::F32, {batch, m, n}, {k},
                   [&](const auto& i, const auto& r) { return x({i[0], i[1], r[0]}) * w({r[0], i[2]}); });
  return te::create_prim_func(g, std::vector{x, w}, std::vector{y}, "product");
}

/// x with every window of a column kernel: the reduction has one axis only.
tir::PrimFunc column_conv() {
  te::Graph g;
  Tensor x = g.placeholder("x", DType::F32, {1, 1, 60, 5}), w = g.placeholder("w", DType::F32, {32, 1, 5, 1});
  Tensor padded = g.compute("padded", {1, 1, 64, 5}, [&](const std::vector<Expr>& i) {
    Expr row = i[2] - Expr(2), inside = tir::logical_and(tir::le(0, row), tir::lt(row, 60));
    return tir::select(inside, x({i[0], i[1], row, i[3]}), tir::float_imm(DType::F32, 0));
  });
  Tensor y = g.sum("y", DType::F32, {1, 32, 60, 5}, {5}, [&](const auto& i, const auto& r) {
    return padded({i[0], Expr(0), i[2] + r[0], i[3]}) * w({i[1], Expr(0), r[0], Expr(0)});
  });
  return te::create_prim_func(g, std::vector{x, w}, std::vector{y}, "column_conv");
}

const std::vector<tir::PrimFunc>& sums_of_products() {
  using test::conv;
  static const std::vector<tir::PrimFunc> list = {
      conv(24, 30, 80, 3, 1, 1, 1), conv(24, 20, 90, 3, 2, 1, 1),   conv(512, 7, 512, 3, 1, 1, 1), conv(256, 14, 512, 1, 2, 0, 1),
      conv(64, 56, 64, 1, 1, 0, 1), conv(256, 56, 512, 1, 2, 0, 1), conv(3, 224, 64, 7, 2, 3, 1),  conv(32, 28, 32, 3, 1, 1, 32),
      product(1, 7, 17, 700),       product(12, 128, 64, 128),      product(1, 1, 1000, 2048),     column_conv()};
  return list;
}

TEST(ScheduleTraces, EveryBuiltInScheduleReplays) {
  std::map<std::string, std::set<std::string>> seen;  // by argument, its values
  auto add = [&](const Trace& trace) {
    for (const Step& step : trace) {
      seen["step"].insert(step.primitive);
      for (const auto& [key, value] : step.named) seen[step.primitive + " " + key].insert(value);
    }
  };
  for (const char* cpu : {"haswell", "skylake-avx512", "x86-64-v2"}) {
    Target target = parse_target(std::string("llvm -mcpu=") + cpu);
    for (bool constant : {false, true})
      for (const auto* pool : {&sums_of_products(), &test::schedule_pool()})
        for (const tir::PrimFunc& func : *pool) {
          std::vector<bool> constants(func.params.size(), false);
          if (constant && func.num_inputs > 1) constants[1] = true;
          for (int level : {0, 3}) add(test::expect_trace_replays({func, target, constants, level}, func.name + " on " + cpu));
        }
  }
  std::set<std::string> steps = {
      "inline",           "share",     "elementwise", "contraction", "row_reduction", "spatial_reduction",
      "scalar_reduction", "construct", "keep_loops",  "lower_math"};
  EXPECT_EQ(seen["step"], steps);
  EXPECT_EQ(seen["contraction v"], (std::set<std::string>{"constant", "per_tile"}));
  EXPECT_EQ(seen["contraction b"], (std::set<std::string>{"constant", "per_job", "before_all"}));
  EXPECT_EQ(seen["contraction window"], std::set<std::string>{"padded"});
  EXPECT_EQ(seen["contraction lie"], std::set<std::string>{"across"});
}

/// Changes one argument of one step, or leaves a step out.
class Editor {
 public:
  explicit Editor(uint64_t seed) : random_(seed) {}

  void edit(Trace& trace) {
    size_t at = pick(trace.size());
    Step& step = trace[at];
    if (pick(12) == 0) {
      trace.erase(trace.begin() + static_cast<std::ptrdiff_t>(at));
      return;
    }
    if (step.primitive == "inline" && pick(2)) {
      step.args.erase(step.args.begin() + static_cast<std::ptrdiff_t>(pick(step.args.size())));
      if (step.args.empty()) trace.erase(trace.begin() + static_cast<std::ptrdiff_t>(at));
      return;
    }
    static const std::map<std::string, std::vector<const char*>, std::less<>> keys = {
        {"elementwise", {"lanes", "worker"}},
        {"row_reduction", {"lanes", "streams", "worker"}},
        {"spatial_reduction", {"lanes", "rows", "worker"}},
        {"scalar_reduction", {"worker"}},
        {"share", {"worker"}},
        {"contraction",
         {"lie", "v", "b", "rows", "vectors", "lanes", "block", "v_tiles", "b_tiles", "window", "window_lanes", "prefetch",
          "worker", "epilogue"}}};
    auto found = keys.find(step.primitive);
    if (found == keys.end()) return;
    std::string key = found->second[pick(found->second.size())];
    step.named[key] = value_for(key, step);
    if (step.named[key].empty()) step.named.erase(key);
  }

 private:
  size_t pick(size_t below) { return random_() % below; }
  std::string value_for(const std::string& key, const Step& step) {
    static const char* const storage[] = {"in_place", "constant", "per_tile", "per_job", "before_all"};
    if (key == "lie") return pick(2) ? "across" : "along";
    if (key == "v" || key == "b") return storage[pick(5)];
    if (key == "window") return pick(2) ? "" : "padded";
    if (key == "epilogue") return "";
    if (key == "prefetch") return pick(2) ? "" : "yes";
    if (key == "worker") return pick(2) ? "" : std::to_string(pick(3));
    auto now = step.named.find(key);
    int64_t value = now == step.named.end() ? 1 : std::stoll(now->second);
    switch (pick(4)) {
      case 0: return std::to_string(value * 2);
      case 1: return std::to_string(value + 1);
      case 2: return std::to_string(value - 1);
      default: return std::to_string(1 + pick(9));
    }
  }
  std::mt19937_64 random_;
};

/// What a replayed function gives on a function's inputs.
std::vector<Array> run(const schedule::Schedule& replayed, std::vector<Array> inputs) {
  for (const schedule::PackedParam& p : replayed.packed()) {
    Array flat = test::reshaped(inputs[p.param], p.pack.params[0]);
    inputs[p.param] = tir::interpret(p.pack, std::vector<Array>{flat})[0];
  }
  return tir::interpret_independent(replayed.func(), test::reshaped(std::move(inputs), replayed.func(), 0));
}

TEST(ScheduleTraces, NoEditChangesAResult) {
  std::vector<tir::PrimFunc> pool = test::schedule_pool();
  using test::conv;
  for (tir::PrimFunc f : {conv(6, 7, 9, 3, 1, 1, 1), conv(5, 6, 18, 3, 2, 1, 1), conv(8, 5, 20, 1, 1, 0, 1),
                          conv(4, 8, 8, 3, 1, 1, 2), product(2, 7, 17, 20), product(1, 1, 40, 30), column_conv()})
    pool.push_back(std::move(f));
  Target target = parse_target("llvm -mcpu=haswell");
  int edited = test::long_run() ? 20000 : 600, accepted = 0;
  std::map<std::string, int> kept;  // accepted traces by the steps that they have
  for (int seed = 0; seed < edited; ++seed) {
    const tir::PrimFunc& func = pool[static_cast<size_t>(seed) % pool.size()];
    std::vector<bool> constants(func.params.size(), false);
    if (seed % 3 && func.num_inputs > 1) constants[1] = true;
    schedule::Request request{func, target, constants, 3};
    Trace trace = *trace_of(request, schedule::schedule(request));
    std::erase_if(trace, [](const Step& step) { return step.primitive == "lower_math"; });  // not exact
    Editor editor(static_cast<uint64_t>(seed));
    for (int i = 0; i <= seed % 3 && !trace.empty(); ++i) editor.edit(trace);
    if (trace.empty()) continue;
    std::string text = print(trace);
    SCOPED_TRACE(func.name + ", seed " + std::to_string(seed) + ":\n" + text);
    std::optional<schedule::Schedule> replayed;
    try {
      replayed = schedule::replay(func, "trace", text);
    } catch (const CompileError& refusal) {
      ASSERT_TRUE(refusal.diagnostics()[0].code.starts_with("schedule-")) << refusal.what();
      continue;
    }
    ++accepted;
    for (const Step& step : trace) ++kept[step.primitive];
    std::vector<Array> inputs = test::integer_inputs(func, static_cast<uint64_t>(seed));
    std::vector<Array> want = tir::interpret(func, inputs), got = run(*replayed, inputs);
    ASSERT_TRUE(test::reshaped(std::move(got), func, inputs.size()) == want) << tir::print(replayed->func());
  }
  EXPECT_GE(accepted * 3, edited) << accepted << " of " << edited;
  for (const char* step : {"elementwise", "contraction", "row_reduction", "spatial_reduction"}) EXPECT_GE(kept[step], 10) << step;
}

}  // namespace
}  // namespace tenon
