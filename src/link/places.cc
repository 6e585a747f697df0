// SPDX-License-Identifier: Apache-2.0
#include "link/places.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

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
  for (const tir::BufferPlace& b : tir::buffer_places(function))
    if (b.buffer == buffer) return b.place;
  return std::nullopt;
}

void check_places(const tir::PrimFunc& function, const tir::Scratch& scratch) {
  for (const auto& [name, text] : tir::buffer_places(function)) {
    auto named = [&](const auto& buffers, auto name_of) {
      return std::any_of(buffers.begin(), buffers.end(), [&](const auto& b) { return name_of(b) == name; });
    };
    auto of_block = [](const tir::ScratchBlock& b) -> const std::string& { return b.name; };
    if (named(function.params, [](const tir::Buffer& p) -> const std::string& { return p->name; })) continue;
    if (named(scratch.shared, of_block)) continue;
    if (named(scratch.worker, of_block))
      fail("memory-place", fmt::format("each worker of @{} has a `{}` of its own, which no pool can hold", function.name, name),
           name, "a parameter, or an allocation outside of parallel loops or of scope `global`", text, "");
    fail("memory-place", fmt::format("@{} has no buffer `{}` in memory", function.name, name), name,
         "a parameter, or an allocation that its schedule keeps", name, "see the function with --stop-after schedule");
  }
}

}  // namespace tenon::link
