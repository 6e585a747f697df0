// SPDX-License-Identifier: Apache-2.0
// Fusion, names, constants and lowering to loops: cases C01 to C07 and C42 to C51 of cases.md, each at every level, with inputs
// given at run time and as constants, and with constants outside and inside of kernels. C52 stands in onnx_wire_test.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "codegen/unrolling.h"
#include "graph/text.h"
#include "import/onnx/import.h"
#include "lower/lower.h"
#include "op/all_ops.h"
#include "support/compiled.h"
#include "support/module_run.h"
#include "support/onnx_writer.h"
#include "tir/interpret.h"
#include "tir/text.h"

namespace tenon {
namespace {

using graph::Module;
using test::expect_results;

Array f32(Shape shape, const std::vector<float>& values) { return array_of<float>(DType::F32, std::move(shape), values); }
Array i32(Shape shape, const std::vector<int32_t>& values) { return array_of<int32_t>(DType::I32, std::move(shape), values); }
Array i64(Shape shape, const std::vector<int64_t>& values) { return array_of<int64_t>(DType::I64, std::move(shape), values); }

Module parse(const std::string& text) { return graph::parse("case", text, op::all_ops()); }

constexpr const char* kParameterBack = R"(fn @main(%0: f32[2,3] "a", %1: f32[2,3] "b") -> ("same", "turned") {
  %2 = transpose(%1) {axes = [1,0]} : f32[3,2]
  return %0, %2
}
)";

TEST(LoweringCases, C01_AParameterIsHandedBack) {
  Array b = f32({2, 3}, {7, 8, 9, 10, 11, 12}), turned = f32({3, 2}, {7, 10, 8, 11, 9, 12});
  for (float more : {0.0f, 100.0f}) {
    Array a = f32({2, 3}, {1 + more, 2 + more, 3 + more, 4 + more, 5 + more, 6 + more});
    expect_results(kParameterBack, {a, b}, {a, turned});
  }
}

constexpr const char* kTwice = R"(fn @main(%0: f32[4] "x") -> ("a", "b", "c", "d") {
  %1 = add(%0, %0) : f32[4]
  return %1, %1, %0, %1
}
)";

TEST(LoweringCases, C02_OneValueIsReturnedSeveralTimes) {
  Array x = f32({4}, {1, -2, 3, 0}), twice = f32({4}, {2, -4, 6, 0});
  expect_results(kTwice, {x}, {twice, twice, x, twice});
}

/// A split into `parts`, the first and the last added, then all the others behind it.
std::string odd_split(int parts) {
  int width = 30 / parts;
  std::string types, values, sizes, others, t = "f32[" + std::to_string(width) + "]";
  for (int i = 0; i < parts; ++i) {
    std::string comma = i ? ", " : "";
    types += comma + t;
    values += comma + "%" + std::to_string(i + 1);
    sizes += (i ? "," : "") + std::to_string(width);
    if (i > 0 && i < parts - 1) others += ", %" + std::to_string(i + 1);
  }
  std::string sum = "%" + std::to_string(parts + 1), all = "%" + std::to_string(parts + 2);
  return "fn @main(%0: f32[30] \"x\") -> (\"y\") {\n  " + values + " = split(%0) {axis = 0, sizes = [" + sizes + "]} : " + types +
         "\n  " + sum + " = add(%1, %" + std::to_string(parts) + ") : " + t + "\n  " + all + " = concat(" + sum + others +
         ") {axis = 0}\n  return " + all + "\n}\n";
}

TEST(LoweringCases, C03_AnOperatorWithAnOddNumberOfResultsInsideAGroup) {
  std::vector<float> x(30);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + 1);
  for (int parts : {2, 3, 5}) {
    size_t width = 30 / static_cast<size_t>(parts);
    std::vector<float> want;
    for (size_t i = 0; i < width; ++i) want.push_back(x[i] + x[30 - width + i]);
    for (size_t i = width; i < 30 - width; ++i) want.push_back(x[i]);
    expect_results(odd_split(parts), {f32({30}, x)}, {f32({static_cast<int64_t>(want.size())}, want)});
  }
}

/// What selecting from nested tuples leaves: one value of several that were computed, and a function without operators.
constexpr const char* kSelected = R"(constant @one : f32[] = bytes "0000803f"
fn @main(%0: f32[2] "x") -> ("y", "z") {
  %1 = constant @one : f32[]
  %2 = add(%0, %1) : f32[2]
  %3 = add(%0, %0) : f32[2]
  %4 = call @nothing(%0) : f32[2]
  return %3, %4
}
fn @nothing(%0: f32[2]) {primitive = true} {
  return %0
}
)";

TEST(LoweringCases, C04_AGroupWithoutOperators) {
  Array x = f32({2}, {1, 4});
  expect_results(kSelected, {x}, {f32({2}, {2, 8}), x});
}

