// SPDX-License-Identifier: Apache-2.0
// Memory, aliasing and the executor's interface: cases C30 to C41 of cases.md, each at the lowest and the highest level, with
// inputs given at run time and as constants, and with a session that looks for what kernels must not touch.
#include <gtest/gtest.h>

#include <numeric>

#include "driver/driver.h"
#include "graph/text.h"
#include "op/all_ops.h"
#include "runtime/session.h"
#include "support/error_of.h"

namespace tenon::driver {
namespace {

using runtime::Session;

Array f32(Shape shape, const std::vector<float>& values) { return array_of<float>(DType::F32, std::move(shape), values); }
Array i64(Shape shape, const std::vector<int64_t>& values) { return array_of<int64_t>(DType::I64, std::move(shape), values); }

using Arrays = std::vector<Array>;

std::shared_ptr<const runtime::Executable> compiled(const std::string& text, int level, const Arrays& constants = {}) {
  graph::Module module = graph::parse("case.tenon", text, op::all_ops());
  module.attrs["opt_level"] = int64_t{level};
  graph::Function& main = module.functions.at("main");
  // A parameter becomes a constant of the same number.
  for (size_t i = 0; i < constants.size(); ++i) {
    std::string name = "given" + std::to_string(i);
    module.constants[name] = constants[i];
    graph::Node node;
    node.kind = graph::NodeKind::Constant;
    node.callee = name;
    node.types = {main.params[i].type};
    node.first_result = static_cast<uint32_t>(i);
    main.nodes.insert(main.nodes.begin() + static_cast<std::ptrdiff_t>(i), std::move(node));
  }
  if (!constants.empty()) main.params.clear();
  CompileOptions options;
  return load(build(run_pipeline(std::move(module), options), options));
}

void expect_outputs(const Session& session, const Arrays& expected, const std::string& what) {
  ASSERT_EQ(session.program().outputs.size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(session.output(i) == expected[i]) << what << ", output " << i;
}

struct RunCase {
  Arrays inputs, outputs;
};

/// The runs one after another in one session, with bound inputs and with copied ones; then each with constants.
void expect_runs(const std::string& text, const std::vector<RunCase>& runs) {
  for (int level : {0, 3}) {
    auto executable = compiled(text, level);
    for (bool debug : {false, true})
      for (bool bound : {false, true}) {
        Session session(executable, {.debug_memory = debug});
        for (const RunCase& run : runs) {
          for (size_t i = 0; i < run.inputs.size(); ++i) {
            if (bound)
              session.bind_input(i, run.inputs[i].bytes.data());
            else
              session.set_input(session.program().inputs[i].name, run.inputs[i]);
          }
          Arrays before;
          for (const Array& input : run.inputs) before.push_back(make_array(input.dtype, input.shape, input.bytes));
          session.run();
          expect_outputs(session, run.outputs, "level " + std::to_string(level) + (bound ? ", bound" : ""));
          for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(run.inputs[i] == before[i]) << "input " << i << " was written";
        }
      }
    for (const RunCase& run : runs) {
      if (run.inputs.empty()) continue;
      Session session(compiled(text, level, run.inputs));
      session.run();
      expect_outputs(session, run.outputs, "constants, level " + std::to_string(level));
    }
  }
}

TEST(MemoryCases, C30_AnInputThatIsAlsoAnOutput) {
  expect_runs(
      R"(constant @one : f32[] = bytes "0000803f"
    fn @main(%0: f32[2] "x") -> ("same", "more") {
      %1 = constant @one : f32[]
      %2 = add(%0, %1)
      return %0, %2
    })",
      {{{f32({2}, {1, 1})}, {f32({2}, {1, 1}), f32({2}, {2, 2})}}, {{f32({2}, {5, 6})}, {f32({2}, {5, 6}), f32({2}, {6, 7})}}});
}

TEST(MemoryCases, C31_AViewOfABoundInput) {
  expect_runs("fn @main(%0: f32[1,4,1,1] \"x\") -> (\"y\") {\n %1 = reshape(%0) {shape = [1,4]}\n return %1 }",
              {{{f32({1, 4, 1, 1}, {1, 2, 3, 4})}, {f32({1, 4}, {1, 2, 3, 4})}},
               {{f32({1, 4, 1, 1}, {9, 8, 7, 6})}, {f32({1, 4}, {9, 8, 7, 6})}}});
  expect_runs(
      "fn @main(%0: f32[4] \"x\") -> (\"y\", \"z\") {\n %1 = reshape(%0) {shape = [1,4]}\n %2 = identity(%0)\n return %1, %2 }",
      {{{f32({4}, {1, 2, 3, 4})}, {f32({1, 4}, {1, 2, 3, 4}), f32({4}, {1, 2, 3, 4})}},
       {{f32({4}, {9, 8, 7, 6})}, {f32({1, 4}, {9, 8, 7, 6}), f32({4}, {9, 8, 7, 6})}}});
}

TEST(MemoryCases, C32_ReadingAnOutputThatTheCallerBound) {
  for (int level : {0, 3}) {
    Session session(
        compiled("fn @main(%0: f32[3] \"x\", %1: f32[3] \"y\") -> (\"z\") {\n %2 = add(%0, %1)\n return %2 }", level));
    session.set_input("x", f32({3}, {1, 2, 3}));
    session.set_input("y", f32({3}, {10, 20, 30}));
    std::vector<float> z(3, -1);
    session.bind_output(0, z.data());
    session.run();
    EXPECT_EQ(z, (std::vector<float>{11, 22, 33}));
    expect_outputs(session, {f32({3}, {11, 22, 33})}, "through the interface");
  }
}

TEST(MemoryCases, C33_OneOfTwoViewsOfATensorIsUpdatedInPlace) {
  expect_runs(R"(fn @main(%0: f32[3] "x") -> ("y") {
      %1 = reshape(%0) {shape = [3,1]}
      %2 = reshape(%0) {shape = [3,1]}
      %3 = multiply(%1, %2)
      %4 = concat(%3, %2) {axis = 1}
      return %4
    })",
              {{{f32({3}, {1, 2, 3})}, {f32({3, 2}, {1, 1, 4, 2, 9, 3})}}});
}

