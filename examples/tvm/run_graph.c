/* SPDX-License-Identifier: Apache-2.0
   Runs a folder that `tenon compile --emit tvm` wrote, or that TVM wrote for one CPU, with nothing but libc: a graph executor in
   one file. It reads `graph.json` and `params.bin`, calls the kernels of `lib.so`, and serves what they call back.

     ./run_graph DIR THREADS OUT_PREFIX [NAME=FILE]...

   Each input comes from a raw file; output k goes to OUT_PREFIXk.bin, and its element type and shape to stdout. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char* what, const char* which) {
  fprintf(stderr, "run_graph: %s: %s\n", what, which);
  exit(1);
}

/* Zeroed, at a multiple of 64, at least one byte more than asked for. */
static void* allocate(size_t bytes) {
  size_t rounded = (bytes + 64) / 64 * 64; /* never 0 */
  void* memory = aligned_alloc(64, rounded);
  if (!memory) fail("no memory", "");
  return memset(memory, 0, rounded);
}

typedef struct {
  unsigned char* bytes;
  size_t size;
} File;

static File read_file(const char* path) {
  FILE* file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END)) fail("cannot read", path);
  File content = {NULL, (size_t)ftell(file)};
  rewind(file);
  content.bytes = allocate(content.size + 1); /* text ends with a zero */
  if (fread(content.bytes, 1, content.size, file) != content.size) fail("cannot read", path);
  fclose(file);
  return content;
}

/* ---- JSON: objects, arrays, texts without escapes but \", \\ and \/, and whole numbers ---- */

typedef struct Json {
  enum { OBJECT, ARRAY, TEXT, NUMBER } kind;
  char* key; /* in an object */
  char* text;
  int64_t number;
  struct Json *first, *next; /* children, sibling */
  size_t count;
} Json;

static const char* space(const char* at) { return at + strspn(at, " \t\r\n"); }

static const char* parse_text(const char* at, char** text) {
  if (*at++ != '"') fail("bad JSON near", at - 1);
  size_t length = 0;
  while (at[length] && at[length] != '"') length += at[length] == '\\' && at[length + 1] ? 2 : 1;
  char* out = *text = allocate(length);
  while (*at && *at != '"') {
    if (*at == '\\' && !strchr("\"\\/", *++at)) fail("an escape that is not known near", at);
    *out++ = *at++;
  }
  if (!*at) fail("bad JSON", "a text without an end");
  return at + 1;
}

static const char* parse(const char* at, Json* json) {
  memset(json, 0, sizeof *json);
  at = space(at);
  if (*at == '"') {
    json->kind = TEXT;
    return parse_text(at, &json->text);
  }
  if (*at != '{' && *at != '[') {
    char* end;
    json->kind = NUMBER;
    json->number = strtoll(at, &end, 10);
    if (end == at) fail("bad JSON near", at);
    return end;
  }
  json->kind = *at == '{' ? OBJECT : ARRAY;
  const char close = *at == '{' ? '}' : ']';
  Json** link = &json->first;
  at = space(at + 1);
  while (*at != close) {
    char* key = NULL;
    if (json->kind == OBJECT) {
      at = space(parse_text(at, &key));
      if (*at++ != ':') fail("bad JSON near", at - 1);
    }
    *link = allocate(sizeof **link);
    at = space(parse(at, *link));
    (*link)->key = key;
    link = &(*link)->next;
    ++json->count;
    if (*at == ',')
      at = space(at + 1);
    else if (*at != close)
      fail("bad JSON near", at);
  }
  return at + 1;
}

static const Json* member(const Json* object, const char* key) {
  for (const Json* child = object->first; child; child = child->next)
    if (child->key && strcmp(child->key, key) == 0) return child;
  fail("graph.json lacks", key);
  return NULL;
}

static const Json* element(const Json* array, size_t index) {
  const Json* child = array->first;
  while (child && index--) child = child->next;
  if (!child) fail("graph.json has a list that is too short", array->key ? array->key : "");
  return child;
}

/* The list of `"key": ["tag", list]`. */
static const Json* attribute(const Json* attributes, const char* key) { return element(member(attributes, key), 1); }

/* ---- The binary interface of kernels ---- */