/// Twenty times plus one times one, then another operator; the names agree in their first 80 characters.
std::string long_chain() {
  std::string text =
      "fn @main(%0: f32[2] \"x\", %1: f32[3] \"y\", %2: f32[] \"s\", %3: f32[] \"m\", %4: f32[] \"three\") -> (\"a\", \"b\") {\n";
  int next = 5;
  auto op = [&](const std::string& name, int a, int b, const std::string& type) {
    text +=
        "  %" + std::to_string(next) + " = " + name + "(%" + std::to_string(a) + ", %" + std::to_string(b) + ") : " + type + "\n";
    return next++;
  };
  int ends[2] = {0, 1};
  for (int k = 0; k < 2; ++k) {
    std::string type = k ? "f32[3]" : "f32[2]";
    for (int i = 0; i < 20; ++i) ends[k] = op("multiply", op("add", ends[k], 2, type), 3, type);
    ends[k] = op(k ? "multiply" : "subtract", ends[k], 4, type);
  }
  return text + "  return %" + std::to_string(ends[0]) + ", %" + std::to_string(ends[1]) + "\n}\n";
}

TEST(LoweringCases, C05_NamesThatAgreeInTheirFirst80Characters) {
  std::vector<Array> inputs{f32({2}, {0, 1}), f32({3}, {0, 1, 2}), f32({}, {1}), f32({}, {1}), f32({}, {3})};
  expect_results(long_chain(), inputs, {f32({2}, {17, 18}), f32({3}, {60, 63, 66})});
  std::set<std::string> names;
  for (int time = 0; time < 2; ++time)
    for (const auto& [name, function] : driver::run_pipeline(parse(long_chain()), {.stop_after = "lower"}).prim_funcs) {
      EXPECT_LE(name.size(), 97u);
      names.insert(name);
    }
  EXPECT_EQ(names.size(), 2u) << "two symbols, the same each time";
}

/// Two groups of one name and structure over other shapes, and a function that is called as a group would be.
constexpr const char* kSameName = R"(fn @main(%0: f32[3] "x", %1: f32[2] "y") -> ("a", "b", "c") {
  %2 = relu(%0) : f32[3]
  %3 = relu(%1) : f32[2]
  %4 = call @fused_relu(%0) : f32[3]
  return %2, %3, %4
}
fn @fused_relu(%0: f32[3]) {
  %1 = neg(%0) : f32[3]
  return %1
}
)";

TEST(LoweringCases, C06_FunctionsThatWantOneName) {
  Module lowered = driver::run_pipeline(parse(kSameName), {.verify_each = true, .stop_after = "lower"});
  EXPECT_EQ(lowered.prim_funcs.size(), 3u);
  EXPECT_EQ(lowered.functions.size() + lowered.prim_funcs.size(), 5u) << "no name is given twice";
  EXPECT_TRUE(lowered.functions.contains("fused_relu"));
}

constexpr const char* kDiamond = R"(fn @main(%0: f32[1,2] "x0", %1: f32[1,2] "x1", %2: f32[1,2] "x2", %3: f32[2,2] "w") -> ("y") {
  %4 = maximum(%0, %1) : f32[1,2]
  %5 = transpose(%3) {axes = [1,0]} : f32[2,2]
  %6 = matmul(%2, %5) : f32[1,2]
  %7 = reshape(%4) {shape = [1,1,2]} : f32[1,1,2]
  %8 = multiply(%4, %6) : f32[1,2]
  %9 = add(%7, %8) : f32[1,1,2]
  return %9
}
)";

TEST(LoweringCases, C07_ADiamondWithAProductInOneArm) {
  expect_results(kDiamond, {f32({1, 2}, {1, -2}), f32({1, 2}, {0, 3}), f32({1, 2}, {1, 1}), f32({2, 2}, {1, 2, 3, 4})},
                 {f32({1, 1, 2}, {4, 24})});
}

constexpr const char* kDense = R"(constant @w : f32[2,3] = bytes "0000803f0000004000000000000000000000803f00004040"
fn @f(%0: f32[1,2]) {primitive = true} {
  %1 = constant @w : f32[2,3]
  %2 = matmul(%0, %1) : f32[1,3]
  return %2
}
fn @lifted(%0: f32[1,2], %1: f32[2,3]) {primitive = true} {
  %2 = matmul(%0, %1) : f32[1,3]
  return %2
}
)";

