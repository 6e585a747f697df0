// SPDX-License-Identifier: Apache-2.0
// Constants inside of loop functions (`allocate_const`): every pass over loops that moves or flattens buffers meets one.
#include <gtest/gtest.h>

#include "driver/driver.h"
#include "graph/text.h"
#include "lower/lower.h"
#include "op/all_ops.h"
#include "passes/tir/passes.h"
#include "schedule/schedule.h"
#include "schedule/steps.h"
#include "support/compiled.h"
#include "support/round_trip.h"
#include "support/schedule_pool.h"
#include "tir/interpret.h"
#include "tir/text.h"

namespace tenon {
namespace {

using graph::Module;
using schedule::Schedule;
using tir::PrimFunc;

/// A module with one group that holds its constants, fused and not lowered.
Module linked(const std::string& text) {
  Module module = graph::parse("test", text, op::all_ops());
  module.attrs["link_params"] = true;
  return driver::run_pipeline(module, {.link_params = true, .stop_after = "fuse"});
}

PrimFunc lowered(const std::string& text) {
  Module module = linked(text);
  for (const auto& [name, function] : module.functions)
    if (function.primitive()) return lower::lower_to_prim_func(module, function);
  fail_internal("the model has a group");
}

/// Eight rows of eight numbers below 6, in hex.
std::string weights(const std::string& bytes_of_one) {
  std::string hex;
  for (int i = 0; i < 64; ++i) hex += "0" + std::to_string(i * 5 % 6) + bytes_of_one;
  return hex;
}

/// A product with a constant, and an addition of a row that is constant too.
std::string product() {
  return "constant @w : i32[8,8] = bytes \"" + weights("000000") + R"("
constant @row : i32[8] = bytes "0100000002000000030000000400000005000000060000000700000008000000"
fn @main(%0: i32[4,8] "x") -> ("y") {
  %1 = constant @w : i32[8,8]
  %2 = matmul(%0, %1) : i32[4,8]
  %3 = constant @row : i32[8]
  %4 = add(%2, %3) : i32[4,8]
  return %4
}
)";
}

std::vector<const tir::AllocateConst*> constants(const PrimFunc& function) {
  std::vector<const tir::AllocateConst*> out;
  tir::visit(function.body, [&](const tir::Stmt& s) {
    if (const auto* c = tir::as<tir::AllocateConst>(s)) out.push_back(c);
  });
  return out;
}

/// The new function means the same, reads back, and compiles.
void expect_same(const PrimFunc& before, const PrimFunc& after, size_t count) {
  EXPECT_EQ(constants(after).size(), count);
  EXPECT_NO_THROW(tir::verify(after));
  testing::round_trip(after);
  std::vector<Array> inputs = test::integer_inputs(before, 1), want = tir::interpret(before, inputs), flat = inputs;
  for (size_t i = 0; i < flat.size(); ++i) {
    flat[i].shape.clear();
    for (const tir::Expr& extent : after.params[i]->shape) flat[i].shape.push_back(tir::int_value(extent));
  }
  auto expect = [&](std::vector<Array> got, const char* how) {
    for (size_t k = 0; k < want.size(); ++k) {
      got[k].shape = want[k].shape;
      EXPECT_EQ(got[k], want[k]) << how << "\n" << tir::print(after);
    }
  };
  expect(tir::interpret(after, flat), "interpreted");
  expect(test::run_compiled(after, flat), "compiled");
}

TEST(LoopConstants, LoweringDeclaresThemInOrderAndReadsThem) {
  PrimFunc function = lowered(product());
  ASSERT_EQ(constants(function).size(), 2u);
  EXPECT_EQ(constants(function)[0]->data.shape, (Shape{8, 8}));
  EXPECT_EQ(constants(function)[1]->data.shape, (Shape{8}));
  EXPECT_EQ(function.params.size(), 2u);
  EXPECT_EQ(tir::print(lowered(product())), tir::print(function)) << "names are the same each time";
  expect_same(function, function, 2);
}

TEST(LoopConstants, SchedulesFlattenThem) {
  PrimFunc function = lowered(product());
  Target target = parse_target("llvm -mcpu=haswell");
  for (int level : {0, 1, 3}) {
    auto scheduled =
        schedule::schedule({.func = function, .target = target, .constant_params = {false, false}, .opt_level = level});
    if (level > 0) EXPECT_EQ(constants(scheduled.func)[0]->buffer.rank(), 1u) << "flat, as all buffers are";
    expect_same(function, scheduled.func, 2);
  }
}

TEST(LoopConstants, LoweredMathKeepsThem) {
  std::string text = product();
  PrimFunc function = lowered(text);
  expect_same(function, tir::lower_math(function, {.fma = true}), 2);
}

TEST(LoopConstants, ScheduleStepsMoveWhatReadsThem) {
  PrimFunc function = lowered(product());
  const std::vector<std::string> traces = {
      "split matmul.i1 4\n",
      "tile matmul.i0 matmul.i1 2 4\n",
      "fuse matmul.i0 matmul.i1\n",
      "cache_read matmul constant local\n",
      "cache_read matmul constant global name=copy\ntransform_layout copy \"i, j -> j, i\"\n",
      "compute_at matmul add.i0_1\n",
      "reverse_compute_at add matmul.i0\n",
      "decompose_reduction matmul r0\n",
      "rfactor matmul r0\n",
      "pad matmul 3 5 7\n",
      "parallel matmul.i0\nvectorize add.i1_1\nunroll r0\n",
  };
  for (const std::string& trace : traces) {
    SCOPED_TRACE(trace);
    PrimFunc after = schedule::replay(function, "trace", trace).func();
    expect_same(function, after, 2);
  }
}

TEST(LoopConstants, AConstantItselfKeepsItsPlace) {
  PrimFunc function = lowered(product());
  for (const char* trace : {"set_scope constant local\n", "transform_layout constant \"i, j -> j, i\"\n"}) {
    try {
      schedule::replay(function, "trace", trace);
      ADD_FAILURE() << trace << " was not refused";
    } catch (const CompileError& error) {
      EXPECT_EQ(error.diagnostics()[0].code, "schedule-output") << error.what();
    }
  }
}

constexpr const char* kDot = R"(primfunc @dot(a: i32[4], b: i32[4,4]) -> (c: i32[4]) {
  for j = 0 extent 4 {
    for k = 0 extent 4 {
      block c {
        iter vj: spatial 4 = j
        iter vk: reduce 4 = k
        reads c[vj : 1]
        reads a[vk : 1]
        reads b[vk : 1, vj : 1]
        writes c[vj : 1]
        body {
          c[vj] = (c[vj] + (a[vk] * b[vk, vj]))
        }
      }
    }
  }
}
)";
constexpr const char* kDotLanes = R"(primfunc @dot_lanes(a: i32[4], b: i32[4,4]) -> (c: i32[4]) {
  for k = 0 extent 4 unrolled {
    for lane = 0 extent 4 vectorized {
      c[lane] = (c[lane] + (a[k] * b[k, lane]))
    }
  }
}
)";

