// SPDX-License-Identifier: Apache-2.0
// One generator for each operator family.
#include "support/op_cases.h"

#include <algorithm>
#include <map>

#include "op/all_ops.h"
#include "op/ops.h"
#include "support/op_run.h"
#include "tir/text.h"

namespace tenon::test {
namespace {

using graph::Attrs;
using graph::OpDef;
using Ints = std::vector<int64_t>;

/// Every rank with every extent on every axis; the other axes are 7 and 1 in turn, so that no tensor is large.
std::vector<Shape> swept_shapes() {
  std::vector<Shape> shapes = {{}, {65, 65}, {7, 7, 7}, {1, 7, 7, 7}};
  for (size_t rank = 1; rank < static_cast<size_t>(kSweptRanks); ++rank)
    for (size_t axis = 0; axis < rank; ++axis)
      for (int64_t extent : kSweptExtents) {
        Shape shape(rank, 7);
        for (size_t k = 0; k < rank; ++k)
          if (k % 2 == (axis + 1) % 2 && rank > 2) shape[k] = 1;
        shape[axis] = extent;
        if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) shapes.push_back(shape);
      }
  return shapes;
}

Values small(DType dtype) {
  if (dtype == DType::Bool) return {0, 1, 2};
  return is_unsigned_integer(dtype) ? Values{0, 1, 6} : Values{-2, 1, 6};
}

/// Makes the cases of one operator on one dtype, for a data operand of one shape.
class Maker {
 public:
  Maker(const OpDef& op, DType dtype, const Shape& shape, const std::function<void(const OpCase&)>& use)
      : op(op), dtype(dtype), shape(shape), use_(use) {}

  const OpDef& op;
  const DType dtype;
  const Shape& shape;

  size_t rank() const { return shape.size(); }
  OpOperand data(Shape of) const { return {TensorType::of(dtype, of), small(dtype)}; }
  OpOperand data() const { return data(shape); }
  OpOperand data(Shape of, Values values) const { return {TensorType::of(dtype, of), values}; }
  OpOperand indices(Shape of, int64_t extent, DType type = DType::I64) const {
    return {TensorType::of(type, of), {-extent, 1, std::max<int64_t>(2 * extent, 1)}};
  }

  /// A case, unless the operator refuses the types: what a family offers need not fit every shape.
  void add(std::vector<OpOperand> operands, Attrs attrs = {}) const {
    std::vector<TensorType> types;
    for (const OpOperand& operand : operands) types.push_back(operand.type);
    try {
      graph::infer_types(op, types, attrs, "", {});
    } catch (const CompileError&) {
      return;
    }
    use_({&op, std::move(operands), std::move(attrs)});
  }

