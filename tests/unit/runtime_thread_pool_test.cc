// SPDX-License-Identifier: Apache-2.0
// The thread pool: every index once, contiguous balanced ranges, own worker numbers, nested calls inline.
#include "runtime/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <set>

#include "base/function_ref.h"
#include "support/allocation_count.h"

namespace tenon::runtime {
namespace {

using Body = function_ref<void(int64_t, int64_t, int64_t)>;

void run(ThreadPool& pool, int64_t extent, Body body) {
  pool.run(
      extent,
      [](void* closure, int64_t begin, int64_t end, int64_t worker) { (*static_cast<Body*>(closure))(begin, end, worker); },
      &body);
}

TEST(ThreadPool, RunsEveryIndexOnceForEveryExtent) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (int64_t extent : {0, 1, 2, 3, 7, 8, 9, 1000}) {
      std::vector<int> hits(static_cast<size_t>(extent));
      run(pool, extent, [&](int64_t begin, int64_t end, int64_t) {
        for (int64_t i = begin; i < end; ++i) ++hits[static_cast<size_t>(i)];
      });
      EXPECT_EQ(hits, std::vector<int>(static_cast<size_t>(extent), 1)) << threads << " threads, extent " << extent;
    }
  }
}

TEST(ThreadPool, SplitsIntoBalancedRangesWithOneWorkerEach) {
  ThreadPool pool(4);
  std::mutex mutex;
  std::set<std::vector<int64_t>> ranges;
  run(pool, 10, [&](int64_t begin, int64_t end, int64_t worker) {
    std::lock_guard lock(mutex);
    ranges.insert({worker, begin, end});
  });
  EXPECT_EQ(ranges, (std::set<std::vector<int64_t>>{{0, 0, 3}, {1, 3, 6}, {2, 6, 8}, {3, 8, 10}}));
}

TEST(ThreadPool, RunsANestedLoopOnTheWorkerThatAskedForIt) {
  ThreadPool pool(3);
  std::atomic<int> wrong{0}, points{0};
  run(pool, 3, [&](int64_t, int64_t, int64_t outer) {
    run(pool, 5, [&](int64_t begin, int64_t end, int64_t inner) {
      wrong += inner != outer || begin != 0 || end != 5;
      points += static_cast<int>(end - begin);
    });
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(points, 15);
}

TEST(ThreadPool, SurvivesManyJobsWithPausesInBetween) {
  ThreadPool pool(4);
  std::atomic<int64_t> sum{0};
  int64_t expected = 0;
  for (int job = 0; job < 300; ++job) {
    int64_t extent = job % 6;  // often fewer than the workers, so that some sit out
    run(pool, extent, [&](int64_t begin, int64_t end, int64_t) { sum += end - begin; });
    expected += extent;
    if (job % 60 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // long enough to park
  }
  EXPECT_EQ(sum, expected);
}

TEST(ThreadPool, AllocatesNothingPerJob) {
  ThreadPool pool(2);
  std::atomic<int64_t> sum{0};
  run(pool, 2, [&](int64_t begin, int64_t end, int64_t) { sum += end - begin; });
  int64_t before = test::allocation_count();
  for (int i = 0; i < 100; ++i) run(pool, 10, [&](int64_t begin, int64_t end, int64_t) { sum += end - begin; });
  EXPECT_EQ(test::allocation_count(), before);
}

}  // namespace
}  // namespace tenon::runtime
