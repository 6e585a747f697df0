// SPDX-License-Identifier: Apache-2.0
// The switch for deep random tests.
#include "support/long_run.h"

#include <cstdlib>
#include <string_view>

namespace tenon::test {

bool long_run() {
  const char* value = std::getenv("TENON_LONG");
  return value && std::string_view(value) == "1";
}

}  // namespace tenon::test
