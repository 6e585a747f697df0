// SPDX-License-Identifier: Apache-2.0
// Independent pieces of compile-time work on several threads.
#pragma once

#include <cstddef>

#include "base/function_ref.h"

namespace tenon {

/// Calls f(0) … f(count - 1), each once, on up to `workers` threads (the caller's included). All are run even if some
/// throw; then the exception of the smallest index is thrown, so that what is reported does not depend on timing.
void parallel_for(size_t count, int workers, function_ref<void(size_t)> f);

}  // namespace tenon
