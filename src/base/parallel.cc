// SPDX-License-Identifier: Apache-2.0
// Threads that take the next index until none is left.
#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace tenon {

void parallel_for(size_t count, int workers, function_ref<void(size_t)> f) {
  std::vector<std::exception_ptr> failures(count);
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        f(i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (size_t k = 1; k < std::min(count, static_cast<size_t>(std::max(workers, 1))); ++k) threads.emplace_back(work);
    work();
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace tenon
