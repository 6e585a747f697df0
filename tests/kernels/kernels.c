/* SPDX-License-Identifier: Apache-2.0
   Kernels written by hand for tests of the run time: a shared library as code generation would make one. */
#include "tenon/kernel.h"

struct closure {
  void* const* args;
  tenon_kernel_context* context;
};

static void double_range(void* data, int64_t begin, int64_t end, int64_t worker) {
  struct closure* closure = data;
  const float* x = closure->args[0];
  float* y = closure->args[1];
  /* Goes through the worker's own scratch, so that two workers with one block would be seen. */
  float* scratch = (float*)(closure->context->worker_scratch + worker * closure->context->worker_stride);
  for (int64_t i = begin; i < end; ++i) {
    scratch[0] = x[i];
    y[i] = 2 * scratch[0];
  }
}

/* y = 2 * x over 1000 elements. */
void double_1000(void* const* args, tenon_kernel_context* context) {
  struct closure closure = {args, context};
  context->parallel_for(context, 1000, double_range, &closure);
}

/* y = x + w over 1000 elements, through a block of memory. */
void add_1000(void* const* args, tenon_kernel_context* context) {
  const float *x = args[0], *w = args[1];
  float *y = args[2], *scratch = (float*)context->workspaces[0];
  for (int i = 0; i < 1000; ++i) scratch[i] = x[i];
  for (int i = 0; i < 1000; ++i) y[i] = scratch[i] + w[i];
}