/// A product with a constant alone.
std::string bare_product() {
  return "constant @w : i32[8,8] = bytes \"" + weights("000000") + R"("
fn @main(%0: i32[4,8] "x") -> ("y") {
  %1 = constant @w : i32[8,8]
  %2 = matmul(%0, %1) : i32[4,8]
  return %2
}
)";
}

/// Of the reference system's issue #13605: behind tensorising, the constant is read only where the implementation stands for a
/// region of it. Its planner of allocations then knew no such buffer.
TEST(LoopConstants, AConstantReadOnlyByATensorisedBlockIsKnown) {
  PrimFunc function = lowered(bare_product());
  auto parse = [](const std::string& text) { return tir::parse_prim_func("intrinsic", text); };
  PrimFunc description = parse(kDot);
  PrimFunc implementation = parse(kDotLanes);
  auto find = [&](std::string_view name) -> const PrimFunc* {
    return name == "dot" ? &description : name == "dot_lanes" ? &implementation : nullptr;
  };
  PrimFunc after = schedule::replay(function, "trace",
                                    "tile i0 i1 4 4\nsplit r0 4 outer=ko inner=ki\nreorder i0_o i1_o i0_i ko i1_i ki\n"
                                    "decompose_reduction matmul ko\ntensorize i1_i dot dot_lanes\n",
                                    find)
                       .func();
  int in_old_block = 0;
  tir::visit_exprs(after.body, [&](const tir::Expr& e) {
    const auto* load = tir::as<tir::Load>(e);
    in_old_block += load && load->buffer->name == "constant";
  });
  EXPECT_EQ(in_old_block, 1) << "only the implementation reads it";
  expect_same(function, after, 1);
}

constexpr const char* kNested = R"(primfunc @nested(x: i32[2]) -> (y: i32[2]) {
  allocate_const a: i32[2] = bytes "0100000002000000"
  for i = 0 extent 2 {
    allocate_const b: i32[2] = bytes "0a0000000b000000"
    {
      allocate_const c: i32[2] = bytes "6400000065000000"
      y[i] = (((x[i] + a[i]) + b[i]) + c[i])
    }
  }
}
)";

TEST(LoopConstants, ScopesNest) {
  // Each constant is declared where the one before it ends: inside of its scope, or behind it.
  PrimFunc function = tir::parse_prim_func("test", kNested);
  ASSERT_EQ(constants(function).size(), 3u);
  std::vector<Array> x{array_of<int32_t>(DType::I32, {2}, {1000, 2000})};
  EXPECT_EQ(tir::interpret(function, x)[0], array_of<int32_t>(DType::I32, {2}, {1111, 2114}));
  EXPECT_EQ(test::run_compiled(function, x)[0], array_of<int32_t>(DType::I32, {2}, {1111, 2114}));
  testing::round_trip(function);
  tir::ConstantBytes long_ones;
  tir::print(function, &long_ones);
  EXPECT_TRUE(long_ones.empty()) << "8 bytes stand in the text";
}

/// Three kernels over two different arrays.
constexpr const char* kShared = R"(fn @main(%0: f32[20] "x") -> ("y") {
  %1 = constant @a : f32[20]
  %2 = constant @b : f32[20]
  %3 = add(%0, %1) : f32[20]
  %4 = stop_fusion(%3) : f32[20]
  %5 = multiply(%4, %1) : f32[20]
  %6 = stop_fusion(%5) : f32[20]
  %7 = subtract(%6, %2) : f32[20]
  return %7
}
)";

TEST(LoopConstants, EqualOnesOfSeveralFunctionsAreStoredOnce) {
  std::string a, b;
  for (int i = 0; i < 20; ++i) {
    a += i % 2 ? "0000803f" : "00000040";  // 1 and 2
    b += i % 2 ? "00004040" : "00008040";  // 3 and 4
  }
  std::string declared = "constant @a : f32[20] = bytes \"" + a + "\"\nconstant @b : f32[20] = bytes \"" + b + "\"\n";
  Module mixed = driver::run_pipeline(linked(declared + kShared), {.link_params = true});
  EXPECT_EQ(mixed.prim_funcs.size(), 3u);
  EXPECT_TRUE(mixed.constants.empty());
  tir::ConstantBytes bytes;
  graph::print(mixed, &bytes);
  EXPECT_EQ(bytes.size(), 2u) << "beside the text, each array stands once";
}

}  // namespace
}  // namespace tenon
