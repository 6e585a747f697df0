// SPDX-License-Identifier: Apache-2.0
// Persistent workers that run ranges of one loop at a time: static partition, spin, then park.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "tenon/kernel.h"

namespace tenon::runtime {

inline constexpr int kMaxThreads = 1024;

/// For use by one calling thread at a time, which works as worker 0.
class ThreadPool {
 public:
  /// Throws CompileError (limit) when a thread cannot be started.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }
  /// Splits [0, extent) into at most threads() contiguous ranges whose sizes differ by at most one, and returns when all have
  /// run. An extent of one, one thread, or a call from inside a range runs on the calling worker. Allocates nothing.
  void run(int64_t extent, tenon_range_body body, void* closure);

 private:
  void work(int worker);
  void run_range(int worker, int ranges);
  void stop();

  const int threads_;
  // The job; written before `turn_` is advanced, read by its participants until `running_` is 0.
  tenon_range_body body_ = nullptr;
  void* closure_ = nullptr;
  int64_t extent_ = 0;
  /// Counts jobs in the high bits; the low bits hold the number of participants, so that a worker without a range never
  /// looks at the job, which may be the next one by then. No participants: stop.
  alignas(64) std::atomic<uint64_t> turn_{1};
  alignas(64) std::atomic<uint32_t> running_{0};
  std::vector<std::thread> workers_;
};

}  // namespace tenon::runtime
