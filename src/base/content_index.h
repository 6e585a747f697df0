// SPDX-License-Identifier: Apache-2.0
// Which of many byte strings are equal, without reading all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

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
  std::map<Hash128, First> by_beginning_;
  std::map<Hash128, size_t> by_content_;
  size_t count_ = 0;
};

}  // namespace tenon
