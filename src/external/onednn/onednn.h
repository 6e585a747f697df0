// SPDX-License-Identifier: Apache-2.0
// Convolutions, matrix products and pooling by oneDNN.
#pragma once

#include "external/external.h"

namespace tenon::external {

/// `onednn`. Option: `-ops=conv,matmul,pool`, a list of what it takes (conv,matmul).
std::shared_ptr<const ExternalCodegen> make_onednn(Options options);

}  // namespace tenon::external
