// SPDX-License-Identifier: Apache-2.0
// What the reference system's tests pin about building and running, where no other test of ours does.
// docs/reference-tests.md maps every one of them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "base/mapped_file.h"
#include "driver/driver.h"
#include "graph/interpret.h"
#include "graph/text.h"
#include "op/all_ops.h"
#include "runtime/session.h"
#include "runtime/tvm_params.h"
#include "support/module_run.h"

namespace tenon {
namespace {

using graph::Module;
using Floats = std::vector<float>;
using test::expect_results;

Module parse(const std::string& text) { return graph::parse("test", text, op::all_ops()); }

Array floats(Shape shape, const Floats& values) { return array_of<float>(DType::F32, std::move(shape), values); }

constexpr const char* kPassThrough = R"(constant @one : f32[] = bytes "0000803f"
fn @main(%0: f32[2,2] "x") -> ("a", "b", "c", "d") {
  %1 = constant @one : f32[]
  %2 = add(%0, %1) : f32[2,2]
  %3 = transpose(%2) {axes = [1,0]} : f32[2,2]
  return %3, %0, %2, %3
}
)";

TEST(ReferenceRows, ResultsMayBeInputsAndTheSameValueTwiceInAnyOrder) {
  Array x = floats({2, 2}, {1, 2, 3, 4}), sum = floats({2, 2}, {2, 3, 4, 5}), turned = floats({2, 2}, {2, 4, 3, 5});
  expect_results(kPassThrough, {x}, {turned, x, sum, turned});
}

constexpr const char* kNothing = R"(fn @main(%0: f32[2] "x") {
  %1 = relu(%0) : f32[2]
  return
}
)";

TEST(ReferenceRows, AModelWithoutResultsBuildsAndRuns) {
  EXPECT_NO_FATAL_FAILURE(expect_results(kNothing, {floats({2}, {1, 2})}, {}));
}

constexpr const char* kFill = R"(constant @zero : i32[] = bytes "07000000"
fn @main(%0: i32[] "x") -> ("y") {
  %1 = constant @zero : i32[]
  %2 = add(%0, %1) : i32[]
  %3 = broadcast_to(%2) {shape = [1,16,1,5]} : i32[1,16,1,5]
  return %3
}
)";

TEST(ReferenceRows, AScalarFillsAShape) {
  expect_results(kFill, {array_of<int32_t>(DType::I32, {}, {-3})},
                 {array_of<int32_t>(DType::I32, {1, 16, 1, 5}, std::vector<int32_t>(80, 4))});
}

constexpr const char* kSums =
    R"(fn @main(%0: f32[] "s", %1: i32[] "i", %2: f32[2,3] "t", %3: f32[3] "row") -> ("ss", "ii", "tt", "tr", "st") {
  %4 = add(%0, %0) : f32[]
  %5 = add(%1, %1) : i32[]
  %6 = add(%2, %2) : f32[2,3]
  %7 = add(%2, %3) : f32[2,3]
  %8 = add(%0, %2) : f32[2,3]
  return %4, %5, %6, %7, %8
}
)";

TEST(ReferenceRows, SumsOfScalarsTensorsAndBroadcasts) {
  expect_results(
      kSums,
      {floats({}, {10}), array_of<int32_t>(DType::I32, {}, {21}), floats({2, 3}, {1, 2, 3, 4, 5, 6}), floats({3}, {1, 0, -1})},
      {floats({}, {20}), array_of<int32_t>(DType::I32, {}, {42}), floats({2, 3}, {2, 4, 6, 8, 10, 12}),
       floats({2, 3}, {2, 2, 2, 5, 5, 5}), floats({2, 3}, {11, 12, 13, 14, 15, 16})});
}

constexpr const char* kHalf = R"(fn @main(%0: f16[4] "x", %1: f32[4] "y") -> ("a", "b", "c") {
  %2 = add(%0, %0) : f16[4]
  %3 = cast(%1) {to = "f16"} : f16[4]
  %4 = multiply(%2, %3) : f16[4]
  %5 = cast(%4) {to = "f32"} : f32[4]
  %6 = add(%5, %1) : f32[4]
  return %2, %4, %6
}
)";

