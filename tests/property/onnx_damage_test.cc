// SPDX-License-Identifier: Apache-2.0
// Law: any damage to a model file ends in a CompileError or in a module whose results are defined, never otherwise.
#include <gtest/gtest.h>

#include <random>

#include "import/onnx/import.h"
#include "support/onnx_writer.h"

namespace tenon::onnx {
namespace {

using test::OnnxGraph;

/// A model with every kind of message that we read.
std::string sample_model() {
  const OnnxGraph then_branch = OnnxGraph().node("Neg", {"s"}, {"t"}).output("t", DType::F32);
  const OnnxGraph else_branch = OnnxGraph().node("Abs", {"s"}, {"e"}).output("e", DType::F32);
  const OnnxGraph graph = OnnxGraph()
                              .input("x", DType::F32, {1, 2, "h"})
                              .input("w", DType::F32, {2, 1})
                              .initializer("w", array_of<float>(DType::F32, {2, 1}, {0.5f, -1}))
                              .initializer("axes", array_of<int64_t>(DType::I64, {1}, {0}))
                              .initializer("c", array_of<uint8_t>(DType::Bool, {}, {1}))
                              .node("Mul", {"x", "w"}, {"m"}, {}, "scale")
                              .node("LeakyRelu", {"m"}, {"r"}, {{"alpha", 0.25}})
                              .node("Transpose", {"r"}, {"p"}, {{"perm", std::vector<int64_t>{2, 1, 0}}})
                              .node("Unsqueeze", {"p", "axes"}, {"s"})
                              .node("If", {"c"}, {"i"}, {{"then_branch", then_branch}, {"else_branch", else_branch}})
                              .node("Shape", {"i"}, {"shape"})
                              .output("i", DType::F32)
                              .output("shape", DType::I64);
  return test::onnx_model(graph, 13);
}

/// Whether the bytes give a valid module; a CompileError is the only exception allowed.
bool imports(const std::string& bytes) {
  try {
    const auto module = import_bytes("m.onnx", nullptr, std::as_bytes(std::span(bytes)), {.input_shapes = {{"x", {1, 2, 3}}}});
    const graph::Function& f = module.functions.at("main");
    for (graph::ValueId result : f.results) EXPECT_LT(result.index, f.value_count());
    EXPECT_EQ(f.results.size(), f.result_names.size());
    return true;
  } catch (const CompileError& e) {
    EXPECT_FALSE(e.diagnostics()[0].code.empty());
    return false;
  }
}

TEST(OnnxDamage, TheSampleIsSound) { EXPECT_TRUE(imports(sample_model())); }

TEST(OnnxDamage, EveryTruncationIsRefused) {
  const std::string model = sample_model();
  for (size_t size = 0; size < model.size(); ++size) EXPECT_FALSE(imports(model.substr(0, size))) << size;
}

TEST(OnnxDamage, FlippedBytesNeverEscape) {
  const std::string model = sample_model();
  std::mt19937 random(1);
  int accepted = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    std::string damaged = model;
    for (int flips = 1 + static_cast<int>(random() % 4); flips > 0; --flips)
      damaged[random() % damaged.size()] ^= static_cast<char>(1 + random() % 255);
    accepted += imports(damaged);
  }
  EXPECT_LT(accepted, 4000);  // some flips are in names or values; most are noticed
}

TEST(OnnxDamage, NoiseIsRefused) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 1000; ++trial) {
    std::string noise(random() % 300, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    EXPECT_FALSE(imports(noise));
  }
}

}  // namespace
}  // namespace tenon::onnx
