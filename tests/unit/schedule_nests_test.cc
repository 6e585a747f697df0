// SPDX-License-Identifier: Apache-2.0
// Schedules keep results: scheduled functions against the unscheduled ones in the interpreter, on integer-valued data.
#include <gtest/gtest.h>

#include "codegen/backend.h"
#include "schedule/schedule.h"
#include "schedule/steps.h"
#include "support/asm_check.h"
#include "support/schedule_pool.h"
#include "support/trace_replay.h"
#include "te/te.h"
#include "tir/interpret.h"
#include "tir/scratch.h"
#include "tir/text.h"

namespace tenon::schedule {
namespace {

using te::Tensor;
using test::conv;
using test::reshaped;
using tir::Expr;

Target avx2() {
  Target t;
  t.cpu = "haswell";
  t.machine = {32, 16, true, 32 << 10, 512 << 10, 8 << 20};
  return t;
}

/// Small integers, so that every order of summation gives the same bits.
Array integers(const tir::Buffer& b, uint32_t seed) {
  Shape shape;
  for (const Expr& e : b->shape) shape.push_back(tir::int_value(e));
  MutableArray out(b->dtype, shape);
  uint32_t state = seed * 2654435761u + 1;
  for (int64_t i = 0; i < element_count(shape); ++i) {
    state = state * 1664525u + 1013904223u;
    out.as<float>()[i] = static_cast<float>(static_cast<int>(state >> 28) - 8);
  }
  return std::move(out).freeze();
}

/// Interprets the function before and after scheduling, constants packed, and compares bit for bit.
void expect_same(const tir::PrimFunc& f, std::vector<bool> constant_params) {
  Target target = avx2();
  Request request{f, target, std::move(constant_params), 3};
  Scheduled s = schedule(request);
  test::expect_trace_replays(request, f.name);
  SCOPED_TRACE(s.explain + tir::print(s.func));
  std::vector<Array> inputs, scheduled_inputs;
  for (int64_t i = 0; i < f.num_inputs; ++i)
    inputs.push_back(integers(f.params[static_cast<size_t>(i)], static_cast<uint32_t>(i)));
  scheduled_inputs = inputs;
  for (const PackedParam& p : s.packed) {
    Array flat = reshaped(inputs[p.param], p.pack.params[0]);
    scheduled_inputs[p.param] = tir::interpret(p.pack, std::vector<Array>{flat})[0];
  }
  for (size_t i = 0; i < scheduled_inputs.size(); ++i) scheduled_inputs[i] = reshaped(scheduled_inputs[i], s.func.params[i]);
  std::vector<Array> expected = tir::interpret(f, inputs), found = tir::interpret(s.func, scheduled_inputs);
  ASSERT_EQ(expected.size(), found.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(reshaped(found[i], f.params[inputs.size() + i]) == expected[i]);
}

}  // namespace

TEST(Schedule, ConvolutionsKeepTheirResult) {
  expect_same(conv(8, 9, 17, 3, 1, 1, 1), {false, true, true, false});
  expect_same(conv(8, 9, 17, 3, 1, 1, 1), {false, false, false, false});
  expect_same(conv(3, 11, 7, 7, 2, 3, 1), {false, true, true, false});
  expect_same(conv(20, 5, 17, 1, 1, 0, 1), {false, true, true, false});
  expect_same(conv(20, 9, 17, 1, 2, 0, 1), {false, true, true, false});
  expect_same(conv(12, 5, 20, 3, 1, 1, 4), {false, true, true, false});
  expect_same(conv(12, 9, 12, 3, 2, 1, 12), {false, true, true, false});
  expect_same(conv(130, 3, 9, 3, 1, 1, 1), {false, true, true, false});  // several blocks of the reduction
}

/// The product of a row of 20,000 numbers and a matrix of constants.
tir::PrimFunc one_row(int64_t columns) {
  te::Graph g;
  Tensor x = g.placeholder("x", DType::F32, {1, 20000}), w = g.placeholder("w", DType::F32, {20000, columns});
  Tensor y = g.sum("y", DType::F32, {1, columns}, {20000},
                   [&](const auto& i, const auto& r) { return x({i[0], r[0]}) * w({r[0], i[1]}); });
  std::vector<Tensor> in = {x, w}, out = {y};
  return te::create_prim_func(g, in, out, "row");
}

/// Blocks keep a panel of V in the first cache for the tiles of B that follow; a lone row has no second tile.
TEST(Schedule, AReductionIsCutOnlyWhereAPanelIsReadAgain) {
  auto explain = [](const tir::PrimFunc& f) { return schedule({f, avx2(), {false, true, true, false}, 3}).explain; };
  EXPECT_NE(explain(one_row(640)).find("; 1 blocks of 20000 steps"), std::string::npos) << explain(one_row(640));
  EXPECT_EQ(explain(conv(512, 14, 512, 3, 1, 1, 1)).find("; 1 blocks"), std::string::npos);
}

/// Weights of a quarter of a megabyte and more, each panel of which few tiles use.
TEST(Schedule, WeightsThatAreSoonUsedUpAreBroughtNear) {
  auto prefetches = [](const tir::PrimFunc& f) {
    int64_t found = 0;
    tir::visit(schedule({f, avx2(), {false, true, true, false}, 3}).func.body,
               [&](const tir::Stmt& s) { found += tir::as<tir::Prefetch>(s) != nullptr; });
    return found;
  };
  EXPECT_EQ(prefetches(conv(512, 7, 512, 3, 1, 1, 1)), 1);
  EXPECT_EQ(prefetches(conv(64, 56, 64, 3, 1, 1, 1)), 0) << "small, and used often";
  EXPECT_EQ(prefetches(one_row(640)), 0) << "one stream from end to end";
  // Three tiles of B use a panel of six steps of eight elements: each step brings three elements of the next one near.
  te::Graph g;
  Tensor a = g.placeholder("a", DType::F32, {6, 6}), b = g.placeholder("b", DType::F32, {6, 10});
  Tensor c =
      g.sum("c", DType::F32, {6, 10}, {6}, [&](const auto& i, const auto& r) { return a({i[0], r[0]}) * b({r[0], i[1]}); });
  std::vector<Tensor> in = {a, b}, out = {c};
  std::string text = "contraction c rows=2 lanes=8 v=constant v_tiles=2 b_tiles=3 block=6 prefetch=yes\nconstruct fma=yes";
  std::string loops = tir::print(by_steps(replay(te::create_prim_func(g, in, out, "product"), "trace", text)).func);
  EXPECT_NE(loops.find("prefetch b[((((v_slot * 48) + (b_slot * 18)) + (v_r0_step * 3)) + 48)]"), loops.npos) << loops;
}

TEST(Schedule, ShortOutputRowsLieAcrossTheLanes) {
  auto explain = [](const tir::PrimFunc& f) { return schedule({f, avx2(), {false, true, true, false}, 3}).explain; };
  EXPECT_NE(explain(conv(512, 7, 512, 3, 1, 1, 1)).find("across the output; vectors constant panels, broadcasts in place"),
            std::string::npos);
  EXPECT_NE(explain(conv(256, 14, 512, 1, 2, 0, 1)).find("across the output; vectors constant panels, broadcasts packed panels"),
            std::string::npos);
  EXPECT_NE(explain(conv(64, 56, 64, 1, 1, 0, 1)).find("along the output"), std::string::npos);
  expect_same(conv(40, 7, 24, 3, 2, 1, 1), {false, true, true, false});   // in place, every second element, several blocks
  expect_same(conv(160, 7, 20, 1, 1, 0, 1), {false, true, true, false});  // panels, the last tile moved back
  expect_same(conv(64, 5, 34, 3, 1, 1, 2), {false, true, true, false});   // groups outside
}

/// The bytes that a function shares between its workers.
int64_t shared_bytes(const tir::PrimFunc& f) {
  int64_t bytes = 0;
  tir::visit(f.body, [&](const tir::Stmt& s) {
    const auto* a = tir::as<tir::Allocate>(s);
    if (a && a->buffer->scope == tir::Scope::Global) bytes += tir::int_value(a->buffer->shape[0]) * byte_size(a->buffer->dtype);
  });
  return bytes;
}

TEST(Schedule, JobsComputeTheRowsOfThePaddedInputThatTheyRead) {
  struct Case {
    tir::PrimFunc f;
    const char* rows;
  };
  for (const Case& c : {Case{conv(24, 30, 80, 3, 1, 1, 1), "rows of padded"},  // rows of tiles
                        Case{conv(24, 20, 90, 3, 2, 1, 1), "rows of padded"},  // tiles that cross rows of a short output
                        Case{conv(24, 20, 96, 3, 2, 1, 2), ""}}) {             // the channels of a group follow the outer axis
    Scheduled s = schedule({c.f, avx2(), {false, true, true, false}, 3});
    EXPECT_NE(s.explain.find(c.rows), std::string::npos) << s.explain;
    EXPECT_EQ(shared_bytes(s.func) == 0, c.rows[0] != 0) << s.explain;
    expect_same(c.f, {false, true, true, false});
  }
}

TEST(Schedule, AStageOfOneConstantTakesNoMemory) {
  te::Graph g;
  Tensor x = g.placeholder("x", DType::F32, {20});
  Tensor two = g.compute("two", {}, [](const std::vector<Expr>&) { return tir::float_imm(DType::F32, 2); });
  Tensor y = g.compute("y", {20}, [&](const std::vector<Expr>& i) { return x(i) * two({}) + two({}); });
  std::vector<Tensor> in = {x}, out = {y};
  tir::PrimFunc f = te::create_prim_func(g, in, out, "scaled");
  EXPECT_EQ(shared_bytes(schedule({f, avx2(), {false, false}, 3}).func), 0);
  expect_same(f, {false, false});
}

/// x through t, which is cheap, and u, which is a sum, with `memory` saying where some of it is to lie.
tir::PrimFunc placed(const std::string& memory) {
  te::Graph g;
  Tensor x = g.placeholder("x", DType::F32, {32, 40});
  Tensor t = g.compute("t", {32, 40}, [&](const std::vector<Expr>& i) { return x(i) * tir::float_imm(DType::F32, 0.5); });
  Tensor u = g.sum("u", DType::F32, {32}, {40}, [&](const auto& i, const auto& r) { return t({i[0], r[0]}); });
  Tensor y = g.compute("y", {32, 40}, [&](const std::vector<Expr>& i) { return t(i) + u({i[0]}); });
  std::vector<Tensor> in = {x}, out = {y};
  tir::PrimFunc f = te::create_prim_func(g, in, out, "placed");
  if (!memory.empty()) f.attrs["memory"] = memory;
  return f;
}

TEST(Schedule, WhatHasAPlaceStaysWholeInMemory) {
  auto blocks = [](const std::string& memory) {
    std::map<std::string, int64_t> bytes;
    tir::Scratch scratch = tir::scratch_of(schedule({placed(memory), avx2(), {false, false}, 3}).func);
    for (const tir::ScratchBlock& b : scratch.shared) bytes[b.name] = b.bytes;
    return bytes;
  };
  using Bytes = std::map<std::string, int64_t>;
  EXPECT_EQ(blocks(""), (Bytes{{"u", 64}})) << "one row's sum at a time";
  EXPECT_EQ(blocks("t: fast"), (Bytes{{"t", 32 * 40 * 4}, {"u", 32 * 4}}));
  EXPECT_EQ(blocks("u: fast"), (Bytes{{"u", 32 * 4}}));
  EXPECT_EQ(blocks("x: fast, y: slow"), (Bytes{{"u", 64}})) << "parameters are in memory anyway";
  for (const char* memory : {"", "t: fast", "u: fast@64", "t: fast, u: slow"}) expect_same(placed(memory), {false, false});
}

TEST(Schedule, RowsShareLoopsAroundTheirStages) {
  for (std::vector<int64_t> shape : {std::vector<int64_t>{6, 37}, {2, 3, 64}, {3, 5, 4, 19}}) {
    te::Graph g;
    std::vector<Expr> dims(shape.begin(), shape.end()), rows(shape.begin(), shape.end() - 1);
    Expr last = dims.back();
    Tensor x = g.placeholder("x", DType::F32, dims);
    auto at = [](std::vector<Expr> i, const Expr& r) {
      i.push_back(r);
      return i;
    };
    auto lowest = [](const std::vector<Expr>&) { return std::vector<Expr>{tir::lowest(DType::F32)}; };
    auto larger = [&](const std::vector<Expr>& i, const std::vector<Expr>& r, const std::vector<Expr>& so_far) {
      return std::vector<Expr>{tir::max(so_far[0], x(at(i, r[0])))};
    };
    Tensor top = g.reduce("top", rows, {last}, {{DType::F32}, lowest, larger})[0];
    auto row = [](const std::vector<Expr>& i) { return std::vector<Expr>(i.begin(), i.end() - 1); };
    Tensor below =
        g.compute("below", dims, [&](const std::vector<Expr>& i) { return (x(i) - top(row(i))) * x(i) + x(i) * x(i); });
    Tensor sum = g.sum("sum", DType::F32, rows, {last}, [&](const auto& i, const auto& r) { return below(at(i, r[0])); });
    Tensor y = g.compute("y", dims, [&](const std::vector<Expr>& i) { return below(i) + sum(row(i)); });
    std::vector<Tensor> in = {x}, out = {y};
    expect_same(te::create_prim_func(g, in, out, "rows"), {false, false});
  }
}

TEST(Schedule, WindowsAndColumnsAndArgumentsKeepTheirResult) {
  for (int64_t stride : {1, 2}) {
    te::Graph g;
    Tensor x = g.placeholder("x", DType::F32, {2, 3, 9, 13});
    int64_t h = (9 - 3) / stride + 1, w = (13 - 3) / stride + 1;
    auto lowest = [](const std::vector<Expr>&) { return std::vector<Expr>{tir::lowest(DType::F32)}; };
    auto larger = [&](const std::vector<Expr>& i, const std::vector<Expr>& r, const std::vector<Expr>& so_far) {
      return std::vector<Expr>{tir::max(so_far[0], x({i[0], i[1], i[2] * Expr(stride) + r[0], i[3] * Expr(stride) + r[1]}))};
    };
    std::vector<Tensor> in = {x}, out = g.reduce("pool", {2, 3, h, w}, {3, 3}, {{DType::F32}, lowest, larger});
    expect_same(te::create_prim_func(g, in, out, "pool"), {false, false});
  }
  te::Graph columns;
  Tensor x = columns.placeholder("x", DType::F32, {11, 7, 10});
  Tensor sum = columns.sum("sum", DType::F32, {10}, {11, 7}, [&](const auto& i, const auto& r) { return x({r[0], r[1], i[0]}); });
  std::vector<Tensor> in = {x}, out = {sum};
  expect_same(te::create_prim_func(columns, in, out, "columns"), {false, false});

  te::Graph arguments;
  Tensor v = arguments.placeholder("v", DType::F32, {5, 33});
  auto none = [](const std::vector<Expr>&) { return std::vector<Expr>{tir::lowest(DType::F32), Expr(-1)}; };
  auto next = [&](const std::vector<Expr>& i, const std::vector<Expr>& r, const std::vector<Expr>& so_far) {
    Expr value = v({i[0], r[0]});
    Expr better = tir::lt(so_far[0], value);
    return std::vector<Expr>{tir::select(better, value, so_far[0]), tir::select(better, r[0], so_far[1])};
  };
  std::vector<Tensor> from = {v}, both = arguments.reduce("arg", {5}, {33}, {{DType::F32, DType::I64}, none, next});
  expect_same(te::create_prim_func(arguments, from, both, "arguments"), {false, false, false});
}

/// Long sums over other axes than the innermost: several rows at once, so that one addition need not wait for another.
TEST(Schedule, LongColumnsAreSummedUpSeveralAtOnce) {
  te::Graph g;
  Tensor x = g.placeholder("x", DType::F32, {6, 50, 20});
  Tensor y = g.sum("y", DType::F32, {6, 20}, {50}, [&](const auto& i, const auto& r) { return x({i[0], r[0], i[1]}); });
  std::vector<Tensor> in = {x}, out = {y};
  tir::PrimFunc f = te::create_prim_func(g, in, out, "columns");
  std::string explain = schedule({f, avx2(), {false, false}, 3}).explain;
  EXPECT_NE(explain.find("6 rows x 8 lanes"), explain.npos) << explain;
  expect_same(f, {false, false});
}

TEST(Schedule, MatrixProductsPackEitherSide) {
  struct Case {
    int64_t b, m, n, k;
    bool transposed;
  };
  for (Case c : {Case{1, 13, 20, 70, false}, Case{3, 7, 9, 33, true}, Case{1, 1, 50, 64, false}, Case{2, 30, 1, 16, false},
                 Case{1, 7, 17, 700, false}}) {
    te::Graph g;
    Tensor x = g.placeholder("x", DType::F32, {c.b, c.m, c.k});
    std::vector<Expr> shape = c.transposed ? std::vector<Expr>{c.n, c.k} : std::vector<Expr>{c.k, c.n};
    Tensor w = g.placeholder("w", DType::F32, shape);
    Tensor y = g.sum("y", DType::F32, {c.b, c.m, c.n}, {c.k}, [&](const auto& i, const auto& r) {
      return x({i[0], i[1], r[0]}) * (c.transposed ? w({i[2], r[0]}) : w({r[0], i[2]}));
    });
    std::vector<Tensor> in = {x, w}, out = {y};
    tir::PrimFunc f = te::create_prim_func(g, in, out, "product");
    expect_same(f, {false, true, false});
    expect_same(f, {true, false, false});
    expect_same(f, {false, false, false});
  }
}

TEST(Schedule, ReshapesAndTransposesAddressFlatMemory) {
  te::Graph g;
  Tensor x = g.placeholder("x", DType::F32, {6, 20});
  Tensor split = g.compute("split", {6, 4, 5}, [&](const std::vector<Expr>& i) {
    Expr at = (i[0] * Expr(4) + i[1]) * Expr(5) + i[2];
    return x({tir::floordiv(at, 20), tir::floormod(at, 20)});
  });
  Tensor turned = g.compute("turned", {4, 6, 5}, [&](const std::vector<Expr>& i) { return split({i[1], i[0], i[2]}); });
  Tensor y = g.compute("y", {24, 5}, [&](const std::vector<Expr>& i) {
    return turned({tir::floordiv(i[0], 6), tir::floormod(i[0], 6), i[1]}) + tir::float_imm(DType::F32, 1);
  });
  std::vector<Tensor> in = {x}, out = {y};
  tir::PrimFunc f = te::create_prim_func(g, in, out, "moves");
  expect_same(f, {false, false});
}

TEST(Schedule, InnerLoopsKeepTheirVectorsInRegistersOnBothInstructionSets) {
  for (const char* cpu : {"haswell", "skylake-avx512"}) {
    Target target = parse_target(std::string("llvm -mcpu=") + cpu);
    for (const tir::PrimFunc& f : {conv(64, 56, 64, 3, 1, 1, 1), conv(256, 14, 1024, 1, 1, 0, 1), conv(64, 28, 128, 3, 2, 1, 1),
                                   conv(512, 7, 512, 3, 1, 1, 1), conv(96, 56, 96, 3, 1, 1, 96), conv(3, 224, 64, 7, 2, 3, 1)}) {
      Scheduled s = schedule({f, target, {false, true, true, false}, 3});
      SCOPED_TRACE(std::string(cpu) + ": " + s.explain);
      std::string assembly = codegen::compile_text(s.func, target, codegen::TextKind::Assembly);
      int fmas = 0;
      for (const test::InnermostLoop& loop : test::innermost_loops(assembly)) {
        EXPECT_EQ(loop.vector_spills(), 0) << loop.label;
        fmas += loop.count("vfmadd");
      }
      EXPECT_GT(fmas, 0);
    }
  }
}

}  // namespace tenon::schedule
