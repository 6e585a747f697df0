// SPDX-License-Identifier: Apache-2.0
// The generator `onednn`: its pattern table, and regions as descriptions for the component of that name. Sees nothing of oneDNN.
//
// A description is a line for each fact, a word and numbers; a tensor is the index of an argument and its extents:
//
//   conv
//   strides 1 1
//   dilations 1 1
//   pads 0 0 0 0
//   groups 1
//   src 0 1 64 56 56
//   weights 1 64 64 1 1
//   dst 3 1 64 56 56
//   bias 2
//   post relu 0
#include "external/onednn/onednn.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "op/ops.h"
#include "op/window.h"

namespace tenon::external {
namespace {

using graph::Node;
using graph::NodeKind;
using graph::ValueId;

bool all_f32(const Candidate& c) {
  for (size_t i = 0; i < c.node.inputs.size(); ++i)
    if (c.type(i).dtype != DType::F32) return false;
  return true;
}

/// The operand of a binary node that is not the chain.
size_t other_operand(const Candidate& c) { return c.node.inputs[0] == *c.chain ? 1 : 0; }

/// Adds a constant for each channel: the axis `from_end` from the end.
bool adds_channel(const Candidate& c, size_t from_end) {
  size_t other = other_operand(c);
  if (!all_f32(c) || !c.constant(other) || c.node.types[0] != c.function.type(*c.chain)) return false;
  Shape shape = c.type(other).static_shape(), result = c.node.types[0].static_shape();
  if (shape.size() <= from_end) return false;
  for (size_t back = 0; back < shape.size(); ++back)
    if (shape[shape.size() - 1 - back] != (back == from_end ? result[result.size() - 1 - from_end] : 1)) return false;
  return true;
}

bool adds_conv_bias(const Candidate& c) { return adds_channel(c, static_cast<size_t>(c.node.types[0].rank()) - 2); }
bool adds_row(const Candidate& c) { return adds_channel(c, 0); }

bool adds_equal_shape(const Candidate& c) {
  return all_f32(c) && c.node.types[0] == c.function.type(*c.chain) && c.type(other_operand(c)) == c.node.types[0] &&
         c.node.inputs[0] != c.node.inputs[1];
}

bool is_activation(const Candidate& c) {
  if (!all_f32(c) || c.node.inputs[0] != *c.chain) return false;
  if (c.node.op != &op::clip) return true;
  return c.constant(1) && c.constant(2) && c.type(1).rank() == 0 && c.type(2).rank() == 0;
}

bool takes_conv(const Candidate& c) {
  return all_f32(c) && c.type(0).rank() <= 5 && c.constant(1) && element_count(c.node.types[0].static_shape()) > 0;
}

/// A product with one row reads each weight once: our own code is bound by memory as oneDNN's is.
bool takes_matmul(const Candidate& c) {
  Shape a = c.type(0).static_shape(), b = c.type(1).static_shape();
  if (!all_f32(c) || a.size() < 2 || b.size() < 2 || element_count(c.node.types[0].static_shape()) == 0) return false;
  if (b.size() == 2) return element_count(a) / std::max<int64_t>(a.back(), 1) > 1;
  return a.size() == b.size() && a.size() <= 5 && a[a.size() - 2] > 1;
}

op::Window pool_window(std::span<const TensorType> inputs, const Node& node) {
  return op::window_of(graph::CallSite(*node.op, inputs, node.attrs), std::get<std::vector<int64_t>>(node.attrs.at("kernel")));
}

/// Points that the last window reads past the data, for each spatial axis.
std::vector<int64_t> pads_after(const op::Window& window, const Shape& src, const Shape& dst) {
  std::vector<int64_t> after;
  for (size_t k = 0; k < window.rank(); ++k)
    after.push_back((dst[k + 2] - 1) * window.strides[k] + window.span(k) - src[k + 2] - window.before(k));
  return after;
}

/// Where a window hangs over the declared padding, the two count differently.
bool takes_pool(const Candidate& c) {
  if (!all_f32(c) || c.type(0).rank() > 5 || element_count(c.node.types[0].static_shape()) == 0) return false;
  TensorType input = c.type(0);
  op::Window window = pool_window({&input, 1}, c.node);
  std::vector<int64_t> after = pads_after(window, input.static_shape(), c.node.types[0].static_shape());
  for (size_t k = 0; k < window.rank(); ++k)
    if (after[k] > window.after(k) || window.before(k) >= window.span(k) || window.before(k) < 0 || after[k] >= window.span(k))
      return false;
  return true;
}

const std::vector<const graph::OpDef*> kActivations{&op::relu,    &op::clip, &op::leaky_relu,
                                                    &op::sigmoid, &op::tanh, &op::hard_swish};

class OneDnn : public ExternalCodegen {
 public:
  explicit OneDnn(std::span<const std::string> ops) {
    auto takes = [&](const char* name) { return std::find(ops.begin(), ops.end(), name) != ops.end(); };
    PatternOp residual{{&op::add}, adds_equal_shape, true}, activation{kActivations, is_activation, true};
    if (takes("conv"))
      patterns_.push_back({"conv", {{{&op::conv}, takes_conv}, {{&op::add}, adds_conv_bias, true}, residual, activation}});
    if (takes("matmul"))
      patterns_.push_back({"matmul", {{{&op::matmul}, takes_matmul}, {{&op::add}, adds_row, true}, residual, activation}});
    if (takes("pool")) patterns_.push_back({"pool", {{{&op::max_pool, &op::avg_pool}, takes_pool}}});
  }

