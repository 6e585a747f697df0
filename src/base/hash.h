// SPDX-License-Identifier: Apache-2.0
// The one hash of the project: XXH3, for names, cache keys and checksums. The same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace tenon {

/// XXH3-128 of some bytes.
struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;
  auto operator<=>(const Hash128&) const = default;
  /// 32 lower-case hex digits, high half first.
  std::string hex() const;
};

Hash128 hash128(std::span<const std::byte> bytes);
Hash128 hash128(std::string_view text);
/// Of the parts one after the other, the same as of their concatenation.
Hash128 hash128_of_parts(std::span<const std::span<const std::byte>> parts);
Hash128 hash128_of_parts(std::initializer_list<std::span<const std::byte>> parts);
uint64_t hash64(std::string_view text);

/// Order-dependent mix for structural hashes held in memory only.
inline uint64_t hash_combine(uint64_t seed, uint64_t value) {
  uint64_t x = seed ^ (value + 0x9e3779b97f4a7c15ull + (seed << 6) + (seed >> 2));
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ull;
  return x ^ (x >> 32);
}

}  // namespace tenon
