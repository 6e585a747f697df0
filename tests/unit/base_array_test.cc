// SPDX-License-Identifier: Apache-2.0
// Arrays and the 16-bit float conversions.
#include "base/array.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/diagnostic.h"
#include "base/reuse.h"

namespace tenon {

TEST(Array, HalfConversionRoundsToNearestEven) {
  EXPECT_EQ(float_to_half(1.0f), 0x3c00);
  EXPECT_EQ(float_to_half(65504.0f), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(1.0f + 0x1p-11f), 0x3c00);  // a tie goes to even
  EXPECT_EQ(float_to_half(1.0f + 3 * 0x1p-11f), 0x3c02);
  EXPECT_EQ(float_to_half(0x1p-24f), 0x0001);
  EXPECT_EQ(float_to_half(0x1p-25f), 0x0000);
  EXPECT_TRUE(std::isnan(half_to_float(float_to_half(NAN))));
}

TEST(Array, EveryHalfSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float value = half_to_float(static_cast<uint16_t>(bits));
    if (!std::isnan(value)) {
      EXPECT_EQ(float_to_half(value), bits);
    }
  }
}

TEST(Array, TheMemoryOfAnArrayIsUsedAgainOnlyByItsLastReader) {
  constexpr int64_t kLarge = int64_t{1} << 20;
  auto filled = [](int64_t bytes) {
    MutableArray out(DType::U8, {bytes});
    std::fill_n(out.data(), bytes, std::byte{7});
    return std::move(out).freeze();
  };
  Array used = filled(kLarge);
  const std::byte* memory = used.bytes.data();
  Array reader = used;
  MutableArray other = reuse(std::move(used), DType::F32, {4});
  EXPECT_NE(other.data(), memory);
  EXPECT_EQ(other.as<float>()[0], 0);
  EXPECT_NE(reuse(reader, DType::U8, {16 * kLarge}).data(), memory);  // not large enough, and `reader` stays one
  MutableArray again = reuse(std::move(reader), DType::F32, {kLarge / 4});
  EXPECT_EQ(again.data(), memory);
  EXPECT_EQ(again.size_bytes, static_cast<size_t>(kLarge));
  EXPECT_EQ(again.data()[kLarge - 1], std::byte{7});
  EXPECT_EQ(reuse(filled(64), DType::U8, {64}).data()[63], std::byte{0});  // small arrays have nothing to give
}

TEST(Array, SizesPastAnyMemoryAreRefused) {
  for (const Shape& shape : {Shape{int64_t{1} << 62}, Shape{int64_t{1} << 61, 1}, Shape{int64_t{1} << 40}, Shape{-1}}) try {
      MutableArray array(DType::F64, shape);
      ADD_FAILURE() << to_string(shape);
    } catch (const CompileError& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Limit);
      EXPECT_EQ(error.diagnostics()[0].code, "tensor-too-large");
    }
}

}  // namespace tenon
