// SPDX-License-Identifier: Apache-2.0
// TVM's call-backs under their own names, for libraries that do not leave pointers to fill, such as those of its C back end.
// Symbols of the program alone: our shared library has none that another run time in the process could meet.
#include "runtime/tvm_backend.h"

using tenon::runtime::tvm::backend;
using tenon::runtime::tvm::ParallelEnvironment;
using tenon::runtime::tvm::ParallelTask;
using tenon::runtime::tvm::Value;

extern "C" {

void TVMAPISetLastError(const char* text) { backend().set_last_error(text); }

void* TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t bytes, int dtype_code, int dtype_bits) {
  return backend().alloc_workspace(device_type, device_id, bytes, dtype_code, dtype_bits);
}

int TVMBackendFreeWorkspace(int device_type, int device_id, void* workspace) {
  return backend().free_workspace(device_type, device_id, workspace);
}

int TVMBackendParallelLaunch(ParallelTask task, void* closure, int tasks) {
  return backend().parallel_launch(task, closure, tasks);
}

int TVMBackendParallelBarrier(int task, ParallelEnvironment* environment) {
  return backend().parallel_barrier(task, environment);
}

int TVMBackendGetFuncFromEnv(void* library, const char* name, void** function) {
  return backend().get_function(library, name, function);
}

int TVMFuncCall(void* function, Value* args, int* codes, int count, Value* result, int* result_code) {
  return backend().call_function(function, args, codes, count, result, result_code);
}

}  // extern "C"
