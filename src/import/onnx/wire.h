// SPDX-License-Identifier: Apache-2.0
// Reading the protobuf wire format from untrusted bytes: fields of one message, every bound checked.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"

namespace tenon::onnx {

/// A file's bytes and where they came from.
struct Source {
  std::string file;    // as the user named it, for messages
  std::string folder;  // where external data may lie; empty: nowhere
  std::shared_ptr<const void> owner;
  std::string_view bytes;

  /// An error of kind malformed that names the file.
  Diagnostic error(std::string code, std::string_view message, std::string expected = {}, std::string found = {},
                   std::string hint = {}) const;
  /// Throws `error`.
  [[noreturn]] void fail(std::string code, std::string_view message, std::string expected = {}, std::string found = {},
                         std::string hint = {}) const;
};

enum class WireType : uint8_t { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

/// Walks the fields of one message. Errors are `onnx-wire` and give the byte of the file.
class WireReader {
 public:
  /// `message` lies within source.bytes, and `what` names it in errors; both outlive the reader.
  WireReader(const Source& source, std::string_view message, std::string_view what)
      : source_(source), message_(message), what_(what) {}

  /// Moves to the next field; false at the end of the message.
  bool next();
  uint32_t number() const { return number_; }

  // The value of the current field, which must have the matching wire type.
  uint64_t varint() const;
  int64_t integer() const { return static_cast<int64_t>(varint()); }
  float float32() const;
  std::string_view bytes() const;

  // Appends the values of a repeated field, packed or not.
  void append(std::vector<int64_t>& values) const;
  void append(std::vector<uint64_t>& values) const;
  void append(std::vector<float>& values) const;
  void append(std::vector<double>& values) const;

  [[noreturn]] void fail(std::string_view message, std::string expected, std::string found) const;

 private:
  uint64_t read_varint();
  std::string_view read_bytes(uint64_t size);
  template <class T>
  void append_fixed(std::vector<T>& values, WireType single) const;
  [[noreturn]] void fail_type(std::string_view expected) const;

  const Source& source_;
  std::string_view message_, what_;
  size_t position_ = 0;
  uint32_t number_ = 0;
  WireType type_ = WireType::Varint;
  uint64_t varint_ = 0;
  std::string_view bytes_;
};

}  // namespace tenon::onnx
