// SPDX-License-Identifier: Apache-2.0
// The strided copy: an odometer over the outer axes and one run along the innermost.
#include "op/strided_copy.h"

#include <cstring>

namespace tenon::op {
namespace {

template <size_t kBytes>
void copy_run(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride, int64_t count) {
  if (from_stride == 1 && to_stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * kBytes);
    return;
  }
  constexpr auto kStep = static_cast<int64_t>(kBytes);
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_stride * kStep, from + i * from_stride * kStep, kBytes);
}

using CopyRun = void (*)(const std::byte*, int64_t, std::byte*, int64_t, int64_t);

CopyRun copy_run_of(int bytes) {
  switch (bytes) {
    case 1: return copy_run<1>;
    case 2: return copy_run<2>;
    case 4: return copy_run<4>;
    default: return copy_run<8>;
  }
}

}  // namespace

std::vector<int64_t> row_major_strides(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t step = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = step;
    step *= shape[axis];
  }
  return strides;
}

void copy_strided(const StridedCopy& box, const Array& from, MutableArray& to) {
  if (element_count(box.extents) == 0) return;
  int64_t bytes = byte_size(from.dtype);
  CopyRun run = copy_run_of(byte_size(from.dtype));
  bool scalar = box.extents.empty();
  size_t outer = scalar ? 0 : box.extents.size() - 1;
  int64_t from_step = scalar ? 1 : box.from_strides[outer], to_step = scalar ? 1 : box.to_strides[outer];
  int64_t count = scalar ? 1 : box.extents[outer];
  Shape position(outer, 0);
  int64_t source = box.from_start, target = box.to_start;
  for (;;) {
    run(from.bytes.data() + source * bytes, from_step, to.data() + target * bytes, to_step, count);
    size_t axis = outer;
    while (axis > 0) {
      --axis;
      source += box.from_strides[axis];
      target += box.to_strides[axis];
      if (++position[axis] < box.extents[axis]) break;
      source -= box.from_strides[axis] * box.extents[axis];
      target -= box.to_strides[axis] * box.extents[axis];
      position[axis] = 0;
      if (axis == 0) return;
    }
    if (outer == 0) return;
  }
}

Array gather_strided(const Array& from, Shape shape, std::vector<int64_t> from_strides, int64_t from_start) {
  MutableArray to(from.dtype, shape);
  std::vector<int64_t> to_strides = row_major_strides(shape);
  copy_strided({std::move(shape), std::move(from_strides), std::move(to_strides), from_start}, from, to);
  return std::move(to).freeze();
}

}  // namespace tenon::op
