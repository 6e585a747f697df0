// SPDX-License-Identifier: Apache-2.0
// ONNX rules where the meaning depends on the opset, on an optional input or on an attribute that few models use.
#include <gtest/gtest.h>

#include <cmath>

#include "import/onnx/import.h"
#include "support/onnx_writer.h"
#include "support/op_run.h"

namespace tenon {
namespace {

using test::array;
using test::expect_array;
using test::f32;
using test::OnnxAttr;
using test::OnnxGraph;
using Ints = std::vector<int64_t>;
using Attrs = std::vector<OnnxAttr>;

/// A model of one node: the first input is given at run time, the others are initializers; one without a dtype is left out.
struct OneNode {
  std::string op;
  int opset;
  std::vector<std::optional<Array>> inputs;
  Attrs attrs = {};
  size_t outputs = 1;
};

graph::Module import(const OneNode& model) {
  OnnxGraph graph;
  std::vector<std::string> inputs, outputs;
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    inputs.push_back(model.inputs[i] ? "x" + std::to_string(i) : "");
    if (!model.inputs[i]) continue;
    const Array& value = *model.inputs[i];
    if (i == 0)
      graph.input(inputs[i], value.dtype, {value.shape.begin(), value.shape.end()});
    else
      graph.initializer(inputs[i], value);
  }
  for (size_t i = 0; i < model.outputs; ++i) outputs.push_back("y" + std::to_string(i));
  graph.node(model.op, inputs, outputs, model.attrs, "n");
  for (const std::string& output : outputs) graph.writer().message(12, test::WireWriter().message(1, output).bytes);
  auto bytes = std::make_shared<const std::string>(test::onnx_model(graph, model.opset));
  return onnx::import_bytes("m.onnx", bytes, std::as_bytes(std::span(*bytes)), {});
}

std::vector<Array> run_all(const OneNode& model) {
  graph::Module module = import(model);
  std::vector<Array> given;
  if (!model.inputs.empty()) given.push_back(*model.inputs[0]);
  return graph::interpret(module, "main", given);
}
Array run(const OneNode& model) { return run_all(model)[0]; }

/// The kind of the error that importing throws, or success.
std::optional<ErrorKind> refusal(const OneNode& model) {
  try {
    import(model);
  } catch (const CompileError& error) {
    return error.kind();
  }
  return std::nullopt;
}

Array ints(const Ints& values) { return array_of<int64_t>(DType::I64, {static_cast<int64_t>(values.size())}, values); }

TEST(OnnxRule, SoftmaxCountsFlattenedAxesBefore13) {
  Array zeros = f32({1, 2, 2}, {0, 0, 0, 0});
  auto four = [](double v) { return f32({1, 2, 2}, {v, v, v, v}); };
  expect_array(run({"Softmax", 11, {zeros}}), four(0.25));
  expect_array(run({"Softmax", 13, {zeros}}), four(0.5));
  expect_array(run({"LogSoftmax", 11, {zeros}}), four(-1.3862944));
  expect_array(run({"LogSoftmax", 13, {zeros}}), four(-0.6931472));
  expect_array(run({"Hardmax", 11, {zeros}}), f32({1, 2, 2}, {1, 0, 0, 0}));
  expect_array(run({"Hardmax", 13, {zeros}}), f32({1, 2, 2}, {1, 0, 1, 0}));
}

TEST(OnnxRule, ReductionsTakeAxesAsAttributeOrInput) {
  Array x = f32({2, 2}, {1, 2, 3, 6});
  expect_array(run({"ReduceMean", 13, {x}, {{"axes", Ints{1}}, {"keepdims", 0}}}), f32({2}, {1.5, 4.5}));
  expect_array(run({"ReduceMean", 18, {x, ints({1})}, {{"keepdims", 0}}}), f32({2}, {1.5, 4.5}));
  Array y = f32({2, 2}, {1, 2, 3, 4});
  for (std::vector<std::optional<Array>> inputs : {std::vector<std::optional<Array>>{y}, {y, ints({})}}) {
    expect_array(run({"ReduceSum", 13, inputs}), f32({1, 1}, {10}));
    expect_array(run({"ReduceSum", 13, inputs, {{"noop_with_empty_axes", 1}}}), y);
  }
  EXPECT_EQ(refusal({"ReduceMean", 18, {x}, {{"axes", Ints{1}}}}), ErrorKind::Unsupported);
}

TEST(OnnxRule, NormsAndLogarithmsOfSums) {
  Array x = f32({2, 2}, {3, -4, 0, 1});
  Attrs rows{{"axes", Ints{1}}, {"keepdims", 0}};
  expect_array(run({"ReduceL1", 13, {x}, rows}), f32({2}, {7, 1}));
  expect_array(run({"ReduceL2", 13, {x}, rows}), f32({2}, {5, 1}));
  expect_array(run({"ReduceSumSquare", 13, {x}, rows}), f32({2}, {25, 1}));
  expect_array(run({"ReduceL2", 13, {array(DType::I32, {2}, {3, 4})}, {{"keepdims", 0}}}), array(DType::I32, {}, {5}));
  expect_array(run({"ReduceLogSum", 13, {f32({2}, {1, 3})}, {{"keepdims", 0}}}), f32({}, {std::log(4)}));
  double inf = std::numeric_limits<double>::infinity();
  Array large = f32({3, 2}, {1000, 1000, -inf, -inf, inf, 0});
  expect_array(run({"ReduceLogSumExp", 13, {large}, rows}), f32({3}, {1000 + std::log(2), -inf, inf}));
}

TEST(OnnxRule, ClipTakesBoundsAsAttributesOrInputs) {
  expect_array(run({"Clip", 6, {f32({3}, {-5, 3, 9})}, {{"min", 0.0}, {"max", 4.0}}}), f32({3}, {0, 3, 4}));
  expect_array(run({"Clip", 6, {f32({2}, {-5, 3})}}), f32({2}, {-5, 3}));
  expect_array(run({"Clip", 13, {f32({3}, {-1, 2, 6}), f32({}, {4}), f32({}, {3})}}), f32({3}, {3, 3, 3}));
  expect_array(run({"Clip", 13, {array(DType::F16, {3}, {-1, 0.5, 1}), array(DType::F16, {}, {0})}}),
               array(DType::F16, {3}, {0, 0.5, 1}));
  expect_array(run({"Clip", 13, {array(DType::I8, {3}, {-5, 3, 120}), std::nullopt, array(DType::I8, {}, {100})}}),
               array(DType::I8, {3}, {-5, 3, 100}));
}

TEST(OnnxRule, PowKeepsTheDtypeOfTheBase) {
  expect_array(run({"Pow", 13, {f32({3}, {1, 2, 3}), ints({3, 2, 0})}}), f32({3}, {1, 4, 1}));
  expect_array(run({"Pow", 13, {array(DType::I32, {2}, {9, 2}), f32({}, {0.5})}}), array(DType::I32, {2}, {3, 1}));
}

TEST(OnnxRule, ModOfFloatsNeedsFmod) {
  expect_array(run({"Mod", 13, {f32({2}, {-7.5, 7.5}), f32({2}, {2, 2})}, {{"fmod", 1}}}), f32({2}, {-1.5, 1.5}));
  EXPECT_EQ(refusal({"Mod", 13, {f32({1}, {1}), f32({1}, {1})}}), ErrorKind::Malformed);
}

TEST(OnnxRule, BatchNormalizationUsesTheGivenStatistics) {
  auto one = [](double value) { return f32({1}, {value}); };
  Array x = f32({2, 1}, {1, 3});
  expect_array(run({"BatchNormalization", 15, {x, one(2), one(1), one(0), one(4)}, {{"epsilon", 0.0}, {"momentum", 0.5}}}),
               f32({2, 1}, {2, 4}));
  EXPECT_EQ(refusal({"BatchNormalization", 15, {x, one(2), one(1), one(0), one(4)}, {{"training_mode", 1}}}),
            ErrorKind::Unsupported);
  EXPECT_EQ(refusal({"BatchNormalization", 7, {x, one(2), one(1), one(0), one(4)}, {{"spatial", 0}}}), ErrorKind::Unsupported);
}

TEST(OnnxRule, LayerNormalizationWithAndWithoutBias) {
  double y = 2 / std::sqrt(1 + 1e-5);
  Array x = f32({1, 2}, {1, 3}), scale = f32({2}, {2, 2});
  expect_array(run({"LayerNormalization", 17, {x, scale}}), f32({1, 2}, {-y, y}));
  std::vector<Array> all = run_all({"LayerNormalization", 17, {x, scale, f32({2}, {1, 0})}, {{"epsilon", 3.0}}, 3});
  expect_array(all[0], f32({1, 2}, {0, 1}));
  expect_array(all[1], f32({1, 1}, {2}));
  expect_array(all[2], f32({1, 1}, {0.5}));
}

TEST(OnnxRule, OtherNormalizations) {
  // Per instance and channel: means 2 and 6, variances 1 and 4; epsilon 0.
  Array x = f32({1, 2, 2}, {1, 3, 4, 8});
  expect_array(run({"InstanceNormalization", 6, {x, f32({2}, {1, 10}), f32({2}, {0, 5})}, {{"epsilon", 0.0}}}),
               f32({1, 2, 2}, {-1, 1, -5, 15}));
  // One group of both channels: mean 4, variance (9 + 1 + 0 + 16) / 4 = 6.5.
  double s = std::sqrt(6.5);
  expect_array(run({"GroupNormalization", 21, {x, f32({2}, {1, 2}), f32({2}, {0, 1})}, {{"num_groups", 1}, {"epsilon", 0.0}}}),
               f32({1, 2, 2}, {-3 / s, -1 / s, 1, 1 + 8 / s}), 1e-5);
  expect_array(run({"GroupNormalization", 18, {x, f32({1}, {2}), f32({1}, {1})}, {{"num_groups", 1}, {"epsilon", 0.0}}}),
               f32({1, 2, 2}, {1 - 6 / s, 1 - 2 / s, 1, 1 + 8 / s}), 1e-5);
  EXPECT_EQ(refusal({"GroupNormalization", 21, {x, f32({2}, {1, 2}), f32({2}, {0, 1})}, {{"num_groups", 3}}}),
            ErrorKind::Malformed);
  expect_array(run({"RMSNormalization", 23, {f32({1, 2}, {1, 7}), f32({2}, {5, 10})}, {{"epsilon", 0.0}}}), f32({1, 2}, {1, 14}));
  expect_array(run({"LpNormalization", 1, {f32({1, 2}, {3, -4})}}), f32({1, 2}, {0.6, -0.8}));
  expect_array(run({"LpNormalization", 1, {f32({1, 2}, {3, -1})}, {{"p", 1}}}), f32({1, 2}, {0.75, -0.25}));
  expect_array(run({"MeanVarianceNormalization", 13, {f32({2, 1}, {1, 5})}, {{"axes", Ints{0}}}}), f32({2, 1}, {-1, 1}));
}

TEST(OnnxRule, GemmScalesAndTransposes) {
  Array a = f32({3, 2}, {1, 2, 3, 4, 5, 6}), b = f32({1, 3}, {1, 1, 1}), c = f32({1}, {10});
  expect_array(run({"Gemm", 13, {a, b, c}, {{"transA", 1}, {"transB", 1}, {"alpha", 2.0}, {"beta", 0.5}}}),
               f32({2, 1}, {23, 29}));
  expect_array(run({"Gemm", 13, {f32({1, 2}, {1, 2}), f32({2, 1}, {3, 4})}}), f32({1, 1}, {11}));
}

TEST(OnnxRule, ConvolutionPadsAutomatically) {
  Array x = f32({1, 1, 4}, {1, 2, 3, 4}), w = f32({1, 1, 2}, {1, 10}), bias = f32({1}, {100});
  expect_array(run({"Conv", 11, {x, w}, {{"auto_pad", "SAME_UPPER"}}}), f32({1, 1, 4}, {21, 32, 43, 4}));
  expect_array(run({"Conv", 11, {x, w}, {{"auto_pad", "SAME_LOWER"}}}), f32({1, 1, 4}, {10, 21, 32, 43}));
  expect_array(run({"Conv", 11, {x, w, bias}, {{"auto_pad", "VALID"}}}), f32({1, 1, 3}, {121, 132, 143}));
  EXPECT_EQ(refusal({"Conv", 11, {x, w}, {{"kernel_shape", Ints{3}}}}), ErrorKind::Malformed);
  EXPECT_EQ(refusal({"Conv", 11, {x, w}, {{"auto_pad", "SAME"}}}), ErrorKind::Malformed);
}

TEST(OnnxRule, TransposedConvolutionReachesAWantedShape) {
  Array x = f32({1, 1, 2}, {1, 2}), w = f32({1, 1, 4}, {1, 2, 3, 4});
  expect_array(run({"ConvTranspose", 11, {x, w}, {{"strides", Ints{2}}, {"auto_pad", "SAME_UPPER"}}}),
               f32({1, 1, 4}, {2, 5, 8, 6}));
  // The whole result is [1, 2, 5, 8, 6, 8]; of an odd excess the larger half goes in front.
  expect_array(run({"ConvTranspose", 11, {x, w}, {{"strides", Ints{2}}, {"output_shape", Ints{3}}}}), f32({1, 1, 3}, {5, 8, 6}));
  expect_array(run({"ConvTranspose", 11, {x, w}, {{"strides", Ints{2}}, {"output_shape", Ints{7}}}}),
               f32({1, 1, 7}, {1, 2, 5, 8, 6, 8, 0}));
  expect_array(run({"ConvTranspose", 11, {x, w}, {{"strides", Ints{2}}, {"output_shape", Ints{3}}, {"auto_pad", "SAME_UPPER"}}}),
               f32({1, 1, 3}, {2, 5, 8}));
}

TEST(OnnxRule, PoolingOverWindowsAndOverEverything) {
  Array x = f32({1, 1, 4}, {1, 2, 3, 4});
  Attrs window{{"kernel_shape", Ints{3}}, {"strides", Ints{2}}, {"ceil_mode", 1}};
  expect_array(run({"AveragePool", 19, {x}, window}), f32({1, 1, 2}, {2, 3.5}));
  expect_array(run({"MaxPool", 12, {x}, window}), f32({1, 1, 2}, {3, 4}));
  expect_array(run({"LpPool", 18, {f32({1, 1, 4}, {3, -4, 0, 1})}, {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}}}),
               f32({1, 1, 2}, {5, 1}));
  expect_array(run({"LpPool", 18, {f32({1, 1, 2}, {3, -4})}, {{"kernel_shape", Ints{2}}, {"p", 1}}}), f32({1, 1, 1}, {7}));
  expect_array(run({"LpPool", 18, {f32({1, 1, 2}, {2, -2})}, {{"kernel_shape", Ints{2}}, {"p", 3}}}),
               f32({1, 1, 1}, {std::cbrt(16)}));
  expect_array(run({"GlobalAveragePool", 1, {x}}), f32({1, 1, 1}, {2.5}));
  expect_array(run({"GlobalMaxPool", 1, {x}}), f32({1, 1, 1}, {4}));
  expect_array(run({"GlobalLpPool", 2, {f32({1, 1, 2}, {3, -4})}}), f32({1, 1, 1}, {5}));
  EXPECT_EQ(refusal({"MaxPool", 12, {x}}), ErrorKind::Malformed);
}

