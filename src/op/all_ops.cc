// SPDX-License-Identifier: Apache-2.0
// The list of operator families.
#include "op/all_ops.h"

#include <algorithm>
#include <tuple>

namespace tenon::op {
namespace {

std::vector<Family> families() {
  return {
      // clang-format off
      elementwise_family(),
      reduce_family(),
      matmul_family(),
      conv_family(),
      conv_transpose_family(),
      pool_family(),
      norm_family(),
      softmax_family(),
      shape_family(),
      join_family(),
      slice_family(),
      pad_family(),
      fill_family(),
      gather_family(),
      scatter_family(),
      sort_family(),
      resize_family(),
      grid_sample_family(),
      recurrent_family(),
      quantize_family(),
      signal_family(),
      einsum_family(),
      loss_family(),
      determinant_family(),
      tfidf_family(),
      // clang-format on
  };
}

}  // namespace

const graph::OpTable& all_ops() {
  static const graph::OpTable table = [] {
    std::vector<const graph::OpDef*> ops;
    for (const Family& family : families()) ops.insert(ops.end(), family.ops.begin(), family.ops.end());
    return graph::OpTable(std::move(ops));
  }();
  return table;
}

const std::vector<OnnxRule>& all_onnx_rules() {
  static const std::vector<OnnxRule> rules = [] {
    std::vector<OnnxRule> all;
    for (const Family& family : families()) all.insert(all.end(), family.onnx.begin(), family.onnx.end());
    std::sort(all.begin(), all.end(),
              [](const OnnxRule& a, const OnnxRule& b) { return std::tie(a.op_type, a.since) < std::tie(b.op_type, b.since); });
    return all;
  }();
  return rules;
}

const OnnxRule* find_onnx_rule(std::string_view op_type, int opset) {
  const std::vector<OnnxRule>& rules = all_onnx_rules();
  auto above = std::upper_bound(rules.begin(), rules.end(), std::pair(op_type, opset), [](const auto& key, const OnnxRule& rule) {
    return std::tie(key.first, key.second) < std::tie(rule.op_type, rule.since);
  });
  if (above == rules.begin() || (above - 1)->op_type != op_type) return nullptr;
  return &*(above - 1);
}

}  // namespace tenon::op
