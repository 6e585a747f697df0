// SPDX-License-Identifier: Apache-2.0
// Arrays in memory that others have done with. The system clears what it hands out, which takes about as long as a copy.
#pragma once

#include "base/array.h"

namespace tenon {

/// An array in the memory of `used`, with what that holds, if `used` is a frozen array that is large and large enough and nothing
/// else refers to it. A zeroed one in memory of its own if not.
MutableArray reuse(Array used, DType dtype, Shape shape);

}  // namespace tenon
