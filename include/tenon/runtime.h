/* SPDX-License-Identifier: Apache-2.0
   Loading and running compiled models: the C interface of libtenon_runtime, which holds no compiler.

   Every function that can fail returns a tenon_status and leaves its results untouched then; tenon_last_error() says what
   went wrong on this thread. Functions that cannot fail are given valid handles and indices by the caller.
   An executable is immutable and may be shared by threads; a session is for one thread at a time. */
#ifndef TENON_RUNTIME_H
#define TENON_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The same numbers as the command's exit codes. */
typedef enum {
  TENON_OK = 0,
  TENON_USAGE = 2,       /* an argument outside its range */
  TENON_MALFORMED = 3,   /* a damaged file, or an array that does not fit its input */
  TENON_FILE_SYSTEM = 6, /* a file that cannot be read */
  TENON_LIMIT = 7,       /* memory or threads */
  TENON_MISMATCH = 9,    /* another artifact version, or a CPU feature that is missing */
  TENON_INTERNAL = 70
} tenon_status;

typedef enum {
  TENON_BOOL,
  TENON_I8,
  TENON_U8,
  TENON_I16,
  TENON_U16,
  TENON_I32,
  TENON_U32,
  TENON_I64,
  TENON_U64,
  TENON_F16,
  TENON_BF16,
  TENON_F32,
  TENON_F64
} tenon_dtype;

/* One input or output; pointers stay valid as long as the executable. */
typedef struct {
  const char* name; /* exactly as in the model */
  tenon_dtype dtype;
  int32_t rank;
  const int64_t* shape;
  size_t bytes; /* row-major, without gaps */
} tenon_tensor_info;

typedef struct tenon_executable tenon_executable;
typedef struct tenon_session tenon_session;

/* Checks and opens an artifact, or a folder of the files of TVM's graph executor (lib.so, graph.json, params.bin), whose
   library is native code that nothing checks. Release it after its sessions' last use; the order does not matter. */
tenon_status tenon_load(const char* path, tenon_executable** executable);
void tenon_release(tenon_executable* executable);

size_t tenon_input_count(const tenon_executable* executable);
size_t tenon_output_count(const tenon_executable* executable);
tenon_tensor_info tenon_input(const tenon_executable* executable, size_t index);
tenon_tensor_info tenon_output(const tenon_executable* executable, size_t index);

/* `threads` counts the calling thread. */
tenon_status tenon_session_create(const tenon_executable* executable, int threads, tenon_session** session);
void tenon_session_free(tenon_session* session);

/* Copies an input in; `bytes` must be its size. */
tenon_status tenon_set_input(tenon_session* session, size_t index, const void* data, size_t bytes);
/* Uses the caller's memory on every run from now on, without a copy: at least the tensor's bytes, aligned to its elements,
   and no memory for both an input and an output. */
tenon_status tenon_bind_input(tenon_session* session, size_t index, const void* data, size_t bytes);
tenon_status tenon_bind_output(tenon_session* session, size_t index, void* data, size_t bytes);

/* Fills every input that was neither set nor bound with numbers that depend only on the seed, as `--fill random:SEED` does:
   floats in [-1, 1), integers from 0 to 9, booleans. */
tenon_status tenon_fill_random(tenon_session* session, uint64_t seed);

/* Runs once. Allocates nothing. */
tenon_status tenon_run(tenon_session* session);
/* The bytes of an output of the last run, valid until the next one. */
const void* tenon_output_data(const tenon_session* session, size_t index);

/* Text of the last failure on this thread, valid until the next one; never null. */
const char* tenon_last_error(void);
/* `f32`, `i64`, ...: the spelling that the command uses. */
const char* tenon_dtype_name(tenon_dtype dtype);
/* XXH3-64 of some bytes, which `tenon run` prints for each output. */
uint64_t tenon_hash(const void* data, size_t bytes);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