typedef struct {
  void* data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} Tensor;

typedef union {
  int64_t integer;
  double number;
  void* handle;
} Value;

typedef int32_t (*Kernel)(Value* args, int32_t* codes, int32_t count, Value* result, int32_t* result_code, void* resource);
typedef struct {
  void* barrier;
  int32_t tasks;
} Environment;
typedef int (*Task)(int task, Environment* environment, void* closure);

static _Thread_local char last_error[512];
static int threads = 1;

static void set_last_error(const char* text) { snprintf(last_error, sizeof last_error, "%s", text); }
static void* alloc_workspace(int type, int id, uint64_t bytes, int code, int bits) {
  (void)type, (void)id, (void)code, (void)bits;
  return aligned_alloc(64, (bytes + 64) / 64 * 64);
}
static int free_workspace(int type, int id, void* workspace) {
  (void)type, (void)id;
  free(workspace);
  return 0;
}

typedef struct {
  pthread_t thread;
  Task task;
  Environment* environment;
  void* closure;
  int index, status;
  char error[sizeof last_error];
} Worker;

static void* work(void* data) {
  Worker* worker = data;
  worker->status = worker->task(worker->index, worker->environment, worker->closure);
  memcpy(worker->error, last_error, sizeof last_error);
  return NULL;
}

static int parallel_launch(Task task, void* closure, int tasks) {
  int count = tasks > 0 && tasks < threads ? tasks : threads, status = 0;
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, NULL, (unsigned)count);
  Environment environment = {&barrier, count};
  Worker* workers = allocate((size_t)count * sizeof *workers);
  for (int i = 0; i < count; ++i) {
    Worker* worker = &workers[i];
    worker->task = task, worker->environment = &environment, worker->closure = closure, worker->index = i;
    if (pthread_create(&worker->thread, NULL, work, worker)) fail("cannot start a thread", "");
  }
  for (int i = 0; i < count; ++i) {
    pthread_join(workers[i].thread, NULL);
    if (workers[i].status == 0) continue;
    status = workers[i].status;
    set_last_error(workers[i].error);
  }
  free(workers);
  pthread_barrier_destroy(&barrier);
  return status;
}

static int parallel_barrier(int task, Environment* environment) {
  (void)task;
  pthread_barrier_wait(environment->barrier);
  return 0;
}

static void* library;

static void give(const char* name, void (*function)(void)) {
  void (**pointer)(void) = (void (**)(void))dlsym(library, name);
  if (pointer) *pointer = function;
}

static void open_library(const char* path) {
  library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) fail("cannot open", dlerror());
  give("__TVMAPISetLastError", (void (*)(void))set_last_error);
  give("__TVMBackendAllocWorkspace", (void (*)(void))alloc_workspace);
  give("__TVMBackendFreeWorkspace", (void (*)(void))free_workspace);
  give("__TVMBackendParallelLaunch", (void (*)(void))parallel_launch);
  give("__TVMBackendParallelBarrier", (void (*)(void))parallel_barrier);
}

/* ---- The graph ---- */

static Tensor* tensors; /* by entry: row of the node, plus the number of its result */
static const Json *nodes, *rows;

static size_t entry_of(const Json* reference) {
  return (size_t)(element(rows, (size_t)element(reference, 0)->number)->number + element(reference, 1)->number);
}

static size_t bytes_of(const Tensor* tensor) {
  size_t bytes = (size_t)(tensor->bits + 7) / 8 * tensor->lanes;
  for (int axis = 0; axis < tensor->ndim; ++axis) bytes *= (size_t)tensor->shape[axis];
  return bytes;
}

static void set_type(Tensor* tensor, const char* text) {
  static const struct {
    const char* name;
    uint8_t code;
  } kinds[] = {{"int", 0}, {"uint", 1}, {"float", 2}, {"bfloat", 4}};
  tensor->lanes = 1;
  if (strcmp(text, "bool") == 0) text = "uint1";
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
    size_t length = strlen(kinds[i].name);
    if (strncmp(text, kinds[i].name, length) || strspn(text + length, "0123456789") == 0) continue;
    tensor->code = kinds[i].code;
    tensor->bits = (uint8_t)atoi(text + length);
    return;
  }
  fail("an element type that is not known", text);
}