TEST(ReferenceRows, HalfAndSinglePrecisionInOneModel) {
  auto half = [](const Floats& values) {
    std::vector<uint16_t> bits;
    for (float v : values) bits.push_back(float_to_half(v));
    return array_of<uint16_t>(DType::F16, {4}, bits);
  };
  expect_results(kHalf, {half({1, 2, -3, 0.5}), floats({4}, {2, 1, 4, 8})},
                 {half({2, 4, -6, 1}), half({4, 4, -24, 8}), floats({4}, {6, 5, -20, 16})});
}

constexpr const char* kIdentity = R"(fn @main(%0: f32[3] "x") -> ("a", "b", "c") {
  %1 = cast(%0) {to = "f32"} : f32[3]
  %2 = relu(%1) : f32[3]
  %3 = cast(%2) {to = "f32"} : f32[3]
  return %1, %3, %0
}
)";

TEST(ReferenceRows, CastsThatDoNothingAreKernelsOrVanish) {
  Array x = floats({3}, {-1, 0, 2});
  expect_results(kIdentity, {x}, {x, floats({3}, {0, 0, 2}), x});
}

/// One step of a gated recurrent unit with two units, its three gates cut from one product.
constexpr const char* kGate = R"(fn @main(%0: f32[1,2] "x", %1: f32[1,2] "h", %2: f32[4,6] "w") -> ("next") {
  %3 = concat(%0, %1) {axis = 1} : f32[1,4]
  %4 = matmul(%3, %2) : f32[1,6]
  %5, %6, %7 = split(%4) {axis = 1, sizes = [2,2,2]} : f32[1,2], f32[1,2], f32[1,2]
  %8 = sigmoid(%5) : f32[1,2]
  %9 = sigmoid(%6) : f32[1,2]
  %10 = multiply(%9, %7) : f32[1,2]
  %11 = tanh(%10) : f32[1,2]
  %12 = subtract(%1, %11) : f32[1,2]
  %13 = multiply(%8, %12) : f32[1,2]
  %14 = add(%11, %13) : f32[1,2]
  return %14
}
)";

TEST(ReferenceRows, ARecurrentStepOfProductSplitAndActivations) {
  Floats in = {0.5f, -1, 0.25f, 2}, w(24), next;
  for (size_t i = 0; i < 24; ++i) w[i] = static_cast<float>(static_cast<int>(i * 7 % 11) - 5) / 8;
  double gates[6];
  for (size_t g = 0; g < 6; ++g) {
    gates[g] = 0;
    for (size_t k = 0; k < 4; ++k) gates[g] += static_cast<double>(in[k]) * static_cast<double>(w[k * 6 + g]);
  }
  auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  for (size_t i = 0; i < 2; ++i) {
    double candidate = std::tanh(sigmoid(gates[2 + i]) * gates[4 + i]), keep = sigmoid(gates[i]);
    next.push_back(static_cast<float>(candidate + keep * (static_cast<double>(in[2 + i]) - candidate)));
  }
  expect_results(kGate, {floats({1, 2}, {in[0], in[1]}), floats({1, 2}, {in[2], in[3]}), floats({4, 6}, w)},
                 {floats({1, 2}, next)}, 1e-6);
}

