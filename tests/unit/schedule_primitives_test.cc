// SPDX-License-Identifier: Apache-2.0
// Schedule steps as text: tests/schedule/<primitive>/<what it shows>.tenon holds a loop function, `====`, a trace, `----`, and
// the function after it, or the refusal. Further functions are those that `tensorize` may name. Each result is checked against
// the interpreter and, compiled, against itself.
#include "schedule/steps.h"

#include <gtest/gtest.h>

#include "schedule/schedule.h"
#include "support/compiled.h"
#include "support/round_trip.h"
#include "support/schedule_pool.h"
#include "support/text_cases.h"
#include "tir/interpret.h"
#include "tir/text.h"

namespace tenon {
namespace {

using schedule::Schedule;

struct Input {
  std::vector<tir::PrimFunc> functions;
  std::string trace;
  const tir::PrimFunc* find(std::string_view name) const {
    for (const tir::PrimFunc& f : functions)
      if (f.name == name) return &f;
    return nullptr;
  }
};

Input read_input(const std::string& file, const std::string& text) {
  constexpr std::string_view kSeparator = "\n====\n";
  size_t end = text.find(kSeparator);
  check(end != text.npos, "a schedule case has a trace below `====`");
  Input out{{}, text.substr(end + kSeparator.size())};
  std::string functions = text.substr(0, end + 1);
  TextCursor cursor(file, functions);
  while (!cursor.at_end()) out.functions.push_back(tir::parse_prim_func(cursor, {}));
  return out;
}

class ScheduleText : public ::testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ScheduleText);

TEST_P(ScheduleText, GivesTheTextBelowTheLine) {
  testing::TextCase text = testing::read_text_case("schedule", GetParam());
  Input input = read_input(GetParam(), text.input);
  const tir::PrimFunc& func = input.functions[0];
  auto find = [&](std::string_view name) { return input.find(name); };
  if (GetParam().starts_with("refused/")) {
    std::string rendered = testing::compile_error([&] { schedule::replay(func, "trace", input.trace, find); });
    testing::expect_text(text, rendered);
    std::string code = GetParam().substr(8, GetParam().find('_') - 8);
    EXPECT_NE(rendered.find('[' + code + ']'), rendered.npos) << "the file is named after the code";
    return;
  }
  tir::PrimFunc result = schedule::replay(func, "trace", input.trace, find).func();
  testing::expect_text(text, tir::print(result));
  testing::round_trip(result);
  std::vector<Array> inputs = test::integer_inputs(func, 1), expected = tir::interpret(func, inputs);
  std::vector<Array> flat = test::reshaped(inputs, result, 0);
  auto as_before = [&](std::vector<Array> outputs) { return test::reshaped(std::move(outputs), func, inputs.size()); };
  EXPECT_TRUE(as_before(tir::interpret(result, flat)) == expected) << "the steps change the result";
  EXPECT_TRUE(as_before(test::run_compiled(result, flat)) == expected) << "the compiled function differs";
}

INSTANTIATE_TEST_SUITE_P(File, ScheduleText, ::testing::ValuesIn(testing::text_cases("schedule")),
                         [](const auto& info) { return testing::test_name(info.param); });

TEST(ScheduleTrace, RecordsTheNamesItGave) {
  Schedule schedule(test::schedule_pool()[0]);
  auto [outer, inner] = schedule.split("i1", 4);
  std::string fused = schedule.fuse("i0", outer);
  schedule.vectorize("i1_1");
  EXPECT_EQ(print(schedule.trace()), "split i1 4 inner=i1_i outer=i1_o\nfuse i0 i1_o into=i0_i1_o\nvectorize i1_1\n");
  EXPECT_EQ(inner, "i1_i");
  EXPECT_EQ(fused, "i0_i1_o");
  EXPECT_EQ(schedule::parse_trace("t", print(schedule.trace())), schedule.trace());
}

TEST(ScheduleTrace, IsWhatAProviderReturns) {
  schedule::Provider provider = [](const schedule::Request& request) -> std::optional<schedule::Scheduled> {
    Schedule steps(request.func);
    steps.vectorize("i1_1");
    return by_steps(steps);
  };
  const tir::PrimFunc& func = test::schedule_pool()[0];
  Target target = host_target();
  std::optional<schedule::Scheduled> out = provider({func, target, {}});
  ASSERT_TRUE(out.has_value());
  EXPECT_TRUE(out->func.scheduled());
  EXPECT_EQ(out->explain, "vectorize i1_1\n");
  std::vector<Array> inputs = test::integer_inputs(func, 1);
  EXPECT_TRUE(test::run_compiled(out->func, inputs) == tir::interpret(func, inputs));
}

TEST(ScheduleTrace, QuotesWhatIsNoWord) {
  schedule::Trace trace = {{"transform_layout", {"a", "i, j -> j, i"}, {{"into", "b\"c"}}, {}}};
  EXPECT_EQ(print(trace), "transform_layout a \"i, j -> j, i\" into=\"b\\\"c\"\n");
  EXPECT_EQ(schedule::parse_trace("t", print(trace)), trace);
}

TEST(ScheduleTrace, ARefusalHasItsLineAndLeavesTheFunction) {
  const tir::PrimFunc& func = test::schedule_pool()[0];
  std::string rendered = testing::compile_error([&] { schedule::replay(func, "steps.txt", "split i0 2\n\nsplit nothing 4\n"); });
  EXPECT_TRUE(rendered.starts_with("steps.txt:3:1: error: `split nothing 4`: there is no loop `nothing`")) << rendered;
  Schedule schedule(func);
  EXPECT_THROW(schedule.split("i0", 7), CompileError);
  EXPECT_TRUE(structural_equal(schedule.func(), func));
  EXPECT_TRUE(schedule.trace().empty());
}

}  // namespace
}  // namespace tenon
