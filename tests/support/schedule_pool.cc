// SPDX-License-Identifier: Apache-2.0
// Functions to schedule, from tensor expressions.
#include "support/schedule_pool.h"

#include <random>

#include "support/op_run.h"
#include "te/te.h"

namespace tenon::test {
namespace {

using te::Graph;
using te::Tensor;
using tir::Expr;
using Exprs = std::vector<Expr>;

tir::PrimFunc matmul() {
  Graph g;
  Tensor a = g.placeholder("a", DType::F32, {6, 8}), b = g.placeholder("b", DType::F32, {8, 10});
  Tensor bias = g.placeholder("bias", DType::F32, {10});
  Tensor c = g.sum("matmul", DType::F32, {6, 10}, {8},
                   [&](const Exprs& i, const Exprs& r) { return a({i[0], r[0]}) * b({r[0], i[1]}); });
  Tensor out = g.compute("relu", {6, 10}, [&](const Exprs& i) { return tir::max(c(i) + bias({i[1]}), tir::imm(DType::F32, 0)); });
  return te::create_prim_func(g, std::vector{a, b, bias}, std::vector{out}, "matmul_relu");
}

tir::PrimFunc padded_conv() {
  Graph g;
  Tensor x = g.placeholder("x", DType::F32, {3, 6, 7}), w = g.placeholder("w", DType::F32, {4, 3, 3, 3});
  Tensor padded = g.compute("padded", {3, 8, 9}, [&](const Exprs& i) {
    Expr h = i[1] - Expr(1), v = i[2] - Expr(1);
    Expr inside = tir::logical_and(tir::logical_and(tir::le(Expr(0), h), tir::lt(h, Expr(6))),
                                   tir::logical_and(tir::le(Expr(0), v), tir::lt(v, Expr(7))));
    return tir::select(inside, x({i[0], h, v}), tir::imm(DType::F32, 0));
  });
  Tensor y = g.sum("conv", DType::F32, {4, 6, 7}, {3, 3, 3}, [&](const Exprs& i, const Exprs& r) {
    return padded({r[0], i[1] + r[1], i[2] + r[2]}) * w({i[0], r[0], r[1], r[2]});
  });
  Tensor out = g.compute("out", {4, 6, 7}, [&](const Exprs& i) { return y(i) + x({Expr(0), i[1], i[2]}); });
  return te::create_prim_func(g, std::vector{x, w}, std::vector{out}, "conv_add");
}

tir::PrimFunc elementwise() {
  Graph g;
  Tensor x = g.placeholder("x", DType::I32, {4, 15}), y = g.placeholder("y", DType::I32, {15});
  Tensor a = g.compute("scaled", {4, 15}, [&](const Exprs& i) { return x(i) * tir::imm(DType::I32, 3); });
  Tensor b = g.compute("shifted", {4, 15}, [&](const Exprs& i) { return a(i) + y({i[1]}); });
  Tensor c = g.compute("clipped", {4, 15}, [&](const Exprs& i) { return tir::max(b(i), tir::imm(DType::I32, -5)); });
  Tensor d = g.compute("mixed", {4, 15}, [&](const Exprs& i) { return c(i) * b(i) - x(i); });
  return te::create_prim_func(g, std::vector{x, y}, std::vector{d}, "chain");
}

tir::PrimFunc softmax() {
  Graph g;
  Tensor x = g.placeholder("x", DType::F32, {5, 12});
  auto row = [&](std::string_view name, tir::BinaryOp op, const Tensor& of) {
    auto init = [&](const Exprs&) { return Exprs{op == tir::BinaryOp::Max ? tir::lowest(DType::F32) : tir::imm(DType::F32, 0)}; };
    auto next = [&](const Exprs& i, const Exprs& r, const Exprs& so_far) {
      return Exprs{tir::binary(op, so_far[0], of({i[0], r[0]}))};
    };
    Graph::Carry carry{{DType::F32}, init, next};
    return g.reduce(name, {5}, {12}, carry)[0];
  };
  Tensor largest = row("largest", tir::BinaryOp::Max, x);
  Tensor shifted = g.compute("shifted", {5, 12}, [&](const Exprs& i) { return x(i) - largest({i[0]}); });
  Tensor total = row("total", tir::BinaryOp::Add, shifted);
  Tensor out = g.compute("out", {5, 12}, [&](const Exprs& i) { return shifted(i) * total({i[0]}); });
  return te::create_prim_func(g, std::vector{x}, std::vector{out}, "rows");
}

/// The first largest element with its place, whose order matters, and a sum with a maximum, whose order does not.
tir::PrimFunc carried() {
  Graph g;
  Tensor x = g.placeholder("x", DType::I32, {4, 9});
  auto first_init = [&](const Exprs&) { return Exprs{tir::lowest(DType::I32), Expr(0)}; };
  auto first_next = [&](const Exprs& i, const Exprs& r, const Exprs& so_far) {
    Expr value = x({i[0], r[0]}), larger = tir::lt(so_far[0], value);
    return Exprs{tir::select(larger, value, so_far[0]), tir::select(larger, r[0], so_far[1])};
  };
  std::vector<Tensor> best = g.reduce("best", {4}, {9}, {{DType::I32, DType::I64}, first_init, first_next});
  auto pair_init = [&](const Exprs&) { return Exprs{tir::imm(DType::I32, 0), tir::lowest(DType::I32)}; };
  auto pair_next = [&](const Exprs& i, const Exprs& r, const Exprs& so_far) {
    return Exprs{so_far[0] + x({i[0], r[0]}), tir::max(so_far[1], x({i[0], r[0]}))};
  };
  std::vector<Tensor> pair = g.reduce("pair", {4}, {9}, {{DType::I32, DType::I32}, pair_init, pair_next});
  Tensor out = g.compute("out", {4}, [&](const Exprs& i) { return best[0](i) + pair[0](i) * pair[1](i); });
  return te::create_prim_func(g, std::vector{x}, std::vector{out, best[1]}, "carried");
}

tir::PrimFunc depthwise() {
  Graph g;
  Tensor x = g.placeholder("x", DType::F32, {4, 8, 8}), w = g.placeholder("w", DType::F32, {4, 3, 3});
  Tensor y = g.sum("depthwise", DType::F32, {4, 6, 6}, {3, 3},
                   [&](const Exprs& i, const Exprs& r) { return x({i[0], i[1] + r[0], i[2] + r[1]}) * w({i[0], r[0], r[1]}); });
  Tensor out = g.compute("out", {4, 6, 6}, [&](const Exprs& i) { return tir::max(y(i), tir::imm(DType::F32, 1)); });
  return te::create_prim_func(g, std::vector{x, w}, std::vector{out}, "depthwise");
}

tir::PrimFunc reshaped() {
  Graph g;
  Tensor x = g.placeholder("x", DType::I32, {6, 4});
  std::vector<double> weights;
  for (int i = 0; i < 24; ++i) weights.push_back(i % 7 - 3);
  Tensor c = g.constant("weights", array(DType::I32, {4, 6}, weights));
  Tensor flat =
      g.compute("flat", {24}, [&](const Exprs& i) { return x({tir::floordiv(i[0], Expr(4)), tir::floormod(i[0], Expr(4))}); });
  Tensor turned = g.compute("turned", {4, 6}, [&](const Exprs& i) { return flat({i[1] * Expr(4) + i[0]}); });
  Tensor out = g.compute("out", {4, 6}, [&](const Exprs& i) { return turned(i) * c(i); });
  return te::create_prim_func(g, std::vector{x}, std::vector{out}, "reshaped");
}

}  // namespace

const std::vector<tir::PrimFunc>& schedule_pool() {
  static const std::vector<tir::PrimFunc> pool = {matmul(),  padded_conv(), elementwise(), softmax(),
                                                  carried(), depthwise(),   reshaped()};
  return pool;
}

std::vector<Array> integer_inputs(const tir::PrimFunc& function, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Array> out;
  for (int64_t k = 0; k < function.num_inputs; ++k) {
    const tir::Buffer& param = function.params[static_cast<size_t>(k)];
    Shape shape;
    for (const Expr& extent : param->shape) shape.push_back(tir::int_value(extent));
    std::vector<double> values(static_cast<size_t>(element_count(shape)));
    for (double& v : values) v = static_cast<double>(random() % 9) - 4;
    out.push_back(array(param->dtype, shape, values));
  }
  return out;
}

tir::PrimFunc conv(int64_t c, int64_t h, int64_t oc, int64_t k, int64_t stride, int64_t pad, int64_t groups) {
  te::Graph g;
  Tensor x = g.placeholder("x", DType::F32, {1, c, h, h});
  Tensor w = g.placeholder("w", DType::F32, {oc, c / groups, k, k});
  Tensor b = g.placeholder("b", DType::F32, {oc, 1, 1});
  int64_t hp = h + 2 * pad, oh = (hp - k) / stride + 1;
  Tensor padded = x;
  if (pad > 0)
    padded = g.compute("padded", {1, c, hp, hp}, [&](const std::vector<Expr>& i) {
      Expr y = i[2] - Expr(pad), z = i[3] - Expr(pad);
      Expr inside =
          tir::logical_and(tir::logical_and(tir::le(0, y), tir::lt(y, h)), tir::logical_and(tir::le(0, z), tir::lt(z, h)));
      return tir::select(inside, x({i[0], i[1], y, z}), tir::float_imm(DType::F32, 0));
    });
  Tensor sum =
      g.sum("conv", DType::F32, {1, oc, oh, oh}, {c / groups, k, k}, [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
        Expr channel = tir::floordiv(i[1], oc / groups) * Expr(c / groups) + r[0];
        return padded({i[0], channel, i[2] * Expr(stride) + r[1], i[3] * Expr(stride) + r[2]}) * w({i[1], r[0], r[1], r[2]});
      });
  Tensor biased = g.compute("biased", {1, oc, oh, oh}, [&](const std::vector<Expr>& i) { return sum(i) + b({i[1], 0, 0}); });
  Tensor y = g.compute("y", {1, oc, oh, oh},
                       [&](const std::vector<Expr>& i) { return tir::max(biased(i), tir::float_imm(DType::F32, 0)); });
  std::vector<Tensor> in = {x, w, b}, out = {y};
  return te::create_prim_func(g, in, out, "conv");
}

Array reshaped(Array array, const tir::Buffer& like) {
  array.shape.clear();
  for (const Expr& e : like->shape) array.shape.push_back(tir::int_value(e));
  return array;
}

std::vector<Array> reshaped(std::vector<Array> arrays, const tir::PrimFunc& like, size_t first) {
  for (size_t i = 0; i < arrays.size(); ++i) arrays[i] = reshaped(std::move(arrays[i]), like.params[first + i]);
  return arrays;
}

}  // namespace tenon::test