TEST(MemoryCases, C34_AResultThatNobodyUses) {
  expect_runs(R"(constant @one : f32[] = bytes "0000803f"
    constant @two : f32[] = bytes "00000040"
    fn @main(%0: f32[3] "x") -> ("y") {
      %1, %2 = top_k(%0) {axis = 0, k = 2}
      %3 = constant @one : f32[]
      %4 = constant @two : f32[]
      %5 = add(%1, %3)
      %6 = multiply(%1, %4)
      %7 = add(%5, %6)
      return %7
    })",
              {{{f32({3}, {3, 9, 5})}, {f32({2}, {28, 16})}}});
}

TEST(MemoryCases, C35_NotInPlaceWhileALaterNodeReadsTheValue) {
  expect_runs(R"(constant @one : f32[] = bytes "0000803f"
    fn @main(%0: f32[2] "x") -> ("z") {
      %1 = constant @one : f32[]
      %2 = subtract(%0, %1)
      %3 = relu(%2)
      %4 = add(%2, %3)
      return %4
    })",
              {{{f32({2}, {0, 3})}, {f32({2}, {-1, 4})}}});
}

TEST(MemoryCases, C36_ALaterRunRemembersNothing) {
  RunCase first{{f32({3}, {1, 2, 3})}, {f32({3}, {3, 5, 7})}};
  expect_runs(R"(constant @one : f32[] = bytes "0000803f"
    constant @two : f32[] = bytes "00000040"
    fn @main(%0: f32[3] "x") -> ("y") {
      %1 = constant @two : f32[]
      %2 = multiply(%0, %1)
      %3 = constant @one : f32[]
      %4 = add(%2, %3)
      return %4
    })",
              {first, {{f32({3}, {10, -1, 0})}, {f32({3}, {21, -1, 1})}}, first});
}

TEST(MemoryCases, C37_AConcatenationOfOneTensor) {
  RunCase one{{i64({2, 1}, {7, 9})}, {i64({2, 1}, {7, 9})}};
  expect_runs("fn @main(%0: i64[2,1] \"x\") -> (\"y\") {\n %1 = concat(%0) {axis = 1}\n return %1 }",
              std::vector<RunCase>(10, one));
  expect_runs("fn @main(%0: i64[2,1] \"x\") -> (\"y\") {\n %1 = concat(%0, %0) {axis = 1}\n return %1 }",
              {{{i64({2, 1}, {7, 9})}, {i64({2, 2}, {7, 7, 9, 9})}}});
}

TEST(MemoryCases, C38_NegativePaddingBesideItsSource) {
  auto f64 = [](Shape shape, const std::vector<double>& values) {
    return array_of<double>(DType::F64, std::move(shape), values);
  };
  expect_runs(R"(constant @zero : f64[] = bytes "0000000000000000"
    fn @main(%0: f64[1,4,1,1] "x") -> ("y") {
      %1 = constant @zero : f64[]
      %2 = pad(%0, %1) {after = [0,-1,0,0], before = [0,1,0,0]}
      %3 = concat(%2, %0) {axis = 3}
      return %3
    })",
              {{{f64({1, 4, 1, 1}, {1, 2, 3, 4})}, {f64({1, 4, 1, 2}, {0, 1, 1, 2, 2, 3, 3, 4})}}});
}

