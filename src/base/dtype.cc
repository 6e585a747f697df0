// SPDX-License-Identifier: Apache-2.0
// The table of element types.
#include "base/dtype.h"

namespace tenon {
namespace {

enum class Class : uint8_t { Bool, Signed, Unsigned, Float };

struct Row {
  std::string_view name;
  int bytes;
  Class kind;
};

constexpr Row kRows[] = {
    {"bool", 1, Class::Bool},    {"i8", 1, Class::Signed},  {"u8", 1, Class::Unsigned},  {"i16", 2, Class::Signed},
    {"u16", 2, Class::Unsigned}, {"i32", 4, Class::Signed}, {"u32", 4, Class::Unsigned}, {"i64", 8, Class::Signed},
    {"u64", 8, Class::Unsigned}, {"f16", 2, Class::Float},  {"bf16", 2, Class::Float},   {"f32", 4, Class::Float},
    {"f64", 8, Class::Float},
};

const Row& row(DType dtype) { return kRows[static_cast<int>(dtype)]; }

}  // namespace

int byte_size(DType dtype) { return row(dtype).bytes; }
int bit_width(DType dtype) { return dtype == DType::Bool ? 1 : 8 * row(dtype).bytes; }
bool is_float(DType dtype) { return row(dtype).kind == Class::Float; }
bool is_signed_integer(DType dtype) { return row(dtype).kind == Class::Signed; }
bool is_unsigned_integer(DType dtype) { return row(dtype).kind == Class::Unsigned; }
bool is_integer(DType dtype) { return is_signed_integer(dtype) || is_unsigned_integer(dtype); }
std::string_view name(DType dtype) { return row(dtype).name; }

std::optional<DType> dtype_from_name(std::string_view text) {
  for (DType dtype : kAllDTypes)
    if (std::string_view known = name(dtype); known.size() == text.size() && known.back() == text.back() && known == text)
      return dtype;
  return std::nullopt;
}

}  // namespace tenon
