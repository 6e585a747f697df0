// SPDX-License-Identifier: Apache-2.0
// XXH3 behind our own two types.
#include "base/hash.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL  // most of what is hashed is a short name
#include <xxhash.h>

#include <memory>

#include "base/diagnostic.h"

namespace tenon {

std::string Hash128::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

Hash128 hash128(std::span<const std::byte> bytes) {
  XXH128_hash_t h = XXH3_128bits(bytes.data(), bytes.size());
  return {h.high64, h.low64};
}

Hash128 hash128(std::string_view text) { return hash128(std::as_bytes(std::span(text.data(), text.size()))); }

Hash128 hash128_of_parts(std::span<const std::span<const std::byte>> parts) {
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(), XXH3_freeState);
  check(state != nullptr, "a hash state can be made");
  XXH3_128bits_reset(state.get());
  for (std::span<const std::byte> part : parts) XXH3_128bits_update(state.get(), part.data(), part.size());
  XXH128_hash_t h = XXH3_128bits_digest(state.get());
  return {h.high64, h.low64};
}

Hash128 hash128_of_parts(std::initializer_list<std::span<const std::byte>> parts) {
  return hash128_of_parts(std::span(parts.begin(), parts.size()));
}

uint64_t hash64(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

}  // namespace tenon
