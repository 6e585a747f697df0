// SPDX-License-Identifier: Apache-2.0
// Judges what a provider of the build's own answers, so that nobody has to trust it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "base/compare.h"
#include "schedule/schedule.h"
#include "tir/interpret.h"
#include "tir/text.h"

namespace tenon::schedule {

using namespace tir;

namespace {

/// Stores that the interpreter runs in a few seconds: up to here a function is run on several sets of numbers, past it on one.
constexpr double kManyStores = 1 << 26;
/// Stores that it runs in a minute, and elements that it watches in a GiB.
constexpr double kMostStores = 1 << 30;
constexpr double kMostElements = 1 << 23;

/// Stores that a run of the statement does at most, a loop without a number as extent counted once.
double stores(const Stmt& s) {
  if (as<Store>(s)) return 1;
  double sum = 0;
  for_each_child(s, [&](const Stmt& child) { sum += stores(child); }, [](const Expr&) {});
  const For* loop = as<For>(s);
  const int64_t* extent = loop ? as_int(loop->extent) : nullptr;
  return extent ? sum * static_cast<double>(std::max<int64_t>(*extent, 0)) : sum;
}

/// Of buffers that a function declares and writes.
double elements(const PrimFunc& func) {
  double count = 0;
  auto add = [&](const Buffer& buffer) {
    double size = 1;
    for (const Expr& extent : buffer->shape)
      if (const int64_t* number = as_int(extent)) size *= static_cast<double>(*number);
    count += size;
  };
  visit(func.body, [&](const Stmt& s) {
    if (const auto* allocation = as<Allocate>(s)) add(allocation->buffer);
  });
  for (size_t i = static_cast<size_t>(func.num_inputs); i < func.params.size(); ++i) add(func.params[i]);
  return count;
}

/// Nothing if an extent is no number.
std::optional<Shape> static_shape(const Buffer& buffer) {
  Shape shape;
  for (const Expr& extent : buffer->shape) {
    const int64_t* number = as_int(extent);
    if (!number) return std::nullopt;
    shape.push_back(*number);
  }
  return shape;
}

/// `f32[8], f32[4] -> f32[2]`, each shape as its number of elements.
std::string signature(const PrimFunc& func) {
  std::string text;
  for (size_t i = 0; i < func.params.size(); ++i) {
    std::optional<Shape> shape = static_shape(func.params[i]);
    text += static_cast<int64_t>(i) == func.num_inputs ? " -> " : i ? ", " : "";
    text += fmt::format("{}[{}]", name(func.params[i]->dtype), shape ? std::to_string(element_count(*shape)) : "?");
  }
  return text;
}

template <class T>
void put(MutableArray& array, int64_t index, T value) {
  std::memcpy(array.data() + index * static_cast<int64_t>(sizeof value), &value, sizeof value);
}

enum class Fill { Signed, Unsigned, Zero };

/// Integers from 0, or for floats from -3, to 3: their sums and products are exact in most dtypes whatever the order.
Array small_integers(DType dtype, Shape shape, Fill fill, std::mt19937& random) {
  MutableArray array(dtype, std::move(shape));
  for (int64_t i = 0, count = element_count(array.shape); i < count; ++i) {
    auto magnitude = fill == Fill::Zero ? 0 : static_cast<int>(random() % 4);
    float number = static_cast<float>(fill == Fill::Signed && random() % 2 ? -magnitude : magnitude);
    switch (dtype) {
      case DType::Bool: put<uint8_t>(array, i, magnitude & 1); break;
      case DType::F16: put(array, i, float_to_half(number)); break;
      case DType::BF16: put(array, i, float_to_bfloat(number)); break;
      case DType::F32: put(array, i, number); break;
      case DType::F64: put<double>(array, i, number); break;
      default: array.data()[i * byte_size(dtype)] = static_cast<std::byte>(magnitude);  // little endian, at any width
    }
  }
  return std::move(array).freeze();
}

std::string number(double value) { return std::isnan(value) ? "NaN" : fmt::format("{}", value); }

/// Sums may be taken in another order.
Tolerance tolerance_for(const Array& want) {
  if (!is_float(want.dtype)) return {0, 0};
  double relative = want.dtype == DType::F64 ? 1e-9 : want.dtype == DType::F32 ? 1e-4 : 0.03;
  return {relative, relative * scale_of(want)};
}

class Judge {
 public:
  Judge(const GivenProvider& provider, const Request& request, const Scheduled& answer)
      : provider_(provider), request_(request), func_(request.func), answer_(answer.func), packed_(answer.packed) {}

