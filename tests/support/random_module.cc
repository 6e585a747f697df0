// SPDX-License-Identifier: Apache-2.0
// Random modules: each step picks an operator and operands that it can take.
#include "support/random_module.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "op/fold.h"
#include "op/ops.h"

namespace tenon::test {
namespace {

using graph::Attrs;
using graph::Builder;
using graph::OpDef;
using graph::ValueId;

/// Beyond this magnitude, in units of the smallest fraction, a value is not used in arithmetic that makes it grow.
constexpr double kMaxUnits = 1 << 18;

class Generator {
 public:
  Generator(uint64_t seed, RandomModule& out) : random_(seed), out_(out), builder_(out.module, "main") {}

  void run(int nodes) {
    int params = pick(1, 3);
    for (int i = 0; i < params; ++i) add_param(i);
    for (int i = 0; i < nodes; ++i) add_node();
    std::vector<ValueId> results = {values_.back().id};
    std::vector<uint32_t> uses = graph::use_counts(builder_.function());
    for (const Value& v : values_)
      if (chance(uses[v.id.index] == 0 ? 70 : 5)) results.push_back(v.id);
    out_.module.functions.emplace("main", builder_.finish(std::move(results)));
  }

 private:
  /// A value with a bound of its magnitude and the size of its smallest fraction.
  struct Value {
    ValueId id;
    double bound;
    double unit;
  };

  int pick(int low, int high) { return low + static_cast<int>(random_() % static_cast<uint64_t>(high - low + 1)); }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  /// Recent values are preferred, so that chains and diamonds grow.
  Value any() {
    size_t recent = std::min<size_t>(values_.size(), 4);
    return chance(60) ? values_[values_.size() - 1 - random_() % recent] : values_[random_() % values_.size()];
  }
  Shape shape(const Value& v) const { return builder_.type(v.id).static_shape(); }
  DType dtype(const Value& v) const { return builder_.type(v.id).dtype; }
  static bool small(double bound, double unit) { return bound / unit <= kMaxUnits; }

  Array random_array(DType dtype, Shape shape, int64_t low, int64_t high) {
    MutableArray array(dtype, std::move(shape));
    std::vector<double> values(static_cast<size_t>(element_count(array.shape)));
    for (double& v : values)
      v = static_cast<double>(low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1)));
    if (is_float(dtype)) {
      op::narrow(values.data(), static_cast<int64_t>(values.size()), array, 0);
    } else {
      std::vector<int64_t> integers(values.begin(), values.end());
      op::narrow(integers.data(), static_cast<int64_t>(integers.size()), array, 0);
    }
    return std::move(array).freeze();
  }

  void add_param(int i) {
    Shape extents;
    int rank = pick(0, 4);
    for (int k = 0; k < rank; ++k) extents.push_back(chance(15) ? 1 : pick(2, 4));
    if (chance(40)) extents = {1, pick(2, 4), pick(3, 6), pick(3, 6)};
    constexpr DType kDTypes[] = {DType::F32, DType::F32, DType::F32, DType::I32, DType::I64};
    DType d = kDTypes[random_() % std::size(kDTypes)];
    values_.push_back({builder_.param("x" + std::to_string(i), TensorType::of(d, extents)), 4, 1});
    out_.inputs.push_back(random_array(d, extents, -4, 4));
  }

  void keep(const std::vector<ValueId>& ids, double bound, double unit) {
    for (ValueId id : ids)
      if (builder_.type(id).elements() > 0 && builder_.type(id).elements() <= 4096) values_.push_back({id, bound, unit});
  }
  void call(const OpDef& op, std::vector<ValueId> in, Attrs attrs, double bound, double unit) {
    keep(builder_.call(op, std::move(in), std::move(attrs)), bound, unit);
  }

  void add_node() {
    switch (pick(0, 20)) {
      case 0:
      case 1: return add_unary();
      case 2:
      case 3:
      case 4: return add_binary();
      case 5: return add_cast();
      case 6:
      case 7: return add_transpose();
      case 8: return add_reshape();
      case 9: return add_join();
      case 10: return add_cut();
      case 11: return add_reduction();
      case 12: return add_spread();
      case 13: return add_choice();
      case 14: return add_neutral();
      case 15: return add_pool();
      case 16: return add_constant();
      default: return add_product();
    }
  }

  void add_unary() {
    Value x = any();
    if (dtype(x) == DType::Bool) return call(op::logical_not, {x.id}, {}, 1, 1);
    constexpr const OpDef* kOps[] = {&op::neg, &op::abs, &op::relu, &op::identity, &op::sign, &op::stop_fusion};
    const OpDef* chosen = kOps[random_() % std::size(kOps)];
    if (!graph::contains(chosen->dtypes, dtype(x))) return;
    call(*chosen, {x.id}, {}, std::max(x.bound, 1.0), std::min(x.unit, 1.0));
  }

