// SPDX-License-Identifier: Apache-2.0
// The wire reader and the messages: every bound holds, and typed lists and external files give the elements written.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "import/onnx/tensor.h"
#include "support/onnx_writer.h"

namespace tenon::onnx {
namespace {

using test::WireWriter;

Source source_of(std::string_view bytes) { return {.file = "m.onnx", .folder = {}, .owner = nullptr, .bytes = bytes}; }

/// The code of the error that reading throws; empty if it does not.
template <class F>
std::string code_of(F read) {
  try {
    read();
  } catch (const CompileError& e) {
    return e.diagnostics()[0].code;
  }
  return {};
}

TEST(OnnxWire, ReadsEachWireType) {
  const std::string bytes = WireWriter().varint(1, 300).float32(2, 1.5f).message(3, "abc").varint(4, ~uint64_t{0}).bytes;
  const Source source = source_of(bytes);
  WireReader r(source, bytes, "M");
  ASSERT_TRUE(r.next());
  EXPECT_EQ(r.number(), 1u);
  EXPECT_EQ(r.varint(), 300u);
  ASSERT_TRUE(r.next());
  EXPECT_EQ(r.float32(), 1.5f);
  ASSERT_TRUE(r.next());
  EXPECT_EQ(r.bytes(), "abc");
  EXPECT_EQ(code_of([&] { r.varint(); }), "onnx-wire");
  ASSERT_TRUE(r.next());
  EXPECT_EQ(r.integer(), -1);
  EXPECT_FALSE(r.next());
}

TEST(OnnxWire, PackedAndUnpackedFieldsAreOneList) {
  const std::string bytes = WireWriter().varint(1, 7).message(1, std::string("\x05\xac\x02", 3)).varint(1, 1).bytes;
  const Source source = source_of(bytes);
  WireReader r(source, bytes, "M");
  std::vector<int64_t> values;
  while (r.next()) r.append(values);
  EXPECT_EQ(values, (std::vector<int64_t>{7, 5, 300, 1}));
}

TEST(OnnxWire, RefusesDamage) {
  const std::string cases[] = {
      std::string("\x08", 1),                                           // a key without its value
      std::string("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11),  // 65 bits
      std::string("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12),
      std::string("\x0a\x05"
                  "abc",
                  5),  // 5 bytes announced, 3 there
      std::string("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
                  "a",
                  12),
      std::string("\x0d\x00\x00", 3),  // a float of 2 bytes
      std::string("\x0b\x0c", 2),      // a group
      std::string("\x00\x01", 2),      // field number 0
  };
  for (const std::string& bytes : cases) {
    const Source source = source_of(bytes);
    EXPECT_EQ(code_of([&] {
                WireReader r(source, bytes, "M");
                while (r.next()) {
                }
              }),
              "onnx-wire");
  }
}

TEST(OnnxWire, ErrorsSayWhereAndWhat) {
  const Source source =
      source_of(std::string_view("\x0a\x05"
                                 "abc",
                                 5));
  try {
    WireReader r(source, source.bytes, "ModelProto");
    r.next();
    FAIL();
  } catch (const CompileError& e) {
    const Diagnostic& d = e.diagnostics()[0];
    EXPECT_EQ(d.kind, ErrorKind::Malformed);
    EXPECT_EQ(d.message, "`m.onnx`: field 1 of ModelProto needs 5 bytes but 3 are left at byte 2 of 5");
    EXPECT_EQ(d.expected, "5 bytes");
    EXPECT_EQ(d.found, "3 bytes");
    EXPECT_FALSE(d.hint.empty());
  }
}

TEST(OnnxWire, NestingHasALimit) {
  std::string graph = WireWriter().message(2, "inner").bytes;
  for (int i = 0; i < 40; ++i) {
    const std::string attribute = WireWriter().message(1, "body").varint(20, 5).message(6, graph).bytes;
    graph = WireWriter().message(1, WireWriter().message(4, "If").message(5, attribute).bytes).bytes;
  }
  const std::string model = WireWriter().message(7, graph).bytes;
  const Source source = source_of(model);
  EXPECT_EQ(code_of([&] { parse_model(source); }), "onnx-wire");
}

TEST(OnnxWire, AFileWithoutAGraphIsNoModel) {
  for (std::string_view bytes : {std::string_view(), std::string_view("\x08\x08", 2)}) {
    const Source source = source_of(bytes);
    EXPECT_EQ(code_of([&] { parse_model(source); }), "onnx-model");
  }
}

Array read(const std::string& bytes) {
  const Source source = source_of(bytes);
  const Tensor tensor = parse_tensor(source);
  return TensorReader(source).read(tensor);
}

TEST(OnnxTensor, RawDataIsAViewOfTheFile) {
  const Array values = array_of<float>(DType::F32, {2}, {1.0f, -2.5f});
  const std::string bytes = test::onnx_tensor("t", values);
  const Array array = read(bytes);
  EXPECT_EQ(array, values);
  const auto* data = reinterpret_cast<const char*>(array.bytes.data());
  EXPECT_TRUE(data >= bytes.data() && data < bytes.data() + bytes.size());
}

TEST(OnnxTensor, TypedListsGiveEachDtype) {
  auto int32_list = [](uint64_t type, std::vector<int64_t> values) {
    WireWriter w;
    w.varint(1, values.size()).varint(2, type);
    for (int64_t v : values) w.varint(5, static_cast<uint64_t>(v));
    return read(w.bytes);
  };
  EXPECT_EQ(int32_list(6, {-1, 7}), array_of<int32_t>(DType::I32, {2}, {-1, 7}));
  EXPECT_EQ(int32_list(6, {0xffffffff, 7}), array_of<int32_t>(DType::I32, {2}, {-1, 7}));
  EXPECT_EQ(int32_list(3, {-128, 127}), array_of<int8_t>(DType::I8, {2}, {-128, 127}));
  EXPECT_EQ(int32_list(2, {255}), array_of<uint8_t>(DType::U8, {1}, {255}));
  EXPECT_EQ(int32_list(9, {0, 1}), array_of<uint8_t>(DType::Bool, {2}, {0, 1}));
  EXPECT_EQ(int32_list(10, {0x3c00, 0xc100}), array_of<uint16_t>(DType::F16, {2}, {0x3c00, 0xc100}));
  EXPECT_EQ(code_of([&] { int32_list(2, {256}); }), "onnx-tensor");
  EXPECT_EQ(code_of([&] { int32_list(3, {-129}); }), "onnx-tensor");
  EXPECT_EQ(read(WireWriter().varint(1, 1).varint(2, 7).varint(7, uint64_t(-5)).bytes), array_of<int64_t>(DType::I64, {1}, {-5}));
  EXPECT_EQ(read(WireWriter().varint(2, 12).varint(11, 4000000000u).bytes), array_of<uint32_t>(DType::U32, {}, {4000000000u}));
  EXPECT_EQ(read(WireWriter().varint(2, 1).float32(4, 0.5f).bytes), array_of<float>(DType::F32, {}, {0.5f}));
}

TEST(OnnxTensor, AnyByteButZeroIsTrue) {
  EXPECT_EQ(read(WireWriter().varint(1, 3).varint(2, 9).message(9, std::string("\0\x02\x01", 3)).bytes),
            array_of<uint8_t>(DType::Bool, {3}, {0, 1, 1}));
}

TEST(OnnxTensor, EmptyTensorsNeedNoData) {
  EXPECT_EQ(read(WireWriter().varint(1, 0).varint(2, 7).bytes), array_of<int64_t>(DType::I64, {0}, {}));
}

TEST(OnnxTensor, RefusesSizesThatDoNotFit) {
  auto code = [](WireWriter& w) { return code_of([&] { read(w.bytes); }); };
  EXPECT_EQ(code(WireWriter().varint(1, 2).varint(2, 1).message(9, "1234")), "onnx-tensor");
  EXPECT_EQ(code(WireWriter().varint(1, 1).varint(2, 1).message(9, "12345")), "onnx-tensor");
  EXPECT_EQ(code(WireWriter().varint(1, 2).varint(2, 1)), "onnx-tensor");
  EXPECT_EQ(code(WireWriter().varint(1, uint64_t(-2)).varint(2, 1)), "onnx-tensor");
  EXPECT_EQ(code(WireWriter().varint(1, uint64_t{1} << 40).varint(2, 1).float32(4, 1)), "onnx-tensor");
  EXPECT_EQ(code(WireWriter().varint(1, 1).varint(2, 8).message(6, "text")), "onnx-dtype");
}

class OnnxExternal : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("tenon_onnx_external_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_ / "model");
    for (const char* path : {"model/w.bin", "outside.bin"})
      std::ofstream(folder_ / path, std::ios::binary).write("\1\0\0\0\2\0\0\0\3\0\0\0", 12);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Array read(const std::string& location, const char* offset, const char* length) {
    auto entry = [](const char* key, const std::string& value) { return WireWriter().message(1, key).message(2, value).bytes; };
    WireWriter w;
    w.varint(1, 2).varint(2, 6).varint(14, 1).message(13, entry("location", location));
    if (offset) w.message(13, entry("offset", offset));
    if (length) w.message(13, entry("length", length));
    const Source source{.file = "m.onnx", .folder = (folder_ / "model").string(), .owner = nullptr, .bytes = w.bytes};
    const Tensor tensor = parse_tensor(source);
    return TensorReader(source).read(tensor);
  }
  std::filesystem::path folder_;
};

TEST_F(OnnxExternal, ReadsBesideTheModel) {
  EXPECT_EQ(read("w.bin", "4", "8"), array_of<int32_t>(DType::I32, {2}, {2, 3}));
  EXPECT_EQ(read("w.bin", nullptr, nullptr), array_of<int32_t>(DType::I32, {2}, {1, 2}));
  EXPECT_EQ(read("../model/w.bin", nullptr, nullptr), array_of<int32_t>(DType::I32, {2}, {1, 2}));
}

TEST_F(OnnxExternal, RefusesWhatIsOutsideOrTooShort) {
  auto code = [&](const std::string& location, const char* offset, const char* length) {
    return code_of([&] { read(location, offset, length); });
  };
  EXPECT_EQ(code("../outside.bin", nullptr, nullptr), "onnx-external");
  EXPECT_EQ(code((folder_ / "model/w.bin").string(), nullptr, nullptr), "onnx-external");
  EXPECT_EQ(code("", nullptr, nullptr), "onnx-external");
  EXPECT_EQ(code("w.bin", "8", "8"), "onnx-external");
  EXPECT_EQ(code("w.bin", "8", nullptr), "onnx-external");
  EXPECT_EQ(code("w.bin", "-4", nullptr), "onnx-external");
  EXPECT_EQ(code("w.bin", "9223372036854775807", "9223372036854775807"), "onnx-external");
  EXPECT_EQ(code("w.bin", "0", "12"), "onnx-tensor");
  EXPECT_EQ(code("none.bin", nullptr, nullptr), "file-open");
  std::filesystem::create_symlink("../outside.bin", folder_ / "model/link.bin");
  EXPECT_EQ(code("link.bin", nullptr, nullptr), "onnx-external");
}

}  // namespace
}  // namespace tenon::onnx
