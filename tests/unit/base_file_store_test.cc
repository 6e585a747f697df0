// SPDX-License-Identifier: Apache-2.0
// Values in a folder: nothing that happens to the files is an error, or gives anything but the value.
#include "base/file_store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "base/content_index.h"
#include "base/diagnostic.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

struct StoreFolder {
  StoreFolder() : path(fs::path(testing::TempDir()) / ("tenon_store_" + std::to_string(getpid()))) { fs::remove_all(path); }
  ~StoreFolder() { fs::remove_all(path); }
  fs::path only_file() const { return fs::directory_iterator(path)->path(); }
  int64_t files() const { return std::distance(fs::directory_iterator(path), fs::directory_iterator()); }
  fs::path path;
};

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

void set_age(const fs::path& path, int hours) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(hours));
}

TEST(FileStore, ASecondOneFindsWhatTheFirstWrote) {
  StoreFolder folder;
  EXPECT_TRUE(FileStore(folder.path, 1000).store("key", std::string("va\0lue", 6)));
  FileStore second(folder.path, 1000);
  EXPECT_EQ(second.load("key"), std::string("va\0lue", 6));
  EXPECT_EQ(second.load("other"), std::nullopt);
  EXPECT_TRUE(second.store("key", ""));
  EXPECT_EQ(second.load("key"), "");
  EXPECT_EQ(folder.files(), 1);
}

TEST(FileStore, AnyFlippedByteAndAnyTruncationIsNoValue) {
  StoreFolder folder;
  FileStore store(folder.path, 1000);
  store.store("the key", "the value");
  fs::path file = folder.only_file();
  const std::string good = read(file);
  for (size_t i = 0; i < good.size(); ++i) {
    for (char flip : {'\x01', '\x80', '\xff'}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ flip);
      write(file, bad);
      EXPECT_EQ(store.load("the key"), std::nullopt) << "byte " << i;
    }
    write(file, good.substr(0, i));
    EXPECT_EQ(store.load("the key"), std::nullopt) << i << " bytes left";
  }
  write(file, good + "x");
  EXPECT_EQ(store.load("the key"), std::nullopt);
  write(file, good);
  EXPECT_EQ(store.load("the key"), "the value");
}

TEST(FileStore, AnotherKeysFileUnderThisNameIsNoValue) {
  StoreFolder folder;
  FileStore store(folder.path, 1000);
  store.store("a", "value of a");
  fs::path a = folder.only_file();
  std::string bytes = read(a);
  fs::remove(a);
  store.store("b", "value of b");
  write(folder.only_file(), bytes);
  EXPECT_EQ(store.load("b"), std::nullopt);
}

TEST(FileStore, FoldersLinksToNothingAndHugeFilesInAValuesPlaceAreNoValue) {
  StoreFolder folder;
  FileStore store(folder.path, 1000);
  store.store("key", "value");
  fs::path file = folder.only_file();
  fs::remove(file);
  fs::create_directory(file);
  EXPECT_EQ(store.load("key"), std::nullopt);
  EXPECT_FALSE(store.store("key", "value"));
  fs::remove(file);
  fs::create_symlink("nowhere", file);
  EXPECT_EQ(store.load("key"), std::nullopt);
  fs::remove(file);
  write(file, std::string(5000, 'x'));
  EXPECT_EQ(store.load("key"), std::nullopt);
}

TEST(FileStore, PastTheBoundTheValuesUsedLongestAgoGo) {
  StoreFolder folder;
  FileStore store(folder.path, 1000);
  const std::string value(150, 'v');  // 199 bytes with header and key: five fit
  for (std::string key : {"1", "2", "3", "4", "5"}) {
    store.store(key, value);
    for (const auto& entry : fs::directory_iterator(folder.path))
      if (fs::last_write_time(entry) > fs::file_time_type::clock::now() - std::chrono::minutes(30))
        set_age(entry.path(), 10 - std::stoi(key));
  }
  EXPECT_EQ(folder.files(), 5);
  EXPECT_EQ(store.load("1"), value) << "used now";
  write(folder.path / "a note of the user's", std::string(4000, 'n'));
  store.store("6", value);
  EXPECT_EQ(store.load("1"), value);
  EXPECT_EQ(store.load("2"), std::nullopt);
  EXPECT_EQ(store.load("3"), std::nullopt);
  EXPECT_EQ(store.load("4"), std::nullopt) << "three quarters are left";
  EXPECT_EQ(store.load("5"), value);
  EXPECT_EQ(store.load("6"), value);
  EXPECT_TRUE(fs::exists(folder.path / "a note of the user's"));
}

TEST(FileStore, AValueLargerThanTheBoundIsNotKept) {
  StoreFolder folder;
  FileStore store(folder.path, 100);
  EXPECT_FALSE(store.store("key", std::string(100, 'x')));
  EXPECT_EQ(folder.files(), 0);
}

TEST(FileStore, AFolderThatCannotBeIsAnError) {
  StoreFolder folder;
  fs::create_directories(folder.path);
  write(folder.path / "file", "x");
  try {
    FileStore store(folder.path / "file", 100);
    FAIL();
  } catch (const CompileError& error) {
    EXPECT_EQ(error.kind(), ErrorKind::FileSystem);
    EXPECT_EQ(error.diagnostics()[0].code, "file-write");
  }
}

TEST(ContentIndex, NumbersDistinctContents) {
  std::string big(10000, 'x'), same = big, late = big, first = big, shorter = big.substr(1);
  late[9999] = 'y';
  first[0] = 'y';
  ContentIndex index;
  auto add = [&](const std::string& bytes) { return index.add(std::as_bytes(std::span(bytes))); };
  EXPECT_EQ(add(big), 0u);
  EXPECT_EQ(add(late), 1u) << "differs behind the beginning";
  EXPECT_EQ(add(same), 0u);
  EXPECT_EQ(add(first), 2u);
  EXPECT_EQ(add(shorter), 3u);
  EXPECT_EQ(add(late), 1u);
  EXPECT_EQ(add(""), 4u);
  EXPECT_EQ(add("x"), 5u);
  EXPECT_EQ(add(""), 4u);
  EXPECT_EQ(index.size(), 6u);
}

}  // namespace
}  // namespace tenon
