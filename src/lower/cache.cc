// SPDX-License-Identifier: Apache-2.0
// The entries of a cache, with a latch for each so that different keys are worked on at the same time.
#include "lower/cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <unordered_map>

#include "base/file_store.h"
#include "base/hash.h"

namespace tenon::lower {
namespace {

constexpr size_t kStages = 4;

/// Tells the observer of the end whatever happens.
class Observed {
 public:
  Observed(Observer* observer, Stage stage, const std::string& key) : observer_(observer), stage_(stage), key_(key) {
    if (observer_) observer_->begin(stage_, key_);
  }
  ~Observed() {
    if (observer_) observer_->end(stage_, key_);
  }
  Observed(const Observed&) = delete;
  Observed& operator=(const Observed&) = delete;

 private:
  Observer* observer_;
  Stage stage_;
  const std::string& key_;
};

}  // namespace

std::string_view name(Stage stage) {
  switch (stage) {
    case Stage::Lowering: return "lowering";
    case Stage::Code: return "code";
    case Stage::Callable: return "callable";
  }
  return {};
}

struct KernelCache::State {
  /// `latch` is held while the value is made, and guards `value` and `dropped`.
  struct Slot {
    std::mutex latch;
    Value value;
    bool dropped = false;  // its maker threw; it is no longer in the map
    int64_t uses = 0;      // guarded by State::mutex; 0 while there is no value
  };
  /// Hashed once, before the mutex is taken.
  struct Key {
    Stage stage;
    std::string text;
    uint64_t hash;

    Key(Stage stage, std::string text) : stage(stage), text(std::move(text)), hash(hash64(this->text)) {}
    bool operator==(const Key& other) const { return hash == other.hash && stage == other.stage && text == other.text; }
  };
  struct KeyHash {
    size_t operator()(const Key& key) const { return key.hash; }
  };

  mutable std::mutex mutex;  // guards the map and the counts, never held while something is made
  std::unordered_map<Key, std::shared_ptr<Slot>, KeyHash> slots;
  std::array<Statistics, kStages> counts;
  std::optional<FileStore> files;
  std::string version;

  std::shared_ptr<Slot> slot(const Key& key) {
    std::lock_guard lock(mutex);
    std::shared_ptr<Slot>& slot = slots[key];
    if (!slot) slot = std::make_shared<Slot>();
    return slot;
  }
  void served(Stage stage, Slot& slot, bool hit) {
    std::lock_guard lock(mutex);
    Statistics& count = counts[static_cast<size_t>(stage)];
    ++(hit ? count.hits : count.misses);
    ++slot.uses;
  }
  void failed(const Key& key, const std::shared_ptr<Slot>& slot) {
    std::lock_guard lock(mutex);
    slot->dropped = true;
    ++counts[static_cast<size_t>(key.stage)].misses;
    auto it = slots.find(key);
    if (it != slots.end() && it->second == slot) slots.erase(it);
  }
  std::string file_key(const Key& key) const { return fmt::format("{}\n{}\n{}", version, name(key.stage), key.text); }
};

KernelCache::KernelCache() : state_(std::make_unique<State>()) {}
KernelCache::KernelCache(const Folder& folder) : KernelCache() {
  state_->files.emplace(folder.path, folder.max_bytes);
  state_->version = folder.version;
}
KernelCache::~KernelCache() = default;

KernelCache::Value KernelCache::find_or_make(Stage stage, const std::string& key_text, function_ref<Value()> make,
                                             Observer* observer, const AnyFileForm* form) {
  const State::Key key(stage, key_text);
  for (;;) {
    std::shared_ptr<State::Slot> slot = state_->slot(key);
    std::lock_guard latch(slot->latch);
    if (slot->dropped) continue;  // its maker failed while we waited; ours may not
    bool hit = slot->value != nullptr;
    bool on_file = form && state_->files;
    if (!hit && on_file) {
      std::optional<std::string> bytes = state_->files->load(state_->file_key(key));
      if (bytes) slot->value = form->decode(*bytes);
      hit = slot->value != nullptr;
    }
    if (!hit) {
      try {
        Observed observed(observer, stage, key_text);
        slot->value = make();
      } catch (...) {
        state_->failed(key, slot);
        throw;
      }
      // A value that cannot be kept is made again by the next process.
      if (on_file) state_->files->store(state_->file_key(key), form->encode(slot->value.get()));
    }
    state_->served(stage, *slot, hit);
    return slot->value;
  }
}

KernelCache::Statistics KernelCache::statistics(Stage stage) const {
  std::lock_guard lock(state_->mutex);
  Statistics out = state_->counts[static_cast<size_t>(stage)];
  for (const auto& [key, slot] : state_->slots) out.entries += key.stage == stage && slot->uses > 0;
  return out;
}

std::vector<KernelCache::Entry> KernelCache::entries() const {
  std::lock_guard lock(state_->mutex);
  std::vector<Entry> out;
  for (const auto& [key, slot] : state_->slots)
    if (slot->uses > 0) out.push_back({key.stage, key.text, slot->uses});
  std::sort(out.begin(), out.end());
  return out;
}

void KernelCache::clear() {
  std::lock_guard lock(state_->mutex);
  state_->slots.clear();
  state_->counts = {};
}

}  // namespace tenon::lower
