/* SPDX-License-Identifier: Apache-2.0
   Runs a compiled model from plain C and prints its outputs as `tenon run` does.

     tenon compile model.onnx -o model.so
     ./run_model model.so random:1            inputs made from a seed, as `tenon run model.so --fill random:1`
     ./run_model model.so x.bin mask.bin      inputs from raw files, in the model's order

   Build: see the Makefile beside this file. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tenon/runtime.h"

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, tenon_last_error());
  return 1;
}

/* Reads a whole file of a known size into the session. */
static int set_input_from_file(tenon_session* session, size_t index, size_t bytes, const char* path) {
  FILE* file = fopen(path, "rb");
  char* data = malloc(bytes + 1);
  size_t read = file && data ? fread(data, 1, bytes + 1, file) : 0;
  tenon_status status = file && data ? tenon_set_input(session, index, data, read) : TENON_FILE_SYSTEM;
  if (!file) perror(path);
  if (file) fclose(file);
  free(data);
  if (status == TENON_OK) return 0;
  return file ? fail(path) : 1;
}

static int set_inputs(const tenon_executable* executable, tenon_session* session, int count, char** values) {
  if (count == 1 && strncmp(values[0], "random:", 7) == 0)
    return tenon_fill_random(session, strtoull(values[0] + 7, NULL, 10)) == TENON_OK ? 0 : fail("inputs");
  if ((size_t)count != tenon_input_count(executable)) {
    fprintf(stderr, "the model has %zu inputs\n", tenon_input_count(executable));
    return 1;
  }
  for (int i = 0; i < count; ++i)
    if (set_input_from_file(session, (size_t)i, tenon_input(executable, (size_t)i).bytes, values[i])) return 1;
  return 0;
}

static void print_element(tenon_dtype dtype, const void* data, size_t i) {
  switch (dtype) {
    case TENON_F32: printf(" %.9g", ((const float*)data)[i]); break;
    case TENON_F64: printf(" %.17g", ((const double*)data)[i]); break;
    case TENON_I64: printf(" %" PRId64, ((const int64_t*)data)[i]); break;
    case TENON_U64: printf(" %" PRIu64, ((const uint64_t*)data)[i]); break;
    case TENON_I32: printf(" %" PRId32, ((const int32_t*)data)[i]); break;
    case TENON_U32: printf(" %" PRIu32, ((const uint32_t*)data)[i]); break;
    case TENON_I16: printf(" %d", ((const int16_t*)data)[i]); break;
    case TENON_U16: printf(" %u", ((const uint16_t*)data)[i]); break;
    case TENON_I8: printf(" %d", ((const int8_t*)data)[i]); break;
    case TENON_U8:
    case TENON_BOOL: printf(" %u", ((const uint8_t*)data)[i]); break;
    case TENON_F16:
    case TENON_BF16: printf(" 0x%04x", ((const uint16_t*)data)[i]); break;
  }
}

static void print_output(tenon_tensor_info info, const void* data) {
  size_t count = 1, shown = 8;
  printf("%s: %s[", info.name, tenon_dtype_name(info.dtype));
  for (int32_t axis = 0; axis < info.rank; ++axis) {
    printf("%s%" PRId64, axis ? "," : "", info.shape[axis]);
    count *= (size_t)info.shape[axis];
  }
  printf("] xxh3=%016" PRIx64, tenon_hash(data, info.bytes));
  for (size_t i = 0; i < count && i < shown; ++i) print_element(info.dtype, data, i);
  printf(count > shown ? " ...\n" : "\n");
}

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: %s ARTIFACT random:SEED | FILE...\n", argv[0]);
    return 2;
  }
  tenon_executable* executable = NULL;
  tenon_session* session = NULL;
  if (tenon_load(argv[1], &executable) != TENON_OK) return fail(argv[1]);
  if (tenon_session_create(executable, 1, &session) != TENON_OK) return fail("session");
  if (set_inputs(executable, session, argc - 2, argv + 2) != 0) return 1;
  if (tenon_run(session) != TENON_OK) return fail("run");
  for (size_t i = 0; i < tenon_output_count(executable); ++i)
    print_output(tenon_output(executable, i), tenon_output_data(session, i));
  tenon_session_free(session);
  tenon_release(executable);
  return 0;
}
