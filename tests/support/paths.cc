// SPDX-License-Identifier: Apache-2.0
// The one file that knows where the checkout and the build lie, so that the others compile alike everywhere.
#include "support/paths.h"

namespace tenon {

std::string tests_dir() { return TENON_TESTS_DIR; }
std::string test_kernels() { return TENON_TEST_KERNELS; }
std::string test_undefined_object() { return TENON_TEST_UNDEFINED; }
std::string test_packed_kernels() { return TENON_TEST_PACKED_KERNELS; }

}  // namespace tenon
