/* SPDX-License-Identifier: Apache-2.0
   Kernels written by hand with TVM's packed-call interface, as a shared library as its compiler would make one. */
#include <stddef.h>
#include <stdint.h>

typedef struct {
  void* data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} tensor;

typedef union {
  int64_t integer;
  double number;
  void* handle;
} value;

typedef struct {
  void* barrier;
  int32_t tasks;
} environment;

typedef int (*task_function)(int task, environment* env, void* closure);

/* Whoever loads the library fills these. */
void (*__TVMAPISetLastError)(const char*);
void* (*__TVMBackendAllocWorkspace)(int, int, uint64_t, int, int);
int (*__TVMBackendFreeWorkspace)(int, int, void*);
int (*__TVMBackendParallelLaunch)(task_function, void*, int);
int (*__TVMBackendParallelBarrier)(int, environment*);
int (*__TVMBackendGetFuncFromEnv)(void*, const char*, void**);
int (*__TVMFuncCall)(void*, value*, int*, int, value*, int*);
void* __tvm_module_ctx;

static int fail(const char* text) {
  __TVMAPISetLastError(text);
  return -1;
}

/* y = x + 1 over vectors of f32; refuses anything with two dimensions. */
int32_t add_one(value* args, int32_t* codes, int32_t count, value* result, int32_t* result_code, void* resource) {
  (void)result, (void)result_code, (void)resource;
  tensor *x = args[0].handle, *y = args[1].handle;
  if (count != 2 || codes[0] != 7 || codes[1] != 7) return fail("add_one takes two tensors");
  if (x->ndim != 1) return fail("add_one takes vectors");
  for (int64_t i = 0; i < x->shape[0]; ++i) ((float*)y->data)[i] = ((float*)x->data)[i] + 1;
  return 0;
}

struct job {
  const float* x;
  float *y, *total;
  int64_t extent;
};

static int sum_task(int task, environment* env, void* closure) {
  struct job* job = closure;
  float* partial = __TVMBackendAllocWorkspace(1, 0, 64, 2, 32);
  if (!partial || ((uintptr_t)partial & 63)) return fail("no aligned workspace");
  partial[0] = 0;
  for (int64_t i = task; i < job->extent; i += env->tasks) partial[0] += job->x[i];
  job->total[task] = partial[0];
  if (__TVMBackendFreeWorkspace(1, 0, partial)) return -1;
  __TVMBackendParallelBarrier(task, env); /* every total is there */
  float total = 0;
  for (int i = 0; i < env->tasks; ++i) total += job->total[i];
  for (int64_t i = task; i < job->extent; i += env->tasks) job->y[i] = job->x[i] + total;
  return 0;
}

/* y = x + sum(x), in two steps with a barrier between them; at most 64 tasks. */
int32_t add_sum(value* args, int32_t* codes, int32_t count, value* result, int32_t* result_code, void* resource) {
  (void)codes, (void)count, (void)result, (void)result_code, (void)resource;
  tensor *x = args[0].handle, *y = args[1].handle;
  struct job job = {x->data, y->data, NULL, 1};
  for (int i = 0; i < x->ndim; ++i) job.extent *= x->shape[i];
  job.total = __TVMBackendAllocWorkspace(1, 0, 64 * sizeof(float), 2, 32);
  int status = __TVMBackendParallelLaunch(sum_task, &job, 0);
  __TVMBackendFreeWorkspace(1, 0, job.total);
  return status;
}

/* Calls add_one by name. */
int32_t call_add_one(value* args, int32_t* codes, int32_t count, value* result, int32_t* result_code, void* resource) {
  (void)resource;
  void* function = NULL;
  if (__TVMBackendGetFuncFromEnv(__tvm_module_ctx, "add_one", &function)) return -1;
  return __TVMFuncCall(function, args, codes, count, result, result_code);
}

/* Looks for a function that is not there. */
int32_t call_missing(value* args, int32_t* codes, int32_t count, value* result, int32_t* result_code, void* resource) {
  (void)args, (void)codes, (void)count, (void)result, (void)result_code, (void)resource;
  void* function = NULL;
  return __TVMBackendGetFuncFromEnv(__tvm_module_ctx, "no_such_function", &function);
}

static int failing_task(int task, environment* env, void* closure) {
  (void)closure;
  return task == env->tasks - 1 ? fail("the last task failed") : 0;
}

int32_t fail_in_parallel(value* args, int32_t* codes, int32_t count, value* result, int32_t* result_code, void* resource) {
  (void)args, (void)codes, (void)count, (void)result, (void)result_code, (void)resource;
  return __TVMBackendParallelLaunch(failing_task, NULL, 0);
}
