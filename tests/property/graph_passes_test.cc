// SPDX-License-Identifier: Apache-2.0
// Laws of every graph pass P over random modules: eval(P(m)) == eval(m), P(P(m)) == P(m), parse(print(P(m))) == P(m),
// and those of fusion (spec.md appendix B, P8).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "graph/interpret.h"
#include "graph/text.h"
#include "op/all_ops.h"
#include "op/fold.h"
#include "op/ops.h"
#include "passes/graph/passes.h"
#include "support/random_module.h"

namespace tenon {
namespace {

using graph::Function;
using graph::Module;
using graph::Node;
using graph::NodeKind;

constexpr uint64_t kSeeds = 100;

std::vector<Array> evaluate(const Module& m, const std::vector<Array>& inputs) { return graph::interpret(m, "main", inputs); }

/// Bit for bit, but for the sign of zero and the payload of NaN.
bool equal(const Array& a, const Array& b) {
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  if (!is_float(a.dtype)) return a == b;
  std::vector<double> x(static_cast<size_t>(a.elements())), y(x.size());
  op::widen(a, 0, a.elements(), x.data());
  op::widen(b, 0, b.elements(), y.data());
  return std::equal(x.begin(), x.end(), y.begin(), [](double p, double q) { return p == q || (std::isnan(p) && std::isnan(q)); });
}

void expect_same_results(const Module& before, const Module& after, const std::vector<Array>& inputs) {
  std::vector<Array> expected = evaluate(before, inputs), found = evaluate(after, inputs);
  ASSERT_EQ(expected.size(), found.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(equal(expected[i], found[i])) << "result " << i;
}

void expect_laws(const pass::Pass& p, const Module& m, const std::vector<Array>& inputs, const pass::PassOptions& options) {
  SCOPED_TRACE(p.name);
  Module copy = m;
  Module after = p.run(m, options);
  EXPECT_EQ(m, copy) << "the input is not modified";
  graph::verify(after);
  EXPECT_EQ(p.run(after, options), after) << "running it again changes nothing";
  tir::ConstantBytes long_constants;
  std::string text = graph::print(after, &long_constants);
  EXPECT_EQ(graph::parse("after", text, op::all_ops(), long_constants), after) << text;
  expect_same_results(m, after, inputs);
}

TEST(GraphPasses, KeepResultsAndAreIdempotent) {
  for (uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    test::RandomModule random = test::random_module(seed);
    for (const pass::Pass* p : pass::graph_passes()) expect_laws(*p, random.module, random.inputs, {});
    if (seed % 4 != 0) continue;
    Module fused = pass::fuse.run(random.module, {.fuse_max_nodes = 2});
    for (const pass::Pass* p : pass::graph_passes()) expect_laws(*p, fused, random.inputs, {});
  }
}

/// The laws say something only where a pass does something.
TEST(GraphPasses, ChangeManyRandomModules) {
  for (const pass::Pass* p : pass::graph_passes()) {
    if (p == &pass::infer) continue;
    int changed = 0;
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      Module m = pass::eliminate_dead.run(test::random_module(seed).module, {});
      if (p == &pass::eliminate_dead) m = test::random_module(seed).module;
      changed += p->run(m, {}) != m;
    }
    EXPECT_GE(changed, 10) << p->name;
  }
}

TEST(GraphPasses, KeepResultsOneAfterTheOther) {
  for (uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    test::RandomModule random = test::random_module(seed, 24);
    Module m = random.module;
    for (const pass::Pass* p : {&pass::infer, &pass::simplify, &pass::fold_constants, &pass::fold_batch_norm, &pass::simplify,
                                &pass::eliminate_common_subexpressions, &pass::eliminate_dead, &pass::fuse}) {
      SCOPED_TRACE(p->name);
      m = p->run(m, {});
      graph::verify(m);
      expect_same_results(random.module, m, random.inputs);
    }
  }
}

/// Markers, which fusion removes, left out.
int64_t count_ops(const Function& f) {
  return std::count_if(f.nodes.begin(), f.nodes.end(),
                       [](const Node& n) { return n.kind == NodeKind::Op && n.op != &op::stop_fusion; });
}

/// Groups cover the operators, each once; none holds more than `limit` nodes or two anchors. They run one after the
/// other in topological order, so no path leaves a group and comes back.
void expect_fusion_laws(const Module& m, const Module& fused, int64_t limit) {
  int64_t grouped = 0;
  for (const Node& call : fused.functions.at("main").nodes) {
    EXPECT_NE(call.kind, NodeKind::Op);
    if (call.kind != NodeKind::Call) continue;
    const Function& group = fused.functions.at(call.callee);
    EXPECT_TRUE(group.primitive());
    grouped += count_ops(group);
    EXPECT_LE(count_ops(group), std::max<int64_t>(limit, 1));
    EXPECT_LE(std::count_if(group.nodes.begin(), group.nodes.end(),
                            [](const Node& n) { return n.kind == NodeKind::Op && n.op->fusion == graph::Fusion::OutputFusable; }),
              1);
  }
  EXPECT_EQ(grouped, count_ops(m.functions.at("main")));
}

TEST(GraphPasses, FusionPartitionsWithinItsLimit) {
  for (uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    test::RandomModule random = test::random_module(seed, 24);
    Module m = pass::eliminate_dead.run(random.module, {});
    for (pass::PassOptions options : {pass::PassOptions{.fuse_max_nodes = 1}, pass::PassOptions{.fuse_max_nodes = 3},
                                      pass::PassOptions{.link_params = true}, pass::PassOptions{.opt_level = 0}}) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      Module fused = pass::fuse.run(m, options);
      expect_fusion_laws(m, fused, options.opt_level == 0 ? 1 : options.fuse_max_nodes);
      expect_laws(pass::fuse, m, random.inputs, options);
    }
  }
}

}  // namespace
}  // namespace tenon
