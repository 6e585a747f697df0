// SPDX-License-Identifier: Apache-2.0
// Regions of element-wise operators as C, compiled with the system's compiler.
#pragma once

#include "external/external.h"

namespace tenon::external {

/// `csource`. Options: `-cc=PROGRAM` (the compiler, `cc`), `-O=0` to `3` (2).
std::shared_ptr<const ExternalCodegen> make_csource(Options options);

}  // namespace tenon::external
