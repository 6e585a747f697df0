// SPDX-License-Identifier: Apache-2.0
// ONNX's TfIdfVectorizer on integers: how often each n-gram of a pool occurs, from comparisons and sums.
#include <fmt/format.h>

#include <algorithm>

#include "op/all_ops.h"
#include "op/onnx_build.h"
#include "op/ops.h"

namespace tenon::op {
namespace {

// Of the matrix that adds each n-gram's count to its column.
constexpr int64_t kMaxSelection = int64_t{1} << 24;

struct Vectorizer {
  std::vector<int64_t> pool, starts, columns;  // grams of each length lie from starts[length - 1]; a result column per gram
  int64_t shortest = 1, longest = 1, max_skip = 0;
  int64_t width = 0;  // of the result
};

Vectorizer read_vectorizer(OnnxNode& node) {
  if (node.has_attr("pool_strings")) node.unsupported("a pool of strings");
  Vectorizer v{
      .pool = node.ints("pool_int64s", {}), .starts = node.ints("ngram_counts", {}), .columns = node.ints("ngram_indexes", {})};
  v.shortest = node.attr("min_gram_length", 1);
  v.longest = node.attr("max_gram_length", 1);
  v.max_skip = node.attr("max_skip_count", 0);
  const auto longest = static_cast<int64_t>(v.starts.size());
  if (v.shortest < 1 || v.longest < v.shortest || v.longest > longest || v.max_skip < 0)
    node.malformed(
        fmt::format("n-grams of {} to {} with {} skips of a pool of up to {}", v.shortest, v.longest, v.max_skip, longest));
  int64_t grams = 0;
  for (int64_t n = 1; n <= longest; ++n) {
    const int64_t begin = v.starts[static_cast<size_t>(n - 1)];
    const auto end = n < longest ? v.starts[static_cast<size_t>(n)] : static_cast<int64_t>(v.pool.size());
    if (begin < 0 || end < begin || end > static_cast<int64_t>(v.pool.size()) || (end - begin) % n != 0)
      node.malformed(fmt::format("`ngram_counts` does not divide a pool of {}", v.pool.size()));
    grams += (end - begin) / n;
  }
  if (grams != static_cast<int64_t>(v.columns.size()))
    node.malformed("`ngram_indexes` has the wrong length", std::to_string(grams), std::to_string(v.columns.size()));
  for (int64_t column : v.columns) {
    if (column < 0 || column >= kMaxSelection) node.malformed(fmt::format("`ngram_indexes` holds {}", column));
    v.width = std::max(v.width, column + 1);
  }
  if (grams > 0 && v.width > kMaxSelection / grams) node.unsupported(fmt::format("{} n-grams into {} columns", grams, v.width));
  return v;
}

/// [batch, grams]: how often each gram of one length occurs in the rows of x, whose items may lie `skip` others apart.
ValueId count_grams(Builder& builder, ValueId x, const Vectorizer& v, int64_t length, std::span<const int64_t> pool) {
  const Shape shape = builder.type(x).static_shape();
  const auto grams = static_cast<int64_t>(pool.size()) / length;
  std::vector<int64_t> points;
  for (int64_t skip = 0; skip <= (length == 1 ? 0 : v.max_skip) && (length - 1) * (skip + 1) < shape[1]; ++skip)
    for (int64_t at = 0; at + (length - 1) * (skip + 1) < shape[1]; ++at)
      for (int64_t item = 0; item < length; ++item) points.push_back(at + item * (skip + 1));
  const auto windows = static_cast<int64_t>(points.size()) / length;
  if (windows == 0 || length < v.shortest || length > v.longest) return full(builder, DType::F32, {shape[0], grams}, 0);
  ValueId items = builder.constant(array_of(DType::I64, {windows, 1, length}, points), "windows");
  ValueId pool_items = builder.constant(array_of<int64_t>(DType::I64, {grams, length}, {pool.begin(), pool.end()}), "grams");
  ValueId same = builder.call1(equal, {builder.call1(gather, {x, items}, {{"axis", int64_t{1}}}), pool_items});
  ValueId match = builder.call1(min, {cast_to(builder, same, DType::F32)}, {{"axes", Shape{3}}});
  return builder.call1(sum, {match}, {{"axes", Shape{1}}});
}

std::vector<ValueId> import_tfidf(OnnxNode& node, Builder& builder) {
  const Vectorizer v = read_vectorizer(node);
  const std::string mode = node.attr("mode", "");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") node.malformed("`mode` is `" + mode + "`", "TF, IDF or TFIDF");
  const TensorType& type = node.type(0);
  if (!type.is_static() || type.rank() < 1 || type.rank() > 2) node.unsupported("an input of " + to_string(type));
  Shape shape = type.static_shape();
  ValueId x =
      cast_to(builder, builder.call1(reshape, {node.in(0)}, {{"shape", Shape{type.rank() == 1 ? 1 : shape[0], shape.back()}}}),
              DType::I64);
  std::vector<ValueId> counts;
  for (size_t n = 0; n < v.starts.size(); ++n) {
    const auto begin = static_cast<size_t>(v.starts[n]),
               end = n + 1 < v.starts.size() ? static_cast<size_t>(v.starts[n + 1]) : v.pool.size();
    if (end > begin)
      counts.push_back(count_grams(builder, x, v, static_cast<int64_t>(n + 1), std::span(v.pool).subspan(begin, end - begin)));
  }
  if (counts.empty()) node.malformed("the pool is empty");
  const auto grams = static_cast<int64_t>(v.columns.size());
  const std::vector<double> weights = node.floats("weights", std::vector<double>(v.columns.size(), 1));
  if (weights.size() != v.columns.size()) node.malformed("`weights` has the wrong length");
  MutableArray place(DType::F32, {grams, v.width}), weight(DType::F32, {v.width});
  for (int64_t gram = 0; gram < grams; ++gram) {
    const int64_t column = v.columns[static_cast<size_t>(gram)];
    place.as<float>()[gram * v.width + column] = 1;
    weight.as<float>()[column] = static_cast<float>(weights[static_cast<size_t>(gram)]);
  }
  ValueId result = builder.call1(
      matmul, {builder.call1(concat, counts, {{"axis", int64_t{1}}}), builder.constant(std::move(place).freeze(), "columns")});
  if (mode == "IDF") result = builder.call1(minimum, {result, scalar(builder, DType::F32, 1)});
  if (mode != "TF") result = builder.call1(multiply, {result, builder.constant(std::move(weight).freeze(), "weights")});
  shape.back() = v.width;
  return {builder.call1(reshape, {result}, {{"shape", shape}})};
}

}  // namespace

Family tfidf_family() { return {{}, {{"TfIdfVectorizer", 9, import_tfidf}}}; }

}  // namespace tenon::op
