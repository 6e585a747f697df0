// SPDX-License-Identifier: Apache-2.0
// tir::interpret: control flow, blocks, scratch memory, strides and the checks of every access.
#include "tir/interpret.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tir/text.h"

namespace tenon::tir {
namespace {

Buffer buffer(std::string name, DType dtype, std::vector<Expr> shape, Scope scope = Scope::Global,
              std::vector<Expr> strides = {}) {
  return Buffer(BufferData{std::move(name), dtype, std::move(shape), std::move(strides), scope});
}
PrimFunc function(std::vector<Buffer> params, int64_t inputs, Stmt body) {
  return {"f", std::move(params), inputs, {}, std::move(body)};
}
Array i64s(Shape shape, const std::vector<int64_t>& values) { return array_of<int64_t>(DType::I64, std::move(shape), values); }
Stmt loop(const Expr& v, const Expr& min, const Expr& extent, const Stmt& body, ForKind kind = ForKind::Serial) {
  return for_loop(v, min, extent, kind, body);
}

Diagnostic failure(const std::function<void()>& f) {
  try {
    f();
  } catch (const CompileError& error) {
    return error.diagnostics()[0];
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(TirInterpret, LoopsOfEveryKindRunFromTheirMinimum) {
  Buffer y = buffer("y", DType::I64, {6});
  for (ForKind kind : {ForKind::Serial, ForKind::Parallel, ForKind::Vectorized, ForKind::Unrolled}) {
    Expr i = var("i"), j = var("j"), k = var("k");
    Stmt body = scoped({loop(i, 0, 6, store(y, {i}, Expr(0))), loop(j, 2, 3, store(y, {j}, j * Expr(10)), kind),
                        loop(k, 0, 0, store(y, {k}, Expr(99))), loop(var("n"), 5, -2, store(y, {Expr(0)}, Expr(98)))});
    EXPECT_EQ(interpret(function({y}, 0, body), {})[0], i64s({6}, {0, 0, 20, 30, 40, 0}));
  }
}

TEST(TirInterpret, ExtentsMayDependOnOuterLoops) {
  Buffer y = buffer("y", DType::I64, {1});
  Expr i = var("i"), j = var("j");
  Stmt add = store(y, {Expr(0)}, load(y, {Expr(0)}) + Expr(1));
  Stmt body = scoped({store(y, {Expr(0)}, Expr(0)), loop(i, 0, 5, loop(j, i, i, add))});
  EXPECT_EQ(interpret(function({y}, 0, body), {})[0].read<int64_t>(0), 0 + 1 + 2 + 3 + 4);
}

TEST(TirInterpret, BranchesAndLets) {
  Buffer x = buffer("x", DType::I64, {4}), y = buffer("y", DType::I64, {4});
  Expr i = var("i"), v = var("v");
  Stmt body = loop(
      i, 0, 4,
      scoped({let(v, load(x, {i}) * load(x, {i})), if_then(lt(v, Expr(5)), store(y, {i}, v), scoped({store(y, {i}, Expr(-1))})),
              if_then(eq(v, Expr(1)), store(y, {i}, load(y, {i}) + Expr(100)))}));
  EXPECT_EQ(interpret(function({x, y}, 1, body), std::vector{i64s({4}, {1, 2, 3, -2})})[0], i64s({4}, {101, 4, -1, 4}));
}

TEST(TirInterpret, ALetKeepsItsValueWhenTheBufferChanges) {
  Buffer y = buffer("y", DType::I64, {2});
  Expr old = var("old");
  Stmt body = scoped({store(y, {Expr(0)}, Expr(1)), let(old, load(y, {Expr(0)})), store(y, {Expr(0)}, Expr(7)),
                      store(y, {Expr(1)}, old * Expr(10) + load(y, {Expr(0)}))});
  EXPECT_EQ(interpret(function({y}, 0, body), {})[0], i64s({2}, {7, 17}));
}

TEST(TirInterpret, BlocksRunTheirInitAtTheFirstReducePoint) {
  Buffer y = buffer("y", DType::I64, {2});
  Expr i = var("i"), o = var("o"), r = var("r"), vi = var("vi"), vr = var("vr");
  Stmt update = store(y, {vi}, load(y, {vi}) + vr * Expr(10));
  Stmt b = block("y", {{vi, 2, IterKind::Spatial, i}, {vr, 6, IterKind::Reduce, o * Expr(3) + r}}, {}, {},
                 store(y, {vi}, Expr(5)), update);
  Stmt body = loop(i, 0, 2, loop(o, 0, 2, loop(r, 0, 3, b)));
  EXPECT_EQ(interpret(function({y}, 0, body), {})[0], i64s({2}, {155, 155}));
}

TEST(TirInterpret, ABlockVariableOutsideItsDomainIsAnError) {
  Buffer y = buffer("y", DType::I64, {8});
  Expr i = var("i"), vi = var("vi");
  Stmt b = block("y", {{vi, 5, IterKind::Spatial, i}}, {}, {}, {}, store(y, {vi}, vi));
  Diagnostic d = failure([&] { interpret(function({y}, 0, loop(i, 0, 8, b)), {}); });
  EXPECT_EQ(d.code, "interpret-bounds");
  EXPECT_NE(d.message.find("`vi`"), std::string::npos);
  EXPECT_EQ(d.found, "5");
  EXPECT_EQ(interpret(function({y}, 0, loop(i, 0, 8, if_then(lt(i, Expr(5)), b))), {})[0].read<int64_t>(4), 4);
}

TEST(TirInterpret, SelectsAreLazyAndAccessesAreChecked) {
  Buffer x = buffer("x", DType::I64, {3}), y = buffer("y", DType::I64, {5});
  Expr i = var("i");
  Expr guarded = select(lt(i, Expr(3)), load(x, {i}), Expr(-1));
  Array in = i64s({3}, {1, 2, 3});
  EXPECT_EQ(interpret(function({x, y}, 1, loop(i, 0, 5, store(y, {i}, guarded))), std::vector{in})[0],
            i64s({5}, {1, 2, 3, -1, -1}));
  // A value computed in one side is not taken for known after it.
  Expr twice = select(lt(i, Expr(3)), load(x, {i}), Expr(0)) + select(lt(i, Expr(2)), load(x, {i}), Expr(0));
  EXPECT_EQ(interpret(function({x, y}, 1, loop(i, 0, 5, store(y, {i}, twice))), std::vector{in})[0], i64s({5}, {2, 4, 3, 0, 0}));

  Diagnostic read = failure([&] { interpret(function({x, y}, 1, loop(i, 0, 5, store(y, {i}, load(x, {i})))), std::vector{in}); });
  EXPECT_EQ(read.code, "interpret-bounds");
  EXPECT_EQ(read.function, "f");
  EXPECT_EQ(read.input, "x");
  EXPECT_EQ(read.found, "[3]");
  EXPECT_NE(read.expected.find("[3]"), std::string::npos);
  Diagnostic write = failure([&] { interpret(function({x, y}, 1, store(y, {Expr(-1)}, Expr(0))), std::vector{in}); });
  EXPECT_EQ(write.input, "y");
  EXPECT_EQ(write.found, "[-1]");
}

TEST(TirInterpret, EachAxisIsCheckedByItself) {
  Buffer x = buffer("x", DType::I64, {2, 3}), y = buffer("y", DType::I64, {1});
  Stmt body = store(y, {Expr(0)}, load(x, {Expr(0), Expr(3)}));  // inside the memory, outside the axis
  EXPECT_EQ(failure([&] { interpret(function({x, y}, 1, body), std::vector{i64s({2, 3}, {0, 1, 2, 3, 4, 5})}); }).found, "[0,3]");
}

TEST(TirInterpret, ScratchStartsPoisonedEachTimeAndOutputsToo) {
  Buffer y = buffer("y", DType::F32, {3}), s = buffer("s", DType::F32, {1}, Scope::Local),
         unwritten = buffer("z", DType::F32, {1});
  Expr i = var("i");
  Stmt body = loop(
      i, 0, 3,
      scoped({allocate(s), if_then(eq(i, Expr(0)), store(s, {Expr(0)}, imm(DType::F32, 4))), store(y, {i}, load(s, {Expr(0)}))}));
  auto out = interpret(function({y, unwritten}, 0, body), {});
  EXPECT_EQ(out[0].read<float>(0), 4);
  EXPECT_TRUE(std::isnan(out[0].read<float>(1))) << "the second iteration has fresh scratch";
  EXPECT_TRUE(std::isnan(out[1].read<float>(0)));
}

TEST(TirInterpret, StridedScratchHoldsItsElementsApart) {
  Buffer y = buffer("y", DType::I64, {2, 3}), s = buffer("s", DType::I64, {2, 3}, Scope::Local, {1, 4});
  Expr i = var("i"), j = var("j"), p = var("p"), q = var("q");
  Stmt body = scoped({allocate(s), loop(i, 0, 2, loop(j, 0, 3, store(s, {i, j}, i * Expr(10) + j))),
                      loop(p, 0, 2, loop(q, 0, 3, store(y, {p, q}, load(s, {p, q}))))});
  EXPECT_EQ(interpret(function({y}, 0, body), {})[0], i64s({2, 3}, {0, 1, 2, 10, 11, 12}));
}

TEST(TirInterpret, ConstantsAreReadAndNeverWritten) {
  Buffer k = buffer("k", DType::I64, {2}), y = buffer("y", DType::I64, {1});
  Stmt declare = allocate_const(k, i64s({2}, {30, 12}));
  Stmt sum = store(y, {Expr(0)}, load(k, {Expr(0)}) + load(k, {Expr(1)}));
  EXPECT_EQ(interpret(function({y}, 0, scoped({declare, sum})), {})[0].read<int64_t>(0), 42);
  EXPECT_THROW(interpret(function({y}, 0, scoped({declare, store(k, {Expr(0)}, Expr(1))})), {}), InternalError);
}

TEST(TirInterpret, NarrowFloatsRoundAfterEachOperation) {  // te::evaluate would give 1
  Buffer y = buffer("y", DType::F16, {1}), x = buffer("x", DType::F16, {1});
  Expr big = imm(DType::F16, 2048), v = load(x, {Expr(0)});
  MutableArray one(DType::F16, {1});
  one.as<uint16_t>()[0] = float_to_half(1);
  auto out = interpret(function({x, y}, 1, store(y, {Expr(0)}, (v + big) - big)), std::vector{std::move(one).freeze()});
  EXPECT_EQ(half_to_float(out[0].read<uint16_t>(0)), 0);
}

TEST(TirInterpret, SymbolsAreBoundByTheInputs) {
  Expr n = var("n"), i = var("i");
  Buffer x = buffer("x", DType::I64, {n}), y = buffer("y", DType::I64, {n + Expr(1)});
  Stmt body = scoped({store(y, {n}, n), loop(i, 0, n, store(y, {i}, load(x, {i}) * Expr(2)))});
  EXPECT_EQ(interpret(function({x, y}, 1, body), std::vector{i64s({3}, {1, 2, 3})})[0], i64s({4}, {2, 4, 6, 3}));
}

TEST(TirInterpret, WrongInputsAreNamed) {
  Buffer x = buffer("x", DType::I64, {3}), y = buffer("y", DType::I64, {1});
  PrimFunc f = function({x, y}, 1, store(y, {Expr(0)}, Expr(0)));
  Diagnostic d = failure([&] { interpret(f, std::vector{i64s({2}, {1, 2})}); });
  EXPECT_EQ(d.code, "interpret-input");
  EXPECT_EQ(d.input, "x");
  EXPECT_EQ(d.expected, "i64[3]");
  EXPECT_EQ(d.found, "i64[2]");
  EXPECT_EQ(failure([&] { interpret(f, {}); }).found, "0 arrays");
}

/// What is wrong with loops of a function over `x`, `y` and the scratch `t`, two elements each.
std::string race_in(const std::string& body) {
  PrimFunc f = parse_prim_func("race", "primfunc @f(x: i32[2]) -> (y: i32[2]) {\n" + body + "\n}\n");
  std::vector<Array> x{array_of<int32_t>(DType::I32, {2}, {3, 4})};
  interpret(f, x);
  try {
    interpret_independent(f, x);
  } catch (const CompileError& error) {
    EXPECT_EQ(error.diagnostics()[0].code, "interpret-race");
    EXPECT_EQ(error.diagnostics()[0].function, "f");
    return error.diagnostics()[0].message;
  }
  return "none";
}

TEST(TirInterpret, IterationsThatShareElementsAreARace) {
  auto contains = [](const std::string& text, const std::string& part) { return text.find(part) != text.npos; };
  EXPECT_EQ(race_in("for i = 0 extent 2 parallel { y[i] = x[i] }"), "none");
  EXPECT_EQ(race_in("for i = 0 extent 2 parallel { y[i] = x[0] }"), "none") << "all may read one";
  EXPECT_EQ(race_in("for i = 0 extent 2 parallel { alloc t: i32[2] local t[0] = x[i] y[i] = t[0] }"), "none")
      << "of each iteration";
  EXPECT_EQ(race_in("for i = 0 extent 2 { for j = 0 extent 2 parallel { y[j] = x[j] } }"), "none") << "one run after the other";
  EXPECT_EQ(race_in("for i = 0 extent 2 parallel { for j = 0 extent 2 { for k = 0 extent 1 vectorized { y[i] = x[j] } } }"),
            "none");
  EXPECT_EQ(race_in("for i = 0 extent 2 parallel { y[0] = x[1] }"), "none") << "all may write one value";
  std::string both = race_in("for i = 0 extent 2 parallel { y[0] = x[i] }");
  EXPECT_TRUE(contains(both, "`y`") && contains(both, "loop `i`")) << both;
  EXPECT_TRUE(contains(race_in("for i = 0 extent 2 { for j = 0 extent 2 vectorized { y[i] = x[j] } }"), "loop `j`"));
  EXPECT_TRUE(
      contains(race_in("alloc t: i32[3] t[0] = 0:i32 for i = 0 extent 2 parallel { t[(i + 1)] = t[i] } y[0] = 0:i32"), "`t`"))
      << "what an earlier iteration wrote is read";
  EXPECT_TRUE(contains(
      race_in("alloc t: i32[3] t[1] = 0:i32 t[2] = 0:i32 for i = 0 extent 2 parallel { y[i] = t[(i + 1)] t[i] = 1:i32 }"), "`t`"))
      << "what an earlier iteration read is written";
  EXPECT_TRUE(contains(race_in("for i = 0 extent 2 parallel { for j = 0 extent 2 parallel { y[j] = x[i] } }"), "loop `i`"));
}

}  // namespace
}  // namespace tenon::tir
