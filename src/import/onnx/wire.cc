// SPDX-License-Identifier: Apache-2.0
// Fields of protobuf messages.
#include "import/onnx/wire.h"

#include <fmt/format.h>

#include <cstring>

namespace tenon::onnx {

Diagnostic Source::error(std::string code, std::string_view message, std::string expected, std::string found,
                         std::string hint) const {
  return {.kind = ErrorKind::Malformed,
          .code = std::move(code),
          .message = fmt::format("`{}`: {}", file, message),
          .input = file,
          .expected = std::move(expected),
          .found = std::move(found),
          .hint = std::move(hint)};
}

void Source::fail(std::string code, std::string_view message, std::string expected, std::string found, std::string hint) const {
  throw CompileError(error(std::move(code), message, std::move(expected), std::move(found), std::move(hint)));
}

void WireReader::fail(std::string_view message, std::string expected, std::string found) const {
  const auto offset = message_.data() + position_ - source_.bytes.data();
  source_.fail("onnx-wire", fmt::format("{} at byte {} of {}", message, offset, source_.bytes.size()), std::move(expected),
               std::move(found), "the file is damaged, cut short, or no ONNX model: check its size and fetch it again");
}

void WireReader::fail_type(std::string_view expected) const {
  fail(fmt::format("field {} of {} has wire type {}", number_, what_, static_cast<int>(type_)), std::string(expected),
       fmt::format("wire type {}", static_cast<int>(type_)));
}

uint64_t WireReader::read_varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (position_ >= message_.size())
      fail(fmt::format("{} ends within a number", what_), "the rest of the number", "the end of the message");
    const auto byte = static_cast<uint8_t>(message_[position_++]);
    if (shift == 63 && byte > 1) break;
    value |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) return value;
  }
  fail(fmt::format("a number of {} is longer than 64 bits", what_), "at most 64 bits", "more");
}

std::string_view WireReader::read_bytes(uint64_t size) {
  const size_t left = message_.size() - position_;
  if (size > left)
    fail(fmt::format("field {} of {} needs {} bytes but {} are left", number_, what_, size, left), fmt::format("{} bytes", size),
         fmt::format("{} bytes", left));
  auto out = message_.substr(position_, size);
  position_ += size;
  return out;
}

bool WireReader::next() {
  if (position_ >= message_.size()) return false;
  const uint64_t key = read_varint();
  number_ = static_cast<uint32_t>(key >> 3);
  if (key >> 3 == 0 || key >> 3 > 0x1fffffff)
    fail(fmt::format("{} holds field number {}", what_, key >> 3), "a number from 1 to 536870911", std::to_string(key >> 3));
  type_ = static_cast<WireType>(key & 7);
  bytes_ = {};
  switch (type_) {
    case WireType::Varint: varint_ = read_varint(); return true;
    case WireType::Fixed64: bytes_ = read_bytes(8); return true;
    case WireType::Bytes: bytes_ = read_bytes(read_varint()); return true;
    case WireType::Fixed32: bytes_ = read_bytes(4); return true;
  }
  fail_type("wire type 0, 1, 2 or 5");
}

uint64_t WireReader::varint() const {
  if (type_ != WireType::Varint) fail_type("a number (wire type 0)");
  return varint_;
}

float WireReader::float32() const {
  if (type_ != WireType::Fixed32) fail_type("a float (wire type 5)");
  float value;
  std::memcpy(&value, bytes_.data(), sizeof value);
  return value;
}

std::string_view WireReader::bytes() const {
  if (type_ != WireType::Bytes) fail_type("bytes (wire type 2)");
  return bytes_;
}

void WireReader::append(std::vector<uint64_t>& values) const {
  if (type_ == WireType::Varint) {
    values.push_back(varint_);
    return;
  }
  WireReader packed(source_, bytes(), what_);
  while (packed.position_ < packed.message_.size()) values.push_back(packed.read_varint());
}

void WireReader::append(std::vector<int64_t>& values) const {
  if (type_ == WireType::Varint) {
    values.push_back(integer());
    return;
  }
  WireReader packed(source_, bytes(), what_);
  while (packed.position_ < packed.message_.size()) values.push_back(static_cast<int64_t>(packed.read_varint()));
}

template <class T>
void WireReader::append_fixed(std::vector<T>& values, WireType single) const {
  if (type_ != single && type_ != WireType::Bytes) fail_type("packed numbers (wire type 2)");
  if (bytes_.size() % sizeof(T) != 0)
    fail(fmt::format("field {} of {} has {} bytes", number_, what_, bytes_.size()), fmt::format("a multiple of {}", sizeof(T)),
         std::to_string(bytes_.size()));
  const size_t old = values.size();
  values.resize(old + bytes_.size() / sizeof(T));
  if (!bytes_.empty()) std::memcpy(values.data() + old, bytes_.data(), bytes_.size());
}

void WireReader::append(std::vector<float>& values) const { append_fixed(values, WireType::Fixed32); }
void WireReader::append(std::vector<double>& values) const { append_fixed(values, WireType::Fixed64); }

}  // namespace tenon::onnx
