// SPDX-License-Identifier: Apache-2.0
#include "support/trace_replay.h"

#include <gtest/gtest.h>

#include "schedule/steps.h"
#include "tir/text.h"

namespace tenon::test {

schedule::Trace expect_trace_replays(const schedule::Request& request, const std::string& what) {
  schedule::Scheduled scheduled = schedule::schedule(request);
  std::optional<schedule::Trace> trace = trace_of(request, scheduled);
  if (!trace) {
    ADD_FAILURE() << what << ": a built-in schedule has no trace";
    return {};
  }
  schedule::Schedule replayed = schedule::replay(request.func, "trace", print(*trace));
  EXPECT_TRUE(structural_equal(replayed.func(), scheduled.func))
      << what << ":\n"
      << print(*trace) << tir::print(scheduled.func) << "and replayed\n"
      << tir::print(replayed.func());
  EXPECT_EQ(replayed.packed().size(), scheduled.packed.size()) << what;
  for (size_t i = 0; i < std::min(replayed.packed().size(), scheduled.packed.size()); ++i) {
    EXPECT_EQ(replayed.packed()[i].param, scheduled.packed[i].param) << what;
    EXPECT_TRUE(structural_equal(replayed.packed()[i].pack, scheduled.packed[i].pack)) << what;
  }
  return *trace;
}

}  // namespace tenon::test
