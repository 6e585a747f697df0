// SPDX-License-Identifier: Apache-2.0
// Counts every `new` of the test program, on all threads.
#include "support/allocation_count.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

static std::atomic<int64_t> allocations{0}, largest{0};

namespace tenon::test {
int64_t allocation_count() { return allocations.load(); }
int64_t take_largest_allocation() { return largest.exchange(0); }
}  // namespace tenon::test

static void count(size_t bytes) {
  ++allocations;
  int64_t before = largest.load(std::memory_order_relaxed);
  while (static_cast<int64_t>(bytes) > before && !largest.compare_exchange_weak(before, static_cast<int64_t>(bytes))) {
  }
}

#if __has_feature(thread_sanitizer)  // its own operators cannot be replaced, but they call hooks

#include <sanitizer/allocator_interface.h>

[[maybe_unused]] static const int installed = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, size_t bytes) { count(bytes); }, [](const volatile void*) {});

#else

static void* counted_or_null(size_t bytes, size_t alignment) noexcept {
  count(bytes);
  size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  return std::aligned_alloc(alignment, rounded ? rounded : alignment);
}

static void* counted(size_t bytes, size_t alignment) {
  void* memory = counted_or_null(bytes, alignment);
  if (!memory) throw std::bad_alloc();
  return memory;
}

void* operator new(size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new[](size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new(size_t bytes, std::align_val_t alignment) { return counted(bytes, static_cast<size_t>(alignment)); }
void* operator new[](size_t bytes, std::align_val_t alignment) { return counted(bytes, static_cast<size_t>(alignment)); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return counted_or_null(bytes, alignof(std::max_align_t)); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return counted_or_null(bytes, alignof(std::max_align_t)); }
void* operator new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return counted_or_null(bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return counted_or_null(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

#endif
