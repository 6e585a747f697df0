// SPDX-License-Identifier: Apache-2.0
// Constant folding: what bounds it. What it does stands under tests/golden/fold-constants.
#include <gtest/gtest.h>

#include "op/ops.h"
#include "passes/graph/passes.h"

namespace tenon {
namespace {

using graph::Builder;
using graph::Module;
using graph::NodeKind;
using graph::ValueId;

constexpr int64_t kMiB = int64_t{1} << 20;

/// Whether folding leaves an operator in `main`, which returns `op` applied to zeros.
bool stays(DType dtype, Shape shape, const graph::OpDef& op, graph::Attrs attrs, const pass::PassOptions& options = {}) {
  Module m;
  Builder b(m, "main");
  ValueId zeros = b.constant(MutableArray(dtype, std::move(shape)).freeze());
  ValueId y = b.call1(op, {zeros}, std::move(attrs));
  m.functions.emplace("main", b.finish({y}));
  Module folded = pass::fold_constants.run(m, options);
  for (const graph::Node& node : folded.functions.at("main").nodes)
    if (node.kind == NodeKind::Op) return true;
  return false;
}

TEST(FoldConstants, WeightsOfAnySizeMoveAndKeepTheirWidth) {
  EXPECT_FALSE(stays(DType::F32, {4, kMiB}, op::transpose, {{"axes", Shape{1, 0}}}));
  EXPECT_FALSE(stays(DType::F32, {4 * kMiB}, op::cast, {{"to", std::string("i32")}}));
  EXPECT_FALSE(stays(DType::F16, {2 * kMiB}, op::cast, {{"to", std::string("f32")}}));
}

TEST(FoldConstants, LargeNarrowWeightsStayNarrow) {
  EXPECT_TRUE(stays(DType::I8, {kMiB + 1}, op::cast, {{"to", std::string("f32")}}));
  EXPECT_FALSE(stays(DType::I8, {kMiB}, op::cast, {{"to", std::string("f32")}}));
}

TEST(FoldConstants, AScalarIsNotSpreadOverALargeShape) {
  EXPECT_TRUE(stays(DType::F32, {1}, op::broadcast_to, {{"shape", Shape{2 * kMiB + 1}}}));
  EXPECT_FALSE(stays(DType::F32, {1}, op::broadcast_to, {{"shape", Shape{2 * kMiB}}}));
}

TEST(FoldConstants, NoResultPassesTheLimit) {
  EXPECT_TRUE(stays(DType::F32, {16}, op::neg, {}, {.fold_max_bytes = 63}));
  EXPECT_FALSE(stays(DType::F32, {16}, op::neg, {}, {.fold_max_bytes = 64}));
}

}  // namespace
}  // namespace tenon
