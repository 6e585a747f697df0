// SPDX-License-Identifier: Apache-2.0
// A map from names to values for the names of one function: tens of them, looked for far more often than added.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "base/hash.h"

namespace tenon {

/// A name with its hash, for whoever has that already.
struct Name {
  Name(std::string_view text, uint64_t hash) : text(text), hash(hash) {}
  Name(std::string_view text) : Name(text, hash64(text)) {}
  Name(const std::string& text) : Name(std::string_view(text)) {}
  Name(const char* text) : Name(std::string_view(text)) {}

  std::string_view text;
  uint64_t hash;
};

/// One of 64 bits for a name, by its hash: sets of names without a bit in common have no name in common.
inline uint64_t name_bit(uint64_t hash) { return uint64_t{1} << (hash >> 58); }

/// In the order in which the names were added. Adding one moves the others: no reference or iterator stays valid.
template <class T>
class NameMap {
 public:
  using Entry = std::pair<std::string, T>;

  NameMap() = default;
  NameMap(std::initializer_list<Entry> entries) {
    for (const Entry& e : entries) try_emplace(e.first, e.second);
  }

  auto begin() { return entries_.begin(); }
  auto end() { return entries_.end(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  uint64_t bits() const { return bits_; }  // the name_bit of each, and of those that were erased

  auto find(Name name) { return entries_.begin() + static_cast<std::ptrdiff_t>(index_of(name)); }
  auto find(Name name) const { return entries_.begin() + static_cast<std::ptrdiff_t>(index_of(name)); }
  bool contains(Name name) const { return index_of(name) < size(); }
  const T& at(Name name) const {
    size_t index = index_of(name);
    check(index < size(), "a name that is asked for is in the map");
    return entries_[index].second;
  }

  /// The entry, and whether it is new.
  template <class... Args>
  auto try_emplace(Name name, Args&&... args) {
    size_t index = index_of(name);
    bool is_new = index == size();
    if (is_new) add(name, T(std::forward<Args>(args)...));
    return std::pair(entries_.begin() + static_cast<std::ptrdiff_t>(index), is_new);
  }
  T& operator[](Name name) { return try_emplace(name).first->second; }
  /// Takes time for all names.
  void erase(Name name) {
    size_t index = index_of(name);
    if (index == size()) return;
    entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(index));
    hashes_.erase(hashes_.begin() + static_cast<std::ptrdiff_t>(index));
    std::fill(places_.begin(), places_.end(), 0);
    if (!places_.empty())
      for (size_t i = 0; i < size(); ++i) place(i);
  }

 private:
  static constexpr size_t kFew = 8;  // up to here the hashes are compared one by one

  size_t index_of(Name name) const {
    auto is = [&](size_t i) { return hashes_[i] == name.hash && entries_[i].first == name.text; };
    if (places_.empty()) {
      size_t i = 0;
      while (i < hashes_.size() && !is(i)) ++i;
      return i;
    }
    size_t place = name.hash & (places_.size() - 1);
    while (places_[place] != 0 && !is(places_[place] - 1)) place = (place + 1) & (places_.size() - 1);
    return places_[place] == 0 ? size() : places_[place] - 1;
  }

  void add(Name name, T value) {
    if (entries_.empty()) {
      entries_.reserve(kFew);
      hashes_.reserve(kFew);
    }
    entries_.emplace_back(std::string(name.text), std::move(value));
    hashes_.push_back(name.hash);
    bits_ |= name_bit(name.hash);
    if (places_.empty() && size() <= kFew) return;
    if (2 * size() < places_.size()) {
      place(size() - 1);
    } else {
      places_.assign(places_.empty() ? 8 * kFew : 2 * places_.size(), 0);
      for (size_t i = 0; i < size(); ++i) place(i);
    }
  }

  void place(size_t index) {
    size_t place = hashes_[index] & (places_.size() - 1);
    while (places_[place] != 0) place = (place + 1) & (places_.size() - 1);
    places_[place] = static_cast<uint32_t>(index + 1);
  }

  std::vector<Entry> entries_;
  std::vector<uint64_t> hashes_;
  std::vector<uint32_t> places_;  // 1 + the index of an entry, by the low bits of its hash or in the next free place; 0: free
  uint64_t bits_ = 0;
};

}  // namespace tenon
