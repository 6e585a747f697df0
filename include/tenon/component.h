/* SPDX-License-Identifier: Apache-2.0
   The binary interface between the run time and a component: a shared library `libtenon_<name>.so` that makes kernels from
   descriptions, such as a library of kernels that is not linked into artifacts. Plain C. */
#ifndef TENON_COMPONENT_H
#define TENON_COMPONENT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_COMPONENT_ABI 1

typedef struct tenon_component {
  uint32_t abi;        /* TENON_COMPONENT_ABI; stays first in every version */
  const char* version; /* of the library behind it, for reports */
  /* Makes the kernel of one step of one session, which runs with `threads` threads. `args` has a pointer for each argument of the
     step, inputs, constants, outputs: that of a constant, whose bytes stay where they are, or null. Returns null when it cannot,
     and then writes why into `error`, `error_bytes` long, with a zero at the end. */
  void* (*create)(const char* description, const void* const* args, int32_t arg_count, int32_t threads, char* error,
                  uint64_t error_bytes);
  /* Runs it on all arguments, never twice at once. Returns 0, or something else and why. */
  int32_t (*run)(void* kernel, void* const* args, char* error, uint64_t error_bytes);
  void (*destroy)(void* kernel);
} tenon_component;

/* What the library exports as `tenon_component_open`. */
typedef const tenon_component* (*tenon_component_open_function)(void);

#ifdef __cplusplus
}
#endif

#endif /* TENON_COMPONENT_H */
