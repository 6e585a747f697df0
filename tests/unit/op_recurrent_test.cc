// SPDX-License-Identifier: Apache-2.0
// LSTM, GRU and RNN against a scalar loop written from ONNX's equations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "support/onnx_run.h"
#include "support/op_run.h"

namespace tenon::op {
namespace {

using test::array;
using test::expect_array;
using test::f32;
using test::OnnxAttr;
using test::OnnxNodeCase;
using test::run_node;

constexpr int64_t kSteps = 3, kBatch = 2, kFeatures = 2, kHidden = 3;

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double tanh_of(double x) { return std::tanh(x); }

/// Numbers between -1 and 1 that follow no pattern, the same in every run.
std::vector<double> noise(int64_t count, uint32_t seed) {
  std::vector<double> values;
  for (int64_t k = 0; k < count; ++k) {
    seed = seed * 1664525 + 1013904223;
    values.push_back(static_cast<double>(seed >> 16) / 32768 - 1);
  }
  return values;
}

/// The inputs of a node with D directions and G gates, as plain numbers.
struct Data {
  int64_t directions, gates;
  std::vector<double> x, w, r, b, h0, c0, p;
  std::vector<int64_t> lengths{kSteps, kSteps};

  Data(int64_t directions, int64_t gates)
      : directions(directions),
        gates(gates),
        x(noise(kSteps * kBatch * kFeatures, 1)),
        w(noise(directions * gates * kHidden * kFeatures, 2)),
        r(noise(directions * gates * kHidden * kHidden, 3)),
        b(noise(directions * 2 * gates * kHidden, 4)),
        h0(noise(directions * kBatch * kHidden, 5)),
        c0(noise(directions * kBatch * kHidden, 6)),
        p(noise(directions * 3 * kHidden, 7)) {}

