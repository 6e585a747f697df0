// SPDX-License-Identifier: Apache-2.0
// Whole models through the importer: names, shapes, order, and every kind of refusal.
#include "import/onnx/import.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "graph/op_def.h"
#include "support/onnx_writer.h"

namespace tenon::onnx {
namespace {

using test::OnnxGraph;

graph::Module import(const std::string& bytes, const ImportOptions& options = {}) {
  auto owner = std::make_shared<const std::string>(bytes);  // the weights stay views of it
  return import_bytes("m.onnx", owner, std::as_bytes(std::span(*owner)), options);
}
graph::Module import(const OnnxGraph& graph, const ImportOptions& options = {}) {
  return import(test::onnx_model(graph), options);
}

std::vector<Diagnostic> errors_of(const std::string& bytes, const ImportOptions& options = {}) {
  try {
    import(bytes, options);
  } catch (const CompileError& e) {
    return e.diagnostics();
  }
  return {};
}
std::vector<Diagnostic> errors_of(const OnnxGraph& graph, const ImportOptions& options = {}) {
  return errors_of(test::onnx_model(graph), options);
}

std::string code_of(const OnnxGraph& graph, const ImportOptions& options = {}) {
  auto errors = errors_of(graph, options);
  return errors.empty() ? "" : errors[0].code;
}

std::string op_names(const graph::Function& f) {
  std::string out;
  for (const graph::Node& node : f.nodes)
    out += (out.empty() ? "" : " ") + (node.kind == graph::NodeKind::Op ? std::string(node.op->name) : node.callee);
  return out;
}

const graph::Function& main_of(const graph::Module& module) { return module.functions.at("main"); }

OnnxGraph relu_graph() {
  return OnnxGraph().input("x", DType::F32, {2, 3}).node("Relu", {"x"}, {"y"}, {}, "act").output("y", DType::F32);
}

TEST(OnnxImport, NamesAndTypesAreKept) {
  const graph::Module module = import(relu_graph());
  const graph::Function& f = main_of(module);
  ASSERT_EQ(f.params.size(), 1u);
  EXPECT_EQ(f.params[0].name, "x");
  EXPECT_EQ(to_string(f.params[0].type), "f32[2,3]");
  ASSERT_EQ(f.nodes.size(), 1u);
  EXPECT_EQ(f.nodes[0].name, "act");
  EXPECT_EQ(f.result_names, std::vector<std::string>{"y"});
  EXPECT_EQ(module.attrs.at("stage"), graph::AttrValue(std::string("import")));
}

TEST(OnnxImport, InitializersAreConstantsAndNoParameters) {
  const Array w = array_of<float>(DType::F32, {2}, {1, 2});
  const graph::Module module = import(OnnxGraph()
                                          .input("x", DType::F32, {2})
                                          .input("w", DType::F32, {2})
                                          .initializer("w", w)
                                          .node("Add", {"x", "w"}, {"y"})
                                          .output("y", DType::F32));
  EXPECT_EQ(main_of(module).params.size(), 1u);
  ASSERT_EQ(module.constants.count("w"), 1u);
  EXPECT_EQ(module.constants.at("w"), w);
  EXPECT_EQ(op_names(main_of(module)), "w add");
}

TEST(OnnxImport, AnOutputMayBeAnInputOrAConstant) {
  const graph::Module module = import(OnnxGraph()
                                          .input("x", DType::F32, {2})
                                          .initializer("w", array_of<int64_t>(DType::I64, {}, {4}))
                                          .output("x", DType::F32)
                                          .output("w", DType::I64));
  const graph::Function& f = main_of(module);
  EXPECT_EQ(f.results[0], graph::ValueId{0});
  EXPECT_EQ(to_string(f.type(f.results[1])), "i64[]");
}

TEST(OnnxImport, NodesAreSorted) {
  const graph::Module module = import(OnnxGraph()
                                          .input("x", DType::F32, {2})
                                          .node("Exp", {"b"}, {"c"})
                                          .node("Neg", {"x"}, {"a"})
                                          .node("Abs", {"a"}, {"b"})
                                          .output("c", DType::F32));
  EXPECT_EQ(op_names(main_of(module)), "neg abs exp");
}

TEST(OnnxImport, GraphsThatAreBroken) {
  auto base = [] { return OnnxGraph().input("x", DType::F32, {2}); };
  EXPECT_EQ(code_of(base().node("Neg", {"b"}, {"a"}).node("Neg", {"a"}, {"b"}).output("a", DType::F32)), "onnx-graph");
  EXPECT_EQ(code_of(base().node("Neg", {"x"}, {"a"}).node("Abs", {"x"}, {"a"}).output("a", DType::F32)), "onnx-graph");
  EXPECT_EQ(code_of(base().node("Neg", {"x"}, {"x"}).output("x", DType::F32)), "onnx-graph");
  EXPECT_EQ(code_of(base().input("x", DType::F32, {2}).output("x", DType::F32)), "onnx-graph");
  EXPECT_EQ(code_of(base().output("x", DType::F32).output("x", DType::F32)), "onnx-graph");
  EXPECT_EQ(code_of(base()), "onnx-graph");
  EXPECT_EQ(code_of(base().output("x", DType::I64)), "onnx-graph");
  const auto errors = errors_of(base().node("Add", {"x", "nowhere"}, {"a"}, {}, "plus").output("a", DType::F32));
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].code, "onnx-graph");
  EXPECT_EQ(errors[0].node, "plus");
  EXPECT_EQ(errors[0].input, "nowhere");
}

