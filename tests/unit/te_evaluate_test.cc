// SPDX-License-Identifier: Apache-2.0
// te::evaluate on hand-made tensor expressions, against results worked out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "te/te.h"

namespace tenon::te {
namespace {

using Inputs = std::map<std::string, Array, std::less<>>;

Array floats(Shape shape, const std::vector<float>& values) { return array_of<float>(DType::F32, std::move(shape), values); }

template <class T>
std::vector<T> values_of(const Array& a) {
  std::vector<T> out;
  for (int64_t i = 0; i < a.elements(); ++i) out.push_back(a.read<T>(i));
  return out;
}

TEST(Evaluate, MatmulAddsInOrder) {
  Graph g;
  Tensor a = g.placeholder("a", DType::F32, {2, 3}), b = g.placeholder("b", DType::F32, {3, 2});
  Tensor c = g.sum("c", DType::F32, {2, 2}, {3}, [&](const auto& i, const auto& r) { return a({i[0], r[0]}) * b({r[0], i[1]}); });
  auto out =
      evaluate(g, Inputs{{"a", floats({2, 3}, {1, 2, 3, 4, 5, 6})}, {"b", floats({3, 2}, {1, 0, 0, 1, 2, -1})}}, std::vector{c});
  EXPECT_EQ(out[0].shape, (Shape{2, 2}));
  EXPECT_EQ(values_of<float>(out[0]), (std::vector<float>{7, -1, 16, -1}));
}

TEST(Evaluate, DomainsLargerThanARowOfLanesKeepTheirCoordinates) {
  Graph g;
  Tensor y = g.compute("y", {3, 5, 41}, [&](const auto& i) { return i[0] * Expr(10000) + i[1] * Expr(100) + i[2]; });
  auto out = values_of<int64_t>(evaluate(g, {}, std::vector{y})[0]);
  ASSERT_EQ(out.size(), 615u);
  size_t at = 0;
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 5; ++j)
      for (int k = 0; k < 41; ++k, ++at) ASSERT_EQ(out[at], i * 10000 + j * 100 + k);
}

TEST(Evaluate, ReducesSeveralAxesRowMajorWithSeveralCarriedValues) {
  Graph g;
  Tensor a = g.placeholder("a", DType::F32, {2, 2, 3});
  auto init = [](const auto&) { return std::vector<Expr>{tir::lowest(DType::F32), Expr(-1)}; };
  auto next = [&](const auto& i, const auto& r, const auto& old) {  // the last of equal maxima wins
    Expr value = a({i[0], r[0], r[1]});
    Expr better = tir::le(old[0], value);
    return std::vector<Expr>{tir::select(better, value, old[0]), tir::select(better, r[0] * Expr(3) + r[1], old[1])};
  };
  auto top = g.reduce("top", {2}, {2, 3}, {{DType::F32, DType::I64}, init, next});
  auto out = evaluate(g, Inputs{{"a", floats({2, 2, 3}, {1, 7, 2, 7, 0, 3, -5, -4, -4, -9, -8, -7})}}, top);
  EXPECT_EQ(values_of<float>(out[0]), (std::vector<float>{7, -4}));
  EXPECT_EQ(values_of<int64_t>(out[1]), (std::vector<int64_t>{3, 2}));
}

TEST(Evaluate, CarriedValuesChangeTogether) {  // Fibonacci: each next value reads both old ones
  Graph g;
  auto init = [](const auto&) { return std::vector<Expr>{Expr(0), Expr(1)}; };
  auto next = [](const auto&, const auto&, const auto& old) { return std::vector<Expr>{old[1], old[0] + old[1]}; };
  auto f = g.reduce("f", {}, {10}, {{DType::I64, DType::I64}, init, next});
  auto out = evaluate(g, {}, f);
  EXPECT_EQ(out[0].read<int64_t>(0), 55);
  EXPECT_EQ(out[1].read<int64_t>(0), 89);
}

TEST(Evaluate, AnEmptyReductionGivesItsInitialValueAndEmptyTensorsStayEmpty) {
  Graph g;
  Tensor a = g.placeholder("a", DType::F32, {2, 0});
  Tensor s = g.sum("s", DType::F32, {2}, {0}, [&](const auto& i, const auto& r) { return a({i[0], r[0]}); });
  Tensor t = g.compute("t", {2, 0}, [&](const auto& i) { return a(i); });
  auto out = evaluate(g, Inputs{{"a", floats({2, 0}, {})}}, std::vector{s, t});
  EXPECT_EQ(values_of<float>(out[0]), (std::vector<float>{0, 0}));
  EXPECT_EQ(out[1].shape, (Shape{2, 0}));
}

TEST(Evaluate, SelectReadsOnlyTheChosenSide) {
  Graph g;
  Tensor a = g.placeholder("a", DType::F32, {3});
  auto padded = [&](const auto& i) {
    Expr inside = tir::logical_and(tir::le(Expr(2), i[0]), tir::lt(i[0], Expr(5)));
    return tir::select(inside, a({i[0] - Expr(2)}), tir::imm(DType::F32, 9));
  };
  Tensor y = g.compute("y", {7}, padded);
  Inputs inputs{{"a", floats({3}, {1, 2, 3})}};
  EXPECT_EQ(values_of<float>(evaluate(g, inputs, std::vector{y})[0]), (std::vector<float>{9, 9, 1, 2, 3, 9, 9}));
  // The same load outside a select, and a nested one whose inner condition alone would let it through.
  Tensor bad = g.compute("bad", {7}, [&](const auto& i) { return a({i[0] - Expr(2)}); });
  EXPECT_THROW(evaluate(g, inputs, std::vector{bad}), CompileError);
  Tensor nested = g.compute("nested", {7}, [&](const auto& i) {
    Expr inner = tir::select(tir::lt(i[0], Expr(5)), a({i[0] - Expr(2)}), tir::imm(DType::F32, 8));
    return tir::select(tir::le(Expr(2), i[0]), inner, tir::imm(DType::F32, 7));
  });
  EXPECT_EQ(values_of<float>(evaluate(g, inputs, std::vector{nested})[0]), (std::vector<float>{7, 7, 1, 2, 3, 8, 8}));
}

TEST(Evaluate, FloatsRoundWhenStoredAndNotBefore) {
  Graph g;
  Tensor x = g.placeholder("x", DType::F32, {1});
  Expr big = tir::imm(DType::F32, 16777216);
  Tensor kept = g.compute("kept", {1}, [&](const auto& i) { return (x(i) + big) - big; });
  Tensor stored = g.compute("stored", {1}, [&](const auto& i) { return x(i) + big; });
  Tensor lost = g.compute("lost", {1}, [&](const auto& i) { return stored(i) - big; });
  auto out = evaluate(g, Inputs{{"x", floats({1}, {1})}}, std::vector{kept, lost});
  EXPECT_EQ(out[0].read<float>(0), 1);
  EXPECT_EQ(out[1].read<float>(0), 0);
}

TEST(Evaluate, ExternStagesRunTheirStatements) {  // insertion sort with scratch, a let and an if
  Graph g;
  Tensor x = g.placeholder("x", DType::I32, {5});
  Tensor y = g.external("y", {TensorType(DType::I32, {5})}, [&](const std::vector<tir::Buffer>& out) {
    Expr i = tir::var(g.fresh("i")), j = tir::var(g.fresh("j")), held = tir::var(g.fresh("held"), DType::I32);
    tir::Buffer scratch(tir::BufferData{g.fresh("scratch"), DType::I32, {5}, {}, tir::Scope::Global});
    Expr here = tir::load(scratch, {Expr(3) - j}), above = tir::load(scratch, {Expr(4) - j});
    tir::Stmt swap = tir::if_then(
        tir::lt(above, here),
        tir::scoped({tir::let(held, here), tir::store(scratch, {Expr(3) - j}, above), tir::store(scratch, {Expr(4) - j}, held)}));
    auto loop = [](const Expr& v, const Expr& n, const tir::Stmt& s) { return tir::for_loop(v, 0, n, tir::ForKind::Serial, s); };
    Expr k = tir::var(g.fresh("k")), m = tir::var(g.fresh("m"));
    return tir::scoped({tir::allocate(scratch), loop(k, 5, tir::store(scratch, {k}, x({k}))),
                        loop(i, 4, loop(j, Expr(4) - i, swap)), loop(m, 5, tir::store(out[0], {m}, tir::load(scratch, {m})))});
  })[0];
  auto out = evaluate(g, Inputs{{"x", array_of<int32_t>(DType::I32, {5}, {5, -1, 4, 4, 0})}}, std::vector{y});
  EXPECT_EQ(values_of<int32_t>(out[0]), (std::vector<int32_t>{-1, 0, 4, 4, 5}));
}

TEST(Evaluate, SymbolsAreBoundByTheInputs) {
  Graph g;
  Expr n = tir::var("n");
  Tensor x = g.placeholder("x", DType::I64, {n});
  Tensor y = g.compute("y", {n * Expr(2)}, [&](const auto& i) { return x({tir::floormod(i[0], n)}) + n; });
  auto out = evaluate(g, Inputs{{"x", array_of<int64_t>(DType::I64, {2}, {10, 20})}}, std::vector{y});
  EXPECT_EQ(values_of<int64_t>(out[0]), (std::vector<int64_t>{12, 22, 12, 22}));
}

TEST(Evaluate, ABoundsErrorNamesTensorShapeAndIndex) {
  Graph g;
  Tensor x = g.placeholder("x", DType::F32, {2, 3});
  Tensor y = g.compute("y", {4}, [&](const auto& i) { return x({Expr(1), i[0]}); });
  try {
    evaluate(g, Inputs{{"x", floats({2, 3}, {0, 1, 2, 3, 4, 5})}}, std::vector{y});
    FAIL();
  } catch (const CompileError& error) {
    EXPECT_EQ(error.diagnostics()[0].code, "evaluate-bounds");
    EXPECT_EQ(error.diagnostics()[0].found, "[1,3]");
    EXPECT_NE(error.diagnostics()[0].expected.find("[2,3]"), std::string::npos);
  }
}

}  // namespace
}  // namespace tenon::te