  /// A constant that broadcasts with `x`, of shape that does not stretch it unless `stretch`.
  ValueId partner(const Value& x, int64_t low, int64_t high, bool stretch) {
    Shape extents = shape(x);
    for (int64_t& e : extents)
      if (chance(40))
        e = 1;
      else if (stretch && e == 1)
        e = pick(1, 3);
    if (chance(40)) extents.erase(extents.begin(), extents.begin() + pick(0, static_cast<int>(extents.size())));
    return builder_.constant(random_array(dtype(x), extents, low, high));
  }

  void add_binary() {
    Value x = any();
    if (dtype(x) == DType::Bool) return;
    Value y{partner(x, -3, 3, true), 3, 1};
    for (int tries = 0; tries < 6 && chance(80); ++tries)
      if (Value other = any(); dtype(other) == dtype(x) && broadcasts(shape(x), shape(other))) y = other;
    if (chance(50)) std::swap(x, y);
    double unit = std::min(x.unit, y.unit);
    switch (pick(0, 5)) {
      case 0:
        if (small(x.bound + y.bound, unit)) call(op::add, {x.id, y.id}, {}, x.bound + y.bound, unit);
        return;
      case 1:
        if (small(x.bound + y.bound, unit)) call(op::subtract, {x.id, y.id}, {}, x.bound + y.bound, unit);
        return;
      case 2:
        if (small(x.bound * y.bound, x.unit * y.unit)) call(op::multiply, {x.id, y.id}, {}, x.bound * y.bound, x.unit * y.unit);
        return;
      case 3: return call(op::maximum, {x.id, y.id}, {}, std::max(x.bound, y.bound), unit);
      case 4: return call(op::minimum, {x.id, y.id}, {}, std::max(x.bound, y.bound), unit);
      default: return call(chance(50) ? op::less : op::equal, {x.id, y.id}, {}, 1, 1);
    }
  }

  static bool broadcasts(const Shape& a, const Shape& b) {
    for (size_t k = 1; k <= std::min(a.size(), b.size()); ++k) {
      int64_t x = a[a.size() - k], y = b[b.size() - k];
      if (x != y && x != 1 && y != 1) return false;
    }
    return true;
  }

  void add_cast() {
    Value x = any();
    constexpr DType kDTypes[] = {DType::F32, DType::F32, DType::F64, DType::I32, DType::I64, DType::I8, DType::U8, DType::Bool};
    DType to = kDTypes[random_() % std::size(kDTypes)];
    double bound = is_float(to) || byte_size(to) > 1 ? x.bound : 255;
    call(op::cast, {x.id}, {{"to", std::string(name(to))}}, bound, is_float(to) ? x.unit : 1);
  }

  std::vector<int64_t> random_axes(size_t rank) {
    std::vector<int64_t> axes(rank);
    std::iota(axes.begin(), axes.end(), 0);
    for (size_t k = rank; k > 1; --k) std::swap(axes[k - 1], axes[random_() % k]);
    if (rank == 4 && chance(50)) axes = chance(50) ? std::vector<int64_t>{0, 2, 3, 1} : std::vector<int64_t>{0, 3, 1, 2};
    return axes;
  }

  void add_transpose() {
    Value x = any();
    auto axes = random_axes(shape(x).size());
    call(op::transpose, {x.id}, {{"axes", axes}}, x.bound, x.unit);
    if (!chance(50)) return;
    // Something element-wise and the way back, so that pairs are there to be found.
    add_unary();
    std::vector<int64_t> back(axes.size());
    for (size_t k = 0; k < axes.size(); ++k) back[static_cast<size_t>(axes[k])] = static_cast<int64_t>(k);
    if (Value y = values_.back(); shape(y).size() == back.size()) call(op::transpose, {y.id}, {{"axes", back}}, y.bound, y.unit);
  }

  void add_reshape() {
    Value x = any();
    Shape extents = shape(x);
    if (chance(30))
      extents = {element_count(extents)};
    else if (chance(50) || extents.size() < 2)
      extents.insert(extents.begin() + pick(0, static_cast<int>(extents.size())), 1);
    else {
      size_t axis = random_() % (extents.size() - 1);
      extents[axis] *= extents[axis + 1];
      extents.erase(extents.begin() + static_cast<int64_t>(axis) + 1);
    }
    call(op::reshape, {x.id}, {{"shape", extents}}, x.bound, x.unit);
  }