TEST(LoweringCases, C42_AConstantInsideOfAFunction) {
  Module module = parse(kDense);
  tir::PrimFunc inside = lower::lower_to_prim_func(module, module.functions.at("f"));
  EXPECT_EQ(inside.params.size(), 2u) << "x and the result";
  std::vector<int64_t> sizes;
  tir::visit(inside.body, [&](const tir::Stmt& s) {
    if (const auto* c = tir::as<tir::AllocateConst>(s)) sizes.push_back(c->data.elements());
  });
  EXPECT_EQ(sizes, (std::vector<int64_t>{6}));
  tir::PrimFunc lifted = lower::lower_to_prim_func(module, module.functions.at("lifted"));
  EXPECT_EQ(lifted.params.size(), 3u) << "x, w and the result";
  Array x = f32({1, 2}, {1, 2}), y = f32({1, 3}, {1, 4, 6});
  EXPECT_EQ(test::run_compiled(inside, std::vector{x})[0], y);
  EXPECT_EQ(test::run_compiled(lifted, std::vector{x, module.constants.at("w")})[0], y);
}

TEST(LoweringCases, C43_LoweringTwiceGivesOneText) {  // in another process: cli_test.py
  std::string first, second;
  for (std::string* text : {&first, &second})
    for (const auto& [name, function] : driver::run_pipeline(parse(long_chain()), {.stop_after = "lower"}).prim_funcs)
      *text += tir::print(function);
  EXPECT_EQ(first, second);
}

constexpr const char* kScalars = R"(constant @five : u8[] = bytes "05"
constant @half : f16[] = bytes "0038"
constant @true : bool[] = bytes "01"
constant @zero : i8[] = bytes "00"
fn @main(%0: u8[3] "a", %1: f16[2] "b", %2: bool[2] "c", %3: i8[1] "d") -> ("w", "x", "y", "z") {
  %4 = constant @five : u8[]
  %5 = constant @half : f16[]
  %6 = constant @true : bool[]
  %7 = constant @zero : i8[]
  %8 = add(%0, %4) : u8[3]
  %9 = multiply(%1, %5) : f16[2]
  %10 = logical_and(%2, %6) : bool[2]
  %11 = add(%3, %7) : i8[1]
  return %8, %9, %10, %11
}
)";

TEST(LoweringCases, C44_ScalarConstantsOfSmallTypes) {
  auto bytes = [](DType dtype, const std::vector<uint8_t>& values) {
    return array_of<uint8_t>(dtype, {static_cast<int64_t>(values.size())}, values);
  };
  auto half = [](float a, float b) { return array_of<uint16_t>(DType::F16, {2}, {float_to_half(a), float_to_half(b)}); };
  expect_results(kScalars, {bytes(DType::U8, {1, 2, 250}), half(1, 2), bytes(DType::Bool, {1, 0}), bytes(DType::I8, {0x80})},
                 {bytes(DType::U8, {6, 7, 255}), half(0.5f, 1), bytes(DType::Bool, {1, 0}), bytes(DType::I8, {0x80})});
}

constexpr const char* kRank0 = R"(fn @main(%0: i32[] "a", %1: i32[] "b", %2: f32[] "x") -> ("i", "max", "sum", "mean") {
  %3 = add(%0, %1) : i32[]
  %4 = max(%2) {axes = []} : f32[]
  %5 = sum(%2) {axes = []} : f32[]
  %6 = mean(%2) {axes = []} : f32[]
  return %3, %4, %5, %6
}
)";

TEST(LoweringCases, C45_Rank0) {
  Array x = f32({}, {2.5});
  expect_results(kRank0, {i32({}, {3}), i32({}, {4}), x}, {i32({}, {7}), x, x, x});
}

constexpr const char* kArgmax = R"(fn @main(%0: i32[2,3] "x") -> ("first", "largest", "last") {
  %1 = argmax(%0) {axis = 1} : i64[2]
  %2 = max(%0) {axes = [1]} : i32[2]
  %3 = argmax(%0) {axis = 1, select_last_index = true} : i64[2]
  return %1, %2, %3
}
)";

TEST(LoweringCases, C46_AReductionThatCarriesTwoValues) {
  expect_results(kArgmax, {i32({2, 3}, {1, 5, 5, 7, 0, 7})}, {i64({2}, {1, 0}), i32({2}, {5, 7}), i64({2}, {2, 2})});
}

constexpr const char* kLongUnroll = R"(primfunc @f(x: i32[1]) -> (y: i32[1]) {
  y[0] = x[0]
  for i = 0 extent 1048576 unrolled {
    y[0] = (y[0] + 1:i32)
  }
}
)";

TEST(LoweringCases, C47_AMillionUnrolledIterations) {
  tir::PrimFunc function = tir::parse_prim_func("case", kLongUnroll);
  EXPECT_EQ(test::run_compiled(function, std::vector{i32({1}, {0})})[0], i32({1}, {1048576}));
}

