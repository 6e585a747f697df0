// SPDX-License-Identifier: Apache-2.0
// parallel_for runs every index once and reports the first failure by index.
#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace tenon {
namespace {

TEST(ParallelFor, RunsEveryIndexOnce) {
  for (int workers : {0, 1, 3, 100}) {
    std::vector<std::atomic<int>> runs(37);
    parallel_for(runs.size(), workers, [&](size_t i) { ++runs[i]; });
    for (auto& count : runs) EXPECT_EQ(count, 1);
  }
  parallel_for(0, 4, [](size_t) { FAIL(); });
}

TEST(ParallelFor, ThrowsTheFailureOfTheSmallestIndexAfterAllRan) {
  std::atomic<int> runs = 0;
  try {
    parallel_for(20, 3, [&](size_t i) {
      ++runs;
      if (i % 7 == 5) throw std::runtime_error(std::to_string(i));
    });
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "5");
  }
  EXPECT_EQ(runs, 20);
}

}  // namespace
}  // namespace tenon
