// SPDX-License-Identifier: Apache-2.0
// Law: on integer-valued data, te::evaluate(g) == tir::interpret(create_prim_func(g)), for every construct of tensor
// expressions and random graphs built from them.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <random>

#include "te/te.h"
#include "tir/interpret.h"
#include "tir/text.h"

namespace tenon::te {
namespace {

using Random = std::mt19937_64;

/// Small whole numbers, which every dtype here holds exactly; unsigned and bool ones are not negative.
Array random_array(Random& random, DType dtype, Shape shape) {
  MutableArray out(dtype, std::move(shape));
  auto size = static_cast<size_t>(byte_size(dtype));
  bool negative = is_float(dtype) || is_signed_integer(dtype);
  for (size_t at = 0; at < out.size_bytes; at += size) {
    int value = static_cast<int>(random() % (dtype == DType::Bool ? 2 : 8)) - (negative ? 4 : 0);
    uint64_t bits = static_cast<uint64_t>(static_cast<int64_t>(value));
    if (dtype == DType::F64) bits = std::bit_cast<uint64_t>(static_cast<double>(value));
    if (dtype == DType::F32) bits = std::bit_cast<uint32_t>(static_cast<float>(value));
    if (dtype == DType::F16) bits = float_to_half(static_cast<float>(value));
    if (dtype == DType::BF16) bits = float_to_bfloat(static_cast<float>(value));
    __builtin_memcpy(out.data() + at, &bits, size);
  }
  return std::move(out).freeze();
}

/// A graph under construction, with arrays for its placeholders.
struct Case {
  explicit Case(uint64_t seed) : random(seed) {}
  Random random;
  Graph g;
  std::vector<Tensor> inputs, outputs;
  std::map<std::string, Array, std::less<>> arrays;

  int64_t pick(int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); }

  Tensor input(DType dtype, const Shape& shape) {
    inputs.push_back(g.placeholder("x", dtype, {shape.begin(), shape.end()}));
    arrays.emplace(inputs.back().buffer->name, random_array(random, dtype, shape));
    return inputs.back();
  }

  void expect_equal(const std::string& what) {
    std::vector<Array> in;
    for (const Tensor& t : inputs) in.push_back(arrays.at(t.buffer->name));
    std::vector<Array> expected = evaluate(g, arrays, outputs);
    tir::PrimFunc func = create_prim_func(g, inputs, outputs, "f");
    EXPECT_NO_THROW(tir::verify(func)) << what;
    std::vector<Array> got = tir::interpret(func, in);
    ASSERT_EQ(got.size(), expected.size()) << what;
    for (size_t k = 0; k < got.size(); ++k)
      EXPECT_TRUE(got[k] == expected[k]) << what << ", output " << k << " of\n" << tir::print(func);
  }
};

constexpr DType kNumbers[] = {DType::I8,  DType::U8,  DType::I16, DType::U16,  DType::I32, DType::U32,
                              DType::I64, DType::U64, DType::F16, DType::BF16, DType::F32, DType::F64};

TEST(TeEqualsTir, EveryConstructOnEveryDtypeAndExtent) {
  uint64_t seed = 1;
  for (DType d : kNumbers)
    for (int64_t extent : {0, 1, 7, 130}) {
      Case c(seed++);
      Tensor x = c.input(d, {extent, 5}), y = c.input(d, {extent, 5});
      Graph& g = c.g;
      std::vector<Expr> shape = x.shape();
      Tensor sum = g.compute("sum", shape, [&](const auto& i) { return x(i) + y(i) * x(i); });
      bool negative = is_float(d) || is_signed_integer(d);
      Tensor low = g.compute("low", shape, [&](const auto& i) {  // so small that bf16 holds sums of 130 of them
        return tir::min(tir::max(sum(i), tir::imm(d, negative ? -1 : 0)), tir::imm(d, 1));
      });
      Tensor rows = g.sum("rows", d, {Expr(extent)}, {5}, [&](const auto& i, const auto& r) { return low({i[0], r[0]}); });
      Tensor columns = g.sum("columns", d, {5}, {Expr(extent)}, [&](const auto& i, const auto& r) { return low({r[0], i[0]}); });
      Tensor scalar = g.sum("scalar", DType::I64, {}, {Expr(extent), 5},
                            [&](const auto&, const auto& r) { return tir::cast(DType::I64, low({r[0], r[1]})) * (r[0] + r[1]); });
      auto start = [&](const auto&) { return std::vector<Expr>{tir::lowest(d), Expr(-1), tir::bool_imm(false)}; };
      auto next = [&](const auto& i, const auto& r, const auto& old) {
        Expr value = x({i[0], r[0]}), better = tir::lt(old[0], value);
        return std::vector<Expr>{tir::select(better, value, old[0]), tir::select(better, r[0], old[1]),
                                 tir::logical_or(old[2], tir::eq(value, y({i[0], r[0]})))};
      };
      auto top = g.reduce("top", {Expr(extent)}, {5}, {{d, DType::I64, DType::Bool}, start, next});
      Tensor padded = g.compute("padded", {Expr(extent + 3)}, [&](const auto& i) {
        Expr inside = tir::logical_and(tir::le(Expr(1), i[0]), tir::lt(i[0], Expr(extent + 1)));
        return tir::select(inside, rows({i[0] - Expr(1)}), tir::cast(d, i[0]));
      });
      c.outputs = {sum, rows, columns, scalar, top[0], top[1], top[2], padded, x, rows};
      c.expect_equal(std::string(name(d)) + " of extent " + std::to_string(extent));
    }
}

TEST(TeEqualsTir, ConstantsExternsAndScalars) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Case c(seed);
    int64_t n = 1 + c.pick(9);
    Tensor x = c.input(DType::I32, {n}), s = c.input(DType::I32, {});
    Graph& g = c.g;
    Tensor k = g.constant("k", random_array(c.random, DType::I32, {n}));
    Tensor scaled = g.compute("scaled", {Expr(n)}, [&](const auto& i) { return x(i) * k(i) + s({}); });
    // Running sums, and their reverse through scratch.
    auto running =
        g.external("running", {TensorType(DType::I32, {Expr(n)}), TensorType(DType::I32, {Expr(n)})}, [&](const auto& out) {
          Expr i = tir::var(g.fresh("i")), j = tir::var(g.fresh("j")), so_far = tir::var(g.fresh("so_far"), DType::I32);
          tir::Buffer total(tir::BufferData{g.fresh("total"), DType::I32, {1}, {}, tir::Scope::Local});
          Expr zero(0);
          tir::Stmt step =
              tir::scoped({tir::let(so_far, tir::load(total, {zero}) + scaled({i})), tir::store(total, {zero}, so_far),
                           tir::if_then(tir::lt(so_far, tir::int_imm(DType::I32, 0)),
                                        tir::store(out[0], {i}, tir::int_imm(DType::I32, 0)), tir::store(out[0], {i}, so_far))});
          tir::Stmt reverse = tir::store(out[1], {j}, tir::load(out[0], {Expr(n - 1) - j}));
          return tir::scoped({tir::allocate(total), tir::store(total, {zero}, tir::int_imm(DType::I32, 0)),
                              tir::for_loop(i, zero, Expr(n), tir::ForKind::Serial, step),
                              tir::for_loop(j, zero, Expr(n), tir::ForKind::Serial, reverse)});
        });
    Tensor twice = g.compute("twice", {}, [&](const auto&) { return running[1]({Expr(n - 1)}) + s({}); });
    c.outputs = {running[1], twice, k, s};
    c.expect_equal("seed " + std::to_string(seed));
  }
}

