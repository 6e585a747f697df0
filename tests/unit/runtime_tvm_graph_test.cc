// SPDX-License-Identifier: Apache-2.0
// Graph JSON: what the reference's compiler writes, each rule, and every kind of damage.
#include "runtime/tvm_graph.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/diagnostic.h"
#include "base/function_ref.h"
#include "support/allocation_count.h"

namespace tenon::runtime::tvm {
namespace {

using Json = nlohmann::json;

/// One input, one parameter, one kernel, a reshape that moves nothing.
constexpr const char* kExample = R"({"nodes":[{"op":"null","name":"img","inputs":[]},
  {"op":"null","name":"p0","inputs":[]},
  {"op":"tvm_op","name":"tvmgen_default_fused_add_nn_relu","attrs":{"func_name":"tvmgen_default_fused_add_nn_relu",
   "num_inputs":"2","num_outputs":"1","flatten_data":"0","hash":"00c0ffee00c0ffee"},"inputs":[[0,0,0],[1,0,0]]},
  {"op":"tvm_op","name":"reshape_nop","attrs":{"func_name":"__nop","num_inputs":"1","num_outputs":"1",
   "flatten_data":"0","relay.example":"x"},"inputs":[[2,0,0]]}],
 "arg_nodes":[0,1],"heads":[[3,0,0]],"node_row_ptr":[0,1,2,3,4],
 "attrs":{"shape":["list_shape",[[2,3],[2,3],[2,3],[6]]],"dltype":["list_str",["float32","float32","float32","float32"]],
  "storage_id":["list_int",[0,1,2,2]],"device_index":["list_int",[1,1,1,1]]}})";

Graph read(const std::string& text) { return parse_graph(text, "g.json"); }

Diagnostic error_of(const std::string& text) {
  try {
    read(text);
  } catch (const CompileError& error) {
    return error.diagnostics().front();
  }
  return {};
}

/// The error of the example after a change.
Diagnostic error_after(function_ref<void(Json&)> change) {
  Json json = Json::parse(kExample);
  change(json);
  return error_of(json.dump());
}

TEST(TvmGraph, TheExampleReads) {
  Graph graph = read(kExample);
  ASSERT_EQ(graph.nodes.size(), 4u);
  EXPECT_EQ(graph.nodes[0].name, "img");
  EXPECT_TRUE(graph.nodes[1].function.empty());
  EXPECT_EQ(graph.nodes[2].function, "tvmgen_default_fused_add_nn_relu");
  EXPECT_EQ(graph.nodes[2].inputs, (std::vector<Entry>{{0, 0}, {1, 0}}));
  EXPECT_EQ(graph.nodes[3].function, kNop);
  EXPECT_EQ(graph.heads, (std::vector<Entry>{{3, 0}}));
  EXPECT_EQ(graph.tensor({3, 0}).shape, Shape{6});
  EXPECT_EQ(graph.tensor({3, 0}).storage, 2u);
}

TEST(TvmGraph, WhatIsPrintedReadsBack) {
  Graph graph = read(kExample);
  EXPECT_EQ(read(print(graph)), graph);
  graph.nodes[0].name = "x/\"quoted\":0\n";
  graph.tensors[0] = {DType::Bool, {}, 7};
  graph.nodes[2].flatten = true;
  graph.heads.push_back({0, 0});
  EXPECT_EQ(read(print(graph)), graph);
}

TEST(TvmGraph, OptionalPartsMayBeThereOrNot) {
  Graph graph = read(kExample);
  Json json = Json::parse(kExample);
  json["metadata"] = {{"anything", {1, "x"}}};
  json["attrs"].erase("device_index");
  json["attrs"]["storage_scope"] = {"list_str", {"", "global", "", ""}};
  json["attrs"]["dtype"] = {"list_int", {1, 2}};  // not ours: skipped
  json["attrs"]["other"] = {"size_t", 4};
  json["heads"] = {{3, 0}};
  json["nodes"][2]["attr"] = json["nodes"][2]["attrs"];
  json["nodes"][2].erase("attrs");
  json["nodes"][3]["control_deps"] = {0};
  EXPECT_EQ(read(json.dump()), graph);
  json["attrs"]["dltype"][1][0] = "uint1";
  EXPECT_EQ(read(json.dump()).tensors[0].dtype, DType::Bool);
  json["attrs"]["dltype"][1][0] = "bool";
  EXPECT_EQ(read(json.dump()).tensors[0].dtype, DType::Bool);
  json["attrs"]["dltype"][1][0] = "float";
  EXPECT_EQ(read(json.dump()), graph);
}

