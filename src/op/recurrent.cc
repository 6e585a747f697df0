// SPDX-License-Identifier: Apache-2.0
// LSTM, GRU and RNN, taken apart over time: one product projects the inputs of all steps, then each step is a product with
// the state and a few element-wise operators.
#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "op/all_ops.h"
#include "op/onnx_build.h"
#include "op/ops.h"

namespace tenon::op {
namespace {

using Values = std::vector<ValueId>;
using Activation = std::function<ValueId(ValueId)>;

/// The extents of a recurrence. `gates` is how many products of hidden size each step needs.
struct Extents {
  int64_t steps = 0, batch = 0, features = 0, hidden = 0, directions = 1, gates = 1;
};

/// Graph building for one node: the few operators that a step is made of.
class Steps {
 public:
  Steps(OnnxNode& node, Builder& builder, int64_t gates) : node_(node), builder_(builder) { read(gates); }

  const Extents& extents() const { return extents_; }
  Builder& builder() { return builder_; }
  OnnxNode& node() { return node_; }
  bool reversed(int64_t direction) const { return direction == 1 || direction_ == "reverse"; }
  int64_t step_at(int64_t direction, int64_t k) const { return reversed(direction) ? extents_.steps - 1 - k : k; }

  ValueId add(ValueId a, ValueId b) { return builder_.call1(op::add, {a, b}); }
  ValueId times(ValueId a, ValueId b) { return builder_.call1(multiply, {a, b}); }
  ValueId one_minus(ValueId a) { return builder_.call1(subtract, {scalar(builder_, dtype(), 1), a}); }
  ValueId product(ValueId a, ValueId b) { return builder_.call1(matmul, {a, b}); }
  ValueId reshaped(ValueId x, Shape shape) { return builder_.call1(reshape, {x}, {{"shape", std::move(shape)}}); }
  DType dtype() const { return node_.type(0).dtype; }

  /// Rows or columns [from, from + count) of a matrix.
  ValueId slice(ValueId x, int axis, int64_t from, int64_t count);
  /// Gate `gate` of a [batch, gates * hidden] value.
  ValueId gate(ValueId x, int64_t gate) { return slice(x, 1, gate * extents_.hidden, extents_.hidden); }
  /// The part of an input [directions, …] that belongs to a direction, as a matrix [rows, columns] or a row of columns.
  ValueId part(size_t input, int64_t direction, int64_t rows, int64_t columns);
  /// The same for weights [directions, rows, columns], transposed.
  ValueId weights(size_t input, int64_t direction, int64_t rows, int64_t columns);
  /// Input and recurrent bias of a direction as rows [1, gates * hidden]; absent where the node has none.
  std::optional<ValueId> bias(int64_t direction, bool recurrent);
  /// The state before the first step: an input, or zeros.
  ValueId initial(size_t input, int64_t direction);
  /// What all steps get from the input, [steps * batch, gates * hidden], with the input's bias; with the recurrent one too
  /// where a step would only add it.
  ValueId projected(int64_t direction, bool with_recurrent_bias);
  ValueId at_step(ValueId projected, int64_t step) { return slice(projected, 0, step * extents_.batch, extents_.batch); }

  Activation activation(int64_t direction, size_t which) const { return activations_[direction * per_direction_ + which]; }
  void read_activations(const std::vector<std::string>& defaults);
  /// The input of an activation, limited to [-clip, clip] where the node asks for it.
  ValueId clipped(ValueId x);

  /// Whether step `step` exists for each row of the batch: [batch, 1]. Nothing when it does for all.
  std::optional<ValueId> alive(int64_t step);
  ValueId choose(const std::optional<ValueId>& alive, ValueId value, ValueId otherwise);

  /// The node's outputs from the hidden state of each direction and step, and the last states.
  Values outputs(const std::vector<Values>& hidden, const Values& last_hidden, const Values& last_cell);

 private:
  void read(int64_t gates);
  void read_lengths();
  ValueId stacked_states(const Values& states);

