// SPDX-License-Identifier: Apache-2.0
// Inputs out of nothing, the same on every machine.
#include <cstring>

#include "base/hash.h"
#include "runtime/session.h"

namespace tenon::runtime {
namespace {

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// A multiple of 2^-23.
  float unit() { return static_cast<float>(static_cast<int64_t>(next() >> 40) - (1 << 23)) * 0x1p-23f; }

 private:
  uint64_t state_;
};

template <class T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

void store_random(std::byte* at, DType dtype, Random& random) {
  switch (dtype) {
    case DType::Bool: return store<uint8_t>(at, random.next() >> 63);
    case DType::F16: return store(at, float_to_half(random.unit()));
    case DType::BF16: return store(at, float_to_bfloat(random.unit()));
    case DType::F32: return store(at, random.unit());
    case DType::F64: return store<double>(at, random.unit());
    default: break;
  }
  uint64_t digit = random.next() % 10;  // little endian: the low bytes hold it at every width
  std::memcpy(at, &digit, static_cast<size_t>(byte_size(dtype)));
}

}  // namespace

Array random_input(const TensorSpec& spec, size_t index, uint64_t seed) {
  Random random(hash_combine(seed, index));
  MutableArray array(spec.dtype, spec.shape);
  auto size = static_cast<size_t>(byte_size(spec.dtype));
  for (size_t at = 0; at < array.size_bytes; at += size) store_random(array.data() + at, spec.dtype, random);
  return std::move(array).freeze();
}

void fill_random(Session& session, uint64_t seed) {
  const std::vector<TensorSpec>& inputs = session.program().inputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!session.has_input(i)) session.set_input(inputs[i].name, random_input(inputs[i], i, seed));
}

}  // namespace tenon::runtime