/* Makes every tensor; those of one storage share the memory of the largest. */
static size_t make_tensors(const Json* attributes) {
  const Json *shape = attribute(attributes, "shape")->first, *type = attribute(attributes, "dltype")->first,
             *storage = attribute(attributes, "storage_id")->first;
  size_t count = attribute(attributes, "shape")->count, pools = 0;
  tensors = allocate(count * sizeof *tensors);
  size_t* pool = allocate(count * sizeof *pool);
  for (size_t i = 0; i < count; ++i, shape = shape->next, type = type->next, storage = storage->next) {
    if (!type || !storage) fail("graph.json", "lists of different lengths");
    Tensor* tensor = &tensors[i];
    tensor->device_type = 1;
    tensor->shape = allocate(shape->count * sizeof *tensor->shape);
    for (const Json* extent = shape->first; extent; extent = extent->next) tensor->shape[tensor->ndim++] = extent->number;
    set_type(tensor, type->text);
    pool[i] = (size_t)storage->number;
    if (pool[i] >= pools) pools = pool[i] + 1;
  }
  size_t* sizes = allocate(pools * sizeof *sizes);
  void** memory = allocate(pools * sizeof *memory);
  for (size_t i = 0; i < count; ++i)
    if (bytes_of(&tensors[i]) > sizes[pool[i]]) sizes[pool[i]] = bytes_of(&tensors[i]);
  for (size_t i = 0; i < pools; ++i) memory[i] = allocate(sizes[i]);
  for (size_t i = 0; i < count; ++i) tensors[i].data = memory[pool[i]];
  free(pool), free(sizes), free(memory);
  return count;
}

/* The tensor of the input or parameter of that name. */
static Tensor* argument(const char* name) {
  const Json* row = rows->first;
  for (const Json* node = nodes->first; node; node = node->next, row = row->next)
    if (strcmp(member(node, "op")->text, "null") == 0 && strcmp(member(node, "name")->text, name) == 0)
      return &tensors[row->number];
  fail("the graph has no argument", name);
  return NULL;
}

/* ---- Parameters: little endian, as this machine ---- */

static uint64_t take(const unsigned char** at, const unsigned char* end, size_t size) {
  uint64_t value = 0;
  if ((size_t)(end - *at) < size) fail("params.bin", "cut off");
  memcpy(&value, *at, size);
  *at += size;
  return value;
}

static void load_params(const char* path) {
  File file = read_file(path);
  if (file.size == 0) return;
  const unsigned char *at = file.bytes, *end = at + file.size, *name;
  if (take(&at, end, 8) != 0xF7E58D4F05049CB7u) fail("params.bin", "not a list of parameters");
  take(&at, end, 8);
  uint64_t count = take(&at, end, 8);
  name = at;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t length = take(&at, end, 8);
    if (length > (uint64_t)(end - at)) fail("params.bin", "cut off");
    at += length;
  }
  if (take(&at, end, 8) != count) fail("params.bin", "as many arrays as names are expected");
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t length = take(&name, end, 8);
    char* text = allocate(length + 1);
    memcpy(text, name, length);
    name += length;
    Tensor* tensor = argument(text);
    if (take(&at, end, 8) != 0xDD5E40F096B4A13Fu) fail("params.bin has no array for", text);
    take(&at, end, 8); /* reserved */
    take(&at, end, 8); /* device: the host */
    int32_t ndim = (int32_t)take(&at, end, 4);
    uint8_t code = (uint8_t)take(&at, end, 1), bits = (uint8_t)take(&at, end, 1);
    if (ndim != tensor->ndim || code != tensor->code || bits != tensor->bits || take(&at, end, 2) != tensor->lanes)
      fail("params.bin has another type for", text);
    for (int axis = 0; axis < ndim; ++axis)
      if ((int64_t)take(&at, end, 8) != tensor->shape[axis]) fail("params.bin has another shape for", text);
    uint64_t bytes = take(&at, end, 8);
    if (bytes != bytes_of(tensor) || bytes > (uint64_t)(end - at)) fail("params.bin has another size for", text);
    memcpy(tensor->data, at, bytes);
    at += bytes;
    free(text);
  }
  free(file.bytes);
}

