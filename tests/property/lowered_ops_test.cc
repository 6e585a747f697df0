// SPDX-License-Identifier: Apache-2.0
// Laws of lowering over the operators: the kernel of an operator means what te::evaluate says, and both façades give
// the same kernel up to its name.
#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <set>

#include "graph/interpret.h"
#include "lower/lower.h"
#include "op/all_ops.h"
#include "op/ops.h"
#include "support/onnx_tensor.h"
#include "tir/text.h"

namespace tenon {
namespace {

using graph::Attrs;
using Ints = std::vector<int64_t>;

/// Whole numbers in [low, low + 6), as any dtype.
Array small_numbers(std::mt19937_64& random, const TensorType& type, int low) {
  MutableArray out(type.dtype, type.static_shape());
  auto size = static_cast<size_t>(byte_size(type.dtype));
  for (size_t at = 0; at < out.size_bytes; at += size) {
    int value = low + static_cast<int>(random() % 6);
    uint64_t bits =
        type.dtype == DType::Bool ? static_cast<uint64_t>(value & 1) : static_cast<uint64_t>(static_cast<int64_t>(value));
    if (type.dtype == DType::F64) bits = std::bit_cast<uint64_t>(static_cast<double>(value));
    if (type.dtype == DType::F32) bits = std::bit_cast<uint32_t>(static_cast<float>(value));
    if (type.dtype == DType::F16) bits = float_to_half(static_cast<float>(value));
    if (type.dtype == DType::BF16) bits = float_to_bfloat(static_cast<float>(value));
    __builtin_memcpy(out.data() + at, &bits, size);
  }
  return std::move(out).freeze();
}

/// What a float may be off by: te::evaluate rounds once where the kernel rounds after each operation.
double tolerance(DType dtype) {
  switch (dtype) {
    case DType::F16: return 1e-2;
    case DType::BF16: return 1e-1;
    case DType::F32: return 1e-5;
    default: return 1e-12;
  }
}

graph::Function primitive_call(graph::Module& m, const std::string& name, const graph::OpDef& op,
                               const std::vector<TensorType>& inputs, const Attrs& attrs) {
  graph::Builder b(m, name);
  std::vector<graph::ValueId> params;
  for (const TensorType& type : inputs) params.push_back(b.param("", type));
  graph::Function f = b.finish(b.call(op, params, attrs));
  f.attrs["primitive"] = true;
  return f;
}

void expect_laws(const graph::OpDef& op, const std::vector<TensorType>& inputs, const Attrs& attrs, int low) {
  graph::Module m;
  graph::Function f = primitive_call(m, "f", op, inputs, attrs);
  std::string what(op.name);
  for (const TensorType& type : inputs) what += " " + to_string(type);
  what += " " + tir::print_attrs(attrs);
  std::mt19937_64 random(std::hash<std::string>{}(what));
  std::vector<Array> arrays;
  for (const TensorType& type : inputs) arrays.push_back(small_numbers(random, type, low));

  graph::Builder main(m, "main");
  graph::Node call;
  call.kind = graph::NodeKind::Call;
  call.callee = "f";
  for (const TensorType& type : inputs) call.inputs.push_back(main.param("", type));
  for (graph::ValueId v : f.results) call.types.push_back(f.type(v));
  m.functions.emplace("main", main.finish(main.append(call)));
  tir::PrimFunc alone = lower::lower_to_prim_func(m, f);
  m.functions.emplace("f", std::move(f));
  EXPECT_NO_THROW(tir::verify(alone)) << what;

  graph::Module lowered = lower::lower_module(m, nullptr);
  ASSERT_EQ(lowered.prim_funcs.size(), 1u) << what;
  EXPECT_TRUE(tir::structural_equal(lowered.prim_funcs.begin()->second, alone)) << what;
  std::vector<Array> expected = graph::interpret(m, "main", arrays), found = graph::interpret(lowered, "main", arrays);
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t k = 0; k < found.size(); ++k) {
    double t = is_float(expected[k].dtype) ? std::max(tolerance(expected[k].dtype), tolerance(inputs[0].dtype)) : 0;
    EXPECT_EQ(test::difference(found[k], expected[k], t, t), "") << what << "\n" << tir::print(alone);
  }
}

TensorType tensor(DType dtype, const Shape& shape) { return TensorType::of(dtype, shape); }

bool needs_attributes(const graph::OpDef& op) {
  return std::any_of(op.attrs.begin(), op.attrs.end(), [](const auto& spec) { return !spec.default_value; });
}

/// Whether an operator takes these types; one that does not refuses with its own error.
bool accepts(const graph::OpDef& op, const std::vector<TensorType>& inputs) {
  Attrs attrs;
  try {
    graph::infer_types(op, inputs, attrs, "", {});
    return true;
  } catch (const CompileError&) {
    return false;
  }
}

TEST(LoweredOps, OperatorsOfOneShapeOnEveryDtype) {
  std::set<std::string_view> covered;
  for (const graph::OpDef* op : op::all_ops().all()) {
    if (needs_attributes(*op) || op->inputs.size() > 3) continue;
    for (DType d : kAllDTypes)
      for (const Shape& shape : {Shape{3, 5}, Shape{}, Shape{0, 2}}) {
        std::vector<TensorType> inputs(op->inputs.size(), tensor(d, shape));
        if (op->name == "where") inputs[0].dtype = DType::Bool;
        if (!accepts(*op, inputs)) continue;
        covered.insert(op->name);
        expect_laws(*op, inputs, {}, is_float(d) || is_signed_integer(d) ? -2 : 0);
      }
  }
  for (const char* name : {"relu", "gelu", "tanh", "add", "mod", "power", "where", "clip", "equal", "shift_right", "isnan"})
    EXPECT_TRUE(covered.contains(name)) << name;
}

Attrs with_window(Ints strides, Ints pads, Ints dilations, Attrs attrs) {
  attrs.insert({{"strides", std::move(strides)}, {"pads", std::move(pads)}, {"dilations", std::move(dilations)}});
  return attrs;
}

struct OpCase {
  const graph::OpDef& op;
  std::vector<Shape> shapes;
  Attrs attrs;
};

TEST(LoweredOps, OperatorsThatMoveOrReduceData) {
  const OpCase cases[] = {
      {op::add, {{2, 3, 4}, {3, 1}}, {}},
      {op::matmul, {{3, 4}, {4, 5}}, {}},
      {op::matmul, {{2, 1, 3, 4}, {5, 4, 2}}, {}},
      {op::matmul, {{4}, {4}}, {}},
      {op::matmul, {{3, 0}, {0, 2}}, {}},
      {op::sum, {{2, 3, 4}}, {{"axes", Ints{0, -1}}}},
      {op::sum, {{2, 0, 4}}, {{"axes", Ints{1}}, {"keepdims", true}}},
      {op::mean, {{2, 3, 4}}, {{"axes", Ints{1}}, {"keepdims", true}}},
      {op::prod, {{2, 7}}, {{"axes", Ints{1}}}},
      {op::max, {{2, 7}}, {{"axes", Ints{0}}}},
      {op::min, {{2, 7}}, {{"axes", Ints{0, 1}}}},
      {op::argmax, {{3, 9}}, {{"axis", int64_t{1}}, {"select_last_index", true}}},
      {op::argmin, {{3, 9}}, {{"axis", int64_t{0}}, {"keepdims", true}}},
      {op::reshape, {{2, 3, 4}}, {{"shape", Ints{4, -1}}}},
      {op::transpose, {{2, 3, 4}}, {{"axes", Ints{2, 0, 1}}}},
      {op::broadcast_to, {{3, 1}}, {{"shape", Ints{2, 3, 4}}}},
      {op::tile, {{2, 3}}, {{"reps", Ints{2, 3}}}},
      {op::concat, {{2, 3}, {2, 1}, {2, 0}, {2, 5}}, {{"axis", int64_t{1}}}},
      {op::split, {{2, 9}}, {{"axis", int64_t{1}}, {"sizes", Ints{2, 0, 7}}}},
      {op::strided_slice, {{7, 5}}, {{"begin", Ints{6, 1}}, {"end", Ints{-1, 5}}, {"strides", Ints{-2, 3}}}},
      {op::pad, {{3, 4}, {}}, {{"before", Ints{1, 0}}, {"after", Ints{2, 3}}}},
      {op::pad, {{3, 4}, {}}, {{"before", Ints{1, 2}}, {"after", Ints{2, 3}}, {"mode", std::string("reflect")}}},
      {op::top_k, {{3, 8}}, {{"axis", int64_t{1}}, {"k", int64_t{3}}}},
      {op::conv, {{1, 4, 7, 6}, {6, 2, 3, 2}}, with_window({2, 1}, {1, 0, 1, 1}, {1, 2}, {{"groups", int64_t{2}}})},
      {op::conv, {{2, 3, 9}, {4, 3, 3}}, with_window({1}, {0, 2}, {2}, {})},
      {op::conv_transpose,
       {{1, 4, 3, 4}, {4, 3, 3, 2}},
       with_window({2, 1}, {1, 0, 1, 1}, {1, 2}, {{"groups", int64_t{2}}, {"output_padding", Ints{1, 0}}})},
      {op::max_pool, {{1, 2, 7, 6}}, with_window({2, 2}, {1, 0, 0, 1}, {1, 2}, {{"kernel", Ints{3, 2}}, {"ceil_mode", true}})},
      {op::avg_pool, {{1, 2, 7, 6}}, with_window({2, 2}, {1, 0, 1, 0}, {1, 1}, {{"kernel", Ints{3, 2}}})},
      {op::layer_norm, {{3, 8}}, {{"axes", Ints{1}}}},
      {op::batch_norm, {{2, 3, 4}, {3}, {3}, {3}, {3}}, {{"epsilon", 5.0}}},  // the data reach down to -2
      {op::lrn, {{1, 5, 3}}, {{"size", int64_t{3}}}},
      {op::softmax, {{3, 9}}, {{"axes", Ints{1}}}},
      {op::log_softmax, {{3, 9}}, {{"axes", Ints{0}}}},
      {op::hardmax, {{3, 9}}, {{"axis", int64_t{1}}}},
      {op::cumsum, {{3, 8}}, {{"axis", int64_t{0}}, {"exclusive", true}, {"reverse", true}}},
  };
  for (const OpCase& c : cases)
    for (DType d : {DType::F32, DType::F64, DType::I32, DType::U8}) {
      std::vector<TensorType> inputs;
      for (const Shape& shape : c.shapes) inputs.push_back(tensor(d, shape));
      if (!graph::contains(c.op.dtypes, d)) continue;
      expect_laws(c.op, inputs, c.attrs, d == DType::U8 ? 0 : -2);
    }
}

TEST(LoweredOps, OperatorsWithIndices) {
  auto i64 = [](const Shape& shape) { return tensor(DType::I64, shape); };
  TensorType x = tensor(DType::F32, {7, 6});
  expect_laws(op::gather, {x, i64({2, 3})}, {{"axis", int64_t{0}}}, 0);
  expect_laws(op::gather_elements, {x, i64({3, 6})}, {{"axis", int64_t{0}}}, 0);
  expect_laws(op::gather_nd, {x, i64({4, 2})}, {}, 0);
  expect_laws(op::one_hot, {i64({4}), tensor(DType::F32, {2})}, {{"axis", int64_t{1}}, {"depth", int64_t{6}}}, 0);
  expect_laws(op::scatter_elements, {x, i64({2, 6}), tensor(DType::F32, {2, 6})}, {{"axis", int64_t{0}}}, 0);
  expect_laws(op::scatter_elements, {x, i64({2, 6}), tensor(DType::F32, {2, 6})},
              {{"axis", int64_t{0}}, {"reduction", std::string("add")}}, 0);
  expect_laws(op::scatter_nd, {x, i64({4, 1}), tensor(DType::F32, {4, 6})}, {{"reduction", std::string("add")}}, 0);
}

}  // namespace
}  // namespace tenon