  void add_join() {
    Value x = any();
    if (shape(x).empty()) return;
    std::vector<ValueId> parts = {x.id};
    Value joined = x;
    for (int i = 0; i < 6; ++i)
      if (Value other = any(); dtype(other) == dtype(x) && shape(other) == shape(x)) {
        parts.push_back(other.id);
        joined.bound = std::max(joined.bound, other.bound);
        joined.unit = std::min(joined.unit, other.unit);
      }
    call(op::concat, std::move(parts), {{"axis", pick(0, static_cast<int>(shape(x).size()) - 1)}}, joined.bound, joined.unit);
  }

  void add_cut() {
    Value x = any();
    Shape extents = shape(x);
    if (extents.empty()) return;
    size_t axis = random_() % extents.size();
    if (chance(50)) {
      std::vector<int64_t> sizes = {extents[axis]};
      if (extents[axis] > 1) sizes = {1, extents[axis] - 1};
      return call(op::split, {x.id}, {{"axis", static_cast<int64_t>(axis)}, {"sizes", sizes}}, x.bound, x.unit);
    }
    Shape begin(extents.size(), 0), end = extents, strides(extents.size(), 1);
    if (chance(70)) {
      begin[axis] = pick(0, static_cast<int>(extents[axis]) - 1);
      strides[axis] = pick(1, 2);
    }
    call(op::strided_slice, {x.id}, {{"begin", begin}, {"end", end}, {"strides", strides}}, x.bound, x.unit);
  }

  void add_reduction() {
    Value x = any();
    Shape extents = shape(x);
    if (extents.empty() || dtype(x) == DType::Bool) return;
    Shape axes;
    double count = 1;
    for (size_t k = 0; k < extents.size(); ++k)
      if (chance(50)) {
        axes.push_back(static_cast<int64_t>(k));
        count *= static_cast<double>(extents[k]);
      }
    Attrs attrs = {{"axes", axes}, {"keepdims", chance(50)}};
    if (chance(50)) return call(chance(50) ? op::max : op::min, {x.id}, attrs, x.bound, x.unit);
    if (small(x.bound * count, x.unit)) call(op::sum, {x.id}, attrs, x.bound * count, x.unit);
  }

  void add_spread() {
    Value x = any();
    Shape extents = shape(x);
    if (chance(40)) {
      for (int64_t& e : extents)
        if (e == 1) e = pick(1, 3);
      if (extents.size() < 4 && chance(50)) extents.insert(extents.begin(), 2);
      return call(op::broadcast_to, {x.id}, {{"shape", extents}}, x.bound, x.unit);
    }
    if (dtype(x) != DType::F32) return;
    Shape before(extents.size()), after(extents.size());
    for (size_t k = 0; k < extents.size(); ++k) before[k] = chance(20), after[k] = chance(20);
    ValueId zero = builder_.constant(array_of<float>(DType::F32, {}, {0}), "zero");
    call(op::pad, {x.id, zero}, {{"before", before}, {"after", after}, {"mode", std::string("constant")}}, x.bound, x.unit);
  }

  void add_choice() {
    Value x = any();
    if (dtype(x) == DType::Bool) return;
    if (chance(50)) {
      ValueId low = builder_.constant(random_array(dtype(x), {}, 0, 2)),
              high = builder_.constant(random_array(dtype(x), {}, 1, 9));
      return call(op::clip, {x.id, low, high}, {}, 9, std::min(x.unit, 1.0));
    }
    for (const Value& condition : values_)
      if (dtype(condition) == DType::Bool && broadcasts(shape(condition), shape(x)))
        return call(op::where, {condition.id, x.id, partner(x, 0, 3, false)}, {}, std::max(x.bound, 3.0), std::min(x.unit, 1.0));
  }

  /// Arithmetic that the simplifier removes or turns into cheaper one.
  void add_neutral() {
    Value x = any();
    if (dtype(x) == DType::Bool) return;
    switch (pick(0, 3)) {
      case 0: return call(op::multiply, {x.id, builder_.constant(random_array(dtype(x), {}, 1, 1))}, {}, x.bound, x.unit);
      case 1: return call(op::add, {x.id, builder_.constant(random_array(dtype(x), {}, 0, 0))}, {}, x.bound, x.unit);
      case 2: return call(op::subtract, {x.id, builder_.constant(random_array(dtype(x), {1}, 0, 0))}, {}, x.bound, x.unit);
      default:
        if (dtype(x) == DType::F32 && small(x.bound, x.unit / 4))
          call(op::divide, {x.id, builder_.constant(random_array(DType::F32, {}, 4, 4))}, {}, x.bound, x.unit / 4);
    }
  }

  /// A constant beside the values of the run, so that operators on constants only occur.
  void add_constant() {
    Value x = any();
    if (dtype(x) != DType::Bool) values_.push_back({builder_.constant(random_array(dtype(x), shape(x), -3, 3)), 3, 1});
  }