TEST(OnnxImport, OpsetsOutsideWhatIsKnownAreRefused) {
  auto only = [](int opset) {
    auto errors = errors_of(test::onnx_model(relu_graph(), opset));
    return errors.empty() ? ErrorKind::CheckFailed : errors[0].kind;
  };
  EXPECT_EQ(only(6), ErrorKind::CheckFailed);
  EXPECT_EQ(only(24), ErrorKind::CheckFailed);
  EXPECT_EQ(only(5), ErrorKind::Unsupported);  // Relu had another attribute
  EXPECT_EQ(only(0), ErrorKind::Unsupported);
  EXPECT_EQ(only(99), ErrorKind::Unsupported);
  const auto missing = errors_of(test::WireWriter().varint(1, 8).message(7, relu_graph().bytes()).bytes);
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_EQ(missing[0].code, "onnx-opset");
  EXPECT_EQ(missing[0].kind, ErrorKind::Malformed);
}

TEST(OnnxImport, EverythingUnsupportedIsReportedAtOnce) {
  const auto errors = errors_of(OnnxGraph()
                                    .input("x", DType::F32, {2})
                                    .node("Frobnicate", {"x"}, {"a"}, {}, "first")
                                    .node("Relu", {"a"}, {"b"})
                                    .node("Gelu", {"b"}, {"c"}, {}, "second", "com.microsoft")
                                    .node("Frobnicate", {"c"}, {"d"})
                                    .output("d", DType::F32));
  ASSERT_EQ(errors.size(), 3u);
  EXPECT_EQ(errors[0].node, "first");
  EXPECT_EQ(errors[1].node, "second");
  EXPECT_EQ(errors[2].node, "d");
  for (const Diagnostic& d : errors) {
    EXPECT_EQ(d.kind, ErrorKind::Unsupported);
    EXPECT_EQ(d.code, "onnx-unsupported");
  }
  EXPECT_NE(errors[1].message.find("com.microsoft"), std::string::npos);
}

TEST(OnnxImport, UnreadAttributesAreRefusedNodeByNode) {
  const auto errors = errors_of(OnnxGraph()
                                    .input("x", DType::F32, {2})
                                    .node("Relu", {"x"}, {"a"}, {{"slope", 0.5}}, "one")
                                    .node("Relu", {"a"}, {"b"}, {}, "after it")
                                    .node("Abs", {"x"}, {"c"}, {{"mode", 1}}, "two")
                                    .output("b", DType::F32)
                                    .output("c", DType::F32));
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0].code, "onnx-attribute");
  EXPECT_EQ(errors[0].kind, ErrorKind::Unsupported);
  EXPECT_EQ(errors[0].node, "one");
  EXPECT_EQ(errors[0].input, "slope");
  EXPECT_EQ(errors[1].node, "two");
}

TEST(OnnxImport, NodesThatBreakTheSpecification) {
  auto base = [] { return OnnxGraph().input("x", DType::F32, {2, 3}); };
  EXPECT_EQ(code_of(base().node("Transpose", {"x"}, {"y"}, {{"perm", 1}}).output("y", DType::F32)), "onnx-node");
  EXPECT_EQ(code_of(base().node("Transpose", {"x"}, {"y"}, {{"perm", 1}, {"perm", 1}}).output("y", DType::F32)), "onnx-node");
  EXPECT_EQ(code_of(base().node("Add", {"x"}, {"y"}).output("y", DType::F32)), "operand-count");
  EXPECT_EQ(code_of(base().node("Add", {"x", ""}, {"y"}).output("y", DType::F32)), "onnx-node");
}

