// SPDX-License-Identifier: Apache-2.0
// Decisions as steps and back.
#include "schedule/decisions.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/diagnostic.h"
#include "schedule/primitives/place.h"

namespace tenon::schedule {

namespace {

template <class T>
struct Words;
template <>
struct Words<Lanes> {
  static constexpr std::pair<Lanes, std::string_view> list[] = {{Lanes::AlongOutput, "along"}, {Lanes::AcrossOutput, "across"}};
};
template <>
struct Words<Storage> {
  static constexpr std::pair<Storage, std::string_view> list[] = {{Storage::InPlace, "in_place"},
                                                                  {Storage::Constant, "constant"},
                                                                  {Storage::PerTile, "per_tile"},
                                                                  {Storage::PerJob, "per_job"},
                                                                  {Storage::BeforeAll, "before_all"}};
};

// The named arguments of each nest's step, in one place for writing and reading.

template <class F>
void each_argument(ElementwiseNest& nest, F&& f) {
  f("lanes", nest.lanes);
}
template <class F>
void each_argument(ScalarReduction&, F&&) {}
template <class F>
void each_argument(RowReduction& nest, F&& f) {
  f("streams", nest.streams);
  f("lanes", nest.lanes);
}
template <class F>
void each_argument(SpatialReduction& nest, F&& f) {
  f("rows", nest.rows);
  f("lanes", nest.lanes);
}
template <class F>
void each_argument(ContractionNest& nest, F&& f) {
  f("lie", nest.lanes_lie);
  f("rows", nest.rows);
  f("vectors", nest.vectors);
  f("lanes", nest.lanes);
  f("v", nest.v);
  f("b", nest.b);
  f("block", nest.block);
  f("v_tiles", nest.v_tiles);
  f("b_tiles", nest.b_tiles);
  f("window", nest.window);
  f("window_lanes", nest.window_lanes);
  f("prefetch", nest.prefetch);
}

template <class Shape>
constexpr std::string_view kStep = "";
template <>
constexpr std::string_view kStep<ElementwiseNest> = "elementwise";
template <>
constexpr std::string_view kStep<ContractionNest> = "contraction";
template <>
constexpr std::string_view kStep<RowReduction> = "row_reduction";
template <>
constexpr std::string_view kStep<SpatialReduction> = "spatial_reduction";
template <>
constexpr std::string_view kStep<ScalarReduction> = "scalar_reduction";

/// Writes named arguments, those with their usual value left out.
class Writer {
 public:
  explicit Writer(Step& step) : step_(step) {}
  void operator()(const char* key, int64_t value) {
    if (value != 1) step_.named[key] = std::to_string(value);
  }
  void operator()(const char* key, const std::string& value) {
    if (!value.empty()) step_.named[key] = value;
  }
  void operator()(const char* key, const std::optional<size_t>& value) {
    if (value) step_.named[key] = std::to_string(*value);
  }
  void operator()(const char* key, bool value) {
    if (value) step_.named[key] = "yes";
  }
  template <class T>
  void operator()(const char* key, T value) {
    for (const auto& [word_of, word] : Words<T>::list)
      if (word_of == value && word != Words<T>::list[0].second) step_.named[key] = word;
  }

 private:
  Step& step_;
};

class Reader {
 public:
  explicit Reader(const Step& step) : step_(step) {}
  void operator()(const char* key, int64_t& value) {
    if (const std::string* text = find(key)) value = number(key, *text);
  }
  void operator()(const char* key, std::string& value) {
    if (const std::string* text = find(key)) value = *text;
  }
  void operator()(const char* key, std::optional<size_t>& value) {
    if (const std::string* text = find(key)) value = static_cast<size_t>(number(key, *text));
  }
  void operator()(const char* key, bool& value) {
    const std::string* text = find(key);
    if (text && *text != "yes") fail(key, "yes", *text);
    value = text != nullptr;
  }
  template <class T>
  void operator()(const char* key, T& value) {
    const std::string* text = find(key);
    if (!text) return;
    std::string words;
    for (const auto& [word_of, word] : Words<T>::list) {
      if (word == *text) {
        value = word_of;
        return;
      }
      words += fmt::format("{}{}", words.empty() ? "" : ", ", word);
    }
    fail(key, words, *text);
  }

  int64_t number(std::string_view key, const std::string& text) const {
    int64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 0) fail(key, "a number", text);
    return value;
  }

 private:
  const std::string* find(std::string_view key) const {
    auto it = step_.named.find(key);
    return it == step_.named.end() ? nullptr : &it->second;
  }
  [[noreturn]] void fail(std::string_view key, std::string expected, std::string found) const {
    fail_step(
        "schedule-arguments",
        {.message = fmt::format("`{}` cannot be `{}`", key, found), .expected = std::move(expected), .found = std::move(found)});
  }
  const Step& step_;
};

/// Everything named of a nest.
template <class F>
void each_argument(Nest& nest, F&& f) {
  f("epilogue", nest.epilogue);
  std::visit([&](auto& shape) { each_argument(shape, f); }, nest.shape);
  f("worker", nest.worker);
}

/// A nest of the shape that a step names; nothing for another step.
template <size_t I = 0>
std::optional<Nest> nest_called(std::string_view step) {
  if constexpr (I < std::variant_size_v<decltype(Nest::shape)>) {
    using Shape = std::variant_alternative_t<I, decltype(Nest::shape)>;
    if (step == kStep<Shape>) return Nest{"", "", std::nullopt, Shape{}};
    return nest_called<I + 1>(step);
  }
  return std::nullopt;
}

}  // namespace

Step step_of(Nest nest) {
  Step step{std::string(std::visit([]<class Shape>(const Shape&) { return kStep<Shape>; }, nest.shape)), {nest.stage}, {}, {}};
  each_argument(nest, Writer(step));
  return step;
}

Trace steps_of(const Decisions& decisions) {
  Trace out;
  if (!decisions.inlined.empty()) out.push_back({"inline", decisions.inlined, {}, {}});
  if (decisions.shared) {
    Step share{"share", {std::to_string(decisions.shared)}, {}, {}};
    Writer{share}("worker", decisions.shared_worker);
    out.push_back(std::move(share));
  }
  for (const Nest& nest : decisions.nests) out.push_back(step_of(nest));
  Step construct{"construct", {}, {}, {}};
  Writer{construct}("fma", decisions.fma);
  out.push_back(std::move(construct));
  return out;
}

Step keep_loops_step() { return {"keep_loops", {}, {}, {}}; }

Step lower_math_step(bool fma) {
  Step step{"lower_math", {}, {}, {}};
  Writer{step}("fma", fma);
  return step;
}

bool fma_of(const Step& step) {
  bool fma = false;
  Reader{step}("fma", fma);
  return fma;
}

bool is_nest_step(const Step& step) {
  return step.primitive == "inline" || step.primitive == "share" || nest_called(step.primitive).has_value();
}

Decisions decisions_of(std::span<const Step> steps) {
  Decisions out;
  for (const Step& step : steps) {
    Reader read(step);
    if (step.primitive == "inline") {
      out.inlined.insert(out.inlined.end(), step.args.begin(), step.args.end());
    } else if (step.primitive == "share") {
      out.shared = static_cast<size_t>(read.number("share", step.args[0]));
      read("worker", out.shared_worker);
    } else if (step.primitive == "construct") {
      out.fma = fma_of(step);
    } else if (std::optional<Nest> nest = nest_called(step.primitive)) {
      nest->stage = step.args[0];
      each_argument(*nest, read);
      out.nests.push_back(std::move(*nest));
    }
  }
  return out;
}

}  // namespace tenon::schedule
