// SPDX-License-Identifier: Apache-2.0
// The text of modules: every construct reads back, and every mistake is found where it stands.
#include "graph/text.h"

#include <gtest/gtest.h>

#include <ctime>
#include <functional>
#include <random>

#include "base/hash.h"
#include "op/all_ops.h"
#include "support/allocation_count.h"
#include "support/round_trip.h"

namespace tenon::graph {

using testing::compile_error;
using testing::round_trip;

namespace {

const OpDef& find_op(std::string_view name) { return *op::all_ops().find(name); }

Module read(const std::string& text) { return parse("m.tenon", text, op::all_ops()); }
std::string errors_of(const std::string& text) {
  return compile_error([&] { read(text); });
}

tir::Buffer buffer(std::string name, std::vector<tir::Expr> shape) {
  return tir::Buffer(tir::BufferData{std::move(name), DType::F32, std::move(shape), {}, tir::Scope::Global});
}

/// `y = x` over n elements, so that it serves every length.
tir::PrimFunc copy_function(std::string name) {
  tir::Expr n = tir::var("n"), i = tir::var("i");
  tir::PrimFunc f;
  f.name = std::move(name);
  f.params = {buffer("x", {n}), buffer("y", {n})};
  f.num_inputs = 1;
  f.body = tir::for_loop(i, 0, n, tir::ForKind::Serial, tir::store(f.params[1], {i}, tir::load(f.params[0], {i})));
  return f;
}

/// One of everything the text can hold.
Module everything() {
  Module m;
  m.attrs = {{"opt_level", int64_t{3}}, {"stage", std::string("fuse")}};
  MutableArray large(DType::F32, {5, 8});
  for (int i = 0; i < 40; ++i) large.as<float>()[i] = 0.25f * static_cast<float>(i);
  m.constants.emplace("large", std::move(large).freeze());
  {
    Builder b(m, "fused.relu");
    b.param("", TensorType::of(DType::F32, Shape{2, 4}));
    Function f = b.finish(b.call(find_op("relu"), {{0}}));
    f.attrs = {{"primitive", true}};
    m.functions.emplace(f.name, std::move(f));
  }
  {
    Builder b(m, "main");
    tir::Expr n = tir::var("n");
    ValueId x = b.param("x:0 \"é\"", {DType::F32, {n, 8}});
    ValueId y = b.param("y", TensorType::of(DType::F32, Shape{2, 8}));
    ValueId z = b.param("z", TensorType::of(DType::F32, Shape{5}));
    ValueId w = b.constant(array_of<float>(DType::F32, {1, 8}, {1, 2, 3, 4, 5, 6, 7, 8}), "w");
    b.at("model/join");
    ValueId joined = b.call1(find_op("concat"), {x, b.constant_ref("large"), x, w}, {{"axis", int64_t{0}}});
    b.at("");
    std::vector<ValueId> halves = b.call(find_op("split"), {y}, {{"axis", int64_t{1}}, {"sizes", std::vector<int64_t>{4, 4}}});
    ValueId called =
        b.append({.kind = NodeKind::Call, .callee = "fused.relu", .inputs = {halves[1]}, .types = {b.type(halves[1])}})[0];
    ValueId lowered = b.append({.kind = NodeKind::CallLowered,
                                .callee = "copy",
                                .inputs = {z},
                                .attrs = {{"note", std::string("by hand")}},
                                .types = {b.type(z)},
                                .name = "copied"})[0];
    m.functions.emplace("main", b.finish({joined, halves[0], called, lowered, y}, {"a", "b", "c", "d", "e"}));
  }
  m.prim_funcs.emplace("copy", copy_function("copy"));
  return m;
}

}  // namespace

TEST(GraphText, PrintsAsDocumented) {
  Module m = everything();
  EXPECT_EQ(print(m), R"(module {opt_level = 3, stage = "fuse"}
constant @large : f32[5,8] = hash ")" +
                          hash128(m.constants.at("large").bytes).hex() + R"("
constant @w : f32[1,8] = bytes "0000803f0000004000004040000080400000a0400000c0400000e04000000041"
fn @fused.relu(%0: f32[2,4]) {primitive = true} {
  %1 = relu(%0) : f32[2,4]
  return %1
}
fn @main(%0: f32[n,8] "x:0 \"\xc3\xa9\"", %1: f32[2,8] "y", %2: f32[5] "z") -> ("a", "b", "c", "d", "e") {
  %3 = constant @w : f32[1,8]
  %4 = constant @large : f32[5,8]
  %5 = concat(%0, %4, %0, %3) {axis = 0} : f32[(((n + 5) + n) + 1),8]  "model/join"
  %6, %7 = split(%1) {axis = 1, sizes = [4,4]} : f32[2,4], f32[2,4]
  %8 = call @fused.relu(%7) : f32[2,4]
  %9 = call_lowered @copy(%2) {note = "by hand"} : f32[5]  "copied"
  return %5, %6, %8, %9, %1
}
primfunc @copy(x: f32[n]) -> (y: f32[n]) {
  for i = 0 extent n {
    y[i] = x[i]
  }
}
)");
}

TEST(GraphText, EveryConstructReadsBack) {
  Module m = everything();
  verify(m);
  round_trip(m);
}

TEST(GraphText, TypesMayBeLeftOut) {
  Module m = read(
      "constant @w : f32[2] = bytes \"0000803f00000040\"\n"
      "fn @main(%5: f32[n,2] \"x\") {\n"
      "  %9 = constant @w\n"
      "  %3 = relu(%5)\n"
      "  return %3, %9\n"
      "}\n");
  EXPECT_EQ(print(m),
            "constant @w : f32[2] = bytes \"0000803f00000040\"\n"
            "fn @main(%0: f32[n,2] \"x\") {\n"
            "  %1 = constant @w : f32[2]\n"
            "  %2 = relu(%0) : f32[n,2]\n"
            "  return %2, %1\n"
            "}\n");
}

TEST(GraphText, EveryErrorOfAModuleIsReported) {
  EXPECT_EQ(errors_of("fn @main(%0: f32[2]) {\n"
                      "  %1 = rellu(%0)\n"
                      "  %2 = relu(%1)\n"
                      "  %3 = relu(%7)\n"
                      "  %4 = relu(%0 : f32[2]\n"
                      "  %5 = relu(%0) : f32[3]\n"
                      "  %6 = relu(%0, %0)\n"
                      "  return %2\n"
                      "}\n"
                      "primfunc @p(x: f32[2]) -> (y: f32[2]) {\n"
                      "  y[0] = z\n"
                      "}\n"
                      "fn @other(%0: f32[2]) {\n"
                      "  return %1\n"
                      "}\n"),
            "m.tenon:2:8: error: `rellu` is no operator, expected one that `tenon ops` lists  [unknown-op]\n"
            "  2 |   %1 = rellu(%0)\n"
            "    |        ^~~~~\n"
            "  in function @main\n"
            "m.tenon:4:13: error: `%7` is not defined above, expected a parameter or the result of an earlier node: %0, %1, %2  "
            "[undeclared-value]\n"
            "  4 |   %3 = relu(%7)\n"
            "    |             ^~\n"
            "  in function @main\n"
            "m.tenon:5:16: error: unexpected `:`, expected `)`  [unexpected-token]\n"
            "  5 |   %4 = relu(%0 : f32[2]\n"
            "    |                ^\n"
            "  in function @main\n"
            "m.tenon:6:19: error: relu: the result is written as f32[3], expected f32[2]  [type-mismatch]\n"
            "  6 |   %5 = relu(%0) : f32[3]\n"
            "    |                   ^~~\n"
            "  in function @main\n"
            "m.tenon:7:8: error: relu: 2 operands given: f32[2], f32[2], expected 1  [operand-count]\n"
            "  7 |   %6 = relu(%0, %0)\n"
            "    |        ^~~~\n"
            "  in function @main\n"
            "m.tenon:11:10: error: `z` is not declared here, expected the name of a variable in scope  [undeclared-name]\n"
            "  11 |   y[0] = z\n"
            "     |          ^\n"
            "  in function @p\n"
            "m.tenon:14:10: error: `%1` is not defined above, expected a parameter or the result of an earlier node: %0  "
            "[undeclared-value]\n"
            "  14 |   return %1\n"
            "     |          ^~\n"
            "  in function @other\n");
}

TEST(GraphText, AModuleOfOneChainIsReadInLinearTime) {
  constexpr int kNodes = 200000;
  Module m;
  Builder b(m, "main");
  ValueId v = b.param("x", TensorType::of(DType::F32, Shape{4}));
  for (int i = 0; i < kNodes; ++i) v = b.call1(find_op("relu"), {v});
  m.functions.emplace("main", b.finish({v}));
  std::clock_t start = std::clock();
  std::string text = print(m);
  Module again = read(text);
  double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_TRUE(again == m);
  EXPECT_LT(seconds, 5.0);
}

TEST(GraphText, TruncatedTextIsAnErrorAtEveryByte) {
  std::string text =
      print(read("constant @w : f32[2] = bytes \"0000803f00000040\"\n"
                 "fn @main(%0: f32[n,2] \"x\") -> (\"y\") {\n"
                 "  %1 = constant @w\n"
                 "  %2, %3 = split(%1) {axis = 0, sizes = [1,1]}  \"name\"\n"
                 "  return %2\n"
                 "}\n"));
  size_t function = text.find("fn @main");
  for (size_t size = function + 1; size + 2 < text.size(); ++size)
    EXPECT_THROW(parse("t", std::string_view(text).substr(0, size), op::all_ops()), CompileError) << size;
}

TEST(GraphText, DamagedTextIsReadOrRefusedButNeverCrashes) {
  tir::ConstantBytes constants;
  const std::string text = print(everything(), &constants);
  std::mt19937 random(7);
  const std::string letters = "(){}[]<>=,:%@\"-.0123456789nfx \n";
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = text;
    for (int k = 0; k < 1 + round % 3; ++k) damaged[random() % damaged.size()] = letters[random() % letters.size()];
    test::take_largest_allocation();
    try {
      parse("t", damaged, op::all_ops(), constants);
    } catch (const CompileError&) {
      ++refused;
    }
    EXPECT_LE(test::take_largest_allocation(), 256 << 10) << damaged;
  }
  EXPECT_GT(refused, 1000);
}

