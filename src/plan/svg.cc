// SPDX-License-Identifier: Apache-2.0
// One pool of a plan as a picture.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tenon/plan.h"

namespace tenon::plan {
namespace {

constexpr double kWidth = 1200, kHeight = 640, kLeft = 110, kRight = 20, kTop = 40, kBottom = 40;

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) out += c == '<' ? "&lt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  return out;
}

/// A part of a lifetime with the bytes in use during it.
struct Piece {
  int64_t begin, end, low, high;
};

std::vector<Piece> pieces_of(const Buffer& buffer) {
  std::vector<Piece> pieces;
  int64_t from = buffer.begin;
  auto add = [&](Piece piece) {
    if (piece.begin < piece.end && piece.low < piece.high) pieces.push_back(piece);
  };
  for (const Gap& gap : buffer.gaps) {
    add({from, gap.begin, 0, buffer.size});
    add({gap.begin, gap.end, gap.low, gap.high});
    from = gap.end;
  }
  add({from, buffer.end, 0, buffer.size});
  return pieces;
}

class Picture {
 public:
  Picture(const LivenessProblem& problem, const MemoryPlan& plan, uint32_t pool)
      : problem_(problem), plan_(plan), pool_(pool), peak_(std::max<int64_t>(1, plan.pools[pool].peak_bytes)) {
    for (uint32_t i = 0; i < problem.buffers.size(); ++i)
      if (plan.pool_of(i) == pool && problem.buffers[i].begin < problem.buffers[i].end) shown_.push_back(i);
    if (shown_.empty()) return;
    begin_ = INT64_MAX;
    end_ = INT64_MIN;
    for (uint32_t i : shown_) {
      begin_ = std::min(begin_, problem.buffers[i].begin);
      end_ = std::max(end_, problem.buffers[i].end);
    }
  }

  std::string draw() {
    header();
    for (uint32_t i : shown_) buffer(i);
    live_curve();
    line(plan_.pools[pool_].lower_bound_bytes, "#15803d", "6 4", "lower bound");
    line(plan_.pools[pool_].peak_bytes, "#b91c1c", "", "peak");
    return out_ + "</svg>\n";
  }

 private:
  double x(int64_t point) const {
    return kLeft + (kWidth - kLeft - kRight) * static_cast<double>(point - begin_) / static_cast<double>(end_ - begin_);
  }
  double y(int64_t offset) const {
    return kHeight - kBottom - (kHeight - kTop - kBottom) * static_cast<double>(offset) / static_cast<double>(peak_);
  }

  void header() {
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        "<text x=\"{2}\" y=\"20\">pool {3}, planner {4}: {5} bytes, lower bound {6}</text>\n",
        kWidth, kHeight, kLeft, escaped(problem_.pools[pool_].name), escaped(plan_.planner), plan_.pools[pool_].peak_bytes,
        plan_.pools[pool_].lower_bound_bytes);
    for (int tick = 0; tick <= 4; ++tick) {
      int64_t offset = peak_ / 4 * tick, point = begin_ + (end_ - begin_) / 4 * tick;
      out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\" fill=\"#555\">{}</text>\n", kLeft - 6,
                          y(offset) + 4, offset);
      out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"#555\">{}</text>\n", x(point),
                          kHeight - kBottom + 16, point);
    }
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"#555\">program point</text>\n",
                        (kWidth + kLeft) / 2, kHeight - 6);
  }

  void buffer(uint32_t index) {
    const Buffer& b = problem_.buffers[index];
    int64_t offset = plan_.offset_of(index);
    std::string fill =
        b.alias ? "fill=\"none\" stroke-dasharray=\"3 2\"" : fmt::format("fill=\"hsl({},60%,72%)\"", index * 137 % 360);
    out_ += fmt::format("<g stroke=\"#333\" stroke-width=\"0.5\" {}><title>{}: {} bytes at {}, alive [{}, {})</title>", fill,
                        escaped(b.id), b.size, offset, b.begin, b.end);
    for (const Piece& piece : pieces_of(b))
      out_ += fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\"/>", x(piece.begin),
                          y(offset + piece.high), x(piece.end) - x(piece.begin), y(offset + piece.low) - y(offset + piece.high));
    out_ += "</g>\n";
  }

  /// The sum of live bytes over time; views hold none of their own.
  void live_curve() {
    std::map<int64_t, int64_t> changes;
    for (uint32_t i : shown_)
      for (const Piece& piece : problem_.buffers[i].alias ? std::vector<Piece>{} : pieces_of(problem_.buffers[i])) {
        changes[piece.begin] += piece.high - piece.low;
        changes[piece.end] -= piece.high - piece.low;
      }
    int64_t alive = 0;
    std::string points;
    for (auto [point, change] : changes) {
      points += fmt::format("{:.2f},{:.2f} ", x(point), y(alive));
      alive += change;
      points += fmt::format("{:.2f},{:.2f} ", x(point), y(alive));
    }
    out_ += fmt::format(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#1d4ed8\" stroke-width=\"1.5\" pointer-events=\"none\"/>\n", points);
  }

  void line(int64_t bytes, std::string_view colour, std::string_view dashes, std::string_view label) {
    out_ += fmt::format(
        "<line x1=\"{0}\" y1=\"{1:.2f}\" x2=\"{2}\" y2=\"{1:.2f}\" stroke=\"{3}\" stroke-width=\"1.5\" "
        "stroke-dasharray=\"{4}\"><title>{5}: {6} bytes</title></line>\n",
        kLeft, y(bytes), kWidth - kRight, colour, dashes, label, bytes);
  }

  const LivenessProblem& problem_;
  const MemoryPlan& plan_;
  uint32_t pool_;
  int64_t peak_;
  int64_t begin_ = 0, end_ = 1;
  std::vector<uint32_t> shown_;
  std::string out_;
};

}  // namespace

std::string write_plan_svg(const LivenessProblem& problem, const MemoryPlan& plan, uint32_t pool) {
  return Picture(problem, plan, pool).draw();
}

}  // namespace tenon::plan
