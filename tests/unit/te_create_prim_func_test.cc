// SPDX-License-Identifier: Apache-2.0
// The loop function of hand-made tensor expressions: nests, blocks, regions, copies, constants and names.
#include "te/te.h"

#include <gtest/gtest.h>

#include <set>

namespace tenon::te {
namespace {

using tir::as;
using tir::Block;
using tir::Buffer;
using tir::For;
using tir::Seq;
using tir::Stmt;

std::vector<const Block*> blocks(const tir::PrimFunc& f) {
  std::vector<const Block*> out;
  tir::visit(f.body, [&](const Stmt& s) {
    if (const auto* b = as<Block>(s)) out.push_back(b);
  });
  return out;
}

template <class T>
std::vector<const T*> all_of(const tir::PrimFunc& f) {
  std::vector<const T*> out;
  tir::visit(f.body, [&](const Stmt& s) {
    if (const auto* n = as<T>(s)) out.push_back(n);
  });
  return out;
}

const std::string& var_name(const Expr& e) { return as<tir::Var>(e)->name; }

Tensor matmul(Graph& g, const Tensor& a, const Tensor& b) {
  return g.sum("c", DType::F32, {a.dim(0), b.dim(1)}, {a.dim(1)},
               [&](const auto& i, const auto& r) { return a({i[0], r[0]}) * b({r[0], i[1]}); });
}

TEST(CreatePrimFunc, MatmulIsThreeLoopsAndOneReduceBlock) {
  Graph g;
  Tensor a = g.placeholder("a", DType::F32, {4, 5}), b = g.placeholder("b", DType::F32, {5, 6});
  Tensor c = matmul(g, a, b);
  tir::PrimFunc f = create_prim_func(g, std::vector{a, b}, std::vector{c}, "mm");
  EXPECT_EQ(f.name, "mm");
  EXPECT_EQ(f.num_inputs, 2);
  ASSERT_EQ(f.params.size(), 3u);
  EXPECT_EQ(f.params[2]->name, "c");
  EXPECT_FALSE(f.scheduled());

  auto loops = all_of<For>(f);
  ASSERT_EQ(loops.size(), 3u);
  EXPECT_EQ(tir::int_value(loops[0]->extent), 4);
  EXPECT_EQ(tir::int_value(loops[1]->extent), 6);
  EXPECT_EQ(tir::int_value(loops[2]->extent), 5);
  auto found = blocks(f);
  ASSERT_EQ(found.size(), 1u);
  const Block& block = *found[0];
  EXPECT_EQ(block.name, "c");
  ASSERT_EQ(block.iters.size(), 3u);
  EXPECT_EQ(block.iters[1].kind, tir::IterKind::Spatial);
  EXPECT_EQ(block.iters[2].kind, tir::IterKind::Reduce);
  for (size_t k = 0; k < 3; ++k) EXPECT_TRUE(tir::structural_equal(block.iters[k].binding, loops[k]->var));

  Expr vi = block.iters[0].var, vj = block.iters[1].var, vk = block.iters[2].var;
  EXPECT_TRUE(tir::structural_equal(block.init, tir::store(f.params[2], {vi, vj}, tir::imm(DType::F32, 0))));
  Expr update = tir::load(f.params[2], {vi, vj}) + tir::load(f.params[0], {vi, vk}) * tir::load(f.params[1], {vk, vj});
  EXPECT_TRUE(tir::structural_equal(block.body, tir::store(f.params[2], {vi, vj}, update)));

  ASSERT_EQ(block.reads.size(), 3u);  // the update also reads what it carries
  EXPECT_EQ(block.reads[0].buffer->name, "c");
  EXPECT_EQ(block.reads[1].buffer->name, "a");
  EXPECT_TRUE(tir::structural_equal(block.reads[1].min[1], vk));
  EXPECT_EQ(tir::int_value(block.reads[1].extent[1]), 1);
  ASSERT_EQ(block.writes.size(), 1u);
  EXPECT_TRUE(tir::structural_equal(block.writes[0].min[0], vi));
}

TEST(CreatePrimFunc, RegionsSpanAxesReadAtSeveralOrNonAffineIndices) {
  Graph g;
  Tensor a = g.placeholder("a", DType::F32, {8, 9});
  Tensor s =
      g.compute("s", {8, 4}, [&](const auto& i) { return a({i[0], i[1] * Expr(2)}) + a({i[0], i[1] * Expr(2) + Expr(1)}); });
  Tensor t = g.compute("t", {8, 9}, [&](const auto& i) { return a({tir::floordiv(i[0], Expr(2)), i[1]}); });
  tir::PrimFunc f = create_prim_func(g, std::vector{a}, std::vector{s, t}, "f");
  auto found = blocks(f);
  ASSERT_EQ(found.size(), 2u);
  const auto& stencil = found[0]->reads[0];
  EXPECT_TRUE(tir::structural_equal(stencil.min[0], found[0]->iters[0].var));
  EXPECT_EQ(tir::int_value(stencil.extent[0]), 1);
  EXPECT_EQ(tir::int_value(stencil.min[1]), 0);
  EXPECT_EQ(tir::int_value(stencil.extent[1]), 9);
  const auto& divided = found[1]->reads[0];
  EXPECT_EQ(tir::int_value(divided.min[0]), 0);
  EXPECT_EQ(tir::int_value(divided.extent[0]), 8);
  EXPECT_TRUE(tir::structural_equal(divided.min[1], found[1]->iters[1].var));
}

TEST(CreatePrimFunc, SeveralCarriedValuesAreTakenBeforeAnyStore) {
  Graph g;
  Tensor a = g.placeholder("a", DType::F32, {4, 7});
  auto init = [](const auto&) { return std::vector<Expr>{tir::lowest(DType::F32), Expr(-1)}; };
  auto next = [&](const auto& i, const auto& r, const auto& old) {
    Expr better = tir::lt(old[0], a({i[0], r[0]}));
    return std::vector<Expr>{tir::select(better, a({i[0], r[0]}), old[0]), tir::select(better, r[0], old[1])};
  };
  auto top = g.reduce("top", {4}, {7}, {{DType::F32, DType::I64}, init, next});
  tir::PrimFunc f = create_prim_func(g, std::vector{a}, top, "argmax");
  const auto* body = as<Seq>(blocks(f)[0]->body);
  ASSERT_TRUE(body);
  ASSERT_EQ(body->stmts.size(), 4u);
  EXPECT_TRUE(as<tir::Let>(body->stmts[0]) && as<tir::Let>(body->stmts[1]));
  EXPECT_TRUE(as<tir::Store>(body->stmts[2]) && as<tir::Store>(body->stmts[3]));
  const auto* start = as<Seq>(blocks(f)[0]->init);
  ASSERT_TRUE(start);  // both custom initial values are stored
  EXPECT_EQ(tir::int_value(as<tir::Store>(start->stmts[1])->value), -1);
}

TEST(CreatePrimFunc, PlacesOfStagesAreTheFunctionsAttribute) {
  Graph g;
  Tensor x = g.placeholder("x", DType::F32, {4});
  Tensor t = g.compute("t", {4}, [&](const auto& i) { return x(i) * x(i); });
  Tensor y = g.compute("y", {4}, [&](const auto& i) { return t(i) + x(i); });
  Tensor dead = g.compute("dead", {4}, [&](const auto& i) { return x(i); });
  g.place(t, "fast");
  g.place(y, "slow@64");
  g.place(dead, "fast");
  tir::PrimFunc f = create_prim_func(g, std::vector{x}, std::vector{y}, "f");
  EXPECT_EQ(f.attrs.at("memory"), tir::AttrValue(std::string("t: fast, y: slow@64")));
}

TEST(CreatePrimFunc, AnEmptyReductionStoresItsInitialValue) {
  Graph g;
  Tensor a = g.placeholder("a", DType::F32, {4, 0});
  Tensor s = g.sum("s", DType::F32, {4}, {0}, [&](const auto& i, const auto& r) { return a({i[0], r[0]}); });
  tir::PrimFunc f = create_prim_func(g, std::vector{a}, std::vector{s}, "f");
  auto found = blocks(f);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0]->init);
  EXPECT_EQ(all_of<For>(f).size(), 1u);
  EXPECT_TRUE(tir::structural_equal(as<tir::Store>(found[0]->body)->value, tir::imm(DType::F32, 0)));
}

