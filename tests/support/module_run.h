// SPDX-License-Identifier: Apache-2.0
// Runs modules given as text, in every way that must not change a result.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "driver/driver.h"

namespace tenon::test {

/// One run in a session of its own, on one array per input.
std::vector<Array> run_once(std::shared_ptr<const runtime::Executable> executable, const std::vector<Array>& inputs);

/// Checks that `main` gives these results: interpreted, and built at levels 0, 1 and 3 with constants outside and inside of
/// kernels and with the inputs given at run time and as constants. Floats may be off by `off` and by as much of their value.
void expect_results(const std::string& text, const std::vector<Array>& inputs, const std::vector<Array>& want, double off = 0);

}  // namespace tenon::test
