// SPDX-License-Identifier: Apache-2.0
// The call-backs.
#include "runtime/tvm_backend.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/thread_pool.h"

namespace tenon::runtime::tvm {
namespace {

constexpr uint64_t kAlignment = 64;

thread_local std::string last_error;
thread_local ThreadPool* current_pool = nullptr;

/// Blocks that this thread's kernels have asked for. Kernels free in the reverse order, so few are ever looked at.
class Workspaces {
 public:
  void* allocate(uint64_t bytes) {
    auto fits = std::find_if(free_.begin(), free_.end(), [&](const Block& block) { return block.bytes >= bytes; });
    if (fits == free_.end()) {
      if (bytes > UINT64_MAX - kAlignment) return nullptr;
      uint64_t rounded = std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
      Memory memory(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
      if (!memory) return nullptr;
      return used_.emplace_back(std::move(memory), rounded).memory.get();
    }
    used_.push_back(std::move(*fits));
    free_.erase(fits);
    return used_.back().memory.get();
  }

  bool release(void* memory) {
    auto block = std::find_if(used_.rbegin(), used_.rend(), [&](const Block& b) { return b.memory.get() == memory; });
    if (block == used_.rend()) return false;
    free_.push_back(std::move(*block));
    used_.erase(std::next(block).base());
    return true;
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  using Memory = std::unique_ptr<std::byte, Free>;
  struct Block {
    Block(Memory m, uint64_t b) : memory(std::move(m)), bytes(b) {}
    Memory memory;
    uint64_t bytes;
  };
  std::vector<Block> free_, used_;
};

thread_local Workspaces workspaces;

void set_last_error(const char* text) { last_error = text ? text : ""; }

int fail(const std::string& text) {
  last_error = text;
  return -1;
}

void* alloc_workspace(int, int, uint64_t bytes, int, int) {
  void* memory = workspaces.allocate(bytes);
  if (!memory) last_error = fmt::format("there is no memory for a workspace of {} bytes", bytes);
  return memory;
}

int free_workspace(int, int, void* workspace) {
  return workspaces.release(workspace) ? 0 : fail("a workspace is freed that was not allocated on this thread");
}

/// A barrier that all tasks of a launch can pass any number of times.
struct Barrier {
  std::atomic<uint32_t> arrived{0}, round{0};
};

struct Launch {
  ParallelTask task;
  void* closure;
  Barrier barrier;
  ParallelEnvironment environment{&barrier, 1};
  std::mutex mutex;
  bool failed = false;
  std::string error;

  void run(int index) {
    if (task(index, &environment, closure) == 0) return;
    std::lock_guard lock(mutex);
    if (!failed) error = take_error();
    failed = true;
  }
};

int parallel_launch(ParallelTask task, void* closure, int tasks) {
  Launch launch{.task = task, .closure = closure};
  // A worker has no pool: what it launches runs at once, as one task.
  ThreadPool* pool = std::exchange(current_pool, nullptr);
  int threads = pool ? pool->threads() : 1;
  launch.environment.tasks = tasks > 0 ? std::min(tasks, threads) : threads;
  if (launch.environment.tasks == 1) {
    launch.run(0);
  } else {
    // As many ranges as tasks, at most one for each thread: all run at the same time, as barriers need.
    auto body = [](void* data, int64_t begin, int64_t, int64_t) { static_cast<Launch*>(data)->run(static_cast<int>(begin)); };
    pool->run(launch.environment.tasks, body, &launch);
  }
  current_pool = pool;
  return launch.failed ? fail(launch.error) : 0;
}

int parallel_barrier(int, ParallelEnvironment* environment) {
  auto& barrier = *static_cast<Barrier*>(environment->barrier);
  uint32_t round = barrier.round.load(std::memory_order_acquire);
  if (barrier.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(environment->tasks)) {
    barrier.arrived.store(0, std::memory_order_relaxed);
    barrier.round.store(round + 1, std::memory_order_release);
    return 0;
  }
  while (barrier.round.load(std::memory_order_acquire) == round) std::this_thread::yield();
  return 0;
}

int get_function(void* library, const char* name, void** function) {
  *function = library ? own_symbol(library, name) : nullptr;
  return *function ? 0 : fail(fmt::format("a kernel calls the function `{}`, which its library does not have", name));
}

int call_function(void* function, Value* args, int* codes, int count, Value* result, int* result_code) {
  return reinterpret_cast<PackedFunction>(function)(args, codes, count, result, result_code, nullptr);
}

template <class T>
void fill(void* library, const char* name, T value) {
  if (void* pointer = own_symbol(library, name)) *static_cast<T*>(pointer) = value;
}

}  // namespace

const Backend& backend() {
  static constexpr Backend kBackend{set_last_error,   alloc_workspace, free_workspace, parallel_launch,
                                    parallel_barrier, get_function,    call_function};
  return kBackend;
}

void* own_symbol(void* library, const char* name) {
  void* address = ::dlsym(library, name);
  Dl_info found;
  link_map* map = nullptr;
  if (!address || !::dladdr(address, &found) || ::dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return nullptr;
  return reinterpret_cast<uintptr_t>(found.dli_fbase) == map->l_addr ? address : nullptr;
}

void connect(void* library) {
  const Backend& b = backend();
  fill(library, "__TVMAPISetLastError", b.set_last_error);
  fill(library, "__TVMBackendAllocWorkspace", b.alloc_workspace);
  fill(library, "__TVMBackendFreeWorkspace", b.free_workspace);
  fill(library, "__TVMBackendParallelLaunch", b.parallel_launch);
  fill(library, "__TVMBackendParallelBarrier", b.parallel_barrier);
  fill(library, "__TVMBackendGetFuncFromEnv", b.get_function);
  fill(library, "__TVMFuncCall", b.call_function);
  fill(library, "__tvm_module_ctx", library);
}

PoolScope::PoolScope(ThreadPool& pool) { current_pool = &pool; }
PoolScope::~PoolScope() { current_pool = nullptr; }

std::string take_error() { return std::exchange(last_error, {}); }

}  // namespace tenon::runtime::tvm