TEST(CreatePrimFunc, PassThroughAndRepeatedOutputsAreCopies) {
  Graph g;
  Tensor x = g.placeholder("x", DType::F32, {3});
  Tensor y = g.compute("y", {3}, [&](const auto& i) { return x(i) + x(i); });
  tir::PrimFunc f = create_prim_func(g, std::vector{x}, std::vector{x, y, y}, "f");
  ASSERT_EQ(f.params.size(), 4u);
  std::set<std::string> names;
  for (const Buffer& b : f.params) names.insert(b->name);
  EXPECT_EQ(names.size(), 4u);
  auto stores = all_of<tir::Store>(f);
  ASSERT_EQ(stores.size(), 3u);
  EXPECT_EQ(as<tir::Load>(stores[1]->value)->buffer->name, "x");
  EXPECT_EQ(stores[1]->buffer->name, f.params[1]->name);
  EXPECT_EQ(as<tir::Load>(stores[2]->value)->buffer->name, "y");
  EXPECT_EQ(stores[2]->buffer->name, f.params[3]->name);
}

TEST(CreatePrimFunc, ConstantsKeepTheirOrderAndUnreachableStagesVanish) {
  Graph g;
  Tensor x = g.placeholder("x", DType::F32, {2});
  std::vector<Tensor> constants;
  for (int k = 0; k < 5; ++k) constants.push_back(g.constant("k", array_of<float>(DType::F32, {2}, {1.0f * k, 2.0f * k})));
  Tensor unused = g.compute("unused", {2}, [&](const auto& i) { return constants[3](i); });
  Tensor mid = g.compute("mid", {2}, [&](const auto& i) { return constants[4](i) + constants[1](i) * constants[0](i); });
  Tensor y = g.compute("y", {2}, [&](const auto& i) { return x(i) + mid(i) + constants[2](i); });
  tir::PrimFunc f = create_prim_func(g, std::vector{x}, std::vector{y}, "f");
  auto found = all_of<tir::AllocateConst>(f);
  ASSERT_EQ(found.size(), 4u);
  const int expected[] = {0, 1, 2, 4};
  for (size_t k = 0; k < 4; ++k) EXPECT_EQ(found[k]->data.read<float>(0), expected[k]);
  auto allocated = all_of<tir::Allocate>(f);
  ASSERT_EQ(allocated.size(), 1u);
  EXPECT_EQ(allocated[0]->buffer->name, "mid");
  EXPECT_EQ(blocks(f).size(), 2u);
}