/* ---- Running ---- */

static void run_node(const Json* node, size_t row) {
  const Json *attributes = member(node, "attrs"), *inputs = member(node, "inputs");
  const char* function = member(attributes, "func_name")->text;
  size_t outputs = (size_t)atoi(member(attributes, "num_outputs")->text), count = inputs->count + outputs, next = 0;
  int flatten = strcmp(member(attributes, "flatten_data")->text, "1") == 0;
  if (strcmp(function, "__nop") == 0) return;
  if (strcmp(function, "__copy") == 0) {
    memmove(tensors[row].data, tensors[entry_of(inputs->first)].data, bytes_of(&tensors[row]));
    return;
  }
  Tensor* passed = allocate(count * sizeof *passed);
  int64_t* elements = allocate(count * sizeof *elements);
  Value* values = allocate(count * sizeof *values);
  int32_t* codes = allocate(count * sizeof *codes);
  for (const Json* input = inputs->first; input; input = input->next) passed[next++] = tensors[entry_of(input)];
  for (size_t k = 0; k < outputs; ++k) passed[next++] = tensors[row + k];
  for (size_t i = 0; i < count; ++i) {
    if (flatten) {
      elements[i] = (int64_t)(bytes_of(&passed[i]) / ((size_t)(passed[i].bits + 7) / 8));
      passed[i].shape = &elements[i];
      passed[i].ndim = 1;
    }
    values[i].handle = &passed[i];
    codes[i] = 7;
  }
  Kernel kernel = (Kernel)dlsym(library, function);
  if (!kernel) fail("lib.so has no function", function);
  Value result;
  int32_t result_code = 4;
  if (kernel(values, codes, (int32_t)count, &result, &result_code, NULL)) fail(function, last_error);
  free(passed), free(elements), free(values), free(codes);
}

static void set_input(const char* option) {
  const char* equals = strrchr(option, '=');
  if (!equals) fail("expected NAME=FILE", option);
  char* name = allocate((size_t)(equals - option) + 1);
  memcpy(name, option, (size_t)(equals - option));
  Tensor* tensor = argument(name);
  File file = read_file(equals + 1);
  if (file.size != bytes_of(tensor)) fail("another number of bytes is expected for", name);
  memcpy(tensor->data, file.bytes, file.size);
  free(file.bytes);
  free(name);
}

static void write_output(const Tensor* tensor, const char* prefix, size_t index) {
  char path[4096];
  snprintf(path, sizeof path, "%s%zu.bin", prefix, index);
  FILE* file = fopen(path, "wb");
  if (!file || fwrite(tensor->data, 1, bytes_of(tensor), file) != bytes_of(tensor) || fclose(file)) fail("cannot write", path);
  printf("out%zu: code %d, %d bits, shape", index, tensor->code, tensor->bits);
  for (int axis = 0; axis < tensor->ndim; ++axis) printf(" %lld", (long long)tensor->shape[axis]);
  printf("\n");
}

int main(int argc, char** argv) {
  if (argc < 4) fail("usage", "run_graph DIR THREADS OUT_PREFIX [NAME=FILE]...");
  char path[4096];
  threads = atoi(argv[2]) > 0 ? atoi(argv[2]) : 1;
  snprintf(path, sizeof path, "%s/graph.json", argv[1]);
  Json graph;
  parse((const char*)read_file(path).bytes, &graph);
  nodes = member(&graph, "nodes");
  rows = member(&graph, "node_row_ptr");
  make_tensors(member(&graph, "attrs"));
  snprintf(path, sizeof path, "%s/params.bin", argv[1]);
  load_params(path);
  snprintf(path, sizeof path, "%s/lib.so", argv[1]);
  open_library(path);
  for (int i = 4; i < argc; ++i) set_input(argv[i]);
  const Json* row = rows->first;
  for (const Json* node = nodes->first; node; node = node->next, row = row->next)
    if (strcmp(member(node, "op")->text, "null") != 0) run_node(node, (size_t)row->number);
  size_t index = 0;
  for (const Json* head = member(&graph, "heads")->first; head; head = head->next)
    write_output(&tensors[entry_of(head)], argv[3], index++);
  return 0;
}
