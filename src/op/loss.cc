// SPDX-License-Identifier: Apache-2.0
// Losses of a classification: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
#include "op/all_ops.h"
#include "op/onnx_build.h"
#include "op/ops.h"

namespace tenon::op {
namespace {

using Values = std::vector<ValueId>;

ValueId sum_of_all(Builder& builder, ValueId x) {
  Shape axes;
  for (int64_t axis = 0; axis < builder.type(x).rank(); ++axis) axes.push_back(axis);
  return builder.call1(sum, {x}, {{"axes", std::move(axes)}, {"keepdims", false}});
}

/// What each target counts for: its class's weight, and nothing where it is to be ignored.
struct Targets {
  ValueId classes;  // i64; ignored ones are class 0
  ValueId weights;
  std::optional<ValueId> ignored;
};

Targets read_targets(OnnxNode& node, Builder& builder, ValueId target, DType dtype) {
  Targets targets{target, target, std::nullopt};
  DType index = builder.type(target).dtype;
  if (node.has_attr("ignore_index")) {
    ValueId skipped = scalar(builder, index, static_cast<double>(node.attr("ignore_index", 0)));
    targets.ignored = builder.call1(equal, {target, skipped});
    targets.classes = builder.call1(where, {*targets.ignored, scalar(builder, index, 0), target});
  }
  Shape shape = builder.type(target).static_shape();
  targets.weights = node.has(2) ? builder.call1(gather, {node.in(2), targets.classes}, {{"axis", int64_t{0}}})
                                : builder.call1(broadcast_to, {scalar(builder, dtype, 1)}, {{"shape", std::move(shape)}});
  if (targets.ignored) targets.weights = builder.call1(where, {*targets.ignored, scalar(builder, dtype, 0), targets.weights});
  return targets;
}

/// -log_probability[n, target[n, …], …] * weight, reduced as the node asks; the mean divides by the weights' sum.
ValueId likelihood_loss(OnnxNode& node, Builder& builder, ValueId log_probability) {
  const TensorType type = builder.type(log_probability);
  const TensorType& target = node.type(1);
  if (!type.is_static() || !target.is_static())
    node.unsupported("a loss over " + to_string(type) + ", whose extents are not known");
  if (type.rank() < 2 || target.rank() != type.rank() - 1)
    node.malformed("the targets do not fit the scores", {}, to_string(target));
  Targets targets = read_targets(node, builder, node.in(1), type.dtype);
  Shape shape = target.static_shape(), with_class = shape;
  with_class.insert(with_class.begin() + 1, 1);
  ValueId indices = builder.call1(reshape, {targets.classes}, {{"shape", std::move(with_class)}});
  ValueId picked = builder.call1(gather_elements, {log_probability, indices}, {{"axis", int64_t{1}}});
  ValueId found = builder.call1(reshape, {picked}, {{"shape", std::move(shape)}});
  ValueId loss = builder.call1(multiply, {builder.call1(neg, {found}), targets.weights});
  if (targets.ignored) loss = builder.call1(where, {*targets.ignored, scalar(builder, type.dtype, 0), loss});
  std::string reduction = node.attr("reduction", "mean");
  if (reduction == "none") return loss;
  if (reduction == "sum") return sum_of_all(builder, loss);
  if (reduction != "mean") node.malformed("an unknown reduction", "none, sum or mean", reduction);
  return builder.call1(divide, {sum_of_all(builder, loss), sum_of_all(builder, targets.weights)});
}

Values import_likelihood_loss(OnnxNode& node, Builder& builder) { return {likelihood_loss(node, builder, node.in(0))}; }

/// The loss, and the logarithm of the softmax over the classes.
Values import_cross_entropy_loss(OnnxNode& node, Builder& builder) {
  ValueId log_probability = builder.call1(log_softmax, {node.in(0)}, {{"axes", Shape{1}}});
  return {likelihood_loss(node, builder, log_probability), log_probability};
}

}  // namespace

Family loss_family() {
  return {
      {},
      {{"NegativeLogLikelihoodLoss", 12, import_likelihood_loss}, {"SoftmaxCrossEntropyLoss", 12, import_cross_entropy_loss}}};
}

}  // namespace tenon::op
