// SPDX-License-Identifier: Apache-2.0
// Whole-file writing and comparison of arrays.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "base/compare.h"
#include "base/diagnostic.h"
#include "base/hash.h"
#include "base/mapped_file.h"
#include "base/write_file.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

struct TemporaryFolder {
  TemporaryFolder() : path(fs::path(testing::TempDir()) / ("tenon_base_" + std::to_string(getpid()))) {
    fs::create_directories(path);
  }
  ~TemporaryFolder() { fs::remove_all(path); }
  fs::path path;
};

TEST(WriteFile, ReplacesAFileWholeAndLeavesNothingElse) {
  TemporaryFolder folder;
  std::string path = folder.path / "out";
  write_file(path, "a long first version");
  write_file(path, {std::as_bytes(std::span("se", 2)), std::as_bytes(std::span("cond", 4))});
  MappedFile file = map_file(path);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()), "second");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()), 1);
}

TEST(WriteFile, AFolderInItsPlaceIsAnErrorAndLeavesNothing) {
  TemporaryFolder folder;
  make_folder(folder.path / "a/b");
  try {
    write_file(folder.path / "a", "x");
    FAIL();
  } catch (const CompileError& error) {
    EXPECT_EQ(error.kind(), ErrorKind::FileSystem);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()), 1);
}

TEST(Hash, OfPartsIsThatOfTheWhole) {
  std::string text(1000, 'x');
  auto bytes = std::as_bytes(std::span(text));
  EXPECT_EQ(hash128_of_parts({bytes.first(7), bytes.subspan(7, 0), bytes.subspan(7)}), hash128(text));
}

Array floats(std::vector<float> values) { return array_of<float>(DType::F32, {static_cast<int64_t>(values.size())}, values); }

TEST(Compare, CountsWhatIsBeyondTheToleranceAndNamesTheFirst) {
  Difference d = compare(floats({1, 2.5f, 3, 8}), floats({1, 2, 3, 4}), {.rtol = 0, .atol = 0.25});
  EXPECT_EQ(d.count, 2);
  EXPECT_EQ(d.index, 1);
  EXPECT_EQ(d.got, 2.5);
  EXPECT_EQ(d.want, 2);
  EXPECT_EQ(d.max_abs, 4);
  EXPECT_EQ(compare(floats({101}), floats({100}), {.rtol = 0.02, .atol = 0}).count, 0);
}

TEST(Compare, KnowsNanInfinityZeroAndUlps) {
  EXPECT_EQ(compare(floats({NAN, INFINITY, -0.0f}), floats({-NAN, INFINITY, 0.0f}), {0, 0}).count, 0);
  EXPECT_EQ(compare(floats({NAN}), floats({1})).count, 1);
  EXPECT_EQ(compare(floats({INFINITY}), floats({3e38f})).count, 1);
  EXPECT_EQ(compare(floats({-INFINITY}), floats({INFINITY})).count, 1);
  EXPECT_EQ(compare(floats({std::nextafter(1.0f, 2.0f)}), floats({1}), {0, 0}).ulp, 1u);
  EXPECT_EQ(compare(floats({0x1p-149f}), floats({-0x1p-149f}), {0, 0}).ulp, 2u);
}

TEST(Compare, SeesIntegersThatADoubleCannotTellApart) {
  Array a = array_of<int64_t>(DType::I64, {1}, {(int64_t{1} << 60) + 1}),
        b = array_of<int64_t>(DType::I64, {1}, {int64_t{1} << 60});
  EXPECT_EQ(compare(a, b, {0, 0}).count, 1);
}

}  // namespace
}  // namespace tenon