TEST(OnnxImport, AShapeOfTheRunIsRefusedWithAHint) {
  auto graph_of = [](OnnxGraph::Dim rows) {
    return OnnxGraph()
        .input("x", DType::F32, {rows, 3})
        .input("s", DType::I64, {1})
        .node("Reshape", {"x", "s"}, {"y"}, {}, "flat")
        .output("y", DType::F32);
  };
  const auto fixed = errors_of(graph_of(2)), open = errors_of(graph_of("n"));
  ASSERT_EQ(fixed.size(), 1u);
  EXPECT_EQ(fixed[0].code, "onnx-not-constant");
  EXPECT_EQ(fixed[0].kind, ErrorKind::Unsupported);
  EXPECT_EQ(fixed[0].node, "flat");
  EXPECT_EQ(fixed[0].input, "s");
  ASSERT_EQ(open.size(), 1u);
  EXPECT_EQ(open[0].hint, "give numbers for the dimensions: --input-shapes \"x:[n,3]\"");
}

TEST(OnnxImport, GridSampleChecksItsOperands) {
  auto code = [](std::vector<OnnxGraph::Dim> x, std::vector<OnnxGraph::Dim> grid, const char* mode, const char* padding) {
    return code_of(OnnxGraph()
                       .input("x", DType::F32, x)
                       .input("grid", DType::F32, grid)
                       .node("GridSample", {"x", "grid"}, {"y"}, {{"mode", mode}, {"padding_mode", padding}})
                       .output("y", DType::F32));
  };
  EXPECT_EQ(code({1, 2, 3, 4}, {1, 5, 6, 2}, "bilinear", "zeros"), "");
  EXPECT_EQ(code({1, 2, 3}, {1, 5, 6, 2}, "bilinear", "zeros"), "grid_sample-C1");
  EXPECT_EQ(code({1, 2, 3, 4}, {2, 5, 6, 2}, "bilinear", "zeros"), "grid_sample-C2");
  EXPECT_EQ(code({1, 2, 3, 4}, {1, 5, 6, 3}, "bilinear", "zeros"), "grid_sample-C2");
  EXPECT_EQ(code({1, 2, 3, 4}, {1, 5, 6, 2}, "fuzzy", "zeros"), "grid_sample-C3");
  EXPECT_EQ(code({1, 2, 3, 4}, {1, 5, 6, 2}, "bilinear", "wrap"), "grid_sample-C3");
}

TEST(OnnxImport, ShapesComeFromOptionsAndSharedSymbols) {
  const OnnxGraph graph = OnnxGraph()
                              .input("x", DType::F32, {"n", 3, ""})
                              .input("y", DType::F32, {"n"})
                              .output("x", DType::F32)
                              .output("y", DType::F32);
  const graph::Module open = import(graph);
  EXPECT_EQ(to_string(main_of(open).params[0].type), "f32[n,3,x_2]");
  EXPECT_EQ(to_string(main_of(open).params[1].type), "f32[n]");
  const graph::Module fixed = import(graph, {.input_shapes = {{"x", {2, 3, 5}}}});
  EXPECT_EQ(to_string(main_of(fixed).params[0].type), "f32[2,3,5]");
  EXPECT_EQ(to_string(main_of(fixed).params[1].type), "f32[2]");
}

TEST(OnnxImport, ShapesThatCannotBe) {
  const OnnxGraph graph =
      OnnxGraph().input("x", DType::F32, {"n", 3}).input("y", DType::F32, {"n"}).output("x", DType::F32).output("y", DType::F32);
  using Shapes = decltype(ImportOptions::input_shapes);
  for (const Shapes& shapes : {Shapes{{"x", {2}}}, Shapes{{"x", {2, 4}}}, Shapes{{"x", {-1, 3}}},
                               Shapes{{"x", {2, 3}}, {"y", {4}}}, Shapes{{"z", {2}}}}) {
    const auto errors = errors_of(graph, {.input_shapes = shapes});
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_EQ(errors[0].code, "onnx-input");
    EXPECT_EQ(errors[0].kind, ErrorKind::Malformed);
  }
  const auto unknown = errors_of(graph, {.input_shapes = {{"z", {2}}}});
  EXPECT_EQ(unknown[0].expected, "`x`, `y`");
}

TEST(OnnxImport, InputsKnownWhenCompilingAreConstants) {
  const OnnxGraph graph =
      OnnxGraph().input("x", DType::F32, {2}).input("n", DType::I64, {"k"}).output("x", DType::F32).output("n", DType::I64);
  const Array n = array_of<int64_t>(DType::I64, {3}, {1, 2, 3});
  const graph::Module module = import(graph, {.constant_inputs = {{"n", n}}});
  EXPECT_EQ(main_of(module).params.size(), 1u);
  EXPECT_EQ(module.constants.at("n"), n);
  EXPECT_EQ(code_of(graph, {.constant_inputs = {{"n", array_of<float>(DType::F32, {3}, {1, 2, 3})}}}), "onnx-input");
  EXPECT_EQ(code_of(graph, {.constant_inputs = {{"n", array_of<int64_t>(DType::I64, {}, {1})}}}), "onnx-input");
}

