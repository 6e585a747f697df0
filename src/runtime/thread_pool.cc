// SPDX-License-Identifier: Apache-2.0
// The thread pool.
#include "runtime/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <system_error>

#include "base/diagnostic.h"

namespace tenon::runtime {
namespace {

/// Longer than the gap between two kernels of a model, shorter than what a person or another program would notice.
constexpr std::chrono::microseconds kSpin{50};
constexpr uint64_t kParticipantBits = 16;
constexpr uint64_t kParticipants = (uint64_t{1} << kParticipantBits) - 1;
static_assert(kMaxThreads <= static_cast<int>(kParticipants));

/// The worker this thread is while it runs a range, else -1.
thread_local int current_worker = -1;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Returns the first value other than `old`: spins for a while, then sleeps.
template <class T>
T wait_for_change(const std::atomic<T>& value, T old) {
  auto start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < 64; ++i) {
      T now = value.load(std::memory_order_acquire);
      if (now != old) return now;
      pause();
    }
  } while (std::chrono::steady_clock::now() - start < kSpin);
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int threads) : threads_(threads) {
  check(threads >= 1 && threads <= kMaxThreads, "a thread pool has 1 to 1024 threads");
  workers_.reserve(static_cast<size_t>(threads - 1));
  try {
    for (int worker = 1; worker < threads; ++worker) workers_.emplace_back([this, worker] { work(worker); });
  } catch (const std::system_error& error) {
    stop();
    throw CompileError(Diagnostic{.kind = ErrorKind::Limit,
                                  .code = "thread-start",
                                  .message = std::string("a worker thread cannot be started: ") + error.what(),
                                  .expected = std::to_string(threads) + " threads",
                                  .hint = "ask for fewer threads"});
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  turn_.fetch_and(~kParticipants, std::memory_order_release);
  turn_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void ThreadPool::run_range(int worker, int ranges) {
  int64_t size = extent_ / ranges, larger = extent_ % ranges;
  int64_t begin = worker * size + std::min<int64_t>(worker, larger);
  current_worker = worker;
  body_(closure_, begin, begin + size + (worker < larger), worker);
  current_worker = -1;
}

void ThreadPool::work(int worker) {
  for (uint64_t seen = 1;;) {
    seen = wait_for_change(turn_, seen);
    int participants = static_cast<int>(seen & kParticipants);
    if (participants == 0) return;
    if (worker >= participants) continue;
    run_range(worker, participants);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

void ThreadPool::run(int64_t extent, tenon_range_body body, void* closure) {
  if (extent <= 0) return;
  if (extent == 1 || threads_ == 1 || current_worker >= 0) {
    body(closure, 0, extent, std::max(current_worker, 0));
    return;
  }
  auto participants = static_cast<uint32_t>(std::min<int64_t>(extent, threads_));
  body_ = body;
  closure_ = closure;
  extent_ = extent;
  running_.store(participants - 1, std::memory_order_relaxed);
  uint64_t turn = (turn_.load(std::memory_order_relaxed) >> kParticipantBits) + 1;
  turn_.store(turn << kParticipantBits | participants, std::memory_order_release);
  turn_.notify_all();
  run_range(0, static_cast<int>(participants));
  for (uint32_t left = running_.load(std::memory_order_acquire); left != 0;) left = wait_for_change(running_, left);
}

}  // namespace tenon::runtime
