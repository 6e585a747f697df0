// SPDX-License-Identifier: Apache-2.0
// How long a planner may search: in steps, which are the same on every machine, and only if asked in time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "tenon/plan.h"

namespace tenon::plan {

/// A step is a look at one buffer.
class Budget {
 public:
  Budget(const PlannerOptions& options, uint64_t own_steps)
      : max_steps_(options.max_steps ? options.max_steps : own_steps), wall_limit_ms_(options.wall_limit_ms) {}

  uint64_t steps = 0;  // taken

  uint64_t left() const { return max_steps_ - std::min(steps, max_steps_); }
  bool spent() const { return steps >= max_steps_ || (wall_limit_ms_ > 0 && elapsed() >= wall_limit_ms_); }

 private:
  int64_t elapsed() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start_).count();
  }
  uint64_t max_steps_;
  int64_t wall_limit_ms_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// A fixed sequence of numbers that look random (SplitMix64), the same on every machine.
class Sequence {
 public:
  uint64_t next() {
    uint64_t x = state_ += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
  }
  uint64_t below(uint64_t n) { return next() % n; }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_ = 1;
};

}  // namespace tenon::plan
