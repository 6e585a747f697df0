// SPDX-License-Identifier: Apache-2.0
//
// Moves scales and shifts per output channel into the convolution, transposed convolution or matrix product before them.
//
//   %2 = conv(%0, w)                              %2 = conv(%0, w')         w' = w times the scale of each channel
//   %3 = batch_norm(%2, …)                =>      %3 = add(%2, shift)
//   %4 = add(multiply(%3, s), t)
//
// A chain is batch_norm, add, subtract, multiply, divide by constants that have one value per channel or one in all, and
// neg, where only the last value has several readers. The scales are multiplied in f64 and the weights rounded once, so
// results differ from the chain's in the last bits. A chain stays when a scale or a new weight is not finite, and a lone
// add is what the pass leaves anyway, unless it adds nothing: a sum that starts at 0 is never -0, so + 0 is neutral here.
// Anything else between, such as relu, ends the chain: a negative scale does not pass it.
//
// Needs inferred types and constant weights: runs after `fold-constants` and `simplify`. Leaves the old weights' table
// entries to `eliminate-dead`. A batch_norm without such a neighbour stays an operator.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>

#include "base/parallel.h"
#include "op/fold.h"
#include "op/ops.h"
#include "passes/graph/functions.h"
#include "passes/graph/passes.h"

namespace tenon::pass {
namespace {

using graph::Function;
using graph::Module;
using graph::Node;
using graph::NodeKind;
using graph::ValueId;
using Channels = std::vector<double>;

constexpr uint32_t kNone = UINT32_MAX;

std::vector<double> read_all(const Array& array) {
  std::vector<double> out(static_cast<size_t>(array.elements()));
  op::widen(array, 0, array.elements(), out.data());
  return out;
}

Array write_all(DType dtype, Shape shape, const std::vector<double>& values) {
  MutableArray array(dtype, std::move(shape));
  op::narrow(values.data(), static_cast<int64_t>(values.size()), array, 0);
  return std::move(array).freeze();
}

bool all_finite(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

/// scale * (the product) + shift, per output channel.
struct Affine {
  Channels scale, shift;
  int steps = 0;
  bool scales = false;

  void apply(const Channels& times, const Channels& plus) {
    for (size_t c = 0; c < scale.size(); ++c) {
      scale[c] *= times[c];
      shift[c] = shift[c] * times[c] + plus[c];
    }
    scales = scales || std::any_of(times.begin(), times.end(), [](double t) { return t != 1; });
    ++steps;
  }
  bool shifts() const {
    return std::any_of(shift.begin(), shift.end(), [](double s) { return s != 0; });
  }
  bool worth_folding() const {
    return (scales || steps > 1 || (steps == 1 && !shifts())) && all_finite(scale) && all_finite(shift);
  }
};

/// Weights seen as [outer, channels, inner]; the channels of block o start at `first(o)`.
struct Blocks {
  size_t outer, channels, inner, outer_per_group;
  size_t first(size_t o) const { return o / outer_per_group * channels; }
};

Blocks blocks_of(const Node& anchor, const Array& weights, size_t outputs) {
  size_t count = static_cast<size_t>(weights.elements());
  if (anchor.op == &op::matmul) return {count / outputs, outputs, 1, count};
  if (anchor.op == &op::conv) return {1, outputs, count / outputs, 1};
  // conv_transpose has [C, O/groups, kernel…]: the input channels of one group share its output channels.
  size_t outer = static_cast<size_t>(weights.shape[0]), channels = static_cast<size_t>(weights.shape[1]);
  return {outer, channels, count / (outer * channels), outer * channels / outputs};
}

/// to[i] = from[i] * factor over bytes of any alignment; false if a result is not finite. Written for vector code: the exponents
/// that say so are gathered as bits.
template <class T, class Bits>
bool scale_run(const std::byte* from, size_t count, double factor, T* to) {
  const Bits exponent = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
  Bits bad = 0;
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    value = static_cast<T>(static_cast<double>(value) * factor);
    bad |= (std::bit_cast<Bits>(value) & exponent) == exponent ? Bits{1} : Bits{0};
    to[i] = value;
  }
  return bad == 0;
}

/// The weights of one product, each output channel scaled and rounded once.
struct Scaling {
  Array from;
  MutableArray to;
  Blocks blocks;
  Channels scale;
  std::atomic<bool> finite = true;  // all of the new ones

  Scaling(const Node& anchor, const Array& weights, Channels by)
      : from(weights), to(weights.dtype, weights.shape), blocks(blocks_of(anchor, weights, by.size())), scale(std::move(by)) {}

  size_t rows() const { return blocks.outer * blocks.channels; }

