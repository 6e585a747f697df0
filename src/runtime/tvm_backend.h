// SPDX-License-Identifier: Apache-2.0
// What kernels compiled for TVM call back: workspaces, parallel loops, errors, other functions of their library.
#pragma once

#include <string>

#include "runtime/tvm_abi.h"

namespace tenon::runtime {
class ThreadPool;
}

namespace tenon::runtime::tvm {

/// The call-backs, with the signatures that TVM's run time gives them. They return 0, or -1 with a text for `take_error`.
struct Backend {
  void (*set_last_error)(const char* text);
  /// Aligned to 64, kept for the thread's next request once freed; null if there is not enough memory.
  void* (*alloc_workspace)(int device_type, int device_id, uint64_t bytes, int dtype_code, int dtype_bits);
  int (*free_workspace)(int device_type, int device_id, void* workspace);
  /// Runs as many tasks as the session has threads, or `tasks` of them where that is less and not 0, all at the same time. One
  /// inside another runs one task.
  int (*parallel_launch)(ParallelTask task, void* closure, int tasks);
  /// Waits for the other tasks of the launch.
  int (*parallel_barrier)(int task, ParallelEnvironment* environment);
  /// A function of the same library by name; `library` is what its `__tvm_module_ctx` holds.
  int (*get_function)(void* library, const char* name, void** function);
  int (*call_function)(void* function, Value* args, int* codes, int count, Value* result, int* result_code);
};
const Backend& backend();

/// The address of a function or variable that a library itself defines; null for those of the libraries it depends on, such as
/// libc's. `library` is dlopen's.
void* own_symbol(void* library, const char* name);

/// Fills the pointers to call-backs that a library defines (`__TVMBackendParallelLaunch`, …) and its `__tvm_module_ctx`. Several
/// loads of one library are alike.
void connect(void* library);

/// While it lives, parallel loops that this thread launches run on the pool.
class PoolScope {
 public:
  explicit PoolScope(ThreadPool& pool);
  ~PoolScope();
  PoolScope(const PoolScope&) = delete;
  PoolScope& operator=(const PoolScope&) = delete;
};

/// The text of this thread's last failure, which is forgotten.
std::string take_error();

}  // namespace tenon::runtime::tvm
