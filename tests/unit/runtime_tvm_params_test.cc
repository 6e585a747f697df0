// SPDX-License-Identifier: Apache-2.0
// Parameter files: the worked example of the format, and every kind of damage.
#include "runtime/tvm_params.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <random>

#include "base/diagnostic.h"
#include "base/mapped_file.h"
#include "support/allocation_count.h"

namespace tenon::runtime::tvm {
namespace {

/// One f32[2] called `w`, {1, 2}.
constexpr unsigned char kExample[] = {
    0xb7, 0x9c, 0x04, 0x05, 0x4f, 0x8d, 0xe5, 0xf7, 0, 0, 0, 0, 0, 0, 0, 0, 1,    0,    0,    0,    0,    0,    0,    0,    1,
    0,    0,    0,    0,    0,    0,    0,    'w',  1, 0, 0, 0, 0, 0, 0, 0, 0x3f, 0xa1, 0xb4, 0x96, 0xf0, 0x40, 0x5e, 0xdd, 0,
    0,    0,    0,    0,    0,    0,    0,    1,    0, 0, 0, 0, 0, 0, 0, 1, 0,    0,    0,    0x02, 0x20, 1,    0,    2,    0,
    0,    0,    0,    0,    0,    0,    8,    0,    0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x3f, 0,    0,    0,    0x40};

std::string example() { return {reinterpret_cast<const char*>(kExample), sizeof kExample}; }

/// The arrays are views of the text.
Params read(const std::string& bytes) { return read_params(std::as_bytes(std::span(bytes)), nullptr, "p.bin"); }

Diagnostic error_of(const std::string& bytes) {
  try {
    read(bytes);
  } catch (const CompileError& error) {
    return error.diagnostics().front();
  }
  return {};
}

/// The example with another 8-byte number at an offset.
std::string with(size_t offset, uint64_t value) {
  std::string bytes = example();
  std::memcpy(bytes.data() + offset, &value, sizeof value);
  return bytes;
}

/// What writing to a file gives.
std::string written(const Params& params) {
  std::string path = testing::TempDir() + "tenon_params_" + std::to_string(getpid());
  write_params(path, params);
  MappedFile file = map_file(path);
  std::remove(path.c_str());
  return {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()};
}

TEST(TvmParams, TheWorkedExampleReadsAndWrites) {
  ASSERT_EQ(sizeof kExample, 97u);
  const std::string bytes = example();
  Params params = read(bytes);
  ASSERT_EQ(params.size(), 1u);
  EXPECT_TRUE(params.at("w") == array_of<float>(DType::F32, {2}, {1, 2}));
  EXPECT_EQ(written(params), example());
}

TEST(TvmParams, EveryTypeAndRankComesBack) {
  Params params;
  for (DType dtype : kAllDTypes) params[std::string("x.") + std::string(name(dtype))] = MutableArray(dtype, {2, 3}).freeze();
  params["scalar"] = array_of<int64_t>(DType::I64, {}, {-7});
  params["empty"] = MutableArray(DType::F16, {4, 0, 2}).freeze();
  params[""] = array_of<uint8_t>(DType::Bool, {3}, {1, 0, 1});
  std::string bytes = written(params);
  Params again = read(bytes);
  ASSERT_EQ(again.size(), params.size());
  for (const auto& [name, array] : params) EXPECT_TRUE(again.at(name) == array) << name;
  EXPECT_TRUE(read(written({})).empty());
  EXPECT_TRUE(read("").empty());
}

TEST(TvmParams, EachRuleNamesWhatWasFound) {
  EXPECT_EQ(error_of("not a parameter file").code, "tvm-params");
  EXPECT_EQ(error_of(with(16, uint64_t{1} << 60)).found, std::to_string(uint64_t{1} << 60));  // names
  EXPECT_EQ(error_of(with(33, 2)).expected, "1, as many as names");
  EXPECT_EQ(error_of(with(41, 0)).message, "`p.bin` is no complete parameter file: the mark of an array at byte 49");
  EXPECT_EQ(error_of(with(73, UINT64_MAX)).found, "-1");                // an extent
  EXPECT_EQ(error_of(with(73, uint64_t{1} << 62)).code, "tvm-params");  // a size that no file has
  EXPECT_EQ(error_of(with(81, 12)).expected, "the bytes of f32[2]");
  EXPECT_EQ(error_of(with(81, 12)).node, "w");
  EXPECT_EQ(error_of(with(61, uint64_t{33} << 32)).expected, "0 to 32");  // the rank
  EXPECT_EQ(error_of(example() + "x").found, "1 bytes");
  EXPECT_EQ(error_of(with(57, 2)).code, "tvm-unsupported");  // on a GPU
  std::string vectors = example();
  vectors[71] = 4;  // lanes
  EXPECT_EQ(error_of(vectors).found, "code 2, 32 bits, 4 lanes");
  EXPECT_EQ(error_of(vectors).kind, ErrorKind::Unsupported);
}

TEST(TvmParams, ANameTwiceIsRefused) {
  std::string one = example(), array = one.substr(41), name = one.substr(24, 9);
  std::string two =
      one.substr(0, 16) + std::string("\2\0\0\0\0\0\0\0", 8) + name + name + std::string("\2\0\0\0\0\0\0\0", 8) + array + array;
  EXPECT_EQ(error_of(two).found, "`w` twice");
}

// Law: any damage ends in an error or in other valid arrays.
TEST(TvmParams, DamageNeverEscapes) {
  Params params{{"b", array_of<int8_t>(DType::I8, {3}, {1, 2, 3})}, {"w", array_of<float>(DType::F32, {2, 2}, {1, 2, 3, 4})}};
  const std::string bytes = written(params);
  for (size_t size = 1; size < bytes.size(); ++size) EXPECT_EQ(error_of(bytes.substr(0, size)).code, "tvm-params") << size;
  std::mt19937 random(3);
  for (int trial = 0; trial < 20000; ++trial) {
    std::string damaged = bytes;
    for (int flips = 1 + static_cast<int>(random() % 3); flips > 0; --flips)
      damaged[random() % damaged.size()] ^= static_cast<char>(1 + random() % 255);
    test::take_largest_allocation();
    try {
      for (const auto& [name, array] : read(damaged))
        EXPECT_EQ(array.bytes.size(), static_cast<size_t>(array.elements() * byte_size(array.dtype)));
    } catch (const CompileError& error) {
      EXPECT_TRUE(error.diagnostics()[0].code.starts_with("tvm-")) << error.what();
    }
    EXPECT_LE(test::take_largest_allocation(), 64 << 10) << "no count is believed before the bytes are there";
  }
}

}  // namespace
}  // namespace tenon::runtime::tvm
