// SPDX-License-Identifier: Apache-2.0
// Contents by the hash of their beginning, and by their whole hash where that is not enough.
#include "base/content_index.h"

#include <algorithm>

namespace tenon {
namespace {

constexpr size_t kBeginning = 4096;

Hash128 hash_beginning(std::span<const std::byte> bytes) {
  Hash128 hash = hash128(bytes.first(std::min(bytes.size(), kBeginning)));
  return {hash.high, hash_combine(hash.low, bytes.size())};
}

}  // namespace

size_t ContentIndex::add(std::span<const std::byte> bytes) {
  auto [it, inserted] = by_beginning_.try_emplace(hash_beginning(bytes), First{bytes, count_, false});
  First& first = it->second;
  if (inserted) return count_++;
  if (bytes.size() <= kBeginning || bytes.data() == first.bytes.data()) return first.number;
  if (!first.hashed) by_content_.emplace(hash128(first.bytes), first.number);
  first.hashed = true;
  auto [known, new_content] = by_content_.try_emplace(hash128(bytes), count_);
  return new_content ? count_++ : known->second;
}

}  // namespace tenon