constexpr const char* kNestedUnroll = R"(primfunc @f(x: i32[1]) -> (y: i32[1]) {
  y[0] = x[0]
  for i = 0 extent 300 unrolled {
    for j = 0 extent 300 unrolled {
      for k = 0 extent 4 unrolled {
        y[0] = (y[0] + 1:i32)
      }
    }
  }
}
)";

TEST(LoweringCases, C47_UnrolledLoopsInsideOfEachOther) {
  tir::PrimFunc function = tir::parse_prim_func("case", kNestedUnroll);
  EXPECT_EQ(test::run_compiled(function, std::vector{i32({1}, {5})})[0], i32({1}, {360005}));
  std::vector<tir::ForKind> kinds;
  tir::visit(codegen::limit_unrolling(function.body), [&](const tir::Stmt& s) {
    if (const auto* loop = tir::as<tir::For>(s)) kinds.push_back(loop->loop_kind);
  });
  EXPECT_EQ(kinds, (std::vector{tir::ForKind::Serial, tir::ForKind::Unrolled, tir::ForKind::Unrolled})) << "the outer one first";
}

constexpr const char* kSoftmax = R"(fn @main(%0: f32[2,2] "a", %1: f32[3] "b", %2: f32[2] "c") -> ("x", "y", "z") {
  %3 = softmax(%0) {axes = [0]} : f32[2,2]
  %4 = softmax(%1) {axes = [0]} : f32[3]
  %5 = softmax(%2) {axes = [0]} : f32[2]
  return %3, %4, %5
}
)";

TEST(LoweringCases, C48_SoftmaxOnUnusualAxes) {
  expect_results(kSoftmax, {f32({2, 2}, {0, 0, std::log(3.0f), 0}), f32({3}, {0, std::log(2.0f), 0}), f32({2}, {1000, 1000})},
                 {f32({2, 2}, {0.25f, 0.5f, 0.75f, 0.5f}), f32({3}, {0.25f, 0.5f, 0.25f}), f32({2}, {0.5f, 0.5f})}, 1e-6);
}

constexpr const char* kEmpty = R"(fn @main(%0: f32[0,3] "z", %1: f32[2,3] "ones") -> ("a", "b", "c", "d", "e") {
  %2 = neg(%0) : f32[0,3]
  %3 = sum(%0) {axes = [0]} : f32[3]
  %4 = prod(%0) {axes = [0]} : f32[3]
  %5 = concat(%0, %1) {axis = 0} : f32[2,3]
  %6 = reshape(%0) {shape = [3,0]} : f32[3,0]
  return %2, %3, %4, %5, %6
}
)";

TEST(LoweringCases, C49_ExtentsOfZero) {
  Array none = f32({0, 3}, {}), ones = f32({2, 3}, {1, 1, 1, 1, 1, 1});
  expect_results(kEmpty, {none, ones}, {none, f32({3}, {0, 0, 0}), f32({3}, {1, 1, 1}), ones, f32({3, 0}, {})});
}

constexpr const char* kManyElements = R"(fn @main(%0: i32[1,1] "x") -> ("y") {
  %1 = broadcast_to(%0) {shape = [65536,32769]} : i32[65536,32769]
  %2 = sum(%1) {axes = [1]} : i32[65536]
  return %2
}
)";

TEST(LoweringCases, C50_MoreElementsThan32BitsCount) {
  Module module = parse(kManyElements);
  auto executable = driver::load(driver::build(driver::run_pipeline(module, {}), {}));
  EXPECT_LT(executable->program.arena_bytes(), uint64_t{1} << 30) << "fused: nothing large is stored";
  EXPECT_EQ(test::run_once(executable, {i32({1, 1}, {1})})[0], i32({65536}, std::vector<int32_t>(65536, 32769)));
}

TEST(LoweringCases, C51_SliceBoundsThatAreFoldedThemselves) {
  test::OnnxGraph graph;
  graph.initializer("data", i64({6}, {1, 2, 3, 4, 5, 6})).initializer("one", i64({1}, {1})).initializer("two", i64({1}, {2}));
  graph.node("Add", {"one", "one"}, {"starts"}).node("Mul", {"two", "two"}, {"ends"});
  graph.node("Slice", {"data", "starts", "ends"}, {"y"}).output("y", DType::I64);
  auto bytes = std::make_shared<const std::string>(test::onnx_model(graph, 13));
  for (int level : {0, 3}) {
    Module module = onnx::import_bytes("c51.onnx", bytes, std::as_bytes(std::span(*bytes)));
    driver::CompileOptions options{.opt_level = level};
    module.attrs["opt_level"] = int64_t{level};
    auto executable = driver::load(driver::build(driver::run_pipeline(module, options), options));
    EXPECT_EQ(test::run_once(executable, {})[0], i64({2}, {3, 4})) << level;
  }
}

}  // namespace
}  // namespace tenon
