// SPDX-License-Identifier: Apache-2.0
// Kernels by key, with a latch per key so that different kernels are made at the same time.
#include <map>
#include <mutex>

#include "lower/lower.h"

namespace tenon::lower {

struct KernelCache::State {
  /// `latch` is held while the value is made. An entry whose maker threw is dropped by then and stays null for ever.
  struct Entry {
    std::mutex latch;
    std::shared_ptr<const Lowered> value;
    bool dropped = false;
  };
  std::mutex mutex;  // guards the members below, never held while a kernel is made
  std::map<std::string, std::shared_ptr<Entry>, std::less<>> entries;
  int64_t hits = 0, misses = 0;

  std::shared_ptr<Entry> entry(const std::string& key) {
    std::lock_guard lock(mutex);
    std::shared_ptr<Entry>& slot = entries[key];
    if (!slot) slot = std::make_shared<Entry>();
    return slot;
  }
  void count(int64_t State::* counter) {
    std::lock_guard lock(mutex);
    ++(this->*counter);
  }
  void drop(const std::string& key, const std::shared_ptr<Entry>& entry) {
    std::lock_guard lock(mutex);
    entry->dropped = true;
    auto it = entries.find(key);
    if (it != entries.end() && it->second == entry) entries.erase(it);
  }
};

KernelCache::KernelCache() : state_(std::make_unique<State>()) {}
KernelCache::~KernelCache() = default;

std::shared_ptr<const Lowered> KernelCache::get(const std::string& key, function_ref<Lowered()> make) {
  for (;;) {
    std::shared_ptr<State::Entry> entry = state_->entry(key);
    std::lock_guard latch(entry->latch);
    if (entry->dropped) continue;  // its maker failed while we waited; ours may not
    if (entry->value) {
      state_->count(&State::hits);
      return entry->value;
    }
    state_->count(&State::misses);
    try {
      entry->value = std::make_shared<const Lowered>(make());
    } catch (...) {
      state_->drop(key, entry);
      throw;
    }
    return entry->value;
  }
}

KernelCache::Statistics KernelCache::statistics() const {
  std::lock_guard lock(state_->mutex);
  return {state_->hits, state_->misses, static_cast<int64_t>(state_->entries.size())};
}

void KernelCache::clear() {
  std::lock_guard lock(state_->mutex);
  state_->entries.clear();
  state_->hits = state_->misses = 0;
}

}  // namespace tenon::lower
