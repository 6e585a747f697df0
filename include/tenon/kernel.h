/* SPDX-License-Identifier: Apache-2.0
   The binary interface between kernels, generated or from an external code generator, and whoever calls them. Plain C. */
#ifndef TENON_KERNEL_H
#define TENON_KERNEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Runs body(closure, begin, end, worker) over a partition of [0, extent). Ranges are contiguous and each worker's
   index is unique among ranges that run at the same time. Returns when all are done. The partition may depend on the
   worker count; results may not. */
typedef void (*tenon_range_body)(void* closure, int64_t begin, int64_t end, int64_t worker);
typedef struct tenon_kernel_context {
  void (*parallel_for)(struct tenon_kernel_context* context, int64_t extent, tenon_range_body body, void* closure);
  uint8_t* const* workspaces; /* where each block of memory lies that the kernel was said to need, 64-byte aligned */
  uint8_t* worker_scratch;    /* as many bytes as it was said to need for each worker, worker_stride apart */
  int64_t worker_stride;      /* bytes, a multiple of 64 */
  void* pool;                 /* the pool's own */
} tenon_kernel_context;

/* args: one pointer per parameter, inputs then outputs, 64-byte aligned unless the executor copied nothing: kernels
   assume element alignment only. Scalars that kernels compute are in bounds; there is nothing to fail. */
typedef void (*tenon_kernel)(void* const* args, tenon_kernel_context* context);

#ifdef __cplusplus
}
#endif

#endif /* TENON_KERNEL_H */
