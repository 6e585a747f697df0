// SPDX-License-Identifier: Apache-2.0
// The command's allocator takes memory in large pages, where the system gives them: a compile touches hundreds of megabytes, and
// each small page costs a trap.
#include <mimalloc.h>

namespace {

const bool large_pages = [] {
  mi_option_set_enabled_default(mi_option_large_os_pages, true);
  return true;
}();

}  // namespace
