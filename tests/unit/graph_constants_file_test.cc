// SPDX-License-Identifier: Apache-2.0
// `constants.bin` and modules as files: what is written reads back, what is damaged is refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/hash.h"
#include "base/write_file.h"
#include "graph/text.h"
#include "op/all_ops.h"
#include "support/round_trip.h"

namespace tenon::graph {
namespace {

/// A folder of its own that goes away with the test.
class ConstantsFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = std::filesystem::temp_directory_path() / ("tenon_constants_" + name + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::filesystem::path folder_;
};

Array numbers(Shape shape, float first) {
  MutableArray out(DType::F32, std::move(shape));
  for (size_t i = 0; i < out.size_bytes / sizeof(float); ++i) out.as<float>()[i] = first + static_cast<float>(i);
  return std::move(out).freeze();
}

tir::ConstantBytes some_constants() {
  tir::ConstantBytes constants;
  for (const Array& a : {numbers({17}, 1), numbers({3, 7}, 7), array_of<int8_t>(DType::I8, {65}, std::vector<int8_t>(65, 3))})
    constants.emplace(hash128(a.bytes).hex(), a);
  return constants;
}

std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Module module_with(float first) {
  Module m;
  Builder b(m, "main");
  m.functions.emplace("main", b.finish({b.constant(numbers({4, 5}, first), "w")}));
  return m;
}

}  // namespace

TEST_F(ConstantsFile, WhatIsWrittenReadsBack) {
  tir::ConstantBytes constants = some_constants();
  write_constants(path("constants.bin"), constants);
  EXPECT_EQ(read_constants(path("constants.bin")), constants);
  write_constants(path("none.bin"), {});
  EXPECT_TRUE(read_constants(path("none.bin")).empty());
}

TEST_F(ConstantsFile, BytesAreAlignedViewsOfTheFile) {
  write_constants(path("constants.bin"), some_constants());
  for (const auto& [hash, data] : read_constants(path("constants.bin")))
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data.bytes.data()) % 64, 0u);
}

TEST_F(ConstantsFile, TheLayoutIsAsDocumented) {
  Array a = numbers({4, 5}, 1);
  Hash128 hash = hash128(a.bytes);
  write_constants(path("c"), {{hash.hex(), a}});
  std::string want("TNNC\1\0\0\0\1\0\0\0\0\0\0\0", 16);
  want.append(reinterpret_cast<const char*>(&hash.high), 8).append(reinterpret_cast<const char*>(&hash.low), 8);
  want += std::string("\x0b\x02\4\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0\x50\0\0\0\0\0\0\0", 26);
  uint64_t checksum = hash64(want);
  want.resize(64, '\0');
  want.append(reinterpret_cast<const char*>(a.bytes.data()), a.bytes.size()).append(reinterpret_cast<const char*>(&checksum), 8);
  EXPECT_EQ(slurp(path("c")), want);
}

TEST_F(ConstantsFile, EveryTruncationIsRefused) {
  write_constants(path("good"), some_constants());
  std::string good = slurp(path("good"));
  for (size_t size = 0; size < good.size(); ++size) {
    write_file(path("bad"), std::string_view(good).substr(0, size));
    EXPECT_THROW(read_constants(path("bad")), CompileError) << size;
  }
  write_file(path("bad"), good + '\0');
  try {
    read_constants(path("bad"));
    ADD_FAILURE() << "a byte after the last constant is read over";
  } catch (const CompileError& error) {
    EXPECT_EQ(error.diagnostics()[0].code, "constants-file");
  }
}

TEST_F(ConstantsFile, EveryFlippedByteIsRefused) {
  write_constants(path("good"), some_constants());
  std::string good = slurp(path("good"));
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
    write_file(path("bad"), bad);
    EXPECT_THROW(read_constants(path("bad")), CompileError) << at;
  }
}

TEST_F(ConstantsFile, ModulesOfOneFolderShareTheFile) {
  Module first = module_with(1), second = module_with(2);
  write_module(path("000-first.tenon"), first);
  write_module(path("001-second.tenon"), second);
  std::string both = slurp(path("constants.bin"));
  write_module(path("002-first.tenon"), first);
  EXPECT_EQ(slurp(path("constants.bin")), both);
  EXPECT_TRUE(read_module(path("000-first.tenon"), op::all_ops()) == first);
  EXPECT_TRUE(read_module(path("001-second.tenon"), op::all_ops()) == second);
  testing::round_trip(first);
}

TEST_F(ConstantsFile, AModuleWithoutItsConstantsIsRefused) {
  write_module(path("m.tenon"), module_with(1));
  std::filesystem::remove(path("constants.bin"));
  std::string text = testing::compile_error([&] { read_module(path("m.tenon"), op::all_ops()); });
  EXPECT_NE(text.find("[unknown-constant]"), std::string::npos) << text;
  EXPECT_THROW(read_module(path("none.tenon"), op::all_ops()), CompileError);
}

}  // namespace tenon::graph
