// SPDX-License-Identifier: Apache-2.0
// Several builds at once over one cache. Also built under ThreadSanitizer, as part of tenon_thread_tests.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "driver/driver.h"
#include "driver/jit.h"
#include "op/ops.h"

namespace tenon {
namespace {

using graph::Builder;
using graph::Function;
using graph::Module;
using graph::ValueId;
using lower::KernelCache;
using lower::Stage;

constexpr int kThreads = 4;

/// relu(x . w + b) for each width, each a function of its own.
Module layers(int count) {
  Module m;
  Builder b(m, "main");
  std::vector<ValueId> inputs, results;
  for (int64_t i = 1; i <= count; ++i) inputs.push_back(b.param("x" + std::to_string(i), {DType::F32, {4, i}}));
  for (int64_t i = 1; i <= count; ++i) {
    ValueId x = inputs[static_cast<size_t>(i - 1)];
    ValueId w = b.constant(array_of<float>(DType::F32, {i, 8}, std::vector<float>(static_cast<size_t>(8 * i), 0.5f)), "w");
    results.push_back(b.call1(op::relu, {b.call1(op::matmul, {x, w})}));
  }
  m.functions.emplace("main", b.finish(results));
  m.attrs["stage"] = std::string("import");
  return m;
}

/// Function i takes the sum of i + 1 copies of its parameter.
Function sum(Module& m, int i) {
  Builder b(m, "f" + std::to_string(i));
  ValueId x = b.param("x", {DType::F32, {16}}), y = x;
  for (int k = 0; k < i; ++k) y = b.call1(op::add, {y, x});
  Function f = b.finish({b.call1(op::relu, {y})});
  f.attrs["primitive"] = true;
  return f;
}

void on_threads(function_ref<void(int)> f) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([&f, i] { f(i); });
}

TEST(SharedCache, ThreadsLowerDifferentAndEqualKernelsAtOnce) {
  Module m;
  std::vector<Function> functions;
  for (int i = 0; i < 8; ++i) functions.push_back(sum(m, i));
  KernelCache cache;
  on_threads([&](int thread) {
    for (size_t k = 0; k < functions.size(); ++k) {
      const Function& f = functions[(k + static_cast<size_t>(2 * thread)) % functions.size()];
      lower::lower_cached(m, f, lower::canonical_text(m, f), &cache);
      cache.statistics(Stage::Lowering);
      cache.entries();
    }
  });
  EXPECT_EQ(cache.statistics(Stage::Lowering).misses, 8);
  EXPECT_EQ(cache.statistics(Stage::Lowering).hits, 8 * kThreads - 8);
}

TEST(SharedCache, BuildsWithWorkersOfTheirOwnGiveEqualObjects) {
  driver::CompileOptions options{.workers = 2, .cache = std::make_shared<KernelCache>()};
  Module m = layers(6);
  std::vector<std::vector<std::string>> objects(kThreads);
  on_threads([&](int i) { objects[static_cast<size_t>(i)] = driver::build(driver::run_pipeline(m, options), options).objects; });
  for (const auto& each : objects) EXPECT_EQ(each, objects[0]);
  EXPECT_EQ(options.cache->statistics(Stage::Code).misses, 6);
}

TEST(SharedCache, ClearingDuringBuildsChangesNoResult) {
  driver::CompileOptions options{.workers = 2, .cache = std::make_shared<KernelCache>()};
  Module m = layers(3);
  const Module want = driver::run_pipeline(m, {});
  on_threads([&](int i) {
    if (i == 0)
      for (int k = 0; k < 20; ++k) options.cache->clear();
    else
      EXPECT_TRUE(driver::run_pipeline(m, options) == want);
  });
}

TEST(SharedCache, ThreadsThatAskForOneFunctionGetOneCallableAndCallItAtOnce) {
  Module m;
  Function f = sum(m, 2);
  KernelCache cache;
  std::vector<std::shared_ptr<const Callable>> got(kThreads);
  on_threads([&](int i) {
    auto& callable = got[static_cast<size_t>(i)] = jit(cache, m, f);
    std::vector<Array> input{array_of<float>(DType::F32, {16}, std::vector<float>(16, static_cast<float>(i)))};
    EXPECT_EQ((*callable)(input)[0].read<float>(7), 3.0f * static_cast<float>(i));
  });
  for (const auto& each : got) EXPECT_EQ(each, got[0]);
}

}  // namespace
}  // namespace tenon