  std::string_view name() const override { return "onednn"; }
  const std::vector<Pattern>& patterns() const override { return patterns_; }
  /// A primitive is a region.
  bool merges() const override { return false; }
  Result compile(const Region& region) const override;

 private:
  std::vector<Pattern> patterns_;
};

/// The description of a region that one of the patterns fits.
class Describer {
 public:
  explicit Describer(const Region& region) : region_(region), function_(region.function) {}

  Result run() {
    const Node* chain = nullptr;
    for (const Node& node : function_.nodes) {
      if (node.kind == NodeKind::Constant) continue;
      if (node.kind != NodeKind::Op || node.types.size() != 1 || (chain && !reads(node, *chain))) refuse(node);
      chain ? follow(node, chain->result()) : begin(node);
      chain = &node;
    }
    if (!chain || function_.results != std::vector{chain->result()}) refuse(function_.nodes.back());
    tensor("dst", static_cast<uint32_t>(function_.params.size() + constants_.size()), dst_);
    CodeResult result;
    result.kernel = ComponentKernel{"onednn", std::move(text_)};
    result.constants = std::move(constants_);
    return result;
  }

 private:
  static bool reads(const Node& node, const Node& chain) {
    return std::find(node.inputs.begin(), node.inputs.end(), chain.result()) != node.inputs.end();
  }

  [[noreturn]] void refuse(const Node& node) const {
    throw CompileError(
        Diagnostic{.kind = ErrorKind::Unsupported,
                   .code = "external-region",
                   .message = fmt::format("`onednn` cannot compute `{}` here", node.op ? node.op->name : node.callee),
                   .node = node.name,
                   .expected = "a convolution, product or pooling with what may follow it",
                   .found = node.op ? std::string(node.op->name) : node.callee,
                   .function = region_.symbol,
                   .hint = "compile with --external none"});
  }

  Shape shape(ValueId v) const { return function_.type(v).static_shape(); }

  /// The argument that holds a parameter or constant, which is passed from now on. Outputs come after all of them.
  uint32_t argument(ValueId v) {
    if (function_.is_param(v)) return v.index;
    const std::string& name = function_.definition(v)->callee;
    auto known = std::find(constants_.begin(), constants_.end(), name);
    auto index = static_cast<uint32_t>(function_.params.size() + static_cast<size_t>(known - constants_.begin()));
    if (known == constants_.end()) constants_.push_back(name);
    return index;
  }

  template <class List>
  void line(std::string_view word, const List& numbers) {
    text_ += word;
    for (auto number : numbers) text_ += fmt::format(" {}", number);
    text_ += '\n';
  }

  void tensor(std::string_view word, uint32_t argument, const Shape& shape) {
    std::vector<int64_t> numbers{argument};
    numbers.insert(numbers.end(), shape.begin(), shape.end());
    line(word, numbers);
  }

  void begin(const Node& node) {
    dst_ = node.types[0].static_shape();
    std::vector<TensorType> types;
    for (ValueId v : node.inputs) types.push_back(function_.type(v));
    Candidate candidate{function_, node, std::nullopt};
    if (node.op == &op::conv && takes_conv(candidate))
      describe_conv(node, types);
    else if (node.op == &op::matmul && takes_matmul(candidate))
      describe_matmul(node);
    else if ((node.op == &op::max_pool || node.op == &op::avg_pool) && takes_pool(candidate))
      describe_pool(node, types);
    else
      refuse(node);
  }

