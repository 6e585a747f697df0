// SPDX-License-Identifier: Apache-2.0
// The cache: what it counts, keeps and forgets, alone and with threads.
#include "lower/cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <mutex>
#include <thread>

#include "base/diagnostic.h"

namespace tenon::lower {
namespace {

struct Thing {
  std::string text;
};

int64_t entry_count(const KernelCache& cache) { return static_cast<int64_t>(cache.entries().size()); }

TEST(KernelCache, CountsRequestsByStageAndListsThemSorted) {
  KernelCache cache;
  auto make = [] { return Thing{"made"}; };
  cache.get<Thing>(Stage::Code, "b", make);
  auto first = cache.get<Thing>(Stage::Code, "a", make);
  EXPECT_EQ(cache.get<Thing>(Stage::Code, "a", make), first);
  EXPECT_NE(cache.get<Thing>(Stage::Lowering, "a", make), first) << "another stage is another entry";
  std::vector<KernelCache::Entry> expected{{Stage::Lowering, "a", 1}, {Stage::Code, "a", 2}, {Stage::Code, "b", 1}};
  EXPECT_EQ(cache.entries(), expected);
  KernelCache::Statistics code = cache.statistics(Stage::Code);
  EXPECT_EQ(code.hits, 1);
  EXPECT_EQ(code.misses, 2);
  EXPECT_EQ(code.entries, 2);
  EXPECT_EQ(cache.statistics(Stage::Callable).misses, 0);
}

TEST(KernelCache, ClearForgetsEntriesAndCountsButNotWhatWasHandedOut) {
  KernelCache cache;
  auto kept = cache.get<Thing>(Stage::Code, "k", [] { return Thing{"first"}; });
  cache.clear();
  EXPECT_TRUE(cache.entries().empty());
  EXPECT_EQ(cache.statistics(Stage::Code).misses, 0);
  EXPECT_EQ(cache.get<Thing>(Stage::Code, "k", [] { return Thing{"second"}; })->text, "second");
  EXPECT_EQ(kept->text, "first");
}

TEST(KernelCache, AFailureLeavesNothing) {
  KernelCache cache;
  auto failing = []() -> Thing { throw CompileError(Diagnostic{.message = "no"}); };
  EXPECT_THROW(cache.get<Thing>(Stage::Code, "k", failing), CompileError);
  EXPECT_EQ(entry_count(cache), 0);
  auto made = cache.get<Thing>(Stage::Code, "k", [] { return Thing{"fine"}; });
  EXPECT_EQ(made->text, "fine");
  EXPECT_EQ(cache.get<Thing>(Stage::Code, "k", failing), made) << "a hit makes nothing";
  KernelCache::Statistics s = cache.statistics(Stage::Code);
  EXPECT_EQ(s.hits, 1);
  EXPECT_EQ(s.misses, 2);
  EXPECT_EQ(s.entries, 1);
}

TEST(KernelCache, WithoutOneTheWorkIsDoneEachTime) {
  int made = 0;
  Caching none;
  for (int i = 0; i < 2; ++i) none.get<Thing>(Stage::Code, "k", [&] { return Thing{std::to_string(made++)}; });
  EXPECT_EQ(made, 2);
}

TEST(KernelCache, TwoRequestsForOneKeyDoTheWorkOnce) {
  KernelCache cache;
  std::atomic<int> made = 0;
  std::vector<std::shared_ptr<const Thing>> got(8);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < got.size(); ++i)
      threads.emplace_back([&, i] {
        got[i] = cache.get<Thing>(Stage::Code, "k", [&] {
          ++made;
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          return Thing{};
        });
      });
  }
  EXPECT_EQ(made, 1);
  for (const auto& each : got) EXPECT_EQ(each, got[0]);
  EXPECT_EQ(cache.entries()[0].uses, 8);
}

TEST(KernelCache, DifferentKeysAreWorkedOnAtTheSameTime) {
  KernelCache cache;
  std::latch all_at_work(4);  // nobody goes on before all four are making something
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&, i] {
        cache.get<Thing>(Stage::Code, std::to_string(i), [&] {
          all_at_work.arrive_and_wait();
          return Thing{};
        });
      });
  }
  EXPECT_EQ(entry_count(cache), 4);
}

TEST(KernelCache, AWaiterTriesItselfAfterAFailure) {
  KernelCache cache;
  std::atomic<int> calls = 0;
  std::atomic<int> failures = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        try {
          cache.get<Thing>(Stage::Code, "k", [&]() -> Thing {
            bool first = calls++ == 0;
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            if (first) throw CompileError(Diagnostic{.message = "once"});
            return {};
          });
        } catch (const CompileError&) {
          ++failures;
        }
      });
  }
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(entry_count(cache), 1);
}

TEST(KernelCache, AnObserverSeesWhatIsMadeAndNotWhatIsFound) {
  struct Log : Observer {
    void begin(Stage stage, const std::string& key) override { events.push_back(std::string(name(stage)) + " begins " + key); }
    void end(Stage stage, const std::string& key) override { events.push_back(std::string(name(stage)) + " ends " + key); }
    std::vector<std::string> events;
  } log;
  KernelCache cache;
  for (int i = 0; i < 2; ++i)
    cache.get<Thing>(
        Stage::Callable, "outer",
        [&] {
          cache.get<Thing>(Stage::Lowering, "inner", [] { return Thing{}; }, &log);
          return Thing{};
        },
        &log);
  auto failing = []() -> Thing { throw CompileError(Diagnostic{.message = "no"}); };
  EXPECT_THROW(Caching(nullptr, &log).get<Thing>(Stage::Code, "bad", failing), CompileError);
  EXPECT_EQ(log.events, (std::vector<std::string>{"callable begins outer", "lowering begins inner", "lowering ends inner",
                                                  "callable ends outer", "code begins bad", "code ends bad"}));
}

}  // namespace
}  // namespace tenon::lower
