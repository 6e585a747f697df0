// SPDX-License-Identifier: Apache-2.0
// Laws of whole builds over random modules (spec.md appendix B): P1 levels and the interpreter agree, P3 lowering again changes
// nothing and its input stays, P6 threads and a cache change no byte, P7 constants inside of kernels change no result, P9 names.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "driver/driver.h"
#include "graph/interpret.h"
#include "graph/text.h"
#include "lower/invariants.h"
#include "op/all_ops.h"
#include "runtime/session.h"
#include "support/long_run.h"
#include "support/onnx_tensor.h"
#include "support/random_module.h"

namespace tenon {
namespace {

using graph::Module;

uint64_t seeds() { return test::long_run() ? 500 : 12; }

std::vector<Array> run(driver::Built built, const std::vector<Array>& inputs) {
  runtime::Session session(driver::load(std::move(built)));
  for (size_t i = 0; i < inputs.size(); ++i) session.bind_input(i, inputs[i].bytes.data());
  session.run();
  std::vector<Array> outputs;
  for (size_t i = 0; i < session.program().outputs.size(); ++i) outputs.push_back(session.output(i));
  return outputs;
}

/// The values of random modules are exact in any order of summing.
void expect_equal(const std::vector<Array>& got, const std::vector<Array>& want, const std::string& how) {
  ASSERT_EQ(got.size(), want.size()) << how;
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(test::difference(got[i], want[i], 0, 0), "") << how << ", result " << i;
}

driver::Built built_with(Module module, int level, bool link, const driver::CompileOptions& options = {.verify_each = true}) {
  module.attrs["opt_level"] = int64_t{level};
  module.attrs["link_params"] = link;
  return driver::build(driver::run_pipeline(std::move(module), options), options);
}

TEST(BuildLaws, LevelsLinkedConstantsAndTheInterpreterAgree) {
  int linked = 0;
  for (uint64_t seed = 1; seed <= seeds() && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    test::RandomModule random = test::random_module(seed);
    std::vector<Array> want = graph::interpret(random.module, "main", random.inputs);
    for (int level : {0, 3})
      for (bool link : {false, true}) {
        driver::Built built = built_with(random.module, level, link);
        linked += link && built.constants.empty();
        expect_equal(run(std::move(built), random.inputs), want, "-O" + std::to_string(level) + (link ? " linked" : ""));
      }
  }
  EXPECT_GE(linked, static_cast<int>(seeds())) << "of two builds each; a constant that is a result stays outside";
}

TEST(BuildLaws, LoweringAgainChangesNothing) {
  for (uint64_t seed = 1; seed <= 4 * seeds() && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Module module = test::random_module(seed, 24).module;
    driver::CompileOptions options{.stop_after = "fuse"};
    Module fused = driver::run_pipeline(module, options), before = fused;
    Module lowered = lower::lower_module(fused);
    EXPECT_EQ(fused, before) << "the input stays";
    EXPECT_EQ(lower::lower_module(lowered), lowered);
    EXPECT_NO_THROW(lower::verify_fused(fused));
    EXPECT_NO_THROW(lower::verify_lowered(lowered));
    std::set<std::string> names;
    for (const auto& [name, function] : lowered.functions) names.insert(name);
    for (const auto& [name, function] : lowered.prim_funcs) {
      EXPECT_TRUE(names.insert(name).second) << name;
      EXPECT_LE(name.size(), 98u);
      EXPECT_EQ(name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"), name.npos) << name;
    }
  }
}

TEST(BuildLaws, ThreadsAndACacheChangeNoByte) {
  auto cache = std::make_shared<lower::KernelCache>();
  for (uint64_t seed = 1; seed <= seeds() && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Module module = test::random_module(seed).module;
    driver::Built plain = built_with(module, 3, false);
    for (int workers : {1, 4}) {
      driver::Built other = built_with(module, 3, false, {.workers = workers, .cache = cache});
      EXPECT_EQ(other.objects, plain.objects);
      EXPECT_EQ(other.constants, plain.constants);
    }
  }
}

}  // namespace
}  // namespace tenon
