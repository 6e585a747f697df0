// SPDX-License-Identifier: Apache-2.0
// `.npz` files: what we write reads back, what NumPy wrote reads right, and damage is refused. Also --input-shapes.
#include "cli/npz.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/diagnostic.h"
#include "cli/npy.h"
#include "cli/options.h"

namespace tenon::cli {
namespace {

struct TemporaryFile {
  explicit TemporaryFile(const std::string& name) : path(testing::TempDir() + "tenon_" + std::to_string(getpid()) + "_" + name) {}
  ~TemporaryFile() { std::remove(path.c_str()); }
  std::string path;
};

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

Array parse_npy(const std::string& text) { return read_npy(std::as_bytes(std::span(text)), nullptr, "a"); }

/// A version 1.0 file with this header dictionary.
std::string npy(const std::string& header, const std::string& data) {
  std::string out = "\x93NUMPY";
  out += {'\x01', '\0', static_cast<char>(header.size()), '\0'};
  return out + header + data;
}

TEST(Npz, WhatIsWrittenReadsBackForEveryDtypeAndAwkwardNames) {
  Arrays arrays;
  for (DType dtype : kAllDTypes) {
    MutableArray array(dtype, {2, 3});
    for (size_t i = 0; i < array.size_bytes; ++i) array.data()[i] = static_cast<std::byte>(dtype == DType::Bool ? i % 2 : i);
    arrays[std::string("a/b:") + std::string(name(dtype))] = std::move(array).freeze();
  }
  arrays["scalar"] = array_of<double>(DType::F64, {}, {2.5});
  arrays["empty"] = array_of<float>(DType::F32, {0, 4}, {});
  arrays["vector"] = array_of<int64_t>(DType::I64, {1}, {7});
  TemporaryFile file("round.npz");
  write_npz(file.path, arrays);
  EXPECT_EQ(read_npz(file.path), arrays);
  std::string first = slurp(file.path);
  write_npz(file.path, arrays);
  EXPECT_EQ(slurp(file.path), first);
}

TEST(Npz, ReadsWhatNumPyCompressed) {
  // numpy.savez_compressed("f.npz", **{"x/y:0": numpy.arange(6, dtype="<i2").reshape(2, 3)})
  static const unsigned char kFile[] = {
#include "data/arange_compressed_npz.inc"
  };
  TemporaryFile file("numpy.npz");
  std::ofstream(file.path, std::ios::binary).write(reinterpret_cast<const char*>(kFile), sizeof kFile);
  Arrays arrays = read_npz(file.path);
  ASSERT_EQ(arrays.size(), 1u);
  EXPECT_EQ(arrays.begin()->first, "x/y:0");
  EXPECT_EQ(arrays.begin()->second, array_of<int16_t>(DType::I16, {2, 3}, {0, 1, 2, 3, 4, 5}));
}

TEST(Npz, EveryCutAndEveryFlippedByteIsRefusedOrHarmless) {
  TemporaryFile file("good.npz"), bad("bad.npz");
  Arrays arrays{{"x", array_of<float>(DType::F32, {3}, {1, 2, 3})}};
  write_npz(file.path, arrays);
  std::string bytes = slurp(file.path);
  auto outcome = [&](const std::string& content) {
    std::ofstream(bad.path, std::ios::binary) << content;
    try {
      return read_npz(bad.path) == arrays ? 0 : 1;
    } catch (const CompileError& error) {
      return static_cast<int>(error.kind());
    }
  };
  for (size_t size = 0; size < bytes.size(); size += 5) EXPECT_EQ(outcome(bytes.substr(0, size)), 3) << size;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x20);
    int result = outcome(flipped);
    bool in_name = at >= bytes.rfind("x.npy") && at < bytes.rfind("x.npy") + 5;  // another name is no damage that can be seen
    EXPECT_TRUE(result == 3 || result == 0 || (result == 1 && in_name)) << at << ": " << result;
  }
}

TEST(Npy, ReadsColumnMajorArraysAndScalars) {
  std::string data("\1\2\3\4\5\6", 6);
  EXPECT_EQ(parse_npy(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n", data)),
            array_of<uint8_t>(DType::U8, {2, 3}, {1, 3, 5, 2, 4, 6}));
  EXPECT_EQ(parse_npy(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (6,), }\n", data)).shape, Shape{6});
  EXPECT_EQ(parse_npy(npy("{'descr': '|b1', 'fortran_order': False, 'shape': (), }\n", data.substr(0, 1))).shape, Shape{});
}

ErrorKind kind_of(const std::string& text) {
  try {
    parse_npy(text);
  } catch (const CompileError& error) {
    return error.kind();
  }
  return ErrorKind::Internal;
}

TEST(Npy, RefusesOtherDtypesAndWrongSizes) {
  EXPECT_EQ(kind_of(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }\n", "abcd")), ErrorKind::Unsupported);
  EXPECT_EQ(kind_of(npy("{'descr': '<U5', 'fortran_order': False, 'shape': (), }\n", "")), ErrorKind::Unsupported);
  EXPECT_EQ(kind_of(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", "abcd")), ErrorKind::Malformed);
  EXPECT_EQ(kind_of(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n", "abcde")), ErrorKind::Malformed);
  EXPECT_EQ(kind_of(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }\n", "")), ErrorKind::Malformed);
  EXPECT_EQ(kind_of(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1x), }\n", "abcd")), ErrorKind::Malformed);
  EXPECT_EQ(kind_of(npy("{'descr': '<f4', 'shape': (1,), }\n", "abcd")), ErrorKind::Malformed);
}

TEST(Npy, NamesTheArrayOfAnUnknownDtype) {
  try {
    parse_npy(npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }\n", "abcdefgh"));
    FAIL();
  } catch (const CompileError& error) {
    EXPECT_EQ(error.diagnostics()[0].code, "npz-dtype");
    EXPECT_EQ(error.diagnostics()[0].input, "a");
    EXPECT_EQ(error.diagnostics()[0].found, "<c8");
  }
}

TEST(InputShapes, TheNameEndsAtTheLastColonBeforeABracket) {
  EXPECT_EQ(parse_input_shape("x:[1,3,48,320]"), (std::pair<std::string, Shape>{"x", {1, 3, 48, 320}}));
  EXPECT_EQ(parse_input_shape("a:[b]:0:[ 2 , 5 ]"), (std::pair<std::string, Shape>{"a:[b]:0", {2, 5}}));
  EXPECT_EQ(parse_input_shape("s:[]"), (std::pair<std::string, Shape>{"s", {}}));
  for (const char* bad :
       {"x", "x:1,2", ":[1]", "x:[1,]", "x:[,1]", "x:[-1]", "x:[a]", "x:[1 2]", "x:[1", "x:[99999999999999999999]"})
    EXPECT_THROW(parse_input_shape(bad), CompileError) << bad;
}

}  // namespace
}  // namespace tenon::cli