 private:
  const std::function<void(const OpCase&)>& use_;
};

// Element-wise operators.

void unary(const Maker& m) { m.add({m.data()}); }

template <int64_t kLow, int64_t kStep, int64_t kCount>
void unary_over(const Maker& m) {
  m.add({m.data(m.shape, {kLow, kStep, kCount})});
}

void with_alpha(const Maker& m) {
  for (double alpha : {0.25, 2.0}) m.add({m.data()}, {{"alpha", alpha}});
}

void selu(const Maker& m) {
  for (double gamma : {0.5, 2.0}) m.add({m.data()}, {{"alpha", 0.25}, {"gamma", gamma}});
}

void hard_sigmoid(const Maker& m) {
  for (double alpha : {0.25, 0.5}) m.add({m.data()}, {{"alpha", alpha}, {"beta", 0.5}});
}

void shrink(const Maker& m) {
  for (double bias : {0.0, 1.0}) m.add({m.data()}, {{"bias", bias}, {"lambd", 1.0}});
}

void gelu(const Maker& m) {
  for (const char* form : {"none", "tanh"}) m.add({m.data()}, {{"approximate", std::string(form)}});
}

void isinf(const Maker& m) {
  for (bool positive : {false, true}) m.add({m.data()}, {{"detect_positive", positive}, {"detect_negative", !positive}});
}

void cast(const Maker& m) {
  for (DType to : kSweptDTypes) m.add({m.data(m.shape, small(m.dtype))}, {{"to", std::string(name(to))}});
}

/// The shape itself, its last axis, every second axis stretched, and a scalar.
std::vector<Shape> broadcast_partners(const Shape& shape) {
  std::vector<Shape> partners = {shape};
  if (shape.empty()) return partners;
  partners.push_back({shape.back()});
  Shape stretched = shape;
  for (size_t k = 0; k < shape.size(); k += 2) stretched[k] = 1;
  partners.push_back(stretched);
  partners.push_back({});
  return partners;
}

void binary_with(const Maker& m, Values right, const Attrs& attrs) {
  for (const Shape& partner : broadcast_partners(m.shape)) m.add({m.data(), m.data(partner, right)}, attrs);
}

void binary(const Maker& m) {
  binary_with(m, small(m.dtype), {});
  for (const Shape& partner : broadcast_partners(m.shape))
    if (partner != m.shape) m.add({m.data(partner), m.data()});
}

void shift(const Maker& m) { binary_with(m, {0, 3, 4}, {}); }

void power(const Maker& m) { binary_with(m, {0, 1, 4}, {}); }

void mod(const Maker& m) {
  for (bool fmod : {false, true}) binary_with(m, small(m.dtype), {{"fmod", fmod}});
}

void where(const Maker& m) {
  for (DType data : kSweptDTypes)
    for (const Shape& partner : broadcast_partners(m.shape)) {
      OpOperand condition = m.data(), a{TensorType::of(data, partner), small(data)},
                b{TensorType::of(data, m.shape), small(data)};
      m.add({condition, a, b});
    }
}

void clip(const Maker& m) {
  for (const Shape& partner : broadcast_partners(m.shape)) m.add({m.data(), m.data(partner), m.data({}, {2, 1, 2})});
}

// Reductions and products.

std::vector<Ints> axis_lists(size_t rank) {
  std::vector<Ints> lists = {{}};
  Ints all;
  for (size_t k = 0; k < rank; ++k) {
    all.push_back(static_cast<int64_t>(k));
    lists.push_back({static_cast<int64_t>(k)});
  }
  if (rank > 1) lists.push_back(all);
  if (rank > 2) lists.push_back({0, -1});
  return lists;
}

void reduce_over(const Maker& m, Values values) {
  for (const Ints& axes : axis_lists(m.rank()))
    for (bool keepdims : {false, true}) m.add({m.data(m.shape, values)}, {{"axes", axes}, {"keepdims", keepdims}});
}

void reduce(const Maker& m) { reduce_over(m, small(m.dtype)); }

/// Factors of 1 and -1, or 1 and 3 where there are no signs: products of floats stay exact.
void product(const Maker& m) { reduce_over(m, is_unsigned_integer(m.dtype) ? Values{1, 2, 2} : Values{-1, 2, 2}); }

void each_axis(const Maker& m, const std::function<void(int64_t)>& use) {
  for (size_t axis = 0; axis < m.rank(); ++axis) use(static_cast<int64_t>(axis));
}

void arg_reduce(const Maker& m) {
  each_axis(m, [&](int64_t axis) {
    for (bool last : {false, true}) m.add({m.data()}, {{"axis", axis}, {"keepdims", !last}, {"select_last_index", last}});
  });
}

void along_axes(const Maker& m) {
  for (const Ints& axes : axis_lists(m.rank()))
    if (!axes.empty()) m.add({m.data()}, {{"axes", axes}});
}

void hardmax(const Maker& m) {
  each_axis(m, [&](int64_t axis) { m.add({m.data()}, {{"axis", axis}}); });
}

void cumsum(const Maker& m) {
  each_axis(m, [&](int64_t axis) {
    for (bool exclusive : {false, true})
      for (bool reverse : {false, true}) m.add({m.data()}, {{"axis", axis}, {"exclusive", exclusive}, {"reverse", reverse}});
  });
}

void top_k(const Maker& m) {
  each_axis(m, [&](int64_t axis) {
    int64_t extent = m.shape[static_cast<size_t>(axis)];
    for (int64_t k : {std::min<int64_t>(3, extent), extent})
      for (bool largest : {false, true}) m.add({m.data()}, {{"axis", axis}, {"k", k}, {"largest", largest}});
  });
}

void matmul(const Maker& m) {
  if (m.rank() == 0) return;
  int64_t inner = m.shape.back();
  m.add({m.data(), m.data({inner})});
  for (int64_t columns : {0, 1, 7, 65})
    for (bool constant : {false, true}) {
      OpOperand right = m.data({inner, columns});
      right.constant = constant;
      m.add({m.data(), right});
    }
  Shape batched(m.shape.begin(), m.shape.end());
  if (m.rank() > 2) {
    batched[m.rank() - 2] = inner;
    batched.back() = 7;
    m.add({m.data(), m.data(batched)});
    batched[0] = 1;
    m.add({m.data(), m.data(batched)});
  }
}

// Windows: the data are [N, C, spatial…].

struct Taps {
  int64_t kernel, stride, pad, dilation;
};
constexpr Taps kTaps[] = {{1, 1, 0, 1}, {3, 1, 1, 1}, {3, 2, 1, 1}, {2, 2, 0, 1}, {2, 1, 1, 2}, {5, 3, 2, 1}, {2, 3, 0, 1}};

Attrs window(const Taps& taps, size_t spatial) {
  return {{"strides", Ints(spatial, taps.stride)},
          {"pads", Ints(2 * spatial, taps.pad)},
          {"dilations", Ints(spatial, taps.dilation)}};
}

Attrs with(Attrs attrs, const Attrs& more) {
  attrs.insert(more.begin(), more.end());
  return attrs;
}

void convolve(const Maker& m, int64_t groups, Shape weights, const Attrs& attrs) {
  for (bool constant : {false, true}) {
    OpOperand w = m.data(weights);
    w.constant = constant;
    m.add({m.data(), w}, with(attrs, {{"groups", groups}}));
  }
}

void conv(const Maker& m) {
  if (m.rank() < 3) return;
  size_t spatial = m.rank() - 2;
  int64_t channels = m.shape[1];
  for (const Taps& taps : kTaps) {
    auto weights = [&](int64_t outputs, int64_t inputs) {
      Shape shape = {outputs, inputs};
      shape.resize(m.rank(), taps.kernel);
      return shape;
    };
    convolve(m, 1, weights(7, channels), window(taps, spatial));
    if (channels > 1) convolve(m, channels, weights(channels, 1), window(taps, spatial));
  }
  Shape wide = {65, channels};
  wide.resize(m.rank(), 1);
  convolve(m, 1, wide, window(kTaps[0], spatial));
}

void conv_transpose(const Maker& m) {
  if (m.rank() < 3) return;
  size_t spatial = m.rank() - 2;
  int64_t channels = m.shape[1];
  for (const Taps& taps : kTaps)
    for (int64_t extra : {0, 1}) {
      Attrs attrs = with(window(taps, spatial), {{"output_padding", Ints(spatial, extra)}});
      Shape weights = {channels, 3};
      weights.resize(m.rank(), taps.kernel);
      convolve(m, 1, weights, attrs);
      if (channels > 1) convolve(m, channels, weights, attrs);
    }
}

void pool_with(const Maker& m, const std::vector<Attrs>& more) {
  if (m.rank() < 3) return;
  size_t spatial = m.rank() - 2;
  for (const Taps& taps : kTaps)
    for (bool ceil_mode : {false, true})
      for (const Attrs& attrs : more)
        m.add({m.data()},
              with(with(window(taps, spatial), attrs), {{"kernel", Ints(spatial, taps.kernel)}, {"ceil_mode", ceil_mode}}));
}

void pool(const Maker& m) { pool_with(m, {{}}); }
void pool_indices(const Maker& m) { pool_with(m, {{{"column_major", false}}, {{"column_major", true}}}); }
void average_pool(const Maker& m) { pool_with(m, {{{"count_include_pad", false}}, {{"count_include_pad", true}}}); }

// Norms.

/// variance + epsilon is 4, so that the root is a whole number.
void batch_norm(const Maker& m) {
  if (m.rank() < 2) return;
  Shape channels = {m.shape[1]};
  OpOperand one = m.data(channels, {1, 1, 1});
  for (bool constant : {false, true}) {
    std::vector<OpOperand> statistics = {m.data(channels), m.data(channels), m.data(channels), one};
    for (OpOperand& each : statistics) each.constant = constant;
    m.add({m.data(), statistics[0], statistics[1], statistics[2], statistics[3]}, {{"epsilon", 3.0}});
  }
}

void lrn(const Maker& m) {
  for (int64_t size : {1, 3, 4})
    for (double beta : {0.75, 0.5}) m.add({m.data()}, {{"size", size}, {"alpha", 0.5}, {"beta", beta}, {"bias", 1.0}});
}

// Shapes and indices.

void reshape(const Maker& m) {
  m.add({m.data()}, {{"shape", Ints{-1}}});
  Ints reversed(m.shape.rbegin(), m.shape.rend()), longer = reversed;
  m.add({m.data()}, {{"shape", reversed}});
  longer.insert(longer.begin(), 1);
  m.add({m.data()}, {{"shape", longer}});
}

void transpose(const Maker& m) {
  Ints order(m.rank());
  for (size_t k = 0; k < m.rank(); ++k) order[k] = static_cast<int64_t>(k);
  m.add({m.data()}, {{"axes", order}});
  Ints reversed(order.rbegin(), order.rend());
  m.add({m.data()}, {{"axes", reversed}});
  if (m.rank() > 2) {
    std::rotate(order.begin(), order.begin() + 1, order.end());
    m.add({m.data()}, {{"axes", order}});
  }
}

void broadcast_to(const Maker& m) {
  Ints target(m.shape.begin(), m.shape.end());
  std::replace(target.begin(), target.end(), 1, 7);
  m.add({m.data()}, {{"shape", target}});
  target.insert(target.begin(), 3);
  m.add({m.data()}, {{"shape", target}});
}

void tile(const Maker& m) {
  for (int64_t first : {0, 1, 3}) {
    Ints reps(m.rank(), 2);
    if (!reps.empty()) reps[0] = first;
    m.add({m.data()}, {{"reps", reps}});
  }
}

void repeat(const Maker& m) {
  each_axis(m, [&](int64_t axis) {
    for (int64_t times : {0, 1, 3}) m.add({m.data()}, {{"axis", axis}, {"times", times}});
  });
}

void concat(const Maker& m) {
  each_axis(m, [&](int64_t axis) {
    Shape longer = m.shape;
    longer[static_cast<size_t>(axis)] += 3;
    m.add({m.data()}, {{"axis", axis}});
    m.add({m.data(), m.data(longer), m.data()}, {{"axis", axis}});
  });
}

void split(const Maker& m) {
  each_axis(m, [&](int64_t axis) {
    int64_t extent = m.shape[static_cast<size_t>(axis)], part = extent / 3;
    m.add({m.data()}, {{"axis", axis}, {"sizes", Ints{extent}}});
    m.add({m.data()}, {{"axis", axis}, {"sizes", Ints{part, 0, extent - part}}});
  });
}

void strided_slice(const Maker& m) {
  Ints zeros(m.rank(), 0), ends(m.shape.begin(), m.shape.end()), last, before(m.rank(), -1);
  for (int64_t extent : m.shape) last.push_back(extent - 1);
  for (int64_t step : {1, 2, 3}) m.add({m.data()}, {{"begin", zeros}, {"end", ends}, {"strides", Ints(m.rank(), step)}});
  for (int64_t step : {-1, -2}) m.add({m.data()}, {{"begin", last}, {"end", before}, {"strides", Ints(m.rank(), step)}});
  Ints middle = zeros;
  for (size_t k = 0; k < m.rank(); ++k) middle[k] = m.shape[k] / 2;
  m.add({m.data()}, {{"begin", middle}, {"end", ends}, {"strides", Ints(m.rank(), 1)}});
}

void pad(const Maker& m) {
  for (const char* mode : {"constant", "reflect", "edge", "wrap"})
    for (auto [before, after] : {std::pair<int64_t, int64_t>{1, 0}, {2, 3}, {0, -1}})
      m.add({m.data(), m.data({})},
            {{"before", Ints(m.rank(), before)}, {"after", Ints(m.rank(), after)}, {"mode", std::string(mode)}});
}

void reverse_sequence(const Maker& m) {
  if (m.rank() < 2) return;
  for (auto [time, batch] : {std::pair<int64_t, int64_t>{0, 1}, {1, 0}}) {
    OpOperand lengths = m.indices({m.shape[static_cast<size_t>(batch)]}, m.shape[static_cast<size_t>(time)]);
    lengths.values = {0, 1, m.shape[static_cast<size_t>(time)] + 1};
    m.add({m.data(), lengths}, {{"time_axis", time}, {"batch_axis", batch}});
  }
}

void trilu(const Maker& m) {
  for (bool upper : {false, true})
    for (int64_t k : {-2, 0, 3}) {
      OpOperand diagonal = m.indices({}, 0);
      diagonal.values = {k, 1, 1};
      m.add({m.data(), diagonal}, {{"upper", upper}});
    }
}

constexpr DType kIndexDTypes[] = {DType::I32, DType::I64};

void gather(const Maker& m) {
  each_axis(m, [&](int64_t axis) {
    int64_t extent = m.shape[static_cast<size_t>(axis)];
    for (DType type : kIndexDTypes)
      for (const Shape& of : {Shape{}, Shape{0}, Shape{7}, Shape{2, 3}})
        m.add({m.data(), m.indices(of, extent, type)}, {{"axis", axis}});
  });
}

void gather_elements(const Maker& m) {
  each_axis(m, [&](int64_t axis) {
    Shape shape = m.shape;
    for (int64_t points : {1, 9}) {
      shape[static_cast<size_t>(axis)] = points;
      for (DType type : kIndexDTypes)
        m.add({m.data(), m.indices(shape, m.shape[static_cast<size_t>(axis)], type)}, {{"axis", axis}});
    }
  });
}

/// The smallest extent of some axes, 0 for none.
int64_t smallest(const Shape& shape, size_t begin, size_t end) {
  if (begin == end) return 0;
  return *std::min_element(shape.begin() + static_cast<ptrdiff_t>(begin), shape.begin() + static_cast<ptrdiff_t>(end));
}

void gather_nd(const Maker& m) {
  for (size_t batch = 0; batch <= std::min<size_t>(m.rank(), 1); ++batch)
    for (size_t depth = 0; batch + depth <= m.rank(); ++depth) {
      Shape points(m.shape.begin(), m.shape.begin() + static_cast<ptrdiff_t>(batch));
      points.insert(points.end(), {3, static_cast<int64_t>(depth)});
      m.add({m.data(), m.indices(points, smallest(m.shape, batch, batch + depth))},
            {{"batch_dims", static_cast<int64_t>(batch)}});
    }
}

void one_hot(const Maker& m) {
  for (int64_t axis : {int64_t{0}, static_cast<int64_t>(m.rank())})
    for (DType values : kSweptDTypes)
      m.add({m.data(m.shape, is_unsigned_integer(m.dtype) ? Values{0, 1, 9} : Values{-9, 1, 18}),
             {TensorType::of(values, Shape{2}), small(values)}},
            {{"axis", axis}, {"depth", int64_t{7}}});
}

constexpr const char* kReductions[] = {"none", "add", "mul", "min", "max"};

void scatter_elements(const Maker& m) {
  each_axis(m, [&](int64_t axis) {
    Shape shape = m.shape;
    shape[static_cast<size_t>(axis)] = 3;
    for (const char* reduction : kReductions)
      m.add({m.data(), m.indices(shape, m.shape[static_cast<size_t>(axis)]), m.data(shape)},
            {{"axis", axis}, {"reduction", std::string(reduction)}});
  });
}

void scatter_nd(const Maker& m) {
  for (size_t depth = 0; depth <= m.rank(); ++depth) {
    Shape updates = {3};
    updates.insert(updates.end(), m.shape.begin() + static_cast<ptrdiff_t>(depth), m.shape.end());
    for (const char* reduction : kReductions)
      m.add({m.data(), m.indices({3, static_cast<int64_t>(depth)}, smallest(m.shape, 0, depth)), m.data(updates)},
            {{"reduction", std::string(reduction)}});
  }
}

void resample(const Maker& m) {
  each_axis(m, [&](int64_t axis) {
    for (auto [points, taps] : {std::pair<int64_t, int64_t>{1, 1}, {9, 2}, {3, 4}}) {
      OpOperand weights = m.data({points, taps});
      if (m.dtype == DType::F16) weights.type.dtype = DType::F32;
      m.add({m.data(), m.indices({points, taps}, m.shape[static_cast<size_t>(axis)]), weights}, {{"axis", axis}});
    }
  });
}

void grid_sample(const Maker& m) {
  if (m.rank() != 4) return;
  for (const char* mode : {"nearest", "linear", "cubic"})
    for (const char* padding : {"zeros", "border", "reflection"})
      for (bool align : {false, true})
        m.add({m.data(), m.data({m.shape[0], 3, 5, 2}, {-2, 1, 5})},
              {{"mode", std::string(mode)}, {"padding", std::string(padding)}, {"align_corners", align}});
}

using Generator = void (*)(const Maker&);

/// The generator of each operator; one for those of a family.
const std::map<const OpDef*, Generator>& generators() {
  static const std::map<const OpDef*, Generator> table = [] {
    std::map<const OpDef*, Generator> t;
    auto family = [&](Generator generator, std::initializer_list<const OpDef*> ops) {
      for (const OpDef* op : ops) t.emplace(op, generator);
    };
    using namespace op;
    family(unary,
           {&identity,    &stop_fusion, &neg,  &abs,     &floor,    &ceil,     &round,      &sign,  &reciprocal, &exp,
            &sin,         &cos,         &tan,  &atan,    &sinh,     &cosh,     &tanh,       &asinh, &erf,        &logical_not,
            &bitwise_not, &isnan,       &relu, &sigmoid, &softplus, &softsign, &hard_swish, &mish});
    family(unary_over<0, 1, 8>, {&sqrt, &log});
    family(unary_over<-1, 1, 3>, {&asin, &acos, &atanh});
    family(unary_over<1, 1, 6>, {&acosh});
    family(with_alpha, {&leaky_relu, &elu, &celu, &thresholded_relu});
    family(test::selu, {&op::selu});
    family(test::hard_sigmoid, {&op::hard_sigmoid});
    family(test::shrink, {&op::shrink});
    family(test::gelu, {&op::gelu});
    family(test::isinf, {&op::isinf});
    family(test::cast, {&op::cast});
    family(binary, {&add, &subtract, &multiply, &divide, &maximum, &minimum, &equal, &not_equal, &less, &less_equal, &greater,
                    &greater_equal, &logical_and, &logical_or, &logical_xor, &bitwise_and, &bitwise_or, &bitwise_xor, &prelu});
    family(shift, {&shift_left, &shift_right});
    family(test::power, {&op::power});
    family(test::mod, {&op::mod});
    family(test::where, {&op::where});
    family(test::clip, {&op::clip});
    family(reduce, {&sum, &mean, &max, &min});
    family(product, {&prod});
    family(arg_reduce, {&argmax, &argmin});
    family(test::matmul, {&op::matmul});
    family(test::conv, {&op::conv});
    family(test::conv_transpose, {&op::conv_transpose});
    family(pool, {&max_pool, &sum_pool});
    family(pool_indices, {&max_pool_indices});
    family(average_pool, {&avg_pool});
    family(test::batch_norm, {&op::batch_norm});
    family(along_axes, {&layer_norm, &softmax, &log_softmax});
    family(test::lrn, {&op::lrn});
    family(test::hardmax, {&op::hardmax});
    family(test::reshape, {&op::reshape});
    family(test::transpose, {&op::transpose});
    family(test::broadcast_to, {&op::broadcast_to});
    family(test::tile, {&op::tile});
    family(test::repeat, {&op::repeat});
    family(test::concat, {&op::concat});
    family(test::split, {&op::split});
    family(test::strided_slice, {&op::strided_slice});
    family(test::reverse_sequence, {&op::reverse_sequence});
    family(test::trilu, {&op::trilu});
    family(test::pad, {&op::pad});
    family(test::gather, {&op::gather});
    family(test::gather_elements, {&op::gather_elements});
    family(test::gather_nd, {&op::gather_nd});
    family(test::one_hot, {&op::one_hot});
    family(test::scatter_elements, {&op::scatter_elements});
    family(test::scatter_nd, {&op::scatter_nd});
    family(test::top_k, {&op::top_k});
    family(test::cumsum, {&op::cumsum});
    family(test::resample, {&op::resample});
    family(test::grid_sample, {&op::grid_sample});
    return t;
  }();
  return table;
}

}  // namespace

std::string to_string(const OpCase& use) {
  std::string text(use.op->name);
  for (const OpOperand& operand : use.operands) text += (operand.constant ? " constant " : " ") + tenon::to_string(operand.type);
  return text + " " + tir::print_attrs(use.attrs);
}

DType swept_dtype(const OpCase& use) { return use.operands[use.op == &op::where ? 1 : 0].type.dtype; }

void each_case(const OpDef& op, const std::function<void(const OpCase&)>& use) {
  auto found = generators().find(&op);
  if (found == generators().end()) return;
  static const std::vector<Shape> shapes = swept_shapes();
  for (DType dtype : kSweptDTypes)
    if (graph::contains(op.dtypes, dtype))
      for (const Shape& shape : shapes) found->second(Maker(op, dtype, shape, use));
}

Array draw(const OpOperand& operand, std::mt19937_64& random) {
  Shape shape = operand.type.static_shape();
  std::vector<double> values(static_cast<size_t>(element_count(shape)));
  for (double& value : values) {
    auto choice = static_cast<int64_t>(random() % static_cast<uint64_t>(operand.values.count));
    value = static_cast<double>(operand.values.low + operand.values.step * choice);
  }
  return array(operand.type.dtype, shape, values);
}

}  // namespace tenon::test
