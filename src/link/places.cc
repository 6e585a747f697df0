// SPDX-License-Identifier: Apache-2.0
#include "link/places.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "link/main_function.h"

namespace tenon::link {
namespace {

[[noreturn]] void fail(std::string code, std::string message, std::string value, std::string expected, std::string found,
                       std::string hint) {
  throw CompileError(Diagnostic{.kind = ErrorKind::Malformed,
                                .code = std::move(code),
                                .message = std::move(message),
                                .input = std::move(value),
                                .expected = std::move(expected),
                                .found = std::move(found),
                                .hint = std::move(hint)});
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

/// `y: fast@0, tmp: slow` by buffer, in order.
std::vector<std::pair<std::string, std::string>> places_of(const tir::PrimFunc& function) {
  std::vector<std::pair<std::string, std::string>> places;
  std::string all = attribute<std::string>(function.attrs, kMemoryAttr, "");
  std::string_view left = all;
  while (!left.empty()) {
    size_t comma = std::min(left.find(','), left.size());
    std::string_view entry = trimmed(left.substr(0, comma));
    left.remove_prefix(std::min(comma + 1, left.size()));
    size_t colon = entry.find(':');
    if (colon == std::string_view::npos || colon == 0)
      fail("memory-place", fmt::format("`{}` of @{} gives no buffer a place", entry, function.name), function.name,
           "BUFFER: POOL or BUFFER: POOL@OFFSET, separated by commas", all, "");
    places.emplace_back(trimmed(entry.substr(0, colon)), trimmed(entry.substr(colon + 1)));
  }
  return places;
}

}  // namespace

plan::Pin parse_place(std::string_view text, const std::vector<plan::Pool>& pools, const std::string& value) {
  plan::Pin pin;
  size_t at = text.rfind('@');
  std::string_view name = text.substr(0, at);
  if (at != std::string_view::npos) {
    int64_t offset = 0;
    std::string_view digits = text.substr(at + 1);
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), offset);
    if (error != std::errc() || end != digits.data() + digits.size() || offset < 0)
      fail("memory-place", fmt::format("the place `{}` of `{}` cannot be read", text, value), value,
           "POOL or POOL@OFFSET, in bytes", std::string(text), "");
    pin.offset = offset;
  }
  std::string known;
  for (; pin.pool < pools.size() && pools[pin.pool].name != name; ++pin.pool)
    known += fmt::format("{}`{}`", known.empty() ? "" : ", ", pools[pin.pool].name);
  if (pin.pool == pools.size())
    fail("memory-pool", fmt::format("`{}` is to lie in `{}`, which is no pool", value, name), value, "one of " + known,
         fmt::format("`{}`", name), fmt::format("declare it with --pool {}", name));
  return pin;
}

std::optional<std::string> place_of_buffer(const tir::PrimFunc& function, std::string_view buffer) {
  for (const auto& [name, place] : places_of(function))
    if (name == buffer) return place;
  return std::nullopt;
}

std::optional<std::string> place_of_scratch(const tir::PrimFunc& function) {
  std::optional<std::string> place;
  std::vector<std::pair<std::string, std::string>> places = places_of(function);
  if (places.empty()) return place;
  std::vector<std::string> allocated;
  tir::visit(function.body, [&](const tir::Stmt& s) {
    const tir::Allocate* n = tir::as<tir::Allocate>(s);
    if (n && n->buffer->scope == tir::Scope::Global) allocated.push_back(n->buffer->name);
  });
  for (const auto& [name, text] : places) {
    bool param = std::any_of(function.params.begin(), function.params.end(), [&](const auto& p) { return p->name == name; });
    if (param) continue;
    if (std::find(allocated.begin(), allocated.end(), name) == allocated.end())
      fail("memory-place", fmt::format("@{} has no buffer `{}` in memory", function.name, name), name,
           "a parameter, or an allocation that its schedule keeps", name, "see the function with --stop-after schedule");
    if (text.find('@') != std::string::npos || (place && *place != text))
      fail("memory-place", fmt::format("`{}` of @{} cannot lie at `{}`", name, function.name, text), name,
           "one pool, without an offset, for all that the function allocates", text, "");
    place = text;
  }
  return place;
}

}  // namespace tenon::link
