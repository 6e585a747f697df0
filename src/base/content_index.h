// SPDX-License-Identifier: Apache-2.0
// Which of many byte strings are equal, without reading all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>

#include "base/hash.h"

namespace tenon {

/// Numbers distinct contents in the order in which they come. Only contents of one size and one beginning are read whole,
/// each once: weights of a model rarely are.
class ContentIndex {
 public:
  /// The number of these bytes. They must stay as long as the index.
  size_t add(std::span<const std::byte> bytes);
  size_t size() const { return count_; }

 private:
  struct First {
    std::span<const std::byte> bytes;
    size_t number;
    bool hashed;  // in by_content_ too
  };
  struct Low {
    size_t operator()(const Hash128& hash) const { return hash.low; }
  };
  std::unordered_map<Hash128, First, Low> by_beginning_;
  std::unordered_map<Hash128, size_t, Low> by_content_;
  size_t count_ = 0;
};

}  // namespace tenon