OnnxGraph if_graph(const Array& condition) {
  const OnnxGraph then_branch = OnnxGraph().node("Neg", {"x"}, {"t"}).output("t", DType::F32);
  const OnnxGraph else_branch = OnnxGraph().node("NoSuchOperator", {"x"}, {"e"}).output("e", DType::F32);
  return OnnxGraph()
      .input("x", DType::F32, {2})
      .initializer("c", condition)
      .node("If", {"c"}, {"y"}, {{"then_branch", then_branch}, {"else_branch", else_branch}})
      .output("y", DType::F32);
}

TEST(OnnxImport, OnlyTheTakenBranchIsBuilt) {
  EXPECT_EQ(op_names(main_of(import(if_graph(array_of<uint8_t>(DType::Bool, {}, {1}))))), "c neg");
  const auto errors = errors_of(if_graph(array_of<uint8_t>(DType::Bool, {}, {0})));
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].code, "onnx-unsupported");
  EXPECT_EQ(errors[0].node, "e");
}

TEST(OnnxImport, AConditionOfTheRunPicksResultsOfOneType) {
  auto graph_of = [](const char* else_op) {
    const OnnxGraph then_branch = OnnxGraph().node("Neg", {"x"}, {"t"}).output("t", DType::F32);
    const OnnxGraph else_branch = OnnxGraph().node(else_op, {"x"}, {"e"}).output("e", DType::F32);
    return OnnxGraph()
        .input("x", DType::F32, {2})
        .input("c", DType::Bool, {1})
        .node("If", {"c"}, {"y"}, {{"then_branch", then_branch}, {"else_branch", else_branch}}, "choice")
        .output("y", DType::F32);
  };
  EXPECT_EQ(op_names(main_of(import(graph_of("Abs")))), "neg abs reshape where");
  const auto errors = errors_of(graph_of("Shape"));
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].kind, ErrorKind::Unsupported);
  EXPECT_EQ(errors[0].node, "choice");
}

TEST(OnnxImport, LongChainsNeedNoStack) {
  constexpr int kNodes = 200000;
  OnnxGraph graph;
  graph.input("v0", DType::F32, {2});
  for (int i = 0; i < kNodes; ++i) graph.node("Neg", {"v" + std::to_string(i)}, {"v" + std::to_string(i + 1)});
  graph.output("v" + std::to_string(kNodes), DType::F32);
  const graph::Module module = import(graph);
  EXPECT_EQ(main_of(module).nodes.size(), static_cast<size_t>(kNodes));
}

TEST(OnnxImport, InspectTellsWhatAFileHolds) {
  const std::string path =
      (std::filesystem::path(::testing::TempDir()) / ("tenon_inspect_" + std::to_string(getpid()) + ".onnx")).string();
  const OnnxGraph graph = OnnxGraph()
                              .input("x", DType::F32, {"n", 3, ""})
                              .input("w", DType::F32, {3})
                              .initializer("w", array_of<float>(DType::F32, {3}, {1, 2, 3}))
                              .node("Relu", {"x"}, {"a"})
                              .node("Relu", {"a"}, {"b"})
                              .node("Frobnicate", {"b"}, {"y"}, {}, "odd")
                              .output("y", DType::F32);
  std::ofstream(path, std::ios::binary) << test::onnx_model(graph, 13);
  const ModelInfo info = inspect_file(path);
  std::filesystem::remove(path);
  ASSERT_EQ(info.inputs.size(), 1u);
  EXPECT_EQ(info.inputs[0].dtype, "f32");
  EXPECT_EQ(info.inputs[0].shape, (std::vector<std::string>{"n", "3", "?"}));
  EXPECT_EQ(info.nodes, 3);
  EXPECT_EQ(info.ops.at("Relu"), 2);
  EXPECT_EQ(info.opsets.at(""), 13);
  ASSERT_EQ(info.unsupported.size(), 1u);
  EXPECT_EQ(info.unsupported[0].node, "odd");
  EXPECT_EQ(info.unsupported[0].op, "Frobnicate");
  EXPECT_EQ(info.unsupported[0].opset, 13);
}

TEST(OnnxImport, AMissingFileIsTheFileSystemsError) {
  try {
    import_file("/nonexistent/model.onnx");
    FAIL();
  } catch (const CompileError& e) {
    EXPECT_EQ(e.kind(), ErrorKind::FileSystem);
  }
}

}  // namespace
}  // namespace tenon::onnx
