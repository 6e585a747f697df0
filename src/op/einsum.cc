// SPDX-License-Identifier: Apache-2.0
// Einsum, taken apart into diagonals, sums, transposes and matrix products of two operands at a time.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "op/all_ops.h"
#include "op/onnx_build.h"
#include "op/ops.h"

namespace tenon::op {
namespace {

/// A value whose axes carry labels. Axes under an ellipsis get labels above the letters.
struct Term {
  ValueId value;
  std::u32string labels;
};

constexpr char32_t kEllipsisLabels = 0x1000;

bool holds(const std::u32string& labels, char32_t label) { return labels.find(label) != std::u32string::npos; }

/// Graph building for one node.
class Contraction {
 public:
  Contraction(OnnxNode& node, Builder& builder) : node_(node), builder_(builder) {}

  ValueId run();

 private:
  Shape shape(ValueId v) const { return builder_.type(v).static_shape(); }
  ValueId reshaped(ValueId v, Shape s) { return builder_.call1(reshape, {v}, {{"shape", std::move(s)}}); }
  std::u32string parse(const std::string& text, size_t rank);
  void parse_equation(const std::string& equation);
  Term ordered(const Term& term, const std::u32string& labels);
  Term diagonal(Term term);
  Term summed(const Term& term, const std::u32string& kept);
  Term product(Term a, Term b, const std::u32string& kept);
  int64_t volume(const std::u32string& labels) const;

