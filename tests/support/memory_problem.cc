// SPDX-License-Identifier: Apache-2.0
#include "support/memory_problem.h"

#include <algorithm>
#include <cstdlib>

#include "base/diagnostic.h"

namespace tenon::testing {

using plan::Buffer;
using plan::LivenessProblem;
using plan::MemoryPlan;

Buffer buffer(std::string id, int64_t begin, int64_t end, int64_t size, int64_t alignment) {
  return {.id = std::move(id), .begin = begin, .end = end, .size = size, .alignment = alignment};
}

LivenessProblem random_problem(std::mt19937_64& random, const ProblemShape& shape) {
  auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(std::max<int64_t>(n, 1))); };
  LivenessProblem problem;
  for (int64_t i = 1; i < shape.pools; ++i) {
    problem.pools.push_back(
        {.name = "pool" + std::to_string(i), .limit = 200 + below(2000), .alignment = int64_t{1} << below(5)});
  }
  int64_t count = below(shape.buffers), horizon = 1 + below(40), longest = 1 + below(horizon), largest = 1 + below(300);
  for (int64_t i = 0; i < count; ++i) {
    int64_t begin = below(horizon);
    Buffer b = buffer("b" + std::to_string(i), begin, begin + below(longest + 1), below(largest), int64_t{1} << below(7));
    if (shape.pools > 1 && below(2) == 0) b.pools = {static_cast<uint32_t>(1 + below(shape.pools - 1)), 0};
    if (shape.gaps && below(3) == 0 && b.end - b.begin > 2) {
      int64_t low = below(b.size);
      b.gaps.push_back({b.begin + 1, b.end - 1, low, below(2) == 0 ? low : b.size});
    }
    bool plain = b.gaps.empty() && i > 0;
    auto other = static_cast<uint32_t>(below(i));
    if (shape.views && plain && below(5) == 0 && !problem.buffers[other].alias && problem.buffers[other].gaps.empty() &&
        problem.buffers[other].size >= b.size && b.size > 0)
      b.alias = plan::Alias{other, below(problem.buffers[other].size - b.size + 1)};
    else if (shape.shares && plain && below(3) == 0 && problem.buffers[other].gaps.empty() && !problem.buffers[other].alias) {
      if (below(2) == 0) b.size = problem.buffers[other].size;
      b.may_share_with = {other};
    } else if (shape.pins && below(6) == 0) {
      b.pools.clear();
      b.pin = plan::Pin{};
      if (below(2) == 0) b.pin->offset = 20480 + 1024 * i;  // above all others, and each on bytes of its own
    }
    problem.buffers.push_back(std::move(b));
  }
  return problem;
}

namespace {

struct Bytes {
  int64_t low, high;
};

/// What a buffer holds at a program point, for its views too: from the first point of all of them to the last.
Bytes held(const LivenessProblem& problem, uint32_t index, int64_t point) {
  const Buffer& b = problem.buffers[index];
  if (b.alias) return {0, 0};
  int64_t begin = INT64_MAX, end = INT64_MIN;
  auto stretch = [&](const Buffer& other) {
    if (other.begin == other.end) return;
    begin = std::min(begin, other.begin);
    end = std::max(end, other.end);
  };
  stretch(b);
  for (const Buffer& view : problem.buffers)
    if (view.alias && view.alias->buffer == index) stretch(view);
  if (point < begin || point >= end) return {0, 0};
  for (const plan::Gap& gap : b.gaps)
    if (gap.begin <= point && point < gap.end) return {gap.low, gap.high};
  return {0, b.size};
}

bool may_share(const LivenessProblem& problem, uint32_t a, uint32_t b) {
  auto lists = [&](uint32_t i, uint32_t j) {
    const auto& with = problem.buffers[i].may_share_with;
    return std::find(with.begin(), with.end(), j) != with.end();
  };
  return lists(a, b) || lists(b, a);
}

}  // namespace

bool is_free_of_overlaps(const LivenessProblem& problem, const MemoryPlan& plan) {
  int64_t last = 0;
  for (const Buffer& b : problem.buffers) last = std::max(last, b.end);
  for (int64_t point = 0; point < last; ++point) {
    std::vector<std::pair<uint32_t, Bytes>> alive;
    for (uint32_t i = 0; i < problem.buffers.size(); ++i)
      if (Bytes bytes = held(problem, i, point); bytes.low < bytes.high) alive.emplace_back(i, bytes);
    for (auto [i, a] : alive)
      for (auto [j, b] : alive) {
        int64_t x = plan.offset_of(i), y = plan.offset_of(j);
        bool apart =
            i >= j || plan.pool_of(i) != plan.pool_of(j) || std::max(x + a.low, y + b.low) >= std::min(x + a.high, y + b.high);
        if (!apart && (x != y || !may_share(problem, i, j))) return false;
      }
  }
  return true;
}

std::string fault_of(const LivenessProblem& problem, const MemoryPlan& plan) {
  try {
    plan::check_plan(problem, plan);
  } catch (const CompileError& error) {
    return error.diagnostics()[0].code;
  }
  return "";
}

int problem_count(int few, int many) { return std::getenv("TENON_LONG") ? many : few; }

}  // namespace tenon::testing