  double input(int64_t t, int64_t n, int64_t d, int64_t row) const {
    double total = b[static_cast<size_t>((d * 2) * gates * kHidden + row)];
    for (int64_t f = 0; f < kFeatures; ++f)
      total += x[static_cast<size_t>((t * kBatch + n) * kFeatures + f)] *
               w[static_cast<size_t>((d * gates * kHidden + row) * kFeatures + f)];
    return total;
  }
  double recurrent_bias(int64_t d, int64_t row) const { return b[static_cast<size_t>((d * 2 + 1) * gates * kHidden + row)]; }
  double recurrent(const std::vector<double>& h, int64_t d, int64_t row) const {
    double total = 0;
    for (int64_t k = 0; k < kHidden; ++k)
      total += h[static_cast<size_t>(k)] * r[static_cast<size_t>((d * gates * kHidden + row) * kHidden + k)];
    return total;
  }
  double peephole(int64_t d, int64_t which, int64_t k) const { return p[static_cast<size_t>((d * 3 + which) * kHidden + k)]; }
};

struct State {
  std::vector<double> h, c;
};

/// One step of one row of the batch: the state that follows.
using Step = std::function<State(const Data&, int64_t t, int64_t n, int64_t d, const State&)>;

/// Y, Y_h and Y_c by walking each row alone.
std::vector<Array> walk(const Data& data, bool reverse_only, const Step& step) {
  Shape shape{kSteps, data.directions, kBatch, kHidden}, last{data.directions, kBatch, kHidden};
  std::vector<double> y(static_cast<size_t>(element_count(shape)), 0), hs, cs;
  for (int64_t d = 0; d < data.directions; ++d)
    for (int64_t n = 0; n < kBatch; ++n) {
      auto start = static_cast<ptrdiff_t>((d * kBatch + n) * kHidden);
      State state{{data.h0.begin() + start, data.h0.begin() + start + kHidden},
                  {data.c0.begin() + start, data.c0.begin() + start + kHidden}};
      int64_t length = data.lengths[static_cast<size_t>(n)];
      for (int64_t k = 0; k < length; ++k) {
        int64_t t = d == 1 || reverse_only ? length - 1 - k : k;
        state = step(data, t, n, d, state);
        std::copy(state.h.begin(), state.h.end(), y.begin() + ((t * data.directions + d) * kBatch + n) * kHidden);
      }
      hs.insert(hs.end(), state.h.begin(), state.h.end());
      cs.insert(cs.end(), state.c.begin(), state.c.end());
    }
  return {f32(shape, y), f32(last, hs), f32(last, cs)};
}

OnnxNodeCase node_of(const Data& data, std::string_view op, std::vector<OnnxAttr> attrs, bool cell) {
  int64_t d = data.directions, rows = data.gates * kHidden;
  attrs.emplace_back("hidden_size", static_cast<int>(kHidden));
  Array lengths = array(DType::I32, {kBatch}, std::vector<double>(data.lengths.begin(), data.lengths.end()));
  OnnxNodeCase node{op, 14, {}, std::move(attrs), {DType::F32, DType::F32}};
  node.inputs = {f32({kSteps, kBatch, kFeatures}, data.x),
                 {f32({d, rows, kFeatures}, data.w), true},
                 {f32({d, rows, kHidden}, data.r), true},
                 {f32({d, 2 * rows}, data.b), true},
                 lengths,
                 f32({d, kBatch, kHidden}, data.h0)};
  if (!cell) return node;
  node.inputs.push_back(f32({d, kBatch, kHidden}, data.c0));
  node.inputs.push_back(f32({d, 3 * kHidden}, data.p));
  node.outputs.push_back(DType::F32);
  return node;
}

void expect_results(const OnnxNodeCase& node, const std::vector<Array>& expected) {
  std::vector<Array> found = run_node(node);
  for (size_t k = 0; k < found.size(); ++k) expect_array(found[k], expected[k], 1e-5, 1e-5);
}

State lstm_step(const Data& data, int64_t t, int64_t n, int64_t d, const State& old) {
  State next = old;
  for (int64_t k = 0; k < kHidden; ++k) {
    auto at = static_cast<size_t>(k);
    auto gate = [&](int64_t which) {
      int64_t row = which * kHidden + k;
      return data.input(t, n, d, row) + data.recurrent(old.h, d, row) + data.recurrent_bias(d, row);
    };
    double i = sigmoid_of(gate(0) + data.peephole(d, 0, k) * old.c[at]);
    double f = sigmoid_of(gate(2) + data.peephole(d, 2, k) * old.c[at]);
    next.c[at] = f * old.c[at] + i * tanh_of(gate(3));
    next.h[at] = sigmoid_of(gate(1) + data.peephole(d, 1, k) * next.c[at]) * tanh_of(next.c[at]);
  }
  return next;
}

TEST(Lstm, BothDirectionsWithPeepholesAndLengths) {
  Data data(2, 4);
  data.lengths = {2, 3};
  expect_results(node_of(data, "LSTM", {{"direction", "bidirectional"}}, true), walk(data, false, lstm_step));
}

TEST(Lstm, LengthsThatAreKnownToBeFullMaskNothing) {
  Data data(1, 4);
  for (std::vector<int64_t> lengths : {std::vector<int64_t>{kSteps, kSteps}, {2, kSteps}}) {
    data.lengths = lengths;
    OnnxNodeCase node = node_of(data, "LSTM", {}, true);
    node.inputs[4].constant = true;
    bool masked = test::operators_of(node).find("where") != std::string::npos;
    EXPECT_EQ(masked, lengths[0] != kSteps);
    expect_results(node, walk(data, false, lstm_step));
  }
}

TEST(Lstm, Reverse) {
  Data data(1, 4);
  expect_results(node_of(data, "LSTM", {{"direction", "reverse"}}, true), walk(data, true, lstm_step));
}

TEST(Lstm, CouplesInputAndForgetAndClips) {
  Data data(1, 4);
  auto clip = [](double x) { return std::clamp(x, -0.5, 0.5); };
  Step step = [&](const Data& s, int64_t t, int64_t n, int64_t d, const State& old) {
    State next = old;
    for (int64_t k = 0; k < kHidden; ++k) {
      auto at = static_cast<size_t>(k);
      auto gate = [&](int64_t which, double peeped) {
        int64_t row = which * kHidden + k;
        return clip(s.input(t, n, d, row) + s.recurrent(old.h, d, row) + s.recurrent_bias(d, row) + peeped);
      };
      double i = sigmoid_of(gate(0, s.peephole(d, 0, k) * old.c[at]));
      next.c[at] = (1 - i) * old.c[at] + i * tanh_of(gate(3, 0));
      next.h[at] = sigmoid_of(gate(1, s.peephole(d, 1, k) * next.c[at])) * tanh_of(next.c[at]);
    }
    return next;
  };
  expect_results(node_of(data, "LSTM", {{"input_forget", 1}, {"clip", 0.5}}, true), walk(data, false, step));
}

TEST(Lstm, BatchFirstLayout) {
  Data data(1, 4);
  OnnxNodeCase node = node_of(data, "LSTM", {{"layout", 1}}, true);
  std::vector<double> turned;  // [batch, steps, features]
  for (int64_t n = 0; n < kBatch; ++n)
    for (int64_t t = 0; t < kSteps; ++t)
      for (int64_t f = 0; f < kFeatures; ++f) turned.push_back(data.x[static_cast<size_t>((t * kBatch + n) * kFeatures + f)]);
  node.inputs[0] = f32({kBatch, kSteps, kFeatures}, turned);
  node.inputs[5] = f32({kBatch, 1, kHidden}, data.h0);
  node.inputs[6] = f32({kBatch, 1, kHidden}, data.c0);
  std::vector<Array> found = run_node(node), expected = walk(data, false, lstm_step);
  EXPECT_EQ(found[0].shape, (Shape{kBatch, kSteps, 1, kHidden}));
  for (int64_t t = 0; t < kSteps; ++t)
    for (int64_t n = 0; n < kBatch; ++n)
      for (int64_t k = 0; k < kHidden; ++k)
        EXPECT_NEAR(found[0].read<float>((n * kSteps + t) * kHidden + k), expected[0].read<float>((t * kBatch + n) * kHidden + k),
                    1e-5);
  expected[1].shape = expected[2].shape = {kBatch, 1, kHidden};
  expect_array(found[1], expected[1], 1e-5, 1e-5);
  expect_array(found[2], expected[2], 1e-5, 1e-5);
}

State gru_step(const Data& data, int64_t t, int64_t n, int64_t d, const State& old, bool reset_after) {
  State next = old;
  std::vector<double> z(kHidden), r(kHidden), reset_h(kHidden);
  auto gate = [&](int64_t row) { return data.input(t, n, d, row) + data.recurrent(old.h, d, row) + data.recurrent_bias(d, row); };
  for (size_t k = 0; k < kHidden; ++k) {
    z[k] = sigmoid_of(gate(static_cast<int64_t>(k)));
    r[k] = sigmoid_of(gate(kHidden + static_cast<int64_t>(k)));
    reset_h[k] = r[k] * old.h[k];
  }
  for (size_t k = 0; k < kHidden; ++k) {
    int64_t row = 2 * kHidden + static_cast<int64_t>(k);
    double offset = data.recurrent_bias(d, row);
    double recurrent = reset_after ? r[k] * (data.recurrent(old.h, d, row) + offset) : data.recurrent(reset_h, d, row) + offset;
    next.h[k] = (1 - z[k]) * tanh_of(data.input(t, n, d, row) + recurrent) + z[k] * old.h[k];
  }
  return next;
}

TEST(Gru, ResetsBeforeOrAfterTheProduct) {
  for (bool after : {false, true}) {
    Data data(2, 3);
    data.lengths = {3, 1};
    auto step = [&](const Data& s, int64_t t, int64_t n, int64_t d, const State& old) {
      return gru_step(s, t, n, d, old, after);
    };
    OnnxNodeCase node = node_of(data, "GRU", {{"direction", "bidirectional"}, {"linear_before_reset", int{after}}}, false);
    expect_results(node, walk(data, false, step));
  }
}

/// One step of an RNN with an activation of its own for each direction.
std::vector<Array> rnn(const Data& data, const std::vector<std::function<double(double)>>& activations) {
  return walk(data, false, [&](const Data& s, int64_t t, int64_t n, int64_t d, const State& old) {
    State next = old;
    for (int64_t k = 0; k < kHidden; ++k)
      next.h[static_cast<size_t>(k)] =
          activations[static_cast<size_t>(d)](s.input(t, n, d, k) + s.recurrent(old.h, d, k) + s.recurrent_bias(d, k));
    return next;
  });
}

TEST(Rnn, TakesActivationParametersInOrder) {
  Data data(2, 1);
  std::vector<OnnxAttr> attrs{{"direction", "bidirectional"},
                              {"activations", std::vector<std::string>{"LeakyRelu", "Affine"}},
                              {"activation_alpha", std::vector<double>{0.5, 0.25}},
                              {"activation_beta", std::vector<double>{0.125}}};
  auto leaky = [](double x) { return x < 0 ? 0.5 * x : x; };
  auto affine = [](double x) { return 0.25 * x + 0.125; };
  expect_results(node_of(data, "RNN", attrs, false), rnn(data, {leaky, affine}));
}

TEST(Rnn, KnowsEveryActivation) {
  const std::pair<const char*, std::function<double(double)>> kActivations[] = {
      {"Relu", [](double x) { return std::max(x, 0.0); }},
      {"Tanh", tanh_of},
      {"Sigmoid", sigmoid_of},
      {"Elu", [](double x) { return x < 0 ? std::expm1(x) : x; }},
      {"Softsign", [](double x) { return x / (1 + std::fabs(x)); }},
      {"Softplus", [](double x) { return std::log1p(std::exp(x)); }},
      {"HardSigmoid", [](double x) { return std::clamp(0.2 * x + 0.5, 0.0, 1.0); }},
      {"ThresholdedRelu", [](double x) { return x > 1 ? x : 0; }},
  };
  for (const auto& [name, meaning] : kActivations) {
    Data data(1, 1);
    expect_results(node_of(data, "RNN", {{"activations", std::vector<std::string>{name}}}, false), rnn(data, {meaning}));
  }
  Data data(1, 1);
  OnnxNodeCase scaled = node_of(data, "RNN",
                                {{"activations", std::vector<std::string>{"ScaledTanh"}},
                                 {"activation_alpha", std::vector<double>{2}},
                                 {"activation_beta", std::vector<double>{0.5}}},
                                false);
  expect_results(scaled, rnn(data, {[](double x) { return 2 * std::tanh(0.5 * x); }}));
}

TEST(Rnn, Refuses) {
  Data data(1, 1);
  EXPECT_EQ(test::import_error(node_of(data, "RNN", {{"activations", std::vector<std::string>{"Sine"}}}, false)),
            ErrorKind::Unsupported);
  EXPECT_EQ(test::import_error(node_of(data, "RNN", {{"activations", std::vector<std::string>{"Tanh", "Tanh"}}}, false)),
            ErrorKind::Malformed);
  EXPECT_EQ(test::import_error(node_of(data, "GRU", {}, false)), ErrorKind::Malformed);
}

}  // namespace
}  // namespace tenon::op
