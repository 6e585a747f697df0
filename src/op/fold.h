// SPDX-License-Identifier: Apache-2.0
// Native evaluation of element-wise operators for the constant folder. Elements are widened to double, int64_t or uint64_t
// in chunks, computed, and rounded or wrapped back to their dtype.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "base/function_ref.h"
#include "graph/op_def.h"

namespace tenon::op {

using graph::CallSite;
using Folded = std::optional<std::vector<Array>>;

/// Calls `f` with a double for floats, a uint64_t for unsigned integers and bool, an int64_t for signed integers.
template <class F>
decltype(auto) with_wide(DType dtype, F&& f) {
  if (is_float(dtype)) return f(double{});
  return is_signed_integer(dtype) ? f(int64_t{}) : f(uint64_t{});
}

/// The `count` elements from `begin` on, exactly; Wide must hold every value of the dtype.
template <class Wide>
void widen(const Array& from, int64_t begin, int64_t count, Wide* to);

/// Stores wide values as elements of `to` from `begin` on: integers wrap, floats round to nearest even, a bool is value != 0.
template <class Wide>
void narrow(const Wide* from, int64_t count, MutableArray& to, int64_t begin);

/// The elements of one operand as they broadcast to a result, chunk by chunk in row-major order.
class BroadcastReader {
 public:
  BroadcastReader(const Array& from, const Shape& to);
  /// The next `count` elements.
  template <class Wide>
  void read(int64_t count, Wide* to);

 private:
  Array from_;
  Shape extents_, strides_, index_;
  int64_t offset_ = 0;
  bool contiguous_ = false;
};

inline constexpr int64_t kFoldChunk = 1024;

/// Fills an array of the call's first result chunk by chunk. `step` gets a chunk of each operand, broadcast to the result.
template <class In, class Out>
Array fold_chunks(const CallSite& call, std::span<const Array> in,
                  function_ref<void(const std::vector<const In*>&, Out*, int64_t count)> step) {
  MutableArray out(call.out().dtype, call.out().static_shape());
  std::vector<BroadcastReader> readers;
  for (const Array& a : in) readers.emplace_back(a, out.shape);
  std::vector<std::vector<In>> chunks(in.size(), std::vector<In>(kFoldChunk));
  std::vector<const In*> operands;
  for (const auto& chunk : chunks) operands.push_back(chunk.data());
  std::vector<Out> result(kFoldChunk);
  int64_t total = element_count(out.shape);
  for (int64_t begin = 0; begin < total; begin += kFoldChunk) {
    int64_t count = std::min(kFoldChunk, total - begin);
    for (size_t k = 0; k < in.size(); ++k) readers[k].read(count, chunks[k].data());
    step(operands, result.data(), count);
    narrow(result.data(), count, out, begin);
  }
  return std::move(out).freeze();
}

/// A `fold` that applies F, callable with the wide type of each dtype the operator takes, to one, two or three elements of one
/// dtype.
template <auto F>
Folded fold_each(const CallSite& call, std::span<const Array> in) {
  return with_wide(in[0].dtype, [&](auto wide) -> Folded {
    using In = decltype(wide);
    auto run = [&](auto apply) -> Folded {
      using Result = decltype(apply(std::vector<const In*>{}, int64_t{}));
      using Out = std::conditional_t<std::is_same_v<Result, bool>, uint64_t, In>;
      return std::vector<Array>{fold_chunks<In, Out>(call, in, [&](const std::vector<const In*>& x, Out* y, int64_t count) {
        for (int64_t i = 0; i < count; ++i) y[i] = apply(x, i);
      })};
    };
    if constexpr (std::is_invocable_v<decltype(F), In>)
      return run([](const std::vector<const In*>& x, int64_t i) { return F(x[0][i]); });
    else if constexpr (std::is_invocable_v<decltype(F), In, In>)
      return run([](const std::vector<const In*>& x, int64_t i) { return F(x[0][i], x[1][i]); });
    else if constexpr (std::is_invocable_v<decltype(F), In, In, In>)
      return run([](const std::vector<const In*>& x, int64_t i) { return F(x[0][i], x[1][i], x[2][i]); });
    else
      fail_internal("an operator is folded on the dtypes it takes");
  });
}

/// As fold_each for an operator of floats only.
template <auto F>
Folded fold_floats(const CallSite& call, std::span<const Array> in) {
  return std::vector<Array>{
      fold_chunks<double, double>(call, in, [](const std::vector<const double*>& x, double* y, int64_t count) {
        for (int64_t i = 0; i < count; ++i) y[i] = F(x[0][i]);
      })};
}

// Arithmetic that wraps on integers and is IEEE on doubles.
template <class T>
T wrap_add(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a + b;
  else
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
template <class T>
T wrap_subtract(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a - b;
  else
    return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
template <class T>
T wrap_multiply(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a * b;
  else
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

}  // namespace tenon::op