  template <class T, class Bits>
  bool scale_rows(size_t begin, size_t end) {
    bool good = true;
    for (size_t row = begin; row < end; ++row) {
      double factor = scale[blocks.first(row / blocks.channels) + row % blocks.channels];
      size_t at = row * blocks.inner;
      good &= scale_run<T, Bits>(from.bytes.data() + at * sizeof(T), blocks.inner, factor, to.as<T>() + at);
    }
    return good;
  }

  void run(size_t begin, size_t end) {
    bool good = to.dtype == DType::F32 ? scale_rows<float, uint32_t>(begin, end) : scale_rows<double, uint64_t>(begin, end);
    if (!good) finite = false;
  }
};

/// The operators that a product takes in.
struct Chain {
  Affine affine;
  std::vector<uint32_t> nodes;  // the product and each operator, in order
  std::unique_ptr<Scaling> scaling;
};

class Folder {
 public:
  Folder(Module& module, Function from, int workers)
      : workers_(workers),
        from_(std::move(from)),
        rewriter_(module, from_),
        constants_(from_.value_count()),
        reader_(from_.value_count(), kNone),
        uses_(graph::use_counts(from_)),
        folded_(from_.nodes.size()) {
    for (uint32_t i = 0; i < from_.nodes.size(); ++i) {
      const Node& node = from_.nodes[i];
      if (node.kind == NodeKind::Constant) constants_[node.first_result] = &*module.constants.find(node.callee);
      for (ValueId v : node.inputs) reader_[v.index] = i;
    }
    for (ValueId v : from_.results) reader_[v.index] = kNone;
  }

  Function run() {
    for (uint32_t i = 0; i < from_.nodes.size(); ++i)
      if (is_anchor(from_.nodes[i])) find_chain(i);
    scale_weights();
    auto next = chains_.begin();
    for (uint32_t i = 0; i < from_.nodes.size(); ++i) {
      bool is_product = next != chains_.end() && next->first == i;
      Chain* chain = is_product ? &next++->second : nullptr;
      if (chain && chain->scaling->finite)
        fold(*chain);
      else if (!folded_[i])
        rewriter_.keep(std::move(from_.nodes[i]));
    }
    return rewriter_.finish();
  }

 private:
  const Array* constant(ValueId v) const { return constants_[v.index] ? &constants_[v.index]->second : nullptr; }

  bool is_anchor(const Node& node) const {
    if (node.kind != NodeKind::Op) return false;
    bool product = node.op == &op::conv || node.op == &op::conv_transpose || node.op == &op::matmul;
    DType dtype = node.types[0].dtype;
    if (!product || (dtype != DType::F32 && dtype != DType::F64)) return false;
    const Array* weights = constant(node.inputs[1]);
    return weights && weights->shape.size() >= 2 && !weights->bytes.empty();
  }

  static size_t channel_axis(const Node& anchor) {
    return anchor.op == &op::matmul ? static_cast<size_t>(anchor.types[0].rank()) - 1 : 1;
  }

  /// A constant operand as a value per channel; nothing if it differs along another axis.
  std::optional<Channels> per_channel(ValueId v, const TensorType& type, size_t axis) const {
    const Array* array = constant(v);
    if (!array || array->shape.size() > type.shape.size()) return std::nullopt;
    size_t missing = type.shape.size() - array->shape.size();
    for (size_t k = 0; k < array->shape.size(); ++k)
      if (array->shape[k] != 1 && k + missing != axis) return std::nullopt;
    Channels values = read_all(*array);
    size_t channels = static_cast<size_t>(tir::int_value(type.shape[axis]));
    if (values.size() == 1) values.assign(channels, values[0]);
    if (values.size() != channels) return std::nullopt;
    return values;
  }

  /// Adds what `node` does to `value` of `type`; false if it isn't a scale and a shift per channel.
  bool absorb(const Node& node, ValueId value, const TensorType& type, size_t axis, Affine& affine) const {
    if (node.kind != NodeKind::Op || node.types.size() != 1 || node.types[0] != type) return false;
    if (node.op == &op::batch_norm) return axis == 1 && node.inputs[0] == value && absorb_batch_norm(node, affine);
    bool known = node.op == &op::neg || node.op == &op::add || node.op == &op::subtract || node.op == &op::multiply ||
                 node.op == &op::divide;
    if (!known) return false;
    size_t channels = affine.scale.size();
    Channels ones(channels, 1), zeros(channels, 0);
    if (node.op == &op::neg) {
      affine.apply(Channels(channels, -1), zeros);
      return true;
    }
    bool first = node.inputs[0] == value;
    std::optional<Channels> c = per_channel(node.inputs[first ? 1 : 0], node.types[0], axis);
    if (!c) return false;
    if (node.op == &op::add) {
      affine.apply(ones, *c);
    } else if (node.op == &op::multiply) {
      affine.apply(*c, zeros);
    } else if (node.op == &op::subtract && !first) {
      affine.apply(Channels(channels, -1), *c);
    } else if (node.op == &op::subtract) {
      for (double& x : *c) x = -x;
      affine.apply(ones, *c);
    } else if (node.op == &op::divide && first) {
      for (double& x : *c) x = 1 / x;
      affine.apply(*c, zeros);
    } else {
      return false;
    }
    return true;
  }