struct Folder {
  Folder() : path(::testing::TempDir() + "tenon_rows_" + std::to_string(getpid())) { std::filesystem::remove_all(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

constexpr const char* kBias = R"(constant @bias : f32[2] = bytes "0000803f00000040"
fn @main(%0: f32[2] "x") -> ("y") {
  %1 = constant @bias : f32[2]
  %2 = add(%0, %1) : f32[2]
  return %2
}
)";

TEST(ReferenceRows, ParametersAreReturnedAndMayBeReplaced) {
  Folder folder;
  driver::CompileOptions options;
  driver::write_tvm(driver::build_tvm(driver::run_pipeline(parse(kBias), options), options), folder.path);
  std::string file = folder.path + "/" + runtime::kTvmParams;
  MappedFile mapped = map_file(file);
  runtime::tvm::Params params = runtime::tvm::read_params(mapped.bytes, mapped.owner, file);
  ASSERT_EQ(params.size(), 1u);
  EXPECT_EQ(params.begin()->first, "bias");
  EXPECT_EQ(params.begin()->second, floats({2}, {1, 2}));
  EXPECT_EQ(test::run_once(runtime::load_tvm_folder(folder.path), {floats({2}, {10, 20})})[0], floats({2}, {11, 22}));
  runtime::tvm::write_params(file, {{"bias", floats({2}, {-10, 5})}});
  EXPECT_EQ(test::run_once(runtime::load_tvm_folder(folder.path), {floats({2}, {10, 20})})[0], floats({2}, {0, 25}));
}

TEST(ReferenceRows, SessionsOutliveTheirExecutablesHandle) {
  auto executable = driver::load(driver::build(driver::run_pipeline(parse(kBias), {}), {}));
  runtime::Session first(executable), second(executable);
  executable.reset();
  first.set_input("x", floats({2}, {1, 1}));
  second.set_input("x", floats({2}, {2, 2}));
  first.run();
  second.run();
  EXPECT_EQ(first.output(0), floats({2}, {2, 3}));
  EXPECT_EQ(second.output(0), floats({2}, {3, 4}));
}

/// A model over one dtype with two constants, one of them read by two kernels.
std::string linked_model(const std::string& dtype, const std::string& bytes) {
  std::string swapped = bytes.substr(bytes.size() / 2) + bytes.substr(0, bytes.size() / 2);
  std::string model = R"(constant @a : T = bytes "A"
constant @b : T = bytes "B"
fn @main(%0: T "x") -> ("y", "z") {
  %1 = constant @a : T
  %2 = constant @b : T
  %3 = add(%0, %1) : T
  %4 = multiply(%3, %2) : T
  %5 = stop_fusion(%4) : T
  %6 = subtract(%5, %1) : T
  return %4, %6
}
)";
  auto replace = [&](const std::string& what, const std::string& with) {
    for (size_t at = model.find(what); at != model.npos; at = model.find(what, at + with.size()))
      model.replace(at, what.size(), with);
  };
  replace(" T", " " + dtype + "[4]");
  replace("\"A\"", '"' + bytes + '"');
  replace("\"B\"", '"' + swapped + '"');
  return model;
}

TEST(ReferenceRows, LinkedParametersGiveEqualResultsAndNoneIsReturned) {
  const std::map<std::string, std::string> four = {// 1, 2, 3, 4
                                                   {"i8", "01020304"},
                                                   {"u8", "01020304"},
                                                   {"i16", "0100020003000400"},
                                                   {"u16", "0100020003000400"},
                                                   {"i32", "01000000020000000300000004000000"},
                                                   {"u32", "01000000020000000300000004000000"},
                                                   {"i64", "0100000000000000020000000000000003000000000000000400000000000000"},
                                                   {"u64", "0100000000000000020000000000000003000000000000000400000000000000"},
                                                   {"f16", "003c004000420044"},
                                                   {"bf16", "803f004040408040"},
                                                   {"f32", "0000803f000000400000404000008040"},
                                                   {"f64", "000000000000f03f000000000000004000000000000008400000000000001040"}};
  for (const auto& [dtype, bytes] : four) {
    SCOPED_TRACE(dtype);
    Module module = parse(linked_model(dtype, bytes));
    Array x = module.constants.at("a");
    std::vector<Array> results[2];
    for (bool link : {false, true}) {
      module.attrs["link_params"] = link;
      driver::CompileOptions options{.link_params = link};
      Module scheduled = driver::run_pipeline(module, options);
      EXPECT_EQ(scheduled.constants.empty(), link);
      EXPECT_EQ(driver::build_tvm(scheduled, options).linked.params.empty(), link);
      driver::Built built = driver::build(scheduled, options);
      EXPECT_EQ(built.constants.empty(), link);
      results[link] = test::run_once(driver::load(std::move(built)), {x});
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], graph::interpret(module, "main", std::vector{x}));
  }
}

}  // namespace
}  // namespace tenon
