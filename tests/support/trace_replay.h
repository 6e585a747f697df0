// SPDX-License-Identifier: Apache-2.0
// The law that a schedule is its trace.
#pragma once

#include <string>

#include "schedule/schedule.h"

namespace tenon::test {

/// Schedules a function, and expects the trace's text to replay to the same function and the same packing of constants. Returns
/// the trace.
schedule::Trace expect_trace_replays(const schedule::Request& request, const std::string& what);

}  // namespace tenon::test
