// SPDX-License-Identifier: Apache-2.0
// Graphs for TVM's executor from small `main` functions, worked out by hand.
#include <gtest/gtest.h>

#include "link/tvm_graph.h"

namespace tenon::link {
namespace {

using graph::Module;
using graph::Node;
using graph::NodeKind;
using graph::ValueId;
using runtime::tvm::Entry;

class Main {
 public:
  explicit Main(const std::vector<std::string>& params) : builder_(module_, "main") {
    for (const std::string& name : params) builder_.param(name, type({40}));
  }
  static TensorType type(Shape shape) { return TensorType::of(DType::F32, shape); }
  ValueId call(const std::string& callee, std::vector<ValueId> inputs, Shape shape = {40}, bool view = false) {
    module_.prim_funcs[callee].name = callee;
    Node node;
    node.kind = NodeKind::CallLowered;
    node.callee = callee;
    node.inputs = std::move(inputs);
    node.types = {type(std::move(shape))};
    if (view) node.attrs["view"] = true;
    return builder_.append(node)[0];
  }
  ValueId constant(const std::string& name, float value) {
    return builder_.constant(array_of<float>(DType::F32, {40}, std::vector<float>(40, value)), name);
  }
  TvmLinked link(std::vector<ValueId> results) {
    module_.functions["main"] = builder_.finish(std::move(results));
    return link_tvm(module_, analyse_liveness(module_, {.in_place = false, .parts = false}));
  }

 private:
  Module module_;
  graph::Builder builder_;
};

std::vector<uint32_t> storage(const TvmLinked& linked) {
  std::vector<uint32_t> ids;
  for (const runtime::tvm::GraphTensor& tensor : linked.graph.tensors) ids.push_back(tensor.storage);
  return ids;
}

std::vector<std::string> names(const TvmLinked& linked) {
  std::vector<std::string> names;
  for (const runtime::tvm::GraphNode& node : linked.graph.nodes) names.push_back(node.name);
  return names;
}

/// The JSON must be one that the reader accepts.
void expect_readable(const TvmLinked& linked) {
  EXPECT_EQ(runtime::tvm::parse_graph(runtime::tvm::print(linked.graph), "g.json"), linked.graph);
}

TEST(LinkTvm, ReshapesShareStorageAsInTheReference) {
  // x; y = abs x; r = reshape y (a result); t = abs y; s = sqrt t (a result); q = reshape t (a result).
  Main main({"x"});
  ValueId y = main.call("abs", {{0}}), r = main.call("view", {y}, {8, 5}, true), t = main.call("abs", {y});
  ValueId s = main.call("sqrt", {t}), q = main.call("view", {t}, {8, 5}, true);
  TvmLinked linked = main.link({r, s, q});
  EXPECT_EQ(storage(linked), (std::vector<uint32_t>{0, 1, 1, 2, 3, 2}));
  EXPECT_EQ(linked.graph.nodes[2].function, "__nop");
  EXPECT_EQ(linked.graph.nodes[5].function, "__nop");
  EXPECT_EQ(linked.graph.heads, (std::vector<Entry>{{2, 0}, {4, 0}, {5, 0}}));
  EXPECT_EQ(names(linked), (std::vector<std::string>{"x", "tvmgen_default_abs", "reshape_nop", "tvmgen_default_abs_1",
                                                     "tvmgen_default_sqrt", "reshape_nop_1"}));
  EXPECT_EQ(linked.graph.nodes[3].function, "tvmgen_default_abs");
  ASSERT_EQ(linked.kernels.size(), 2u);
  EXPECT_EQ(linked.kernels[0].symbol, "tvmgen_default_abs");
  EXPECT_EQ(linked.kernels[0].function, "abs");
  expect_readable(linked);
}

TEST(LinkTvm, ConstantsAreParametersOnceUnderNamesThatNoInputHas) {
  Main main({"x", "w"});
  ValueId w = main.constant("w", 1), again = main.constant("w", 1), unused = main.constant("unused", 2);
  EXPECT_EQ(unused.index, 4u);
  TvmLinked linked = main.link({main.call("f", {{0}, {1}, w, again}), w});
  EXPECT_EQ(names(linked), (std::vector<std::string>{"x", "w", "w_1", "tvmgen_default_f"}));
  EXPECT_EQ(linked.params.size(), 1u);
  EXPECT_TRUE(linked.params.contains("w_1"));
  EXPECT_EQ(linked.graph.nodes[3].inputs, (std::vector<Entry>{{0, 0}, {1, 0}, {2, 0}, {2, 0}}));
  EXPECT_EQ(linked.graph.heads, (std::vector<Entry>{{3, 0}, {2, 0}}));
  expect_readable(linked);
}

TEST(LinkTvm, UnnamedInputsGetNamesThatNoOtherHas) {
  TvmLinked linked = Main({"", "input", ""}).link({{0}, {1}, {2}});
  EXPECT_EQ(names(linked), (std::vector<std::string>{"input_1", "input", "input_2"}));
}

TEST(LinkTvm, OneLoopFunctionOnTwoShapesIsTwoFunctionsOfTheLibrary) {
  Main main({"x"});
  ValueId flat = main.call("f", {{0}}), square = main.call("f", {main.call("view", {flat}, {8, 5}, true)}, {8, 5});
  TvmLinked linked = main.link({square});
  ASSERT_EQ(linked.kernels.size(), 2u);
  EXPECT_EQ(linked.kernels[1].symbol, "tvmgen_default_f_1");
  EXPECT_EQ(linked.kernels[1].parameters[0].shape, (Shape{8, 5}));
  EXPECT_EQ(linked.graph.nodes[3].function, "tvmgen_default_f_1");
}

TEST(LinkTvm, AResultIsNeverReused) {
  Main main({"x"});
  ValueId a = main.call("a", {{0}}), b = main.call("b", {a}), c = main.call("c", {b}), d = main.call("d", {c});
  EXPECT_EQ(storage(main.link({a, d})), (std::vector<uint32_t>{0, 1, 2, 3, 2}));
}

}  // namespace
}  // namespace tenon::link
