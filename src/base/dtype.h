// SPDX-License-Identifier: Apache-2.0
// Element types of tensors, buffers and scalar expressions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tenon {

enum class DType : uint8_t { Bool, I8, U8, I16, U16, I32, U32, I64, U64, F16, BF16, F32, F64 };

inline constexpr DType kAllDTypes[] = {DType::Bool, DType::I8,  DType::U8,  DType::I16,  DType::U16, DType::I32, DType::U32,
                                       DType::I64,  DType::U64, DType::F16, DType::BF16, DType::F32, DType::F64};

/// Bytes of one stored element; a bool takes one byte, 0 or 1.
int byte_size(DType dtype);
/// Significant bits: 1 for bool, else 8 * byte_size.
int bit_width(DType dtype);
bool is_float(DType dtype);
/// Integers of either sign; bool is not one.
bool is_integer(DType dtype);
bool is_signed_integer(DType dtype);
bool is_unsigned_integer(DType dtype);

/// `f32`, `i64`, `bool`: the spelling of every text form and message.
std::string_view name(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);

}  // namespace tenon
