// SPDX-License-Identifier: Apache-2.0
#include "base/own_file.h"

#include <dlfcn.h>
#include <link.h>

#include "base/diagnostic.h"

namespace tenon {

std::string own_file() {
  Dl_info ignored;
  link_map* here = nullptr;
  int found = ::dladdr1(reinterpret_cast<const void*>(&own_file), &ignored, reinterpret_cast<void**>(&here), RTLD_DL_LINKMAP);
  check(found != 0, "our code is in a file");
  // A program is listed without a name; what its caller called it could be anything.
  return *here->l_name ? here->l_name : "/proc/self/exe";
}

}  // namespace tenon