/// A random element-wise stage over earlier tensors of one shape.
Expr random_expr(Case& c, const std::vector<Tensor>& tensors, const std::vector<Expr>& i, int depth) {
  DType d = tensors[0].dtype();
  if (depth == 0) {
    if (c.pick(4) == 0) return tir::imm(d, static_cast<double>(c.pick(4)));
    return tensors[static_cast<size_t>(c.pick(static_cast<int64_t>(tensors.size())))](i);
  }
  Expr a = random_expr(c, tensors, i, depth - 1), b = random_expr(c, tensors, i, depth - 1);
  constexpr tir::BinaryOp kOps[] = {tir::BinaryOp::Add, tir::BinaryOp::Sub, tir::BinaryOp::Mul, tir::BinaryOp::Min,
                                    tir::BinaryOp::Max};
  constexpr tir::BinaryOp kIntegerOps[] = {tir::BinaryOp::Div,      tir::BinaryOp::FloorDiv, tir::BinaryOp::FloorMod,
                                           tir::BinaryOp::TruncMod, tir::BinaryOp::BitAnd,   tir::BinaryOp::BitXor,
                                           tir::BinaryOp::Shl,      tir::BinaryOp::Shr};
  switch (c.pick(5)) {
    case 0: return tir::select(tir::lt(a, b), b, random_expr(c, tensors, i, depth - 1));
    case 1: return tir::call(tir::Intrinsic::Abs, {a});
    case 2:
      if (!is_float(d)) return tir::binary(kIntegerOps[c.pick(8)], a, b);
      [[fallthrough]];
    default: return tir::binary(kOps[c.pick(5)], a, b);
  }
}

TEST(TeEqualsTir, RandomGraphs) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    Case c(seed);
    constexpr DType kExact[] = {DType::I8,  DType::U8,  DType::I16, DType::U16, DType::I32,
                                DType::U32, DType::I64, DType::U64, DType::F64};
    DType d = kExact[c.pick(9)];
    Shape shape;
    for (int64_t k = c.pick(4); k > 0; --k) shape.push_back(1 + c.pick(6));
    std::vector<Tensor> tensors{c.input(d, shape), c.input(d, shape)};
    for (int64_t k = 1 + c.pick(4); k > 0; --k)
      tensors.push_back(c.g.compute("t", tensors[0].shape(), [&](const auto& i) { return random_expr(c, tensors, i, 2); }));
    c.outputs = {tensors.back(), tensors[static_cast<size_t>(c.pick(static_cast<int64_t>(tensors.size())))]};
    c.expect_equal("seed " + std::to_string(seed));
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace tenon::te
