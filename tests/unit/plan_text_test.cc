// SPDX-License-Identifier: Apache-2.0
// Memory problems and plans as CSV, JSON, text and pictures.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/memory_problem.h"
#include "support/round_trip.h"

namespace tenon::plan {
namespace {

using testing::buffer;

std::string refusal(std::string_view text) {
  return testing::compile_error([&] { read_problem_csv("p.csv", text); });
}

TEST(PlanCsv, ReadsMiniMallocsColumns) {
  LivenessProblem problem = read_problem_csv("p.csv",
                                             "id,lower,upper,size,alignment,gaps,offset,hint\n"
                                             "b1,0,9,16,8,2-4 5-6@0:8,32,7\r\n"
                                             "\n"
                                             "b2,3,4,4,1,,,\n");
  ASSERT_EQ(problem.buffers.size(), 2u);
  const Buffer& b1 = problem.buffers[0];
  EXPECT_EQ(b1.id, "b1");
  EXPECT_EQ(std::tuple(b1.begin, b1.end, b1.size, b1.alignment), std::tuple(0, 9, 16, 8));
  ASSERT_EQ(b1.gaps.size(), 2u);
  EXPECT_EQ(std::tuple(b1.gaps[0].begin, b1.gaps[0].end, b1.gaps[0].high), std::tuple(2, 4, 0));
  EXPECT_EQ(std::tuple(b1.gaps[1].begin, b1.gaps[1].end, b1.gaps[1].low, b1.gaps[1].high), std::tuple(5, 6, 0, 8));
  EXPECT_EQ(b1.pin->offset, 32);
  EXPECT_EQ(b1.hint, 7);
  EXPECT_FALSE(problem.buffers[1].pin);
  EXPECT_FALSE(problem.buffers[1].hint);
}

TEST(PlanCsv, ASpreadsheetsByteOrderMarkIsNoPartOfTheHeader) {
  EXPECT_EQ(read_problem_csv("p.csv", "\xEF\xBB\xBFid,lower,upper,size\r\na,0,1,4\r\n").buffers.at(0).id, "a");
}

TEST(PlanCsv, AnEndColumnIsInclusive) {
  LivenessProblem problem = read_problem_csv("p.csv", "buffer_id,start,end,size,gaps\nx,0,4,8,1-2\n");
  EXPECT_EQ(problem.buffers[0].end, 5);
  EXPECT_EQ(problem.buffers[0].gaps[0].end, 3);
}

TEST(PlanCsv, WritesWhatItReads) {
  LivenessProblem problem{{buffer("a", 0, 2, 16, 8), buffer("b,\"c", 1, 3, 16), buffer("v", 1, 2, 4)},
                          {{.name = "x"}, {.name = "y"}}};
  problem.buffers[0].pools = {1, 0};
  problem.buffers[0].kind = BufferKind::Workspace;
  problem.buffers[1].pin = Pin{1, 64};
  problem.buffers[1].may_share_with = {0};
  problem.buffers[2].alias = Alias{0, 8};
  std::string text = write_problem_csv(problem);
  LivenessProblem again = read_problem_csv("p.csv", text, problem.pools);
  EXPECT_EQ(write_problem_csv(again), text);
  EXPECT_EQ(again.buffers[0].pools, problem.buffers[0].pools);
  EXPECT_EQ(again.buffers[0].kind, BufferKind::Workspace);
  EXPECT_EQ(again.buffers[1].id, "b,\"c");
  EXPECT_EQ(again.buffers[1].pin->offset, 64);
  EXPECT_EQ(again.buffers[1].pin->pool, 1u);
  EXPECT_EQ(again.buffers[1].may_share_with, (std::vector<uint32_t>{0}));
  EXPECT_EQ(again.buffers[2].alias->offset, 8);
  EXPECT_EQ(write_problem_csv({{buffer("a", 0, 2, 16)}}), "id,lower,upper,size\na,0,2,16\n");
}

TEST(PlanCsv, MalformedTextNamesLineFoundAndExpected) {
  EXPECT_NE(refusal("").find("[csv-header]"), std::string::npos);
  EXPECT_NE(refusal("id,lower,upper\n").find("`size` is missing"), std::string::npos);
  EXPECT_NE(refusal("id,lower,upper,size,weight\n").find("no column `weight`"), std::string::npos);
  EXPECT_NE(refusal("id,lower,upper,size,size\n").find("there twice"), std::string::npos);
  std::string row = refusal("id,lower,upper,size\na,0,1,4\nb,0,1\n");
  EXPECT_NE(row.find("p.csv:3:1"), std::string::npos) << row;
  EXPECT_NE(row.find("3 fields"), std::string::npos) << row;
  EXPECT_NE(row.find("[csv-row]"), std::string::npos) << row;
  std::string field = refusal("id,lower,upper,size\na,0,1,4k\n");
  EXPECT_NE(field.find("p.csv:2:7"), std::string::npos) << field;
  EXPECT_NE(field.find("`size` is `4k`"), std::string::npos) << field;
  EXPECT_NE(field.find("[csv-field]"), std::string::npos) << field;
  EXPECT_NE(refusal("id,lower,upper,size\na,0,1,99999999999999999999\n").find("[csv-field]"), std::string::npos);
  std::string gap = refusal("id,lower,upper,size,gaps\na,0,9,4,1:2\n");
  EXPECT_NE(gap.find("gap `1:2`"), std::string::npos) << gap;
  EXPECT_NE(refusal("id,lower,upper,size,kind\na,0,9,4,tensor\n").find("`kind` is `tensor`"), std::string::npos);
  EXPECT_NE(refusal("id,lower,upper,size,pin\na,0,9,4,fast@0\n").find("no pool `fast`"), std::string::npos);
  EXPECT_NE(refusal("id,lower,upper,size,share\na,0,9,4,b\n").find("no buffer `b`"), std::string::npos);
  EXPECT_NE(refusal("id,lower,upper,size\na,0,9,-4\n").find("[plan-problem]"), std::string::npos);
}

TEST(PlanCsv, PlansReadBackToThemselves) {
  LivenessProblem problem{{buffer("a", 0, 2, 16), buffer("b", 1, 3, 16), buffer("v", 1, 2, 4)}};
  problem.buffers[2].alias = Alias{0, 8};
  MemoryPlan plan = make_plan(problem, find_planner("auto"));
  std::string text = write_plan_csv(problem, plan);
  MemoryPlan again = read_plan_csv(problem, "plan.csv", text);
  EXPECT_EQ(testing::fault_of(problem, again), "");
  EXPECT_EQ(write_plan_csv(problem, again), text);
}

TEST(PlanCsv, APlanOfAnotherProblemIsAFailedCheck) {
  LivenessProblem problem{{buffer("a", 0, 2, 16), buffer("b", 1, 3, 16)}};
  auto refused = [&](std::string_view text) {
    return testing::compile_error([&] { check_plan(problem, read_plan_csv(problem, "plan.csv", text)); });
  };
  EXPECT_NE(refused("id,offset\na,0\n").find("`b` has no line"), std::string::npos);
  EXPECT_NE(refused("id,offset\na,0\nb,16\nb,32\n").find("two lines"), std::string::npos);
  EXPECT_NE(refused("id,offset\na,0\nb,16\nc,32\n").find("`c` is in the plan"), std::string::npos);
  std::string resized = refused("id,size,offset\na,8,0\nb,16,16\n");
  EXPECT_NE(resized.find("[plan-size]"), std::string::npos) << resized;
  EXPECT_NE(refused("id,lower,upper,offset\na,0,1,0\nb,1,3,16\n").find("[plan-size]"), std::string::npos);
  EXPECT_NE(refused("id,offset\na,0\nb,x\n").find("[csv-field]"), std::string::npos);
  EXPECT_NE(refused("id\na\nb\n").find("`offset` is missing"), std::string::npos);
  problem.buffers.push_back(buffer("v", 1, 2, 4));
  problem.buffers[2].alias = Alias{0, 8};
  EXPECT_NE(refused("id,offset\na,0\nb,16\nv,4\n").find("[plan-alias]"), std::string::npos);
}

TEST(PlanJson, HoldsBothSizesOfASlot) {
  LivenessProblem problem{{buffer("small \"1\"", 0, 1, 4), buffer("large", 1, 2, 40)}};
  MemoryPlan plan = make_plan(problem, find_planner("best_fit_tokens"));
  auto json = nlohmann::json::parse(write_plan_json(problem, plan));
  EXPECT_EQ(json["planner"], "best_fit_tokens");
  EXPECT_EQ(json["peak_bytes"], 40);
  EXPECT_EQ(json["slots"][0]["size"], 40);
  EXPECT_EQ(json["slots"][0]["first_tenant_size"], 4);
  EXPECT_EQ(json["slots"][0]["tenants"][0], "small \"1\"");
  EXPECT_EQ(json["buffers"][1]["offset"], 0);
  EXPECT_EQ(json["pools"][0]["lower_bound_bytes"], 40);
}

TEST(PlanPrint, NamesSlotsAndTenants) {
  LivenessProblem problem{{buffer("a", 0, 2, 16), buffer("b", 2, 3, 8)}};
  EXPECT_EQ(print_plan(problem, make_plan(problem, find_planner("greedy_by_size"))),
            "greedy_by_size: 16 bytes for 2 buffers, lower bound 16, optimal, 32 steps\n"
            "pool arena: 16 bytes, lower bound 16\n"
            "slot 0: arena [0, 16) aligned 1, alive [0, 3), intermediate: a(16) b(8)\n");
}

TEST(PlanHtml, HoldsAPictureForEachPoolAndNothingFromElsewhere) {
  LivenessProblem problem;
  problem.pools = {{.name = "<slow>"}, {.name = "fast", .limit = 100}};
  problem.buffers = {testing::buffer("a&b", 0, 2, 16), testing::buffer("c", 1, 3, 8)};
  problem.buffers[1].pools = {1};
  std::string page = write_plan_html(problem, make_plan(problem, find_planner("auto")));
  for (const char* part : {"<td>&lt;slow&gt;<td>16<td>", "<td>fast<td>8<td>8<td>100<td>1",
                           "<title>a&amp;b: 16 bytes at 0, alive [0, 2)</title>", "<title>c: 8 bytes at 0, alive [1, 3)</title>"})
    EXPECT_NE(page.find(part), std::string::npos) << part << "\n" << page;
  for (const char* outside : {"src=", "href=", "@import", "url("}) EXPECT_EQ(page.find(outside), std::string::npos) << outside;
}

TEST(PlanSvg, ShowsEveryBufferTheLiveBytesAndThePeak) {
  LivenessProblem problem{{buffer("a<b", 0, 2, 16), buffer("c", 1, 3, 8)}};
  std::string svg = write_plan_svg(problem, make_plan(problem, find_planner("auto")));
  EXPECT_NE(svg.find("<title>a&lt;b: 16 bytes at 0, alive [0, 2)</title>"), std::string::npos) << svg;
  EXPECT_NE(svg.find("<title>peak: 24 bytes</title>"), std::string::npos);
  EXPECT_NE(svg.find("<title>lower bound: 24 bytes</title>"), std::string::npos);
  EXPECT_NE(svg.find("<polyline"), std::string::npos);
  EXPECT_EQ(svg.find("NaN"), std::string::npos);
  EXPECT_NE(write_plan_svg({}, make_plan({}, find_planner("auto"))).find("</svg>"), std::string::npos);
}

}  // namespace
}  // namespace tenon::plan
