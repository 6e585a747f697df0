// SPDX-License-Identifier: Apache-2.0
// The seven functions of which the reference's LowerToPrimFunc is recorded (tests/primfunc): the same parameters, and the same
// results, worked out here with plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "graph/interpret.h"
#include "graph/text.h"
#include "lower/lower.h"
#include "op/all_ops.h"
#include "support/op_run.h"
#include "support/paths.h"
#include "tir/interpret.h"

namespace tenon::lower {
namespace {

using Floats = std::vector<float>;

Floats ramp(size_t count) {
  Floats out(count);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<float>(static_cast<int>(i * 7 % 23) - 11) / 8;
  return out;
}

Array array_f32(Shape shape, const Floats& values) { return array_of<float>(DType::F32, std::move(shape), values); }

/// What one of the files gives: its parameters as text, and its results on ramps.
struct Outcome {
  std::string params;
  std::vector<Floats> inputs;
  std::vector<Array> results;
  tir::PrimFunc function;
};

Outcome run_file(const std::string& name) {
  graph::Module module = graph::read_module(tests_dir() + "/primfunc/" + name + ".tenon", op::all_ops());
  const graph::Function& source = module.functions.at(name);
  Outcome done;
  done.function = lower_to_prim_func(module, source);
  std::vector<Array> inputs;
  for (const tir::Buffer& param : done.function.params) {
    Shape shape;
    for (const tir::Expr& extent : param->shape) shape.push_back(tir::int_value(extent));
    bool input = static_cast<int64_t>(inputs.size()) < done.function.num_inputs;
    done.params += (done.params.empty() ? "" : " ") + std::string(tenon::name(param->dtype)) + to_string(shape);
    if (!input) continue;
    done.inputs.push_back(ramp(static_cast<size_t>(element_count(shape))));
    inputs.push_back(array_f32(shape, done.inputs.back()));
  }
  done.results = tir::interpret(done.function, inputs);
  std::vector<Array> graph_results = graph::interpret(module, name, inputs);
  EXPECT_EQ(done.results.size(), graph_results.size());
  for (size_t i = 0; i < done.results.size(); ++i) test::expect_array(done.results[i], graph_results[i], 1e-5, 1e-6);
  return done;
}

Floats dense(const Floats& x, const Floats& w, size_t rows, size_t in, size_t out) {
  Floats y(rows * out);
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < out; ++j)
      for (size_t k = 0; k < in; ++k) y[i * out + j] += x[i * in + k] * w[j * in + k];
  return y;
}

size_t constants_inside(const tir::PrimFunc& function) {
  size_t count = 0;
  tir::visit(function.body, [&](const tir::Stmt& stmt) { count += tir::as<tir::AllocateConst>(stmt) != nullptr; });
  return count;
}

TEST(ReferenceFunctions, Argmax) {
  Outcome r = run_file("argmax");
  EXPECT_EQ(r.params, "f32[3,5] i32[3]");
  std::vector<int32_t> expected;
  for (size_t row = 0; row < 3; ++row) {
    auto begin = r.inputs[0].begin() + static_cast<int64_t>(row * 5);
    expected.push_back(static_cast<int32_t>(std::max_element(begin, begin + 5) - begin));
  }
  test::expect_array(r.results[0], array_of<int32_t>(DType::I32, {3}, expected));
}

TEST(ReferenceFunctions, Conv2dRelu) {
  Outcome r = run_file("conv2d_relu");
  EXPECT_EQ(r.params, "f32[1,8,7,7] f32[4,8,3,3] f32[1,4,7,7]");
  Floats y;
  for (int o = 0; o < 4; ++o)
    for (int i = 0; i < 7; ++i)
      for (int j = 0; j < 7; ++j) {
        double sum = 0;
        for (int c = 0; c < 8; ++c)
          for (int a = 0; a < 3; ++a)
            for (int b = 0; b < 3; ++b) {
              int row = i + a - 1, column = j + b - 1;
              if (row < 0 || row > 6 || column < 0 || column > 6) continue;
              sum += r.inputs[0][static_cast<size_t>((c * 7 + row) * 7 + column)] *
                     r.inputs[1][static_cast<size_t>(((o * 8 + c) * 3 + a) * 3 + b)];
            }
        y.push_back(static_cast<float>(std::max(sum, 0.0)));
      }
  test::expect_array(r.results[0], array_f32({1, 4, 7, 7}, y), 1e-5, 1e-5);
}

TEST(ReferenceFunctions, DenseBiasRelu) {
  Outcome r = run_file("dense_bias_relu");
  EXPECT_EQ(r.params, "f32[4,8] f32[6,8] f32[6] f32[4,6]");
  Floats y = dense(r.inputs[0], r.inputs[1], 4, 8, 6);
  for (size_t i = 0; i < y.size(); ++i) y[i] = std::max(y[i] + r.inputs[2][i % 6], 0.0f);
  test::expect_array(r.results[0], array_f32({4, 6}, y), 1e-5, 1e-5);
}

TEST(ReferenceFunctions, DenseConst) {
  Outcome r = run_file("dense_const");
  EXPECT_EQ(r.params, "f32[2,3] f32[2,4]");  // the constant is no parameter
  EXPECT_EQ(constants_inside(r.function), 1u);
  Floats w(12);
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i);
  test::expect_array(r.results[0], array_f32({2, 4}, dense(r.inputs[0], w, 2, 3, 4)), 1e-5, 1e-5);
}

TEST(ReferenceFunctions, ScalarConst) {
  Outcome r = run_file("scalar_const");
  EXPECT_EQ(r.params, "f32[3,5] f32[3,5]");
  Floats y = r.inputs[0];
  for (float& v : y) v *= 2;
  test::expect_array(r.results[0], array_f32({3, 5}, y), 0, 0);
}

TEST(ReferenceFunctions, Softmax) {
  Outcome r = run_file("softmax");
  EXPECT_EQ(r.params, "f32[3,5] f32[3,5]");
  Floats y;
  for (size_t row = 0; row < 3; ++row) {
    double sum = 0;
    for (size_t k = 0; k < 5; ++k) sum += std::exp(static_cast<double>(r.inputs[0][row * 5 + k]));
    for (size_t k = 0; k < 5; ++k) y.push_back(static_cast<float>(std::exp(static_cast<double>(r.inputs[0][row * 5 + k])) / sum));
  }
  test::expect_array(r.results[0], array_f32({3, 5}, y), 1e-5, 1e-6);
}

TEST(ReferenceFunctions, TupleOut) {
  Outcome r = run_file("tuple_out");
  EXPECT_EQ(r.params, "f32[3,5] f32[3,5] f32[3]");
  Floats exps, sums(3);
  for (size_t i = 0; i < 15; ++i) {
    exps.push_back(std::exp(r.inputs[0][i]));
    sums[i / 5] += exps.back();
  }
  test::expect_array(r.results[0], array_f32({3, 5}, exps), 1e-5, 1e-6);
  test::expect_array(r.results[1], array_f32({3}, sums), 1e-5, 1e-6);
}

}  // namespace
}  // namespace tenon::lower
