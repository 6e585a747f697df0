// SPDX-License-Identifier: Apache-2.0
// What the graph passes take for granted about operators.
#include "passes/graph/functions.h"

#include <gtest/gtest.h>

#include "op/all_ops.h"
#include "op/ops.h"

namespace tenon {
namespace {

// Such an operator is moved past transposes and loses broadcasts before it, so it may not count axes.
TEST(PassFunctions, ElementwiseOperatorsHaveNoAxes) {
  int elementwise = 0;
  for (const graph::OpDef* op : op::all_ops().all()) {
    if (!pass::is_elementwise(*op)) continue;
    ++elementwise;
    for (const graph::AttrSpec& attr : op->attrs) {
      EXPECT_NE(attr.kind, graph::AttrKind::Ints) << op->name;
      EXPECT_NE(attr.name, "axis") << op->name;
    }
  }
  EXPECT_GT(elementwise, 50);
  EXPECT_TRUE(pass::is_elementwise(op::where));
  EXPECT_FALSE(pass::is_elementwise(op::batch_norm));
  EXPECT_FALSE(pass::is_elementwise(op::broadcast_to));
  EXPECT_FALSE(pass::is_elementwise(op::transpose));
}

// Functions that belong to another code generator or are kernels already are not rewritten.
TEST(PassFunctions, PrimitiveAndExternalFunctionsStay) {
  graph::Module m;
  for (const char* name : {"external", "plain", "primitive"}) {
    graph::Builder b(m, name);
    graph::ValueId x = b.param("x", TensorType::of(DType::F32, std::vector<int64_t>{2}));
    graph::Function function = b.finish({x});
    if (name != std::string("plain")) function.attrs[name] = true;
    m.functions.emplace(name, std::move(function));
  }
  std::vector<std::string> visited;
  pass::map_functions(m, [&](graph::Module&, const graph::Function& f) {
    visited.push_back(f.name);
    return f;
  });
  EXPECT_EQ(visited, std::vector<std::string>{"plain"});
}

}  // namespace
}  // namespace tenon
