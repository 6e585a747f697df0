// SPDX-License-Identifier: Apache-2.0
// Lowering: what a kernel holds, names, both façades, the cache and the refusals.
#include "lower/lower.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "graph/interpret.h"
#include "op/ops.h"
#include "tir/interpret.h"

namespace tenon::lower {
namespace {

using graph::Builder;
using graph::Function;
using graph::Module;
using graph::NodeKind;
using graph::ValueId;

TensorType f32(std::vector<Dim> shape) { return {DType::F32, std::move(shape)}; }
Array ramp(Shape shape) {
  MutableArray out(DType::F32, std::move(shape));
  for (size_t i = 0; i < out.size_bytes / 4; ++i) out.as<float>()[i] = static_cast<float>(i) - 3;
  return std::move(out).freeze();
}

using Body = std::function<std::vector<ValueId>(Builder&, const std::vector<ValueId>&)>;

Function& add_primitive(Module& m, std::string name, std::vector<TensorType> params, const Body& body) {
  Builder b(m, name);
  std::vector<ValueId> values;
  for (TensorType& type : params) values.push_back(b.param("user's name of " + name, std::move(type)));
  std::vector<ValueId> results = body(b, values);
  Function f = b.finish(std::move(results));
  f.attrs["primitive"] = true;
  return m.functions.emplace(std::move(name), std::move(f)).first->second;
}

/// `main` calls each named function on its own parameters and returns all results.
void add_main(Module& m, const std::vector<std::string>& callees) {
  Function main;
  main.name = "main";
  uint32_t next = 0;
  for (const std::string& callee : callees)
    for (const auto& param : m.functions.at(callee).params) {
      main.params.push_back({"in" + std::to_string(next++), param.type});
    }
  uint32_t value = next, param = 0;
  for (const std::string& callee : callees) {
    const Function& f = m.functions.at(callee);
    graph::Node node;
    node.kind = NodeKind::Call;
    node.callee = callee;
    for (size_t i = 0; i < f.params.size(); ++i) node.inputs.push_back({param++});
    for (ValueId v : f.results) node.types.push_back(f.type(v));
    node.first_result = value;
    node.name = "node of " + callee;
    for (size_t i = 0; i < f.results.size(); ++i) main.results.push_back({value++});
    main.nodes.push_back(std::move(node));
  }
  m.functions.emplace("main", std::move(main));
}

std::vector<ValueId> relu_of_sum(Builder& b, const std::vector<ValueId>& p) {
  return {b.call1(op::relu, {b.call1(op::add, {p[0], p[1]})})};
}

const Diagnostic& diagnostic_of(const std::function<void()>& f, std::vector<Diagnostic>& kept) {
  try {
    f();
  } catch (const CompileError& error) {
    kept = error.diagnostics();
  }
  EXPECT_FALSE(kept.empty()) << "nothing was thrown";
  if (kept.empty()) kept.emplace_back();
  return kept[0];
}

TEST(Lower, AKernelComputesItsGroup) {
  Module m;
  Function& f = add_primitive(m, "g", {f32({2, 4}), f32({2, 4})}, relu_of_sum);
  Lowered lowered = lower_primitive(m, f);
  EXPECT_EQ(lowered.name, "fused_add_relu");
  ASSERT_TRUE(lowered.func);
  EXPECT_EQ(lowered.func->name, "fused_add_relu");
  EXPECT_EQ(lowered.func->num_inputs, 2);
  EXPECT_EQ(lowered.func->params.size(), 3u);
  EXPECT_TRUE(lowered.reason.empty() && lowered.constants.empty());
  std::vector<Array> out = tir::interpret(*lowered.func, std::vector{ramp({2, 4}), ramp({2, 4})});
  EXPECT_EQ(out[0], array_of<float>(DType::F32, {2, 4}, {0, 0, 0, 0, 2, 4, 6, 8}));
}

TEST(Lower, TheAnchorIsTheLastOperatorOfTheLargestClass) {
  Module m;
  Function& f = add_primitive(m, "g", {f32({2, 3}), f32({3, 4}), f32({2, 4})}, [](Builder& b, const auto& p) {
    ValueId y = b.call1(op::add, {b.call1(op::matmul, {p[0], p[1]}), p[2]});
    return std::vector<ValueId>{b.call1(op::relu, {y})};
  });
  EXPECT_EQ(lower_primitive(m, f).anchor, &op::matmul);
  Function& maps = add_primitive(m, "maps", {f32({2}), f32({2})}, relu_of_sum);
  EXPECT_EQ(lower_primitive(m, maps).anchor, &op::add) << "broadcast is harder to fuse than element-wise";
  Function& none = add_primitive(m, "none", {f32({2})}, [](Builder&, const auto& p) { return p; });
  Lowered pass_through = lower_primitive(m, none);
  EXPECT_EQ(pass_through.anchor, nullptr);
  EXPECT_EQ(pass_through.name, "fused");
  EXPECT_EQ(tir::interpret(*pass_through.func, std::vector{ramp({2})})[0], ramp({2})) << "a result that is a parameter is copied";
}

TEST(Lower, ConstantsStayInsideInOrderAndScalarsBecomeImmediates) {
  Module m;
  Function& f = add_primitive(m, "g", {f32({3})}, [](Builder& b, const auto& p) {
    ValueId w = b.constant(ramp({3}), "w"), v = b.constant(array_of<float>(DType::F32, {3}, {5, 5, 5}), "v");
    ValueId k = b.constant(array_of<float>(DType::F32, {}, {10}), "k");
    ValueId y = b.call1(op::add, {b.call1(op::multiply, {b.call1(op::add, {p[0], v}), w}), k});
    return std::vector<ValueId>{b.call1(op::add, {y, b.constant_ref("w")})};
  });
  Lowered lowered = lower_primitive(m, f);
  ASSERT_EQ(lowered.constants.size(), 2u) << "one for each array, however often it is read; none for a scalar";
  EXPECT_EQ(lowered.constants[0].data, ramp({3}));
  EXPECT_EQ(lowered.constants[1].data.read<float>(0), 5);
  EXPECT_EQ(lowered.func->params.size(), 2u);
  // (x + 5) * w + 10 + w with x = w = -3, -2, -1
  EXPECT_EQ(tir::interpret(*lowered.func, std::vector{ramp({3})})[0], array_of<float>(DType::F32, {3}, {1, 2, 5}));
}

TEST(Lower, NamesSayTheOperatorsAndStayShort) {
  Module m;
  auto chain = [&](const std::string& name, int length) {
    Function& f = add_primitive(m, name, {f32({2})}, [&](Builder& b, const auto& p) {
      ValueId y = p[0];
      for (int i = 0; i < length; ++i) y = b.call1(op::tanh, {y});
      return std::vector<ValueId>{y};
    });
    return candidate_name(f);
  };
  EXPECT_EQ(chain("a", 15), "fused_tanh_tanh_tanh_tanh_tanh_tanh_tanh_tanh_tanh_tanh_tanh_tanh_tanh_tanh_tanh");  // 80
  std::string cut = chain("b", 16), other = chain("c", 17);
  EXPECT_EQ(cut.size(), 97u);
  EXPECT_EQ(cut.substr(0, 81), chain("d", 15) + "_");
  EXPECT_EQ(cut.find_first_not_of("0123456789abcdef", 81), std::string::npos);
  EXPECT_NE(cut, other) << "the hash is of the whole name";
}

TEST(Lower, EqualFunctionsShareAKernelAndDifferentOnesOfOneNameDoNot) {
  Module m;
  add_primitive(m, "a", {f32({2}), f32({2})}, relu_of_sum);
  add_primitive(m, "b", {f32({2}), f32({2})}, relu_of_sum);
  add_primitive(m, "c", {f32({3}), f32({3})}, relu_of_sum);
  add_main(m, {"a", "b", "c"});
  Module lowered = lower_module(m, nullptr);
  ASSERT_EQ(lowered.functions.size(), 1u);
  ASSERT_EQ(lowered.prim_funcs.size(), 2u);
  EXPECT_TRUE(lowered.prim_funcs.contains("fused_add_relu"));
  EXPECT_TRUE(lowered.prim_funcs.contains("fused_add_relu_1"));
  for (const auto& [name, func] : lowered.prim_funcs) EXPECT_EQ(func.name, name);
  const Function& main = lowered.functions.at("main");
  ASSERT_EQ(main.nodes.size(), 3u);
  EXPECT_EQ(main.nodes[0].callee, main.nodes[1].callee);
  EXPECT_NE(main.nodes[0].callee, main.nodes[2].callee);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(main.nodes[i].kind, NodeKind::CallLowered);
    EXPECT_EQ(main.nodes[i].name, m.functions.at("main").nodes[i].name);
    EXPECT_TRUE(main.nodes[i].types == m.functions.at("main").nodes[i].types);
    EXPECT_FALSE(main.nodes[i].attrs.contains("view"));
  }
}

TEST(Lower, NamesAvoidThoseOfTheModuleAndOfEachOther) {
  Module m;
  add_primitive(m, "a", {f32({2})}, [](Builder& b, const auto& p) { return std::vector<ValueId>{b.call1(op::relu, {p[0]})}; });
  add_primitive(m, "fused_relu", {f32({3})},
                [](Builder& b, const auto& p) { return std::vector<ValueId>{b.call1(op::relu, {p[0]})}; });
  add_main(m, {"a", "fused_relu"});
  Function taken = m.functions.at("main");
  taken.name = "fused_relu_1";
  taken.nodes.clear();
  taken.results = {{0}};
  m.functions.emplace(taken.name, taken);
  Module lowered = lower_module(m, nullptr);
  EXPECT_TRUE(lowered.prim_funcs.contains("fused_relu")) << "the graph function of that name is gone";
  EXPECT_TRUE(lowered.prim_funcs.contains("fused_relu_2"));
  EXPECT_EQ(lowered.prim_funcs.size(), 2u);
}

TEST(Lower, NamesDoNotDependOnFunctionNamesWorkersOrCache) {
  auto build = [](bool swapped) {
    Module m;
    for (int i = 0; i < 8; ++i) {
      int width = swapped ? 9 - i : 2 + i;
      add_primitive(m, "g" + std::to_string(i), {f32({width}), f32({width})}, relu_of_sum);
    }
    add_main(m, {"g0", "g7"});
    return m;
  };
  Module a = lower_module(build(false), nullptr, 1), b = lower_module(build(true), nullptr, 4);
  KernelCache cache;
  Module c = lower_module(build(false), &cache, 4), d = lower_module(build(true), &cache, 2);
  ASSERT_EQ(a.prim_funcs.size(), 8u);
  for (const auto& [name, func] : a.prim_funcs)
    for (const Module* other : {&b, &c, &d}) EXPECT_TRUE(tir::structural_equal(func, other->prim_funcs.at(name))) << name;
  EXPECT_TRUE(a == c);
  EXPECT_EQ(cache.statistics(Stage::Lowering).misses, 8);
  EXPECT_EQ(cache.statistics(Stage::Lowering).hits, 8);
}

TEST(Lower, BothFacadesGiveOneKernelUpToItsName) {
  Module m;
  add_primitive(m, "a", {f32({2}), f32({2})}, relu_of_sum);
  add_primitive(m, "c", {f32({3}), f32({3})}, relu_of_sum);
  add_main(m, {"a", "c"});
  Module lowered = lower_module(m, nullptr);
  for (size_t i = 0; i < 2; ++i) {
    tir::PrimFunc alone = lower_to_prim_func(m, m.functions.at(m.functions.at("main").nodes[i].callee));
    tir::PrimFunc inside = lowered.prim_funcs.at(lowered.functions.at("main").nodes[i].callee);
    EXPECT_EQ(alone.name, "fused_add_relu");
    inside.name = alone.name;
    EXPECT_TRUE(tir::structural_equal(alone, inside));
  }
}

TEST(Lower, LoweringTwiceChangesNothingAndTheInputStays) {
  Module m;
  add_primitive(m, "a", {f32({2}), f32({2})}, relu_of_sum);
  add_main(m, {"a"});
  Function plain = m.functions.at("main");  // calls nothing primitive
  plain.name = "plain";
  plain.nodes.clear();
  plain.results = {{1}};
  m.functions.emplace("plain", plain);
  Function external = m.functions.at("a");
  external.name = "external";
  external.attrs["external"] = std::string("dnnl");
  external.attrs["symbol"] = std::string("external");
  m.functions.emplace("external", external);
  Module before = m;
  Module once = lower_module(m, nullptr);
  EXPECT_TRUE(m == before);
  EXPECT_TRUE(once.functions.at("plain") == plain);
  EXPECT_TRUE(once.functions.at("external") == external);
  EXPECT_TRUE(lower_module(once, nullptr) == once);
}

TEST(Lower, LoweredModulesMeanTheSame) {
  Module m;
  add_primitive(m, "a", {f32({2, 3}), f32({3, 2})},
                [](Builder& b, const auto& p) { return std::vector<ValueId>{b.call1(op::matmul, {p[0], p[1]})}; });
  add_primitive(m, "b", {f32({2, 3}), f32({2, 3})}, relu_of_sum);
  add_main(m, {"a", "b"});
  std::vector<Array> inputs{ramp({2, 3}), ramp({3, 2}), ramp({2, 3}), ramp({2, 3})};
  EXPECT_EQ(graph::interpret(lower_module(m, nullptr), "main", inputs), graph::interpret(m, "main", inputs));
}

TEST(Lower, TimeGrowsWithTheModule) {  // quadratic work on this many functions would take minutes
  Module m;
  Function& f = add_primitive(m, "f0", {f32({2}), f32({2})}, relu_of_sum);
  std::vector<std::string> callees{"f0"};
  for (int i = 1; i < 20000; ++i) {
    callees.push_back("f" + std::to_string(i));
    Function copy = f;
    copy.name = callees.back();
    m.functions.emplace(copy.name, std::move(copy));
  }
  add_main(m, callees);
  Module lowered = lower_module(m, nullptr);
  EXPECT_EQ(lowered.functions.size(), 1u);
  EXPECT_EQ(lowered.prim_funcs.size(), 1u);
}

TEST(Lower, CallsOfPureViewsAreMarked) {
  Module m;
  add_primitive(m, "flat", {f32({2, 3})}, [](Builder& b, const auto& p) {
    return std::vector<ValueId>{b.call1(op::reshape, {p[0]}, {{"shape", std::vector<int64_t>{6}}})};
  });
  add_primitive(m, "mixed", {f32({2, 3})}, [](Builder& b, const auto& p) {
    return std::vector<ValueId>{b.call1(op::relu, {b.call1(op::reshape, {p[0]}, {{"shape", std::vector<int64_t>{6}}})})};
  });
  add_main(m, {"flat", "mixed"});
  Module lowered = lower_module(m, nullptr);
  const Function& main = lowered.functions.at("main");
  EXPECT_EQ(main.nodes[0].attrs, (graph::Attrs{{"view", true}}));
  EXPECT_TRUE(main.nodes[1].attrs.empty());
}

TEST(Lower, ConstantsThatOnlyKernelsReadLeaveTheTable) {
  Module m;
  add_primitive(m, "a", {f32({3})}, [](Builder& b, const auto& p) {
    return std::vector<ValueId>{b.call1(op::add, {p[0], b.constant(ramp({3}), "inside")})};
  });
  m.constants.emplace("unread", ramp({2}));
  add_main(m, {"a"});
  Module lowered = lower_module(m, nullptr);
  EXPECT_FALSE(lowered.constants.contains("inside"));
  EXPECT_TRUE(lowered.constants.contains("unread"));
}

TEST(Lower, CanonicalTextSeesEverythingButNames) {
  Module m;
  auto with_constant = [&](const std::string& name, std::vector<float> values) -> Function& {
    return add_primitive(m, name, {f32({2})}, [&](Builder& b, const auto& p) {
      b.at("node in " + name);
      return std::vector<ValueId>{b.call1(op::add, {p[0], b.constant(array_of<float>(DType::F32, {2}, values), name)})};
    });
  };
  std::string a = canonical_text(m, with_constant("a", {1, 2})), b = canonical_text(m, with_constant("b", {1, 2}));
  std::string other = canonical_text(m, with_constant("c", {1, 3}));
  EXPECT_EQ(a, b);
  EXPECT_NE(a, other);
  auto summed = [&](const std::string& name, int64_t axis, Dim extent) {
    return canonical_text(m, add_primitive(m, name, {f32({extent, 2})}, [&](Builder& builder, const auto& p) {
                            return std::vector<ValueId>{builder.call1(op::sum, {p[0]}, {{"axes", std::vector<int64_t>{axis}}})};
                          }));
  };
  std::set<std::string> texts{summed("s0", 0, 2), summed("s1", 1, 2), summed("s2", 0, 3)};
  EXPECT_EQ(texts.size(), 3u) << "attributes and types count";
}

TEST(Lower, OnlyPrimitiveFunctionsAreLowered) {
  Module m;
  Function& f = add_primitive(m, "g", {f32({2}), f32({2})}, relu_of_sum);
  f.attrs = {{"primitive", false}};
  std::vector<Diagnostic> kept;
  const Diagnostic& d = diagnostic_of([&] { lower_to_prim_func(m, f); }, kept);
  EXPECT_EQ(d.code, "lower-not-primitive");
  EXPECT_EQ(d.function, "g");
  EXPECT_NE(d.message.find("`@g`"), std::string::npos);
  EXPECT_NE(d.expected.find("primitive = true"), std::string::npos);
  EXPECT_NE(d.found.find("primitive"), std::string::npos);
  f.attrs = {{"primitive", true}, {"external", std::string("dnnl")}};
  const Diagnostic& external = diagnostic_of([&] { lower_primitive(m, f); }, kept);
  EXPECT_EQ(external.code, "lower-external");
  EXPECT_NE(external.found.find("dnnl"), std::string::npos);
}

TEST(Lower, DynamicShapesGiveAReason) {
  Module m;
  Dim n = tir::var("n");
  Function& f = add_primitive(m, "g", {f32({n, 2}), f32({n, 2})}, relu_of_sum);
  Lowered lowered = lower_primitive(m, f);
  EXPECT_FALSE(lowered.func);
  EXPECT_NE(lowered.reason.find("f32[n,2]"), std::string::npos);
  std::vector<Diagnostic> kept;
  const Diagnostic& d = diagnostic_of([&] { lower_to_prim_func(m, f); }, kept);
  EXPECT_EQ(d.code, "lower-dynamic");
  EXPECT_EQ(d.kind, ErrorKind::Unsupported);
  EXPECT_EQ(d.function, "g");
  add_primitive(m, "h", {f32({n}), f32({n})}, relu_of_sum);
  KernelCache cache;
  diagnostic_of([&] { lower_module(m, &cache, 2); }, kept);
  EXPECT_EQ(kept.size(), 2u) << "every function that cannot be lowered is reported";
  EXPECT_TRUE(cache.entries().empty()) << "and leaves nothing";
}

TEST(Lower, CallsAndMissingConstantsInsideAreNamed) {
  Module m;
  add_primitive(m, "inner", {f32({2}), f32({2})}, relu_of_sum);
  Function& outer = add_primitive(m, "outer", {f32({2}), f32({2})}, relu_of_sum);
  outer.nodes[0].kind = NodeKind::Call;
  outer.nodes[0].callee = "inner";
  std::vector<Diagnostic> kept;
  const Diagnostic& nested = diagnostic_of([&] { lower_primitive(m, outer); }, kept);
  EXPECT_EQ(nested.code, "lower-nested-call");
  EXPECT_EQ(nested.function, "outer");
  EXPECT_EQ(nested.found, "call @inner");
  EXPECT_NE(nested.expected.find("operators and constants"), std::string::npos);
  outer.nodes[0].kind = NodeKind::Constant;
  outer.nodes[0].callee = "lost";
  const Diagnostic& lost = diagnostic_of([&] { lower_primitive(m, outer); }, kept);
  EXPECT_EQ(lost.code, "lower-missing-constant");
  EXPECT_EQ(lost.found, "@lost");
}

}  // namespace
}  // namespace tenon::lower
