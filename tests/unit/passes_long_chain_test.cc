// SPDX-License-Identifier: Apache-2.0
// Graph passes on a chain of 80,000 nodes: none recurses over nodes, none takes quadratic time.
#include <gtest/gtest.h>

#include "op/ops.h"
#include "passes/graph/passes.h"

namespace tenon {
namespace {

TEST(GraphPasses, TakeLongChains) {
  graph::Module m;
  graph::Builder b(m, "main");
  graph::ValueId v = b.param("x", TensorType::of(DType::F32, std::vector<int64_t>{2, 3}));
  for (int i = 0; i < 20'000; ++i) {
    v = b.call1(op::transpose, {v}, {{"axes", std::vector<int64_t>{1, 0}}});
    v = b.call1(op::tanh, {v});
    v = b.call1(op::neg, {v});
    v = b.call1(op::identity, {v});
  }
  m.functions.emplace("main", b.finish({v}));
  m = pass::infer.run(m, {});
  m = pass::simplify.run(m, {});
  EXPECT_EQ(m.functions.at("main").nodes.size(), 40'000u);  // an even number of transposes is none
  m = pass::fold_constants.run(m, {});
  m = pass::fold_batch_norm.run(m, {});
  m = pass::eliminate_common_subexpressions.run(m, {});
  m = pass::eliminate_dead.run(m, {});
  m = pass::fuse.run(m, {});
  EXPECT_EQ(m.functions.at("main").nodes.size(), 157u);  // 156 groups of 256 and one of 64
}

}  // namespace
}  // namespace tenon
