// SPDX-License-Identifier: Apache-2.0
#include "base/name_map.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace tenon {
namespace {

TEST(NameMap, KeepsTheFirstValueAndTheOrder) {
  NameMap<int> map{{"b", 1}, {"a", 2}, {"b", 3}};
  EXPECT_FALSE(map.try_emplace("a", 4).second);
  map["c"] = 5;
  std::vector<std::pair<std::string, int>> expected{{"b", 1}, {"a", 2}, {"c", 5}};
  EXPECT_EQ(std::vector(map.begin(), map.end()), expected);
  EXPECT_TRUE(map.contains("c"));
  EXPECT_EQ(map.find("d"), map.end());
}

TEST(NameMap, TellsNamesOfOneHashApart) {
  NameMap<int> map;
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(map.try_emplace(Name(std::to_string(i), 7), i).second);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(map.at(Name(std::to_string(i), 7)), i);
  EXPECT_EQ(map.bits(), name_bit(7));
}

TEST(NameMap, FindsWhatAMapFinds) {
  std::mt19937 random(1);
  std::map<std::string, unsigned> reference;
  NameMap<unsigned> map;
  for (int i = 0; i < 3000; ++i) {
    std::string name = "v" + std::to_string(random() % 1000);
    auto value = static_cast<unsigned>(random());
    reference[name] = value;
    map[name] = value;
    std::string other = "v" + std::to_string(random() % 1000);
    EXPECT_EQ(map.contains(other), reference.contains(other));
    if (value % 3 == 0) {
      map.erase(other);
      reference.erase(other);
    }
  }
  EXPECT_EQ(map.size(), reference.size());
  for (const auto& [name, value] : reference) EXPECT_EQ(map.at(name), value);
}

/// A map that was large finds what is added when it is small again.
TEST(NameMap, ShrinksAndGrows) {
  NameMap<int> map;
  auto name = [](int i) { return "n" + std::to_string(i); };
  for (int i = 0; i < 20; ++i) map[name(i)] = i;
  for (int i = 3; i < 20; ++i) map.erase(name(i));
  for (int i = 30; i < 60; ++i) {
    map[name(i)] = i;
    ASSERT_TRUE(map.contains(name(i))) << i;
    EXPECT_EQ(map.at(name(i)), i);
  }
  EXPECT_EQ(map.size(), 33u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(map.at(name(i)), i);
}

}  // namespace
}  // namespace tenon
