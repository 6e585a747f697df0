// SPDX-License-Identifier: Apache-2.0
// The loop that all fast kernels are made of: a tile of accumulators in registers, updated by broadcasts and fmas.
#include <gtest/gtest.h>

#include <cmath>

#include "codegen/backend.h"
#include "support/asm_check.h"
#include "support/compiled.h"

namespace tenon {
namespace {

using namespace tir;

Buffer buffer(const char* name, std::vector<Expr> shape, Scope scope = Scope::Global) {
  return Buffer({.name = name, .dtype = DType::F32, .shape = std::move(shape), .strides = {}, .scope = scope});
}

/// c[m, n] = a[m, k] b[k, n] in tiles of `rows` x `vectors * lanes`, all extents multiples of the tile.
PrimFunc tiled_matmul(int64_t m, int64_t n, int64_t k, int64_t rows, int64_t vectors, int64_t lanes) {
  Buffer a = buffer("a", {m, k}), b = buffer("b", {k, n}), c = buffer("c", {m, n});
  Buffer acc = buffer("acc", {rows, vectors * lanes}, Scope::Reg);
  Expr it = var("it"), jt = var("jt"), kk = var("k");
  auto tile = [&](const std::string& suffix, auto&& body) {
    Expr i = var("i" + suffix), v = var("v" + suffix), j = var("j" + suffix);
    Stmt s = for_loop(j, 0, lanes, ForKind::Vectorized, body(i, v * Expr(lanes) + j));
    return for_loop(i, 0, rows, ForKind::Unrolled, for_loop(v, 0, vectors, ForKind::Unrolled, s));
  };
  Stmt init = tile("_init", [&](Expr i, Expr j) { return store(acc, {i, j}, float_imm(DType::F32, 0)); });
  Stmt update = tile("_update", [&](Expr i, Expr j) {
    Expr product = call(Intrinsic::Fma,
                        {load(a, {it * Expr(rows) + i, kk}), load(b, {kk, jt * Expr(vectors * lanes) + j}), load(acc, {i, j})});
    return store(acc, {i, j}, product);
  });
  Stmt write = tile("_write", [&](Expr i, Expr j) {
    return store(c, {it * Expr(rows) + i, jt * Expr(vectors * lanes) + j}, load(acc, {i, j}));
  });
  Stmt body = scoped({allocate(acc), init, for_loop(kk, 0, k, ForKind::Serial, update), write});
  body = for_loop(it, 0, m / rows, ForKind::Serial, body);
  body = for_loop(jt, 0, n / (vectors * lanes), ForKind::Parallel, body);
  return PrimFunc{.name = "matmul", .params = {a, b, c}, .num_inputs = 2, .attrs = {}, .body = body};
}

void expect_tight_loop(const PrimFunc& function, const Target& target, int fmas, int scalar_limit) {
  std::string assembly = codegen::compile_text(function, target, codegen::TextKind::Assembly);
  for (const test::InnermostLoop& loop : test::innermost_loops(assembly)) {
    EXPECT_EQ(loop.vector_spills(), 0) << assembly;
    EXPECT_EQ(loop.count("vfmadd"), fmas) << assembly;
    int vector = loop.count("v");
    EXPECT_LE(static_cast<int>(loop.instructions.size()) - vector, scalar_limit) << assembly;
  }
  EXPECT_EQ(test::innermost_loops(assembly).size(), 1u) << assembly;
}

TEST(RegisterTile, Avx2LoopStaysInRegisters) {
  Target target = parse_target("llvm -mcpu=haswell");
  expect_tight_loop(tiled_matmul(48, 64, 64, 6, 2, 8), target, 12, 4);
  expect_tight_loop(tiled_matmul(48, 64, 64, 4, 3, 8), target, 12, 4);
}

TEST(RegisterTile, Avx512LoopStaysInRegisters) {
  expect_tight_loop(tiled_matmul(56, 64, 64, 14, 2, 16), parse_target("llvm -mcpu=skylake-avx512"), 28, 4);
}

TEST(RegisterTile, ComputesTheProduct) {
  constexpr int64_t kM = 12, kN = 32, kK = 5;
  PrimFunc function = tiled_matmul(kM, kN, kK, 6, 2, 8);
  std::vector<float> a(kM * kK), b(kK * kN), expected(kM * kN);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(static_cast<int>(i * 7 % 13) - 6);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(static_cast<int>(i * 5 % 11) - 5);
  for (int64_t i = 0; i < kM; ++i)
    for (int64_t j = 0; j < kN; ++j)
      for (int64_t k = 0; k < kK; ++k)
        expected[static_cast<size_t>(i * kN + j)] += a[static_cast<size_t>(i * kK + k)] * b[static_cast<size_t>(k * kN + j)];
  Array inputs[] = {array_of(DType::F32, {kM, kK}, a), array_of(DType::F32, {kK, kN}, b)};
  EXPECT_EQ(test::run_compiled(function, inputs)[0], array_of(DType::F32, {kM, kN}, expected));
}

}  // namespace
}  // namespace tenon
