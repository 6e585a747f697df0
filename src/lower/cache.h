// SPDX-License-Identifier: Apache-2.0
// Kernels by what they are made from, kept for the next build.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"

namespace tenon::lower {

/// What is made, and from what its key is: the whole text of everything the result depends on.
enum class Stage : uint8_t {
  Lowering,  // a loop function, from a primitive graph function up to renaming (constants by content)
  Code,      // machine code, from a scheduled loop function up to its name and the target
  Callable,  // code in memory, from a primitive graph function, target and level
};
std::string_view name(Stage stage);

/// Told what a build makes; a look at a build, without a hand in it. Called on the thread that does the work, so by several
/// at once. What was found in a cache is not made.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void begin(Stage stage, const std::string& key) = 0;
  /// Also when the work failed.
  virtual void end(Stage stage, const std::string& key) = 0;
};

/// How a value is kept in a file.
template <class T>
struct FileForm {
  std::string (*encode)(const T& value);
  std::optional<T> (*decode)(std::string_view bytes);  // nothing if the bytes are no such value
};

/// What was made, by stage and key; owned by the caller and shared by the builds it is passed to. It never changes a result:
/// a build without one makes the same. Two requests for one key do the work once; work on different keys goes on at the same
/// time. Work that throws leaves nothing.
class KernelCache {
 public:
  struct Folder {
    std::string path;
    int64_t max_bytes = int64_t{1} << 30;
    std::string version;  // of what makes the values: another one finds nothing
  };
  struct Statistics {
    int64_t hits = 0;  // requests that made nothing
    int64_t misses = 0;
    int64_t entries = 0;
  };
  struct Entry {
    Stage stage;
    std::string key;
    int64_t uses;  // requests served, the first included
    auto operator<=>(const Entry&) const = default;
  };

  KernelCache();
  /// Values that have a file form outlive the process there (base/file_store.h). Throws CompileError (file-system) if there
  /// is no such folder and it cannot be made; nothing else about the folder is an error.
  explicit KernelCache(const Folder& folder);
  ~KernelCache();

  /// The value for a key, made by `make` on a miss. `make` may ask for other keys. One type for each stage.
  template <class T>
  std::shared_ptr<const T> get(Stage stage, const std::string& key, function_ref<T()> make, Observer* observer = nullptr,
                               const FileForm<T>* form = nullptr) {
    auto made = [&]() -> Value { return std::make_shared<const T>(make()); };
    if (!form) return std::static_pointer_cast<const T>(find_or_make(stage, key, made, observer, nullptr));
    auto encode = [&](const void* value) { return form->encode(*static_cast<const T*>(value)); };
    auto decode = [&](std::string_view bytes) -> Value {
      std::optional<T> value = form->decode(bytes);
      return value ? std::make_shared<const T>(*std::move(value)) : nullptr;
    };
    AnyFileForm any{encode, decode};
    return std::static_pointer_cast<const T>(find_or_make(stage, key, made, observer, &any));
  }

  Statistics statistics(Stage stage) const;
  /// Sorted.
  std::vector<Entry> entries() const;
  /// Forgets every entry in memory and every count; files stay.
  void clear();

 private:
  using Value = std::shared_ptr<const void>;
  struct AnyFileForm {
    function_ref<std::string(const void*)> encode;
    function_ref<Value(std::string_view)> decode;
  };
  struct State;

  Value find_or_make(Stage stage, const std::string& key, function_ref<Value()> make, Observer* observer,
                     const AnyFileForm* form);

  std::unique_ptr<State> state_;
};

/// The cache and the observer that a build was given; either may be null.
struct Caching {
  Caching(KernelCache* cache = nullptr, Observer* observer = nullptr) : cache(cache), observer(observer) {}
  KernelCache* cache;
  Observer* observer;

  template <class T>
  std::shared_ptr<const T> get(Stage stage, const std::string& key, function_ref<T()> make,
                               const FileForm<T>* form = nullptr) const {
    return cache ? cache->get<T>(stage, key, make, observer, form) : KernelCache().get<T>(stage, key, make, observer);
  }
};

}  // namespace tenon::lower