TEST(OnnxRule, OperatorsOfNewerOpsets) {
  Array x = f32({2}, {0, 1});
  expect_array(run({"Gelu", 20, {x}}), f32({2}, {0, 0.8413447461}), 1e-5);
  expect_array(run({"Gelu", 20, {x}, {{"approximate", "tanh"}}}), f32({2}, {0, 0.8411919906}), 1e-5);
  expect_array(run({"Mish", 18, {x}}), f32({2}, {0, 0.8650983883}), 1e-5);
  expect_array(run({"Swish", 24, {x}, {{"alpha", 2.0}}}), f32({2}, {0, 0.8807970780}), 1e-5);
  expect_array(run({"BitwiseXor", 18, {array(DType::U8, {2}, {12, 5}), array(DType::U8, {2}, {10, 5})}}),
               array(DType::U8, {2}, {6, 0}));
  expect_array(run({"IsInf", 20, {f32({2}, {-INFINITY, INFINITY})}, {{"detect_negative", 0}}}), array(DType::Bool, {2}, {0, 1}));
  expect_array(run({"BitShift", 11, {array(DType::U8, {2}, {16, 4}), array(DType::U8, {2}, {1, 2})}, {{"direction", "RIGHT"}}}),
               array(DType::U8, {2}, {8, 1}));
  EXPECT_EQ(refusal({"Gelu", 17, {x}}), ErrorKind::Unsupported);
}

