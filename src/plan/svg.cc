// SPDX-License-Identifier: Apache-2.0
// Plans as pictures, and the page around them.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tenon/plan.h"

namespace tenon::plan {
namespace {

constexpr double kWidth = 1200, kHeight = 640, kLeft = 110, kRight = 20, kTop = 40, kBottom = 40;

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  return out;
}

/// A size in the unit of the largest of a picture, with powers of ten as sizes are reported: `6.42 MB`.
std::string readable(int64_t bytes, int64_t largest) {
  if (largest < 10'000) return fmt::format("{} B", bytes);
  bool mega = largest >= 2'000'000;
  return fmt::format("{:.4g} {}", static_cast<double>(bytes) / (mega ? 1e6 : 1e3), mega ? "MB" : "kB");
}

/// Neighbours differ; what a kernel needs for itself is grey.
std::string_view colour(const Buffer& buffer, uint32_t index) {
  constexpr std::string_view kColours[] = {"#a6cee3", "#fdbf6f", "#b2df8a", "#fbb4ae", "#cab2d6", "#ffff99",
                                           "#8dd3c7", "#fccde5", "#d9c49f", "#9ecae1", "#c7e9c0"};
  return buffer.kind == BufferKind::Workspace ? "#cccccc" : kColours[index % std::size(kColours)];
}

/// 1, 2 or 5 times a power of ten, so that at most `count` of it are in `range`.
int64_t round_step(int64_t range, int64_t count) {
  for (int64_t power = 1;; power *= 10)
    for (int64_t step : {power, 2 * power, 5 * power})
      if (range / step <= count) return step;
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
    return out_ + labels_ + "</svg>\n";
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
        "<text x=\"{2}\" y=\"18\">pool {3}, planner {4}: <tspan fill=\"#b91c1c\">{5} bytes</tspan>, "
        "<tspan fill=\"#15803d\">lower bound {6}</tspan>, <tspan fill=\"#1d4ed8\">bytes alive</tspan></text>\n",
        kWidth, kHeight, kLeft, escaped(problem_.pools[pool_].name), escaped(plan_.planner), plan_.pools[pool_].peak_bytes,
        plan_.pools[pool_].lower_bound_bytes);
    int64_t step = round_step(peak_, 8);
    for (int64_t offset = 0; offset <= peak_; offset += step) {
      out_ += fmt::format("<line x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n", kLeft, y(offset),
                          kWidth - kRight, y(offset));
      out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\" fill=\"#555\">{}</text>\n", kLeft - 6,
                          y(offset) + 4, readable(offset, peak_));
    }
    step = round_step(end_ - begin_, 12);
    for (int64_t point = (begin_ + step - 1) / step * step; point <= end_; point += step)
      out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"#555\">{}</text>\n", x(point),
                          kHeight - kBottom + 16, point);
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"#555\">program point</text>\n",
                        (kWidth + kLeft) / 2, kHeight - 6);
  }

  void buffer(uint32_t index) {
    const Buffer& b = problem_.buffers[index];
    int64_t offset = plan_.offset_of(index);
    std::string fill = b.alias ? "fill=\"none\" stroke-dasharray=\"3 2\" pointer-events=\"stroke\""
                               : fmt::format("fill=\"{}\"", colour(b, index));
    std::string what = b.kind == BufferKind::Workspace ? ", workspace"
                       : b.alias                       ? ", part of " + problem_.buffers[b.alias->buffer].id
                                                       : "";
    out_ += fmt::format(
        "<g class=\"buffer\" stroke=\"#333\" stroke-width=\"0.5\" {}><title>{}{}: {} bytes at {}, alive [{}, {})</title>", fill,
        escaped(b.id), escaped(what), b.size, offset, b.begin, b.end);
    std::vector<Piece> pieces = pieces_of(b);
    for (const Piece& piece : pieces)
      out_ += fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\"/>", x(piece.begin),
                          y(offset + piece.high), x(piece.end) - x(piece.begin), y(offset + piece.low) - y(offset + piece.high));
    if (!b.alias && pieces.size() == 1) label(b, x(b.begin), x(b.end), y(offset + b.size), y(offset));
    out_ += "</g>\n";
  }

  /// The id, where it fits: across, or upwards in a narrow one.
  void label(const Buffer& b, double left, double right, double top, double bottom) {
    constexpr double kLetter = 6, kLine = 11;
    double width = right - left, height = bottom - top, length = kLetter * static_cast<double>(b.id.size()) + 4;
    bool across = length <= width && height >= kLine, upwards = length <= height && width >= kLine;
    if (!across && !upwards) return;
    double cx = (left + right) / 2, cy = (top + bottom) / 2;
    labels_ += fmt::format(
        "<text x=\"{0:.1f}\" y=\"{1:.1f}\" text-anchor=\"middle\" font-size=\"10\" stroke=\"none\" "
        "fill=\"#222\" pointer-events=\"none\"{2}>{3}</text>",
        cx, cy + 3.5, across ? "" : fmt::format(" transform=\"rotate(-90 {:.1f} {:.1f})\"", cx, cy), escaped(b.id));
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
  std::string out_, labels_;  // labels lie above the lines
};

}  // namespace

std::string write_plan_svg(const LivenessProblem& problem, const MemoryPlan& plan, uint32_t pool) {
  return Picture(problem, plan, pool).draw();
}

std::string write_plan_html(const LivenessProblem& problem, const MemoryPlan& plan) {
  std::string out = R"(<!doctype html>
<html lang=en>
<meta charset=utf-8>
<title>Memory plan</title>
<style>
body { font-family: sans-serif; margin: 1em }
td, th { padding: 0.1em 1em; text-align: right }
td:first-child, th:first-child { text-align: left }
svg { width: 100%; height: auto }
.buffer:hover { stroke: black; stroke-width: 2.5 }
#at { position: sticky; top: 0; background: #ffc; padding: 0.3em }
</style>
<table>
<tr><th>pool<th>bytes<th>lower bound<th>limit<th>buffers
)";
  for (size_t p = 0; p < plan.pools.size(); ++p) {
    size_t count = 0;
    for (uint32_t i = 0; i < problem.buffers.size(); ++i) count += plan.pool_of(i) == p;
    int64_t limit = problem.pools[p].limit;
    out += fmt::format("<tr><td>{}<td>{}<td>{}<td>{}<td>{}\n", escaped(problem.pools[p].name), plan.pools[p].peak_bytes,
                       plan.pools[p].lower_bound_bytes, limit == kUnlimited ? "none" : std::to_string(limit), count);
  }
  out += fmt::format("</table>\n<p>{} buffers, planner {}{}</p>\n<p id=\"at\">Move the pointer over a buffer.</p>\n",
                     problem.buffers.size(), escaped(plan.planner), plan.optimal ? ", proven optimal" : "");
  for (uint32_t p = 0; p < plan.pools.size(); ++p) out += write_plan_svg(problem, plan, p);
  return out + R"(<script>
const at = document.getElementById("at");
for (const buffer of document.querySelectorAll(".buffer"))
  buffer.addEventListener("mouseenter", () => { at.textContent = buffer.querySelector("title").textContent; });
</script>
</html>
)";
}

}  // namespace tenon::plan