TEST(MemoryCases, C39_AnInputThatIsUnknownOrOfAnotherType) {
  Session session(compiled("fn @main(%0: f32[2] \"x\") -> (\"y\") {\n %1 = relu(%0)\n return %1 }", 3));
  Diagnostic error = error_of([&] { session.set_input("xx", f32({2}, {1, 2})); });
  EXPECT_EQ(error.code, "input-unknown");
  EXPECT_EQ(error.input, "xx");
  EXPECT_EQ(error.expected, "`x`");
  error = error_of([&] { session.set_input("x", i64({2}, {1, 2})); });
  EXPECT_EQ(error.code, "input-dtype");
  EXPECT_EQ(error.expected, "f32[2]");
  error = error_of([&] { session.set_input("x", f32({3}, {1, 2, 3})); });
  EXPECT_EQ(error.code, "input-shape");
  EXPECT_EQ(error.found, "f32[3]");
  error = error_of([&] { session.run(); });
  EXPECT_EQ(error.code, "input-missing");
  EXPECT_EQ(error.input, "x");
  session.set_input("x", f32({2}, {-1, 2}));
  session.run();
  expect_outputs(session, {f32({2}, {0, 2})}, "a right call afterwards");
}

TEST(MemoryCases, C40_EachOutputHasItsOwnType) {
  std::string text = R"(fn @main(%0: f32[2,3] "x") -> ("sums", "places") {
      %1 = sum(%0) {axes = [1], keepdims = false}
      %2 = argmax(%0) {axis = 1, keepdims = false}
      return %1, %2
    })";
  expect_runs(text, {{{f32({2, 3}, {1, 5, 2, 7, 0, 3})}, {f32({2}, {8, 10}), i64({2}, {1, 0})}}});
  Session session(compiled(text, 3));
  EXPECT_EQ(session.program().outputs[1].dtype, DType::I64);
  EXPECT_EQ(session.program().outputs[1].shape, (Shape{2}));
}

TEST(MemoryCases, C41_AGraphThatIsOnlyAConstant) {
  for (const std::string body : {"%0 = constant @a : f32[2]\n return %0",
                                 "%0 = constant @b : f32[2]\n %1 = constant @c : f32[2]\n "
                                 "%2 = add(%0, %1)\n return %2"}) {
    std::string text =
        "constant @a : f32[2] = bytes \"0000404000000040\"\nconstant @b : f32[2] = bytes \"0000803f00000040\"\n"
        "constant @c : f32[2] = bytes \"0000004000000000\"\nfn @main() -> (\"y\") {\n " +
        body + " }";
    expect_runs(text, {{{}, {f32({2}, {3, 2})}}});
    Session session(compiled(text, 3));
    for (int run = 0; run < 2; ++run) {
      session.run();
      expect_outputs(session, {f32({2}, {3, 2})}, "run " + std::to_string(run));
      const_cast<std::byte*>(session.output_data(0))[0] = std::byte{0x55};
    }
  }
}

/// A bound input and a bound output are memory of the caller, so the plan has no bytes for them.
TEST(MemoryCases, InputsAndOutputsTakeNoPlannedMemory) {
  auto executable = compiled("fn @main(%0: f32[1000] \"x\") -> (\"y\") {\n %1 = relu(%0)\n return %1 }", 3);
  EXPECT_EQ(executable->program.arena_bytes(), 0u);
  Session session(executable);
  std::vector<float> x(1000, -2), y(1000, 7);
  session.bind_input(0, x.data());
  session.bind_output(0, y.data());
  session.run();
  EXPECT_EQ(std::accumulate(y.begin(), y.end(), 0.0f), 0.0f);
}

TEST(MemoryCases, ADeadResultAndAValueReturnedTwice) {
  expect_runs(R"(fn @main(%0: f32[4] "x") -> ("a", "x again", "b") {
      %1 = exp(%0)
      %2 = relu(%0)
      %3 = neg(%2)
      return %3, %0, %3
    })",
              {{{f32({4}, {1, -2, 3, 0})},
                {f32({4}, {-1, -0.0f, -3, -0.0f}), f32({4}, {1, -2, 3, 0}), f32({4}, {-1, -0.0f, -3, -0.0f})}}});
}

}  // namespace
}  // namespace tenon::driver
