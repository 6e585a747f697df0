// SPDX-License-Identifier: Apache-2.0
// Whether the deep random tests are asked for: TENON_LONG=1, which `tools/run_tests --long` sets.
#pragma once

namespace tenon::test {

bool long_run();

}  // namespace tenon::test