  bool absorb_batch_norm(const Node& node, Affine& affine) const {
    std::vector<Channels> statistics;  // scale, bias, mean, variance
    for (size_t k = 1; k < node.inputs.size(); ++k) {
      const Array* array = constant(node.inputs[k]);
      if (!array || static_cast<size_t>(array->elements()) != affine.scale.size()) return false;
      statistics.push_back(read_all(*array));
    }
    double epsilon = std::get<double>(node.attrs.find("epsilon")->second);
    Channels times, plus;
    for (size_t c = 0; c < affine.scale.size(); ++c) {
      times.push_back(statistics[0][c] / std::sqrt(statistics[3][c] + epsilon));
      plus.push_back(statistics[1][c] - statistics[2][c] * times[c]);
    }
    affine.apply(times, plus);
    return true;
  }

  void find_chain(uint32_t index) {
    const Node& anchor = from_.nodes[index];
    size_t axis = channel_axis(anchor);
    const int64_t* channels = tir::as_int(anchor.types[0].shape[axis]);
    if (!channels) return;
    auto count = static_cast<size_t>(*channels);
    Chain chain{{Channels(count, 1), Channels(count, 0)}, {index}, nullptr};
    for (ValueId value = anchor.result(); uses_[value.index] == 1 && reader_[value.index] != kNone;) {
      const Node& node = from_.nodes[reader_[value.index]];
      if (!absorb(node, value, anchor.types[0], axis, chain.affine)) break;
      chain.nodes.push_back(reader_[value.index]);
      value = node.result();
    }
    if (!chain.affine.worth_folding()) return;
    chain.scaling = std::make_unique<Scaling>(anchor, *constant(anchor.inputs[1]), chain.affine.scale);
    chains_.emplace(index, std::move(chain));
  }

  /// In shares of about the same size.
  void scale_weights() {
    struct Share {
      Scaling* scaling;
      size_t begin, end;
    };
    constexpr size_t kElements = size_t{1} << 18;
    std::vector<Share> shares;
    for (const auto& [anchor, chain] : chains_) {
      size_t rows = chain.scaling->rows(), step = std::max<size_t>(1, kElements / chain.scaling->blocks.inner);
      for (size_t begin = 0; begin < rows; begin += step)
        shares.push_back({chain.scaling.get(), begin, std::min(rows, begin + step)});
    }
    parallel_for(shares.size(), workers_, [&](size_t i) { shares[i].scaling->run(shares[i].begin, shares[i].end); });
  }

  /// The new product and shift stand where the old product stood.
  void fold(Chain& chain) {
    const Node &anchor = from_.nodes[chain.nodes.front()], &last = from_.nodes[chain.nodes.back()];
    graph::Builder& builder = rewriter_.builder();
    builder.at(anchor.name, anchor.span);
    ValueId w = builder.constant(std::move(chain.scaling->to).freeze(), constants_[anchor.inputs[1].index]->first);
    ValueId y = builder.call1(*anchor.op, {rewriter_(anchor.inputs[0]), w}, anchor.attrs);
    const Channels& shift = chain.affine.shift;
    if (chain.affine.shifts()) {
      Shape shape(anchor.types[0].shape.size() - channel_axis(anchor), 1);
      shape[0] = static_cast<int64_t>(shift.size());
      builder.at(last.name, last.span);
      y = builder.call1(op::add, {y, builder.constant(write_all(anchor.types[0].dtype, shape, shift), "shift")});
    }
    rewriter_.replace(last.result(), y);
    for (uint32_t node : chain.nodes) folded_[node] = true;
  }

  int workers_;
  Function from_;  // gives away in the end what stays
  graph::Rewriter rewriter_;
  std::vector<const decltype(Module::constants)::value_type*> constants_;  // the table entry behind a value, or null
  std::vector<uint32_t> reader_;  // the last node that reads a value; kNone if none does or it is a result
  std::vector<uint32_t> uses_;
  std::map<uint32_t, Chain> chains_;  // by the product's node
  std::vector<bool> folded_;          // nodes of chains that are done
};

Module run(Module module, const PassOptions& options) {
  return map_functions(std::move(module), [&](Module& whole, Function function) {
    return Folder(whole, std::move(function), options.workers).run();
  });
}

}  // namespace

const Pass fold_batch_norm{"fold-batch-norm", "move scales and shifts per channel into the weights before them", run};

}  // namespace tenon::pass