TEST(TvmGraph, EachRuleNamesWhatWasFound) {
  EXPECT_EQ(error_of("{").code, "tvm-graph");
  EXPECT_EQ(error_of("[]").found, "array");
  for (const char* key : {"nodes", "arg_nodes", "node_row_ptr", "heads", "attrs"})
    EXPECT_EQ(error_after([&](Json& j) { j.erase(key); }).message,
              std::string("`g.json` is no valid graph: `") + key + "` is missing");
  EXPECT_EQ(error_after([](Json& j) { j["surprise"] = 1; }).found, "`surprise`");
  for (const char* key : {"op", "name", "inputs", "attrs"})
    EXPECT_EQ(error_after([&](Json& j) { j["nodes"][2].erase(key); }).code, "tvm-graph") << key;
  for (const char* key : {"func_name", "num_inputs", "num_outputs", "flatten_data"})
    EXPECT_EQ(error_after([&](Json& j) { j["nodes"][2]["attrs"].erase(key); }).node, "tvmgen_default_fused_add_nn_relu") << key;
  EXPECT_EQ(error_after([](Json& j) { j["nodes"][2]["attrs"]["num_inputs"] = 2; }).expected, "a text");
  EXPECT_EQ(error_after([](Json& j) { j["nodes"][2]["attrs"]["num_inputs"] = "3"; }).expected, "2, the length of `inputs`");
  EXPECT_EQ(error_after([](Json& j) { j["nodes"][2]["attrs"]["num_outputs"] = "0"; }).expected, "1 or more");
  EXPECT_EQ(error_after([](Json& j) { j["nodes"][2]["attrs"]["num_outputs"] = "2"; }).expected, "4");  // the next row
  EXPECT_EQ(error_after([](Json& j) { j["nodes"][2]["attrs"]["flatten_data"] = "2"; }).found, "`2`");
  EXPECT_EQ(error_after([](Json& j) { j["nodes"][2]["attrs"]["func_name"] = ""; }).found, "empty");
  EXPECT_EQ(error_after([](Json& j) { j["nodes"][2]["op"] = "call"; }).expected, "`null` or `tvm_op`");
  EXPECT_EQ(error_after([](Json& j) { j["nodes"][2]["color"] = 1; }).found, "`color`");
  EXPECT_EQ(error_after([](Json& j) { j["nodes"][0]["inputs"] = {{0, 0, 0}}; }).code, "tvm-graph");
  EXPECT_EQ(error_after([](Json& j) { j["nodes"][1]["inputs"] = {{0, 0, 0}}; }).expected, "0");
  EXPECT_EQ(error_after([](Json& j) { j["nodes"][2]["inputs"][1] = {2, 0, 0}; }).expected, "a whole number below 2");
  EXPECT_EQ(error_after([](Json& j) { j["nodes"][2]["inputs"][1] = {1, 1, 0}; }).expected, "a whole number below 1");
  EXPECT_EQ(error_after([](Json& j) { j["heads"][0] = {4, 0, 0}; }).expected, "a whole number below 4");
  EXPECT_EQ(error_after([](Json& j) { j["heads"][0] = 3; }).expected, "[node, index, version]");
  EXPECT_EQ(error_after([](Json& j) { j["node_row_ptr"].erase(4); }).expected, "5");
  EXPECT_EQ(error_after([](Json& j) { j["node_row_ptr"][2] = 3; }).expected, "2");
  EXPECT_EQ(error_after([](Json& j) { j["arg_nodes"] = {0}; }).code, "tvm-graph");
  EXPECT_EQ(error_after([](Json& j) { j["arg_nodes"] = {0, 1, 2}; }).code, "tvm-graph");
  for (const char* key : {"shape", "dltype", "storage_id"}) {  // D13: each is asked for by its own name
    Diagnostic missing = error_after([&](Json& j) {
      j["attrs"].erase(key);
      j["attrs"]["storage_scope"] = {"list_str", {"", "", "", ""}};
    });
    EXPECT_EQ(missing.message, std::string("`g.json` is no valid graph: `") + key + "` is missing");
    EXPECT_EQ(error_after([&](Json& j) { j["attrs"][key][1].erase(0); }).expected, "4, the number of tensors");
    EXPECT_EQ(error_after([&](Json& j) { j["attrs"][key][0] = "list_float"; }).found, "something else");
  }
  EXPECT_EQ(error_after([](Json& j) { j["attrs"]["other"] = {"list_str", {"a"}}; }).found, "\"list_str\"");
  EXPECT_EQ(error_after([](Json& j) { j["attrs"]["shape"][1][0] = {-2, 3}; }).found, "-2");
  EXPECT_EQ(error_after([](Json& j) { j["attrs"]["shape"][1][0] = {int64_t{1} << 40, int64_t{1} << 40}; }).code, "tvm-graph");
  EXPECT_EQ(error_after([](Json& j) { j["attrs"]["storage_id"][1][0] = -1; }).found, "-1");
  EXPECT_EQ(error_after([](Json& j) { j["attrs"]["storage_id"][1][3] = 3; }).expected, "2, its operand's");
  EXPECT_EQ(error_after([](Json& j) { j["attrs"]["shape"][1][3] = {5}; }).expected, "24 bytes, as its operand");
  EXPECT_EQ(error_after([](Json& j) { j["attrs"]["dltype"][1][0] = 1; }).expected, "a text");
}