  void rules() const {
    PrimFunc before_packing = answer_;
    for (const PackedParam& p : packed_) {
      before_packing.params[p.param] = p.pack.params[0];
      if (p.param >= request_.constant_params.size() || !request_.constant_params[p.param])
        refuse(ErrorKind::Malformed, "provider-signature",
               fmt::format("packs `{}`, which is no constant in every call", func_.params[p.param]->name),
               "to pack constants, or `b=in_place`", func_.params[p.param]->name);
    }
    std::string has = signature(before_packing), wants = signature(func_);
    if (has != wants || answer_.num_inputs != func_.num_inputs)
      refuse(ErrorKind::Malformed, "provider-signature", "answers with other parameters", wants, has);
    try {
      verify(answer_);
    } catch (const CompileError& error) {
      std::vector<Diagnostic> all = error.diagnostics();
      for (Diagnostic& d : all)
        d.notes.push_back({.message = fmt::format("schedule provider `{}` returned this", provider_.name)});
      throw CompileError(std::move(all));
    }
  }

  void results() const {
    bool is_static = std::all_of(func_.params.begin(), func_.params.end(), [](const Buffer& p) { return static_shape(p); });
    if (!is_static) unchecked("a shape that is no number");
    double size = std::max(stores(func_.body), stores(answer_.body));
    if (size > kMostStores) unchecked(fmt::format("{:.0f} stores", size));
    if (elements(answer_) > kMostElements) unchecked(fmt::format("{:.0f} elements written", elements(answer_)));
    int runs = 0;
    for (Fill fill : {Fill::Signed, Fill::Unsigned, Fill::Zero})
      if (runs == 0 || size <= kManyStores) runs += compare_runs(fill);
    if (runs == 0) unchecked("a function that reads outside of its operands on small integers");
  }

 private:
  [[noreturn]] void unchecked(std::string why) const {
    refuse(ErrorKind::Limit, "provider-unchecked", "answers with a function that cannot be checked",
           fmt::format("shapes that are numbers, at most {:.0f} stores in a run and {:.0f} elements written, or schedule steps",
                       kMostStores, kMostElements),
           std::move(why));
  }

  /// False if these numbers are no input of the function.
  bool compare_runs(Fill fill) const {
    std::mt19937 random(static_cast<unsigned>(fill));
    std::vector<Array> inputs, same;
    for (size_t i = 0; i < static_cast<size_t>(func_.num_inputs); ++i) {
      inputs.push_back(small_integers(func_.params[i]->dtype, *static_shape(func_.params[i]), fill, random));
      same.push_back(inputs.back());
      same.back().shape = *static_shape(answer_.params[i]);
    }
    std::vector<Array> want;
    try {
      want = interpret(func_, inputs);
    } catch (const CompileError&) {
      return false;
    }
    std::vector<Array> got = run_answer(same);
    for (size_t k = 0; k < want.size(); ++k) {
      got[k].shape = want[k].shape;
      Difference difference = compare(got[k], want[k], tolerance_for(want[k]));
      if (difference.count == 0) continue;
      const Buffer& output = func_.params[static_cast<size_t>(func_.num_inputs) + k];
      refuse(ErrorKind::CheckFailed, "provider-result",
             fmt::format("changes the result: {} elements of `{}`, the first of them number {}", difference.count, output->name,
                         difference.index),
             number(difference.want), number(difference.got));
    }
    return true;
  }

  std::vector<Array> run_answer(std::span<const Array> inputs) const {
    try {
      return interpret_independent(answer_, inputs);
    } catch (const CompileError& error) {
      refuse(ErrorKind::CheckFailed, "provider-result", "changes the result: its function cannot be run", "a run as before",
             error.diagnostics()[0].message);
    }
  }

  [[noreturn]] void refuse(ErrorKind kind, std::string code, const std::string& what, std::string expected,
                           std::string found) const {
    throw CompileError(Diagnostic{.kind = kind,
                                  .code = std::move(code),
                                  .message = fmt::format("schedule provider `{}` {} (found {})", provider_.name, what, found),
                                  .input = provider_.name,
                                  .expected = std::move(expected),
                                  .found = std::move(found),
                                  .function = func_.name});
  }

  const GivenProvider& provider_;
  const Request& request_;
  const PrimFunc& func_;
  const PrimFunc& answer_;
  const std::vector<PackedParam>& packed_;
};

}  // namespace

std::optional<Scheduled> ask(const GivenProvider& provider, const Request& request) {
  std::optional<GivenAnswer> answer = provider.schedule(request);
  if (!answer) return std::nullopt;
  Scheduled& scheduled = answer->scheduled;
  PrimFunc& func = scheduled.func;
  func.name = request.func.name;
  Judge judge(provider, request, scheduled);
  judge.rules();
  if (!answer->proven) judge.results();
  func.attrs = request.func.attrs;
  func.attrs["provider"] = provider.name;
  scheduled.explain = fmt::format("provider {}\n", provider.name);
  return std::move(scheduled);
}

}  // namespace tenon::schedule