  OnnxNode& node_;
  Builder& builder_;
  std::vector<Term> terms_;
  std::u32string result_;
  std::map<char32_t, int64_t> extents_;
  size_t ellipsis_rank_ = 0;
};

/// Labels of a subscript; an ellipsis stands for the axes that the letters leave, counted from the right.
std::u32string Contraction::parse(const std::string& text, size_t rank) {
  std::u32string labels;
  bool dots = text.find("...") != std::string::npos;
  size_t letters = static_cast<size_t>(std::count_if(text.begin(), text.end(), [](unsigned char c) { return std::isalpha(c); }));
  if (letters > rank || (!dots && letters != rank))
    node_.malformed("a subscript does not fit its input", std::to_string(rank), text);
  size_t covered = rank - letters;
  for (size_t k = 0; k < text.size(); ++k) {
    if (std::isalpha(static_cast<unsigned char>(text[k]))) {
      labels += static_cast<char32_t>(text[k]);
    } else if (text.compare(k, 3, "...") == 0) {
      for (size_t axis = covered; axis > 0; --axis) labels += kEllipsisLabels + static_cast<char32_t>(axis);
      k += 2;
    } else {
      node_.malformed("an equation that is no list of subscripts", "letters, `...`, `,` and `->`", text);
    }
  }
  ellipsis_rank_ = std::max(ellipsis_rank_, dots ? covered : 0);
  return labels;
}

void Contraction::parse_equation(const std::string& equation) {
  std::string text = equation;
  std::erase(text, ' ');
  size_t arrow = text.find("->");
  std::string inputs = text.substr(0, arrow);
  size_t from = 0;
  for (size_t k = 0; k < node_.input_count(); ++k) {
    size_t comma = std::min(inputs.find(',', from), inputs.size());
    if (from > inputs.size()) node_.malformed("fewer subscripts than inputs", std::to_string(node_.input_count()), text);
    if (!node_.type(k).is_static())
      node_.unsupported("an input of " + to_string(node_.type(k)) + ", whose extents are not known");
    terms_.push_back({node_.in(k), parse(inputs.substr(from, comma - from), node_.type(k).shape.size())});
    from = comma + 1;
  }
  if (from <= inputs.size()) node_.malformed("more subscripts than inputs", std::to_string(node_.input_count()), text);
  std::map<char32_t, int> uses;
  for (const Term& term : terms_)
    for (char32_t label : term.labels) ++uses[label];
  if (arrow != std::string::npos) {
    std::string out = text.substr(arrow + 2);
    size_t letters = static_cast<size_t>(std::count_if(out.begin(), out.end(), [](unsigned char c) { return std::isalpha(c); }));
    result_ = parse(out, letters + (out.find("...") != std::string::npos ? ellipsis_rank_ : 0));
  } else {
    for (size_t axis = ellipsis_rank_; axis > 0; --axis) result_ += kEllipsisLabels + static_cast<char32_t>(axis);
    for (auto [label, count] : uses)
      if (count == 1 && label < kEllipsisLabels) result_ += label;
  }
  for (char32_t label : result_)
    if (!uses.contains(label)) node_.malformed("the result names an axis that no input has", {}, text);
}

int64_t Contraction::volume(const std::u32string& labels) const {
  int64_t count = 1;
  for (char32_t label : labels) count *= extents_.at(label);
  return count;
}

/// The axes of a term in the order of `labels`, which must be the same set.
Term Contraction::ordered(const Term& term, const std::u32string& labels) {
  if (term.labels == labels) return term;
  Shape axes;
  for (char32_t label : labels) axes.push_back(static_cast<int64_t>(term.labels.find(label)));
  return {builder_.call1(transpose, {term.value}, {{"axes", std::move(axes)}}), labels};
}

/// A label that stands twice becomes one axis: the two go last, flattened, and every (n + 1)th element is kept.
Term Contraction::diagonal(Term term) {
  for (size_t first = 0; first < term.labels.size(); ++first) {
    size_t second = term.labels.find(term.labels[first], first + 1);
    if (second == std::u32string::npos) continue;
    Shape old = shape(term.value), axes, rest;
    if (old[first] != old[second])
      node_.malformed("a diagonal of unequal extents", std::to_string(old[first]), std::to_string(old[second]));
    std::u32string labels;
    for (size_t k = 0; k < old.size(); ++k) {
      if (k == first || k == second) continue;
      axes.push_back(static_cast<int64_t>(k));
      rest.push_back(old[k]);
      labels += term.labels[k];
    }
    axes.insert(axes.end(), {static_cast<int64_t>(first), static_cast<int64_t>(second)});
    ValueId moved = builder_.call1(transpose, {term.value}, {{"axes", axes}});
    int64_t n = old[first];
    Shape flat = rest, begin(rest.size() + 1, 0), strides(rest.size(), 1);
    flat.push_back(n * n);
    strides.push_back(n + 1);
    ValueId kept =
        builder_.call1(strided_slice, {reshaped(moved, flat)}, {{"begin", begin}, {"end", flat}, {"strides", strides}});
    term = {kept, labels + term.labels[first]};
    first = static_cast<size_t>(-1);  // start again: a label may stand three times
  }
  return term;
}

/// Sums the axes whose labels are not in `kept`.
Term Contraction::summed(const Term& term, const std::u32string& kept) {
  Shape axes;
  std::u32string left;
  for (size_t k = 0; k < term.labels.size(); ++k) {
    if (holds(kept, term.labels[k]))
      left += term.labels[k];
    else
      axes.push_back(static_cast<int64_t>(k));
  }
  if (axes.empty()) return term;
  return {builder_.call1(sum, {term.value}, {{"axes", std::move(axes)}, {"keepdims", false}}), left};
}

/// The product of two terms, summed over the labels that are not in `kept`: one matrix product per shared index.
Term Contraction::product(Term a, Term b, const std::u32string& kept) {
  a = summed(a, kept + b.labels);
  b = summed(b, kept + a.labels);
  std::u32string shared, inner, rows, columns;
  for (char32_t label : a.labels) (!holds(b.labels, label) ? rows : holds(kept, label) ? shared : inner) += label;
  for (char32_t label : b.labels)
    if (!holds(a.labels, label)) columns += label;
  ValueId left = reshaped(ordered(a, shared + rows + inner).value, {volume(shared), volume(rows), volume(inner)});
  ValueId right = reshaped(ordered(b, shared + inner + columns).value, {volume(shared), volume(inner), volume(columns)});
  Term result{builder_.call1(matmul, {left, right}), shared + rows + columns};
  Shape out;
  for (char32_t label : result.labels) out.push_back(extents_.at(label));
  result.value = reshaped(result.value, std::move(out));
  return result;
}

ValueId Contraction::run() {
  parse_equation(node_.attr("equation", ""));
  for (Term& term : terms_) {
    term = diagonal(std::move(term));
    Shape extents = shape(term.value);
    for (size_t k = 0; k < extents.size(); ++k) {
      auto [it, fresh] = extents_.emplace(term.labels[k], extents[k]);
      if (it->second != extents[k]) node_.unsupported("inputs that disagree on an axis (broadcasting in an equation)");
    }
  }
  Term total = terms_[0];
  for (size_t k = 1; k < terms_.size(); ++k) {
    std::u32string kept = result_;
    for (size_t later = k + 1; later < terms_.size(); ++later) kept += terms_[later].labels;
    total = product(total, terms_[k], kept);
  }
  return ordered(summed(total, result_), result_).value;
}

std::vector<ValueId> import_einsum(OnnxNode& node, Builder& builder) {
  if (node.input_count() == 0) node.malformed("an equation without inputs");
  return {Contraction(node, builder).run()};
}

}  // namespace

Family einsum_family() { return {{}, {{"Einsum", 12, import_einsum}}}; }

}  // namespace tenon::op