TEST(TvmGraph, WhatWeDoNotHaveIsUnsupported) {
  Diagnostic type = error_after([](Json& j) { j["attrs"]["dltype"][1][0] = "float32x4"; });
  EXPECT_EQ(type.code, "tvm-unsupported");
  EXPECT_EQ(type.kind, ErrorKind::Unsupported);
  EXPECT_EQ(error_after([](Json& j) { j["attrs"]["device_index"][1][0] = 2; }).expected, "1, the host");
  EXPECT_EQ(error_after([](Json& j) { j["attrs"]["storage_scope"] = {"list_str", {"", "texture", "", ""}}; }).found,
            "\"texture\"");
}

// Law: any damage ends in an error or in another valid graph.
TEST(TvmGraph, DamageNeverEscapes) {
  const std::string text = kExample;
  for (size_t size = 0; size < text.size() - 1; ++size) EXPECT_EQ(error_of(text.substr(0, size)).code, "tvm-graph") << size;
  std::mt19937 random(4);
  for (int trial = 0; trial < 20000; ++trial) {
    std::string damaged = text;
    for (int flips = 1 + static_cast<int>(random() % 3); flips > 0; --flips) {
      size_t at = random() % damaged.size();
      // Half of the changes keep the text JSON: a digit for a digit.
      if (std::isdigit(damaged[at]) && random() % 2 == 0)
        damaged[at] = static_cast<char>('0' + random() % 10);
      else
        damaged[at] ^= static_cast<char>(1 + random() % 255);
    }
    test::take_largest_allocation();
    try {
      Graph graph = read(damaged);
      EXPECT_EQ(graph.tensors.size(), graph.rows.back());
      EXPECT_EQ(read(print(graph)), graph);
    } catch (const CompileError& error) {
      EXPECT_TRUE(error.diagnostics()[0].code.starts_with("tvm-")) << error.what();
    }
    EXPECT_LE(test::take_largest_allocation(), 64 << 10) << "no count is believed before the bytes are there";
  }
}

TEST(TvmGraph, DeepNestingIsAnErrorAndNotACrash) {
  EXPECT_EQ(error_of(std::string(1000000, '[')).code, "tvm-graph");
  EXPECT_EQ(error_of(std::string(100000, '[') + std::string(100000, ']')).code, "tvm-graph");
}

}  // namespace
}  // namespace tenon::runtime::tvm
