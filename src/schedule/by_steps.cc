// SPDX-License-Identifier: Apache-2.0
// The door from schedule steps to providers.
#include "schedule/primitives/schedule.h"
#include "schedule/schedule.h"

namespace tenon::schedule {

Scheduled by_steps(const Schedule& steps) {
  Scheduled out{steps.func(), {}, print(steps.trace())};
  out.func.attrs["scheduled"] = true;
  return out;
}

}  // namespace tenon::schedule
