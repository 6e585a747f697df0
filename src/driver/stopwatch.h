// SPDX-License-Identifier: Apache-2.0
// Milliseconds since it was made or last read.
#pragma once

#include <chrono>

namespace tenon::driver {

class Stopwatch {
 public:
  double lap() {
    auto now = Clock::now();
    std::chrono::duration<double, std::milli> took = now - start_;
    start_ = now;
    return took.count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace tenon::driver