TEST(GraphVerify, FindsEveryBrokenRuleOfABuiltModule) {
  auto code = [](const std::function<void(Module&)>& damage, const std::string& want) {
    Module m = everything();
    damage(m);
    std::string text = compile_error([&] { verify(m); });
    EXPECT_NE(text.find("[" + want + "]"), std::string::npos) << want << "\n" << text;
  };
  auto node = [](Module& m, NodeKind kind) -> Node& {
    for (Node& n : m.functions.at("main").nodes)
      if (n.kind == kind) return n;
    fail_internal("no such node");
  };
  code([&](Module& m) { node(m, NodeKind::Op).inputs[0] = {9000}; }, "undeclared-value");
  code([&](Module& m) { node(m, NodeKind::Op).inputs[0] = node(m, NodeKind::Op).result(); }, "undeclared-value");
  code([&](Module& m) { m.functions.at("main").results[0] = {9000}; }, "undeclared-value");
  code([&](Module& m) { node(m, NodeKind::Op).types[0].dtype = DType::F64; }, "type-mismatch");
  code([&](Module& m) { node(m, NodeKind::Op).first_result += 1; }, "value-order");
  code([&](Module& m) { node(m, NodeKind::Op).attrs.clear(); }, "missing-attribute");
  code([&](Module& m) { node(m, NodeKind::Op).op = nullptr; }, "unknown-op");
  code([&](Module& m) { m.constants.erase("w"); }, "unknown-constant");
  code([&](Module& m) { m.constants.find("w")->second.dtype = DType::I32; }, "type-mismatch");
  code([&](Module& m) { node(m, NodeKind::Call).callee = "copy"; }, "unknown-callee");
  code([&](Module& m) { node(m, NodeKind::CallLowered).callee = "fused.relu"; }, "unknown-callee");
  code([&](Module& m) { node(m, NodeKind::Call).inputs.push_back({0}); }, "signature-mismatch");
  code([&](Module& m) { node(m, NodeKind::Call).types[0].dtype = DType::F64; }, "signature-mismatch");
  code([&](Module& m) { node(m, NodeKind::CallLowered).types[0].shape[0] = 6; }, "signature-mismatch");
  code([&](Module& m) { m.functions.at("main").result_names.pop_back(); }, "result-count");
  code([&](Module& m) { m.functions.at("main").params[1].name = "z"; }, "duplicate-name");
  code([&](Module& m) { m.prim_funcs.emplace("main", copy_function("main")); }, "duplicate-name");
  code([&](Module& m) { m.functions.at("main").name = "other"; }, "bad-name");
  code([&](Module& m) { m.constants.emplace("a b", array_of<int8_t>(DType::I8, {}, {1})); }, "bad-name");
  code([&](Module& m) { m.functions.at("main").params[1].type.shape[0] = -1; }, "tensor-too-large");
  code([&](Module& m) { m.prim_funcs.find("copy")->second.body = {}; }, "missing-body");
  code([&](Module& m) { node(m, NodeKind::Call).callee = "main"; }, "recursive-call");
}

TEST(GraphVerify, AnExternalFunctionMayBeCalledLowered) {
  Module m = everything();
  m.functions.find("fused.relu")->second.attrs = {{"external", std::string("other")}};
  for (Node& n : m.functions.at("main").nodes)
    if (n.kind == NodeKind::Call) n.kind = NodeKind::CallLowered;
  EXPECT_NO_THROW(verify(m));
}

}  // namespace tenon::graph