TEST(OnnxRule, TensorsThatAreHandedOn) {
  Array x = f32({2}, {1.5, -2});
  expect_array(run({"Cast", 13, {x}, {{"to", 6}}}), array(DType::I32, {2}, {1, -2}));
  expect_array(run({"CastLike", 15, {x, array(DType::U8, {1}, {0})}}), array(DType::U8, {2}, {1, 0}));
  EXPECT_EQ(refusal({"Cast", 13, {x}, {{"to", 8}}}), ErrorKind::Unsupported);
  expect_array(run({"Dropout", 13, {x}}), x);
  std::vector<Array> masked = run_all({"Dropout", 13, {x}, {}, 2});
  expect_array(masked[1], array(DType::Bool, {2}, {1, 1}));
  expect_array(run_all({"Dropout", 7, {x}, {{"ratio", 0.25}}, 2})[1], f32({2}, {1, 1}));
  EXPECT_EQ(refusal({"Dropout", 13, {x, f32({}, {0.5}), array(DType::Bool, {}, {1})}}), ErrorKind::Unsupported);
  expect_array(run({"Dropout", 13, {x, f32({}, {0}), array(DType::Bool, {}, {1})}}), x);
  expect_array(run({"Constant", 13, {}, {{"value_floats", std::vector<double>{1, 2}}}}), f32({2}, {1, 2}));
  expect_array(run({"Constant", 13, {}, {{"value_ints", Ints{3, 4}}}}), ints({3, 4}));
  expect_array(run({"Constant", 13, {}, {{"value_int", 5}}}), array(DType::I64, {}, {5}));
  EXPECT_EQ(refusal({"Constant", 13, {}, {{"value_string", "text"}}}), ErrorKind::Unsupported);
}

TEST(OnnxRule, VariadicOperatorsFoldFromTheLeft) {
  Array a = f32({2}, {1, 5}), b = f32({1}, {3}), c = f32({2}, {2, 9});
  expect_array(run({"Max", 13, {a, b, c}}), f32({2}, {3, 9}));
  expect_array(run({"Min", 13, {a, b, c}}), f32({2}, {1, 3}));
  expect_array(run({"Sum", 13, {a, b, c}}), f32({2}, {6, 17}));
  expect_array(run({"Mean", 13, {a, b, c}}), f32({2}, {2, 17.0 / 3}));
  expect_array(run({"Max", 13, {a}}), a);
}

}  // namespace
}  // namespace tenon
