// SPDX-License-Identifier: Apache-2.0
// What makes a problem well-formed.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "base/diagnostic.h"
#include "tenon/plan.h"

namespace tenon::plan {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 62;

class Validator {
 public:
  explicit Validator(const LivenessProblem& problem) : problem_(problem) {}

  void run() {
    if (problem_.pools.empty()) fault("", "there is no pool", "at least one", "0");
    for (const Pool& pool : problem_.pools) check_pool(pool);
    std::unordered_set<std::string_view> ids(problem_.buffers.size());
    for (const Buffer& buffer : problem_.buffers) {
      if (!ids.insert(buffer.id).second)
        fault(buffer.id, fmt::format("the id `{}` is given twice", buffer.id), "ids that differ", buffer.id);
      check_buffer(buffer);
      check_gaps(buffer);
      check_references(buffer);
    }
    faults_.throw_any();
  }

 private:
  static bool is_power_of_two(int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

  void fault(const std::string& id, std::string message, std::string expected, std::string found) {
    faults_.add(Diagnostic{.kind = ErrorKind::Malformed,
                           .code = "plan-problem",
                           .message = std::move(message),
                           .input = id,
                           .expected = std::move(expected),
                           .found = std::move(found),
                           .hint = "correct the memory problem"});
  }

  void check_pool(const Pool& pool) {
    if (pool.limit < 0 && pool.limit != kUnlimited)
      fault(pool.name, fmt::format("pool `{}` has the limit {}", pool.name, pool.limit), "at least 0, or none",
            std::to_string(pool.limit));
    check_alignment("pool", pool.name, pool.alignment);
  }

  void check_alignment(std::string_view what, const std::string& id, int64_t alignment) {
    if (!is_power_of_two(alignment))
      fault(id, fmt::format("{} `{}` has the alignment {}", what, id, alignment), "a power of two", std::to_string(alignment));
  }

  void check_buffer(const Buffer& buffer) {
    check_alignment("buffer", buffer.id, buffer.alignment);
    if (buffer.size < 0 || buffer.size > kMaxBytes)
      fault(buffer.id, fmt::format("buffer `{}` has {} bytes", buffer.id, buffer.size), "0 to 2^62", std::to_string(buffer.size));
    if (buffer.begin > buffer.end)
      fault(buffer.id, fmt::format("buffer `{}` ends at {}, before it begins", buffer.id, buffer.end),
            fmt::format("{} or later", buffer.begin), std::to_string(buffer.end));
    if (buffer.pin && buffer.pin->offset && (*buffer.pin->offset < 0 || *buffer.pin->offset > kMaxBytes))
      fault(buffer.id, fmt::format("buffer `{}` is pinned to the offset {}", buffer.id, *buffer.pin->offset), "0 to 2^62",
            std::to_string(*buffer.pin->offset));
  }

  void check_gaps(const Buffer& buffer) {
    int64_t from = buffer.begin;
    for (const Gap& gap : buffer.gaps) {
      if (gap.begin < from || gap.begin >= gap.end || gap.end > buffer.end)
        fault(buffer.id, fmt::format("a gap of buffer `{}` is [{}, {})", buffer.id, gap.begin, gap.end),
              fmt::format("gaps in order within [{}, {})", from, buffer.end), fmt::format("[{}, {})", gap.begin, gap.end));
      if (gap.low < 0 || gap.low > gap.high || gap.high > buffer.size)
        fault(buffer.id, fmt::format("a gap of buffer `{}` keeps the bytes [{}, {})", buffer.id, gap.low, gap.high),
              fmt::format("bytes within [0, {})", buffer.size), fmt::format("[{}, {})", gap.low, gap.high));
      from = gap.end;
    }
    if (!buffer.gaps.empty() && (buffer.alias || !buffer.may_share_with.empty()))
      fault(buffer.id, fmt::format("buffer `{}` has gaps and shares memory", buffer.id), "one of the two", "both");
  }

  void check_references(const Buffer& buffer) {
    auto in_range = [&](std::string_view what, size_t index, size_t count) {
      if (index < count) return true;
      fault(buffer.id, fmt::format("buffer `{}` names {} {}", buffer.id, what, index), fmt::format("an index below {}", count),
            std::to_string(index));
      return false;
    };
    for (uint32_t pool : buffer.pools) in_range("pool", pool, problem_.pools.size());
    if (buffer.pin) in_range("pool", buffer.pin->pool, problem_.pools.size());
    for (uint32_t other : buffer.may_share_with) in_range("buffer", other, problem_.buffers.size());
    if (buffer.alias && in_range("buffer", buffer.alias->buffer, problem_.buffers.size())) check_alias(buffer);
  }

  void check_alias(const Buffer& buffer) {
    const Buffer& base = problem_.buffers[buffer.alias->buffer];
    if (base.alias || !base.gaps.empty())
      fault(buffer.id, fmt::format("buffer `{}` is a view of `{}`, which is a view or has gaps", buffer.id, base.id),
            "a view of a plain buffer", base.id);
    if (buffer.alias->offset < 0 || buffer.size > base.size || buffer.alias->offset > base.size - buffer.size)
      fault(buffer.id, fmt::format("buffer `{}` is a view of `{}` that passes its end", buffer.id, base.id),
            fmt::format("bytes within [0, {})", base.size), fmt::format("{} bytes at {}", buffer.size, buffer.alias->offset));
    if (buffer.pin || !buffer.may_share_with.empty())
      fault(buffer.id, fmt::format("the view `{}` has a pin or shares memory", buffer.id), "pin or share what it is a view of",
            base.id);
  }

  const LivenessProblem& problem_;
  ErrorList faults_;
};

}  // namespace

void validate(const LivenessProblem& problem) { Validator(problem).run(); }

}  // namespace tenon::plan
