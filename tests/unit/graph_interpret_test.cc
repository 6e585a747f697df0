// SPDX-License-Identifier: Apache-2.0
// graph::interpret: operators, constants, calls, release of values, long chains and refusals.
#include "graph/interpret.h"

#include <gtest/gtest.h>

#include "op/ops.h"

namespace tenon::graph {
namespace {

Array floats(Shape shape, const std::vector<float>& values) { return array_of<float>(DType::F32, std::move(shape), values); }
TensorType f32(std::vector<Dim> shape) { return {DType::F32, std::move(shape)}; }

TEST(GraphInterpret, RunsOperatorsConstantsAndCalls) {
  Module m;
  Builder inner(m, "inner");
  ValueId a = inner.param("a", f32({2}));
  m.functions.emplace("inner", inner.finish({inner.call1(op::neg, {a}), a}));

  Builder b(m, "main");
  ValueId x = b.param("x", f32({2}));
  ValueId sum = b.call1(op::add, {x, b.constant(floats({2}, {10, 20}))});
  Node call;
  call.kind = NodeKind::Call;
  call.callee = "inner";
  call.inputs = {sum};
  call.types = {f32({2}), f32({2})};
  std::vector<ValueId> called = b.append(call);
  m.functions.emplace("main", b.finish({b.call1(op::multiply, {called[0], called[1]}), x, sum}));

  std::vector<std::pair<uint32_t, float>> seen;
  auto out = interpret(m, "main", std::vector{floats({2}, {1, 2})},
                       [&](ValueId v, const Array& value) { seen.emplace_back(v.index, value.read<float>(0)); });
  EXPECT_EQ(out, (std::vector{floats({2}, {-121, -484}), floats({2}, {1, 2}), floats({2}, {11, 22})}));
  EXPECT_EQ(seen, (std::vector<std::pair<uint32_t, float>>{{1, 10}, {2, 11}, {3, -11}, {4, 11}, {5, -121}}));
}

TEST(GraphInterpret, ReleasesAValueAfterItsLastUse) {
  Module m;
  Builder b(m, "main");
  ValueId y = b.param("x", f32({4}));
  for (int i = 0; i < 10; ++i) y = b.call1(op::neg, {y});
  m.functions.emplace("main", b.finish({y}));
  std::vector<std::weak_ptr<const void>> values;
  interpret(m, "main", std::vector{floats({4}, {1, 2, 3, 4})}, [&](ValueId, const Array& value) {
    values.push_back(value.owner);
    int alive = 0;
    for (const auto& v : values) alive += !v.expired();
    EXPECT_LE(alive, 2) << "an operand and its result";
  });
  EXPECT_EQ(values.size(), 10u);
}

TEST(GraphInterpret, LongChainsNeedNoStack) {
  Module m;
  Builder b(m, "main");
  ValueId y = b.param("x", f32({1}));
  constexpr int kLength = 20001;
  for (int i = 0; i < kLength; ++i) y = b.call1(op::neg, {y});
  m.functions.emplace("main", b.finish({y}));
  EXPECT_EQ(interpret(m, "main", std::vector{floats({1}, {3})})[0].read<float>(0), -3);
}

TEST(GraphInterpret, SymbolsFollowTheInputs) {
  Module m;
  Builder b(m, "main");
  Dim n = tir::var("n");
  ValueId x = b.param("x", f32({n, 2})), y = b.param("y", f32({n, 2}));
  m.functions.emplace("main", b.finish({b.call1(op::add, {x, y})}));
  Array three = floats({3, 2}, {1, 2, 3, 4, 5, 6}), one = floats({1, 2}, {1, 1});
  EXPECT_EQ(interpret(m, "main", std::vector{three, three})[0], floats({3, 2}, {2, 4, 6, 8, 10, 12}));
  EXPECT_THROW(interpret(m, "main", std::vector{three, one}), CompileError) << "one symbol, one number";
}

TEST(GraphInterpret, WrongInputsAreNamed) {
  Module m;
  Builder b(m, "main");
  m.functions.emplace("main", b.finish({b.param("image", f32({2}))}));
  try {
    interpret(m, "main", std::vector{floats({3}, {1, 2, 3})});
    FAIL();
  } catch (const CompileError& error) {
    const Diagnostic& d = error.diagnostics()[0];
    EXPECT_EQ(d.code, "interpret-input");
    EXPECT_EQ(d.input, "image");
    EXPECT_EQ(d.expected, "f32[2]");
    EXPECT_EQ(d.found, "f32[3]");
    EXPECT_EQ(d.function, "main");
  }
  EXPECT_THROW(interpret(m, "main", {}), CompileError);
  try {
    interpret(m, "other", {});
    FAIL();
  } catch (const CompileError& error) {
    EXPECT_EQ(error.diagnostics()[0].code, "unknown-function");
    EXPECT_EQ(error.diagnostics()[0].found, "other");
  }
}

TEST(GraphInterpret, AResultOfUnknownShapeIsNamed) {
  Module m;
  Builder b(m, "main");
  ValueId y = b.call1(op::relu, {b.param("x", f32({2}))});
  Function main = b.finish({y});
  main.nodes[0].types[0].shape[0] = tir::var("m");  // a symbol that no input decides
  m.functions.emplace("main", main);
  try {
    interpret(m, "main", std::vector{floats({2}, {1, 2})});
    FAIL();
  } catch (const CompileError& error) {
    EXPECT_EQ(error.diagnostics()[0].code, "interpret-dynamic");
    EXPECT_EQ(error.diagnostics()[0].found, "f32[m]");
    EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
  }
}

TEST(GraphInterpret, AnUndefinedCalleeIsNamed) {
  Module m;
  Builder b(m, "main");
  Node call;
  call.kind = NodeKind::CallLowered;
  call.callee = "gone";
  call.inputs = {b.param("x", f32({2}))};
  call.types = {f32({2})};
  m.functions.emplace("main", b.finish(b.append(call)));
  try {
    interpret(m, "main", std::vector{floats({2}, {1, 2})});
    FAIL();
  } catch (const CompileError& error) {
    EXPECT_EQ(error.diagnostics()[0].code, "interpret-callee");
    EXPECT_EQ(error.diagnostics()[0].found, "@gone");
    EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
  }
}

}  // namespace
}  // namespace tenon::graph
