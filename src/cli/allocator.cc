// SPDX-License-Identifier: Apache-2.0
// The command's allocator takes memory in large pages, where the system gives them: a compile touches hundreds of megabytes, and
// each small page costs a trap. So does a thread's first memory, which else comes in steps that hold up the other threads.
#include <mimalloc.h>

namespace {

void configure() {
  mi_option_set_enabled_default(mi_option_large_os_pages, true);
  mi_option_set_default(mi_option_eager_commit_delay, 0);
}

/// Runs before the constructors of the libraries, whose first allocation takes the first 32 MiB.
[[gnu::section(".preinit_array"), gnu::used]] void (*const before_any_library)() = configure;

}  // namespace
