// SPDX-License-Identifier: Apache-2.0
// The binary interface of kernels compiled for TVM's run time (0.12): tensors as DLPack lays them out, packed calls, and
// what the kernels call back. 64-bit machines only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/dtype.h"

namespace tenon::runtime::tvm {

enum DeviceType : int32_t { kCpu = 1 };

struct Device {
  int32_t type, id;
};

/// Codes: 0 signed, 1 unsigned, 2 float, 4 bfloat. A bool is one unsigned bit, which takes a byte.
struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
  bool operator==(const DataType&) const = default;
};

struct Tensor {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // null: compact
  uint64_t byte_offset;
};
static_assert(sizeof(Tensor) == 48 && offsetof(Tensor, shape) == 24 && offsetof(Tensor, byte_offset) == 40);

union Value {
  int64_t integer;
  double number;
  void* handle;
};

enum TypeCode : int32_t { kNull = 4, kTensor = 7 };

/// 0 is success; any other value is failure, with a text given to TVMAPISetLastError.
using PackedFunction = int32_t (*)(Value* args, int32_t* codes, int32_t count, Value* result, int32_t* result_code,
                                   void* resource);

struct ParallelEnvironment {
  void* barrier;
  int32_t tasks;
};
using ParallelTask = int (*)(int task, ParallelEnvironment* environment, void* closure);

constexpr DataType to_data_type(DType dtype) {
  switch (dtype) {
    case DType::Bool: return {1, 1, 1};
    case DType::I8: return {0, 8, 1};
    case DType::U8: return {1, 8, 1};
    case DType::I16: return {0, 16, 1};
    case DType::U16: return {1, 16, 1};
    case DType::I32: return {0, 32, 1};
    case DType::U32: return {1, 32, 1};
    case DType::I64: return {0, 64, 1};
    case DType::U64: return {1, 64, 1};
    case DType::F16: return {2, 16, 1};
    case DType::BF16: return {4, 16, 1};
    case DType::F32: return {2, 32, 1};
    case DType::F64: return {2, 64, 1};
  }
  return {};
}

/// None for a type that no tensor of ours has.
constexpr std::optional<DType> from_data_type(DataType type) {
  for (DType dtype : kAllDTypes)
    if (to_data_type(dtype) == type) return dtype;
  return std::nullopt;
}

}  // namespace tenon::runtime::tvm
