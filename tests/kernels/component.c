/* SPDX-License-Identifier: Apache-2.0
   A component for tests. `add N`: N floats, the sum of two arguments. `refuse`: no kernel. `fail`: a kernel that fails. A
   constant is copied when the kernel is made, so that its place no longer matters. OLD builds it for another interface. */
#include <stdlib.h>
#include <string.h>

#include "tenon/component.h"

typedef struct {
  long count;
  float* constant; /* of argument 1, or null */
} kernel;

static void* create(const char* description, const void* const* args, int32_t arg_count, int32_t threads, char* error,
                    uint64_t error_bytes) {
  (void)threads;
  if (strcmp(description, "refuse") == 0 || arg_count != 3) {
    strncpy(error, "not today", error_bytes);
    return NULL;
  }
  kernel* made = calloc(1, sizeof *made);
  if (strncmp(description, "add ", 4) == 0) made->count = atol(description + 4);
  if (args[1]) {
    made->constant = malloc((size_t)made->count * sizeof(float));
    memcpy(made->constant, args[1], (size_t)made->count * sizeof(float));
  }
  return made;
}

static int32_t run(void* state, void* const* args, char* error, uint64_t error_bytes) {
  const kernel* made = state;
  const float *a = args[0], *b = made->constant ? made->constant : args[1];
  if (made->count == 0) {
    strncpy(error, "broken", error_bytes);
    return 1;
  }
  for (long i = 0; i < made->count; ++i) ((float*)args[2])[i] = a[i] + b[i];
  return 0;
}

static void destroy(void* state) {
  free(((kernel*)state)->constant);
  free(state);
}

const tenon_component* tenon_component_open(void) {
#ifdef OLD
  static const tenon_component component = {TENON_COMPONENT_ABI + 1, "old", create, run, destroy};
#else
  static const tenon_component component = {TENON_COMPONENT_ABI, "1", create, run, destroy};
#endif
  return &component;
}