  void add_pool() {
    Value x = any();
    if (dtype(x) != DType::F32 || shape(x).size() != 4 || shape(x)[2] < 2 || shape(x)[3] < 2) return;
    Attrs attrs = {
        {"kernel", Shape{2, 2}}, {"strides", Shape{1, pick(1, 2)}}, {"dilations", Shape{1, 1}}, {"pads", Shape{0, 0, 0, 0}}};
    if (chance(50)) return call(op::max_pool, {x.id}, attrs, x.bound, x.unit);
    if (small(x.bound, x.unit / 4)) call(op::avg_pool, {x.id}, attrs, x.bound, x.unit / 4);
  }

  /// A product with constant weights, often with scales and shifts per channel after it.
  void add_product() {
    Value x = any();
    Shape in = shape(x);
    if (dtype(x) != DType::F32 || in.size() < 2) return;
    bool conv = in.size() == 4;
    int64_t channels = pick(1, 3), terms = in.back();
    if (!conv) {
      ValueId w = builder_.constant(random_array(DType::F32, {terms, channels}, -1, 1), "w");
      if (!small(x.bound * static_cast<double>(terms) * 64, x.unit)) return;
      call(op::matmul, {x.id, w}, {}, x.bound * static_cast<double>(terms), x.unit);
    } else if (!add_conv(x, in)) {
      return;
    }
    for (int steps = pick(0, 4); steps > 0; --steps) add_channel_step(conv);
  }

  bool add_conv(const Value& x, const Shape& in) {
    int64_t taps = in[2] >= 3 && in[3] >= 3 ? pick(0, 1) * 2 + 1 : 1, outputs = pick(1, 3);
    bool depthwise = chance(30), transposed = chance(25);
    int64_t groups = depthwise ? in[1] : 1, terms = in[1] / groups * taps * taps;
    if (!small(x.bound * static_cast<double>(terms) * 64, x.unit)) return false;
    Attrs attrs = {{"groups", groups}, {"strides", Shape{1, 1}}, {"dilations", Shape{1, 1}}, {"pads", Shape(4, taps / 2)}};
    if (transposed) attrs["output_padding"] = Shape{0, 0};
    Shape weights = transposed ? Shape{in[1], outputs, taps, taps} : Shape{outputs * groups, in[1] / groups, taps, taps};
    ValueId w = builder_.constant(random_array(DType::F32, weights, -1, 1), "w");
    call(transposed ? op::conv_transpose : op::conv, {x.id, w}, attrs, x.bound * static_cast<double>(terms), x.unit);
    return true;
  }

  void add_channel_step(bool conv) {
    Value x = values_.back();
    int64_t channels = conv ? shape(x)[1] : shape(x).back();
    Shape extents = conv ? Shape{channels, 1, 1} : Shape{channels};
    auto constant = [&](int low, int high) { return builder_.constant(random_array(DType::F32, extents, low, high)); };
    if (!small(x.bound * 2 + 3, x.unit)) return;
    switch (pick(0, 4)) {
      case 0: return call(op::multiply, {x.id, constant(-2, 2)}, {}, x.bound * 2, x.unit);
      case 1: return call(op::add, {constant(-3, 3), x.id}, {}, x.bound + 3, x.unit);
      case 2: return call(op::subtract, {x.id, constant(-3, 3)}, {}, x.bound + 3, x.unit);
      case 3: return call(op::relu, {x.id}, {}, x.bound, x.unit);
      default:
        if (conv) add_batch_norm(x, channels);
    }
  }

  /// Even scales, variances of 3 and epsilon 1, so that the factors are whole.
  void add_batch_norm(const Value& x, int64_t channels) {
    ValueId scale = builder_.constant(random_array(DType::F32, {channels}, -1, 1)),
            two = builder_.constant(array_of<float>(DType::F32, {}, {2}));
    ValueId doubled = builder_.call1(op::multiply, {scale, two});
    ValueId shift = builder_.constant(random_array(DType::F32, {channels}, -2, 2)),
            mean = builder_.constant(random_array(DType::F32, {channels}, -1, 1));
    ValueId variance = builder_.constant(random_array(DType::F32, {channels}, 3, 3));
    call(op::batch_norm, {x.id, doubled, shift, mean, variance}, {{"epsilon", 1.0}}, x.bound + 3, x.unit);
  }

  std::mt19937_64 random_;
  RandomModule& out_;
  Builder builder_;
  std::vector<Value> values_;
};

}  // namespace

RandomModule random_module(uint64_t seed, int nodes) {
  RandomModule out;
  Generator(seed, out).run(nodes);
  return out;
}

}  // namespace tenon::test
