// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tenon {

/// The file that this code lies in, a program or a library, as it was opened.
std::string own_file();

}  // namespace tenon
