// SPDX-License-Identifier: Apache-2.0
#include "tir/memory_attr.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostic.h"

namespace tenon::tir {
namespace {

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

}  // namespace

std::vector<BufferPlace> buffer_places(const PrimFunc& function) {
  std::vector<BufferPlace> places;
  auto attribute = function.attrs.find(kMemoryAttr);
  const std::string* all = attribute == function.attrs.end() ? nullptr : std::get_if<std::string>(&attribute->second);
  std::string_view left = all ? *all : std::string_view();
  while (!left.empty()) {
    size_t comma = std::min(left.find(','), left.size());
    std::string_view entry = trimmed(left.substr(0, comma));
    left.remove_prefix(std::min(comma + 1, left.size()));
    size_t colon = entry.find(':');
    if (colon == std::string_view::npos || colon == 0)
      throw CompileError(Diagnostic{.code = "memory-place",
                                    .message = fmt::format("`{}` of @{} gives no buffer a place", entry, function.name),
                                    .input = function.name,
                                    .expected = "BUFFER: POOL or BUFFER: POOL@OFFSET, separated by commas",
                                    .found = *all});
    places.push_back({std::string(trimmed(entry.substr(0, colon))), std::string(trimmed(entry.substr(colon + 1)))});
  }
  return places;
}

}  // namespace tenon::tir
