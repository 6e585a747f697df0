// SPDX-License-Identifier: Apache-2.0
// Where the tests find their files.
#pragma once

#include <string>

namespace tenon {

/// The folder tests/ of the checkout.
std::string tests_dir();
/// The shared library of hand-written kernels.
std::string test_kernels();
/// An object with the symbol `fake_0`, which calls `nowhere`.
std::string test_undefined_object();
/// The one of hand-written kernels that TVM's executor could call.
std::string test_packed_kernels();

}  // namespace tenon
