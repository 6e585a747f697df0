// SPDX-License-Identifier: Apache-2.0
// Descriptions as external/onednn/onednn.cc writes them, read back.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::onednn {

/// An argument with its extents; row-major.
struct Tensor {
  uint32_t argument = 0;
  std::vector<int64_t> dims;
};

struct PostOp {
  std::string name;  // an activation, or `add`
  std::vector<double> numbers;
  Tensor tensor;  // of `add`
};

struct Description {
  std::string kind;  // conv, matmul, max_pool, avg_pool_include, avg_pool_exclude
  std::vector<int64_t> kernel, strides, dilations, pads;
  int64_t groups = 1;
  Tensor src, weights, dst;
  int64_t bias = -1;  // an argument
  std::vector<PostOp> post;
};

/// Throws std::invalid_argument for a word that is unknown, a number that is none, or an argument that is not there.
Description parse(std::string_view text, size_t arg_count);

}  // namespace tenon::onednn