  OnnxNode& node_;
  Builder& builder_;
  Extents extents_;
  std::string direction_;
  bool batch_first_ = false;
  double clip_ = 0;
  size_t per_direction_ = 0;
  std::vector<Activation> activations_;
  std::optional<ValueId> lengths_;  // [batch, 1], where some row may be shorter than the longest
};

void Steps::read(int64_t gates) {
  const TensorType &x = node_.type(0), &w = node_.type(1);
  if (!x.is_static() || !w.is_static()) node_.unsupported("a recurrence over " + to_string(x) + ", whose extents are not known");
  if (x.rank() != 3 || w.rank() != 3) node_.malformed("an input or its weights are not of rank 3");
  if (!is_float(x.dtype)) node_.unsupported("a recurrence of " + std::string(name(x.dtype)));
  batch_first_ = node_.opset() >= 14 && node_.attr("layout", 0) != 0;
  direction_ = node_.attr("direction", "forward");
  clip_ = node_.attr("clip", 0.0);
  Shape in = x.static_shape(), weights = w.static_shape();
  extents_ = {in[batch_first_ ? 1 : 0],
              in[batch_first_ ? 0 : 1],
              in[2],
              node_.attr("hidden_size", weights[1] / gates),
              direction_ == "bidirectional" ? 2 : 1,
              gates};
  Shape expected{extents_.directions, gates * extents_.hidden, extents_.features};
  if (weights != expected) node_.malformed("the weights have the wrong shape", to_string(expected), to_string(weights));
  if (extents_.steps == 0) node_.unsupported("a recurrence without steps");
  read_lengths();
}

void Steps::read_lengths() {
  if (!node_.has(4)) return;
  if (const Array* lengths = node_.constant(4)) {
    bool full_length = true;
    for (int64_t b = 0; b < lengths->elements(); ++b) full_length = full_length && lengths->read<int32_t>(b) == extents_.steps;
    if (full_length) return;
  }
  lengths_ = reshaped(node_.in(4), {extents_.batch, 1});
}

ValueId Steps::slice(ValueId x, int axis, int64_t from, int64_t count) {
  Shape begin(2, 0), end = builder_.type(x).static_shape();
  auto k = static_cast<size_t>(axis);
  if (from == 0 && count == end[k]) return x;
  begin[k] = from;
  end[k] = from + count;
  return builder_.call1(strided_slice, {x}, {{"begin", begin}, {"end", end}, {"strides", Shape{1, 1}}});
}

ValueId Steps::part(size_t input, int64_t direction, int64_t rows, int64_t columns) {
  int64_t all_rows = extents_.directions * rows;
  return slice(reshaped(node_.in(input), {all_rows, columns}), 0, direction * rows, rows);
}

ValueId Steps::weights(size_t input, int64_t direction, int64_t rows, int64_t columns) {
  return builder_.call1(transpose, {part(input, direction, rows, columns)}, {{"axes", Shape{1, 0}}});
}

std::optional<ValueId> Steps::bias(int64_t direction, bool recurrent) {
  if (!node_.has(3)) return std::nullopt;
  int64_t width = extents_.gates * extents_.hidden;
  return slice(part(3, direction, 1, 2 * width), 1, recurrent ? width : 0, width);
}

ValueId Steps::initial(size_t input, int64_t direction) {
  if (!node_.has(input)) return full(builder_, dtype(), {extents_.batch, extents_.hidden}, 0);
  if (!batch_first_) return part(input, direction, extents_.batch, extents_.hidden);
  ValueId rows = reshaped(node_.in(input), {extents_.batch, extents_.directions * extents_.hidden});
  return slice(rows, 1, direction * extents_.hidden, extents_.hidden);
}

ValueId Steps::projected(int64_t direction, bool with_recurrent_bias) {
  ValueId x = node_.in(0);
  if (batch_first_) x = builder_.call1(transpose, {x}, {{"axes", Shape{1, 0, 2}}});
  x = reshaped(x, {extents_.steps * extents_.batch, extents_.features});
  ValueId y = product(x, weights(1, direction, extents_.gates * extents_.hidden, extents_.features));
  std::optional<ValueId> offset = bias(direction, false);
  if (!offset) return y;
  return add(y, with_recurrent_bias ? add(*offset, *bias(direction, true)) : *offset);
}

/// ONNX's name for an activation, with its parameters: `alpha` and `beta` are NaN where the node gives none.
Activation make_activation(Builder& builder, OnnxNode& node, const std::string& name, double alpha, double beta) {
  auto value = [](double given, double fallback) { return std::isnan(given) ? fallback : given; };
  auto plain = [&](const OpDef& op, graph::Attrs attrs = {}) -> Activation {
    return [&builder, &op, attrs](ValueId x) { return builder.call1(op, {x}, attrs); };
  };
  if (name == "Sigmoid") return plain(sigmoid);
  if (name == "Tanh") return plain(tanh);
  if (name == "Relu") return plain(relu);
  if (name == "Softsign") return plain(softsign);
  if (name == "Softplus") return plain(softplus);
  if (name == "LeakyRelu") return plain(leaky_relu, {{"alpha", value(alpha, 0.01)}});
  if (name == "ThresholdedRelu") return plain(thresholded_relu, {{"alpha", value(alpha, 1)}});
  if (name == "Elu") return plain(elu, {{"alpha", value(alpha, 1)}});
  if (name == "HardSigmoid") return plain(hard_sigmoid, {{"alpha", value(alpha, 0.2)}, {"beta", value(beta, 0.5)}});
  double slope = value(alpha, 1), offset = value(beta, name == "ScaledTanh" ? 1 : 0);
  auto number = [&builder](ValueId x, double v) { return scalar(builder, builder.type(x).dtype, v); };
  if (name == "Affine")
    return [=, &builder](ValueId x) {
      return builder.call1(add, {builder.call1(multiply, {x, number(x, slope)}), number(x, offset)});
    };
  if (name == "ScaledTanh")
    return [=, &builder](ValueId x) {
      ValueId inner = builder.call1(tanh, {builder.call1(multiply, {x, number(x, offset)})});
      return builder.call1(multiply, {inner, number(x, slope)});
    };
  node.unsupported("the activation " + name);
}

/// How many of `activation_alpha` and `activation_beta` an activation takes from the lists, in order.
std::pair<int, int> parameter_counts(const std::string& name) {
  if (name == "Affine" || name == "ScaledTanh" || name == "HardSigmoid") return {1, 1};
  if (name == "LeakyRelu" || name == "ThresholdedRelu" || name == "Elu") return {1, 0};
  return {0, 0};
}

void Steps::read_activations(const std::vector<std::string>& defaults) {
  per_direction_ = defaults.size();
  size_t count = per_direction_ * static_cast<size_t>(extents_.directions);
  std::vector<std::string> repeated;
  while (repeated.size() < count) repeated.insert(repeated.end(), defaults.begin(), defaults.end());
  std::vector<std::string> names = node_.strings("activations", repeated);
  if (names.size() != count)
    node_.malformed("the activations are too few or too many", std::to_string(count), std::to_string(names.size()));
  std::vector<double> alphas = node_.floats("activation_alpha", {}), betas = node_.floats("activation_beta", {});
  size_t alpha_at = 0, beta_at = 0;
  auto take = [](const std::vector<double>& list, size_t& at) { return at < list.size() ? list[at++] : NAN; };
  for (const std::string& each : names) {
    auto [alpha_count, beta_count] = parameter_counts(each);
    double alpha = alpha_count ? take(alphas, alpha_at) : NAN, beta = beta_count ? take(betas, beta_at) : NAN;
    activations_.push_back(make_activation(builder_, node_, each, alpha, beta));
  }
}

ValueId Steps::clipped(ValueId x) {
  if (clip_ <= 0) return x;
  return builder_.call1(clip, {x, scalar(builder_, dtype(), -clip_), scalar(builder_, dtype(), clip_)});
}

std::optional<ValueId> Steps::alive(int64_t step) {
  if (!lengths_) return std::nullopt;
  ValueId now = scalar(builder_, builder_.type(*lengths_).dtype, static_cast<double>(step));
  return builder_.call1(less, {now, *lengths_});
}

ValueId Steps::choose(const std::optional<ValueId>& alive, ValueId value, ValueId otherwise) {
  return alive ? builder_.call1(where, {*alive, value, otherwise}) : value;
}

/// [directions, batch, hidden] from one state per direction, or [batch, directions, hidden].
ValueId Steps::stacked_states(const Values& states) {
  Values parts;
  bool second = batch_first_;
  Shape shape = second ? Shape{extents_.batch, 1, extents_.hidden} : Shape{1, extents_.batch, extents_.hidden};
  for (ValueId state : states) parts.push_back(reshaped(state, shape));
  return parts.size() == 1 ? parts[0] : builder_.call1(concat, parts, {{"axis", int64_t{second}}});
}

Values Steps::outputs(const std::vector<Values>& hidden, const Values& last_hidden, const Values& last_cell) {
  const Extents& e = extents_;
  Values sequences;
  for (const Values& states : hidden) {
    ValueId rows = states.size() == 1 ? states[0] : builder_.call1(concat, states, {{"axis", int64_t{0}}});
    sequences.push_back(reshaped(rows, {e.steps, 1, e.batch, e.hidden}));
  }
  ValueId y = sequences.size() == 1 ? sequences[0] : builder_.call1(concat, sequences, {{"axis", int64_t{1}}});
  if (batch_first_) y = builder_.call1(transpose, {y}, {{"axes", Shape{2, 0, 1, 3}}});
  Values results{y, stacked_states(last_hidden)};
  if (!last_cell.empty()) results.push_back(stacked_states(last_cell));
  return results;
}

/// One direction of a recurrence: what a step makes of its projected input and the states (the hidden one first).
using StepFn = std::function<Values(ValueId input, const Values& states)>;

/// What a node's recurrence needs beside its steps.
struct Recurrence {
  std::vector<size_t> initial_inputs;  // of the states, the hidden one first
  bool adds_recurrent_bias = true;     // in every step, whatever the state
};

/// Runs the steps of each direction. Rows whose sequence has ended keep their states and give zeros.
Values unrolled(Steps& steps, const Recurrence& recurrence, function_ref<StepFn(int64_t direction)> make_step) {
  const Extents& e = steps.extents();
  std::vector<Values> hidden(static_cast<size_t>(e.directions)), last(recurrence.initial_inputs.size());
  for (int64_t d = 0; d < e.directions; ++d) {
    ValueId projected = steps.projected(d, recurrence.adds_recurrent_bias);
    StepFn step = make_step(d);
    Values states;
    for (size_t input : recurrence.initial_inputs) states.push_back(steps.initial(input, d));
    Values& emitted = hidden[static_cast<size_t>(d)];
    emitted.resize(static_cast<size_t>(e.steps));
    for (int64_t k = 0; k < e.steps; ++k) {
      int64_t t = steps.step_at(d, k);
      Values next = step(steps.at_step(projected, t), states);
      std::optional<ValueId> alive = steps.alive(t);
      emitted[static_cast<size_t>(t)] = steps.choose(alive, next[0], scalar(steps.builder(), steps.dtype(), 0));
      for (size_t s = 0; s < states.size(); ++s) states[s] = steps.choose(alive, next[s], states[s]);
    }
    for (size_t s = 0; s < states.size(); ++s) last[s].push_back(states[s]);
  }
  return steps.outputs(hidden, last[0], last.size() > 1 ? last[1] : Values{});
}

/// Gates in the order i, o, f, c; the peepholes (one row each) in the order i, o, f.
Values import_lstm(OnnxNode& node, Builder& builder) {
  Steps steps(node, builder, 4);
  steps.read_activations({"Sigmoid", "Tanh", "Tanh"});
  bool couples = node.attr("input_forget", 0) != 0;
  int64_t hidden = steps.extents().hidden;
  return unrolled(steps, {{5, 6}}, [&](int64_t d) -> StepFn {
    ValueId r = steps.weights(2, d, 4 * hidden, hidden);
    std::optional<ValueId> peepholes;
    if (node.has(7)) peepholes = steps.part(7, d, 1, 3 * hidden);
    Activation f = steps.activation(d, 0), g = steps.activation(d, 1), h = steps.activation(d, 2);
    return [=, &steps](ValueId input, const Values& states) -> Values {
      ValueId cell = states[1];
      ValueId gates = steps.add(input, steps.product(states[0], r));
      auto gate = [&](int64_t which, ValueId peeped, const Activation& activation) {
        ValueId x = steps.gate(gates, which);
        if (peepholes && which < 3) x = steps.add(x, steps.times(steps.gate(*peepholes, which), peeped));
        return activation(steps.clipped(x));
      };
      ValueId in = gate(0, cell, f);
      ValueId forget = couples ? steps.one_minus(in) : gate(2, cell, f);
      ValueId next_cell = steps.add(steps.times(forget, cell), steps.times(in, gate(3, cell, g)));
      ValueId out = gate(1, next_cell, f);
      return {steps.times(out, h(next_cell)), next_cell};
    };
  });
}

/// Gates in the order z, r, h.
Values import_gru(OnnxNode& node, Builder& builder) {
  Steps steps(node, builder, 3);
  steps.read_activations({"Sigmoid", "Tanh"});
  bool reset_after = node.attr("linear_before_reset", 0) != 0;
  int64_t hidden = steps.extents().hidden;
  return unrolled(steps, {{5}, false}, [&](int64_t d) -> StepFn {
    ValueId r = steps.weights(2, d, 3 * hidden, hidden);
    ValueId r_gates = steps.slice(r, 1, 0, 2 * hidden), r_new = steps.slice(r, 1, 2 * hidden, hidden);
    std::optional<ValueId> offset = steps.bias(d, true);
    Activation f = steps.activation(d, 0), g = steps.activation(d, 1);
    return [=, &steps](ValueId input, const Values& states) -> Values {
      ValueId state = states[0];
      auto with_offset = [&](ValueId x, int64_t from, int64_t count) {
        return offset ? steps.add(x, steps.slice(*offset, 1, from * hidden, count * hidden)) : x;
      };
      ValueId gates = steps.add(steps.slice(input, 1, 0, 2 * hidden), with_offset(steps.product(state, r_gates), 0, 2));
      ValueId update = f(steps.clipped(steps.gate(gates, 0))), reset = f(steps.clipped(steps.gate(gates, 1)));
      ValueId recurrent = reset_after ? steps.times(reset, with_offset(steps.product(state, r_new), 2, 1))
                                      : with_offset(steps.product(steps.times(reset, state), r_new), 2, 1);
      ValueId fresh = g(steps.clipped(steps.add(steps.gate(input, 2), recurrent)));
      return {steps.add(steps.times(steps.one_minus(update), fresh), steps.times(update, state))};
    };
  });
}

Values import_rnn(OnnxNode& node, Builder& builder) {
  Steps steps(node, builder, 1);
  steps.read_activations({"Tanh"});
  int64_t hidden = steps.extents().hidden;
  return unrolled(steps, {{5}}, [&](int64_t d) -> StepFn {
    ValueId r = steps.weights(2, d, hidden, hidden);
    Activation f = steps.activation(d, 0);
    return [=, &steps](ValueId input, const Values& states) -> Values {
      return {f(steps.clipped(steps.add(input, steps.product(states[0], r))))};
    };
  });
}

}  // namespace

Family recurrent_family() { return {{}, {{"LSTM", 7, import_lstm}, {"GRU", 7, import_gru}, {"RNN", 7, import_rnn}}}; }

}  // namespace tenon::op