  void describe_conv(const Node& node, std::span<const TensorType> types) {
    Shape weights = shape(node.inputs[1]);
    op::Window window = op::window_of(graph::CallSite(*node.op, types, node.attrs), Shape(weights.begin() + 2, weights.end()));
    text_ += "conv\n";
    line("strides", window.strides);
    line("dilations", window.dilations);
    line("pads", window.pads);
    line("groups", std::vector{std::get<int64_t>(node.attrs.at("groups"))});
    tensor("src", argument(node.inputs[0]), shape(node.inputs[0]));
    tensor("weights", argument(node.inputs[1]), weights);
    channel_axis_ = dst_.size() - 2;
  }

  void describe_matmul(const Node& node) {
    Shape a = shape(node.inputs[0]), b = shape(node.inputs[1]);
    if (b.size() == 2) {  // the rows of all batches, one below the other
      a = {element_count(a) / a.back(), a.back()};
      dst_ = {a[0], b[1]};
    }
    text_ += "matmul\n";
    tensor("src", argument(node.inputs[0]), a);
    tensor("weights", argument(node.inputs[1]), b);
    channel_axis_ = 0;
  }

  void describe_pool(const Node& node, std::span<const TensorType> types) {
    op::Window window = pool_window(types, node);
    std::vector<int64_t> pads(window.pads.begin(), window.pads.begin() + static_cast<int64_t>(window.rank()));
    for (int64_t after : pads_after(window, shape(node.inputs[0]), dst_)) pads.push_back(after);
    auto counts = node.attrs.find("count_include_pad");
    bool include = counts != node.attrs.end() && std::get<bool>(counts->second);
    text_ += node.op == &op::max_pool ? "max_pool\n" : include ? "avg_pool_include\n" : "avg_pool_exclude\n";
    line("kernel", window.kernel);
    line("strides", window.strides);
    line("dilations", window.dilations);
    line("pads", pads);
    tensor("src", argument(node.inputs[0]), shape(node.inputs[0]));
  }

  void follow(const Node& node, ValueId chain) {
    Candidate candidate{function_, node, chain};
    if (node.op == &op::add && !after_bias_ && adds_channel(candidate, channel_axis_)) {
      line("bias", std::vector{argument(node.inputs[other_operand(candidate)])});
    } else if (node.op == &op::add && adds_equal_shape(candidate)) {
      tensor("post add", argument(node.inputs[other_operand(candidate)]), dst_);
    } else if (std::find(kActivations.begin(), kActivations.end(), node.op) != kActivations.end() && is_activation(candidate)) {
      line(fmt::format("post {}", node.op->name), activation_numbers(node));
    } else {
      refuse(node);
    }
    after_bias_ = true;
  }

  std::vector<double> activation_numbers(const Node& node) const {
    if (node.op == &op::relu) return {0};
    if (node.op == &op::leaky_relu) return {std::get<double>(node.attrs.at("alpha"))};
    if (node.op == &op::clip) return {scalar(node.inputs[1]), scalar(node.inputs[2])};
    return {};
  }

  /// Of a constant, in the range of a finite float.
  double scalar(ValueId v) const {
    constexpr double kLargest = 3.4028234663852886e38;
    const std::string& name = function_.definition(v)->callee;
    for (const RegionConstant& constant : region_.constants)
      if (constant.name == name) return std::clamp<double>(constant.data.read<float>(0), -kLargest, kLargest);
    fail_internal("a region has all the constants that it reads");
  }

  const Region& region_;
  const graph::Function& function_;
  std::string text_;
  Shape dst_;
  std::vector<std::string> constants_;  // that are passed
  size_t channel_axis_ = 0;             // of the result, from its end
  bool after_bias_ = false;
};

Result OneDnn::compile(const Region& region) const { return Describer(region).run(); }

}  // namespace

std::shared_ptr<const ExternalCodegen> make_onednn(Options options) {
  std::string list = take_option(options, "ops", "conv,matmul");
  refuse_options(options, "onednn", "-ops=LIST, -self-test=on|off");
  std::vector<std::string> ops;
  for (size_t begin = 0; begin <= list.size();) {
    size_t end = std::min(list.find(',', begin), list.size());
    ops.push_back(list.substr(begin, end - begin));
    if (ops.back() != "conv" && ops.back() != "matmul" && ops.back() != "pool")
      refuse_option_value("ops", ops.back(), "a list of conv, matmul and pool");
    begin = end + 1;
  }
  return std::make_shared<OneDnn>(ops);
}

}  // namespace tenon::external