TEST(CreatePrimFunc, ScalarsHaveABlockWithoutVariables) {
  Graph g;
  Tensor x = g.placeholder("x", DType::I32, {});
  Tensor y = g.compute("y", {}, [&](const auto&) { return x({}) + tir::int_imm(DType::I32, 1); });
  tir::PrimFunc f = create_prim_func(g, std::vector{x}, std::vector{y}, "f");
  EXPECT_TRUE(as<Block>(f.body));
  EXPECT_TRUE(blocks(f)[0]->iters.empty());
  EXPECT_TRUE(all_of<For>(f).empty());
}

TEST(CreatePrimFunc, ExternStagesBecomeOpaqueBlocksOverWholeBuffers) {
  Graph g;
  Tensor x = g.placeholder("x", DType::F32, {6});
  Tensor y = g.external("y", {TensorType(DType::F32, {6})}, [&](const std::vector<Buffer>& out) {
    Expr j = tir::var(g.fresh("j"));
    return tir::for_loop(j, 0, 6, tir::ForKind::Serial, tir::store(out[0], {Expr(5) - j}, x({j})));
  })[0];
  tir::PrimFunc f = create_prim_func(g, std::vector{x}, std::vector{y}, "reverse");
  const Block& block = *blocks(f)[0];
  EXPECT_TRUE(block.iters.empty());
  ASSERT_EQ(block.reads.size(), 1u);
  EXPECT_EQ(tir::int_value(block.reads[0].extent[0]), 6);
  ASSERT_EQ(block.writes.size(), 1u);
  EXPECT_EQ(tir::int_value(block.writes[0].extent[0]), 6);
}

TEST(CreatePrimFunc, EveryDeclaredNameIsUnique) {
  Graph g;
  Tensor i0 = g.placeholder("i0", DType::F32, {2, 3});  // a user's name that looks like a loop's
  Tensor a = g.compute("v_i0", {2, 3}, [&](const auto& i) { return i0(i); });
  Tensor b = g.compute("a", {2, 3}, [&](const auto& i) { return a(i); });
  tir::PrimFunc f = create_prim_func(g, std::vector{i0}, std::vector{b}, "f");
  std::set<std::string> names;
  auto declare = [&](const std::string& name) { EXPECT_TRUE(names.insert(name).second) << name; };
  for (const Buffer& p : f.params) declare(p->name);
  for (const auto* n : all_of<tir::Allocate>(f)) declare(n->buffer->name);
  for (const auto* n : all_of<For>(f)) declare(var_name(n->var));
  for (const auto* n : blocks(f))
    for (const auto& iter : n->iters) declare(var_name(iter.var));
  EXPECT_EQ(names.size(), 3u + 4u + 4u);
}

TEST(CreatePrimFunc, AnUnlistedPlaceholderIsNamedInTheError) {
  Graph g;
  Tensor x = g.placeholder("x", DType::F32, {2}), hidden = g.placeholder("hidden", DType::F32, {2});
  Tensor y = g.compute("y", {2}, [&](const auto& i) { return x(i) + hidden(i); });
  try {
    create_prim_func(g, std::vector{x}, std::vector{y}, "f");
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("`hidden`"), std::string::npos);
  }
}

}  // namespace
}  // namespace tenon::te
