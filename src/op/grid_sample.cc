// SPDX-License-Identifier: Apache-2.0
// `grid_sample`: pictures read at points that another tensor gives.
#include <fmt/format.h>

#include "op/all_ops.h"
#include "op/ops.h"
#include "op/shape_rules.h"

namespace tenon::op {
namespace {

using graph::AttrKind;
using graph::Fusion;
using te::Tensor;
using tir::Intrinsic;

/// Pixels on each axis that a result is made of.
int64_t tap_count(const std::string& mode) { return mode == "nearest" ? 1 : mode == "linear" ? 2 : 4; }

// C1  x is [batch, channels, height, width]
// C2  grid is [batch of x, height, width, 2], a float tensor
// C3  `mode` and `padding` are known
// C4  x has pixels to repeat, unless the padding is zeros or the result is empty
std::vector<TensorType> infer_grid_sample(const CallSite& call) {
  const TensorType &x = call.in(0), &grid = call.in(1);
  if (x.rank() != 4) call.error(0, "grid_sample-C1", "[batch, channels, height, width]");
  const bool fits = grid.rank() == 4 && structural_equal(grid.dim(0), x.dim(0)) && structural_equal(grid.dim(3), Dim(2));
  if (!fits || !is_float(grid.dtype))
    call.error(1, "grid_sample-C2", fmt::format("floats [{}, height, width, 2]", to_string(x.dim(0))));
  const std::string &mode = call.text("mode"), &padding = call.text("padding");
  if (mode != "nearest" && mode != "linear" && mode != "cubic") call.error(-1, "grid_sample-C3", "mode nearest, linear or cubic");
  if (padding != "zeros" && padding != "border" && padding != "reflection")
    call.error(-1, "grid_sample-C3", "padding zeros, border or reflection");
  TensorType out(x.dtype, {x.dim(0), x.dim(1), grid.dim(1), grid.dim(2)});
  if (padding != "zeros" && has_no_elements(x.shape) && !has_no_elements(out.shape))
    call.error(0, "grid_sample-C4", fmt::format("a picture with pixels, for padding {}", padding));
  return {out};
}

/// Where in pixels a grid value in [-1, 1] lies on an axis of `extent` pixels, moved inside as the padding says.
Expr pixel_position(const CallSite& call, const Expr& at, const Expr& extent) {
  const DType dtype = at->dtype;
  auto number = [&](double value) { return tir::float_imm(dtype, value); };
  const bool align = call.flag("align_corners");
  const std::string& padding = call.text("padding");
  const Expr size = extent_as(dtype, extent), last = size - number(1), shifted = at + number(1);
  Expr x = align ? shifted * number(0.5) * last : (shifted * size - number(1)) * number(0.5);
  if (call.text("mode") == "nearest") x = tir::call(Intrinsic::RoundEven, {x});
  const Expr low = number(align ? 0 : -0.5), range = align ? last : size, high = low + range;
  const Expr outside = tir::logical_not(tir::logical_and(tir::le(low, x), tir::le(x, high)));
  if (padding == "border") return tir::select(outside, tir::min(tir::max(x, number(0)), last), x);
  if (padding == "zeros") return x;
  const Expr period = range * number(2), from_low = x - low;
  const Expr turns = tir::call(Intrinsic::Floor, {tir::binary(tir::BinaryOp::Div, from_low, period)});
  const Expr phase = from_low - turns * period;
  const Expr reflected = low + tir::select(tir::le(phase, range), phase, period - phase);
  return tir::select(outside, tir::select(tir::le(range, number(0)), low, reflected), x);
}

/// The share of tap `k` when the position is `t` past the second of four taps (cubic, a = -0.75) or the first of two.
Expr tap_weight(const std::string& mode, const Expr& t, const Expr& k) {
  const DType dtype = t->dtype;
  auto number = [&](double value) { return tir::float_imm(dtype, value); };
  if (mode == "nearest") return number(1);
  if (mode == "linear") return tir::select(tir::eq(k, Expr(0)), number(1) - t, t);
  const Expr distance = tir::call(Intrinsic::Abs, {t + number(1) - tir::cast(dtype, k)});
  const double a = -0.75;
  const Expr near = ((number(a + 2) * distance - number(a + 3)) * distance) * distance + number(1);
  const Expr far = ((number(a) * distance - number(5 * a)) * distance + number(8 * a)) * distance - number(4 * a);
  return tir::select(tir::le(distance, number(1)), near, far);
}

/// A pixel's index moved inside, for border and reflection.
Expr inside_index(const CallSite& call, const Expr& index, const Expr& extent) {
  const Expr last = extent - Expr(1);
  if (call.text("padding") == "border") return tir::min(tir::max(index, Expr(0)), last);
  const bool align = call.flag("align_corners");
  const Expr period = align ? tir::max(last * Expr(2), Expr(1)) : extent * Expr(2);
  const Expr phase = tir::floormod(index, period);
  return tir::select(tir::lt(phase, extent), phase, (align ? period : period - Expr(1)) - phase);
}

std::vector<Tensor> compute_grid_sample(const CallSite& call, std::span<const Tensor> in, te::Graph& graph) {
  const Tensor &x = in[0], &grid = in[1];
  const std::string& mode = call.text("mode");
  const DType dtype = accumulation_dtype(grid.dtype());
  const int64_t taps = tap_count(mode), before = taps == 4 ? 1 : 0;
  const bool zeros = call.text("padding") == "zeros";
  const std::vector<Expr> points = {grid.dim(0), grid.dim(1), grid.dim(2)};
  // Axis 0 of the picture is y, the second number of a point.
  Tensor first[2], weight[2];
  for (int axis = 0; axis < 2; ++axis) {
    const Expr& extent = x.dim(2 + axis);
    Tensor position = graph.compute("position", points, [&](const std::vector<Expr>& i) {
      return pixel_position(call, tir::cast(dtype, grid({i[0], i[1], i[2], Expr(1 - axis)})), extent);
    });
    auto floor = [&](const Expr& p) { return tir::call(Intrinsic::Floor, {p}); };
    first[axis] = graph.compute(
        "first", points, [&](const std::vector<Expr>& i) { return tir::cast(DType::I64, floor(position(i))) - Expr(before); });
    std::vector<Expr> shape = points;
    shape.push_back(Expr(taps));
    weight[axis] = graph.compute("weight", shape, [&](const std::vector<Expr>& i) {
      const Expr p = position({i[0], i[1], i[2]});
      return tap_weight(mode, p - floor(p), i[3]);
    });
  }
  Tensor sum = graph.sum("grid_sample", dtype, call.out().shape, {Expr(taps), Expr(taps)}, [&](const auto& i, const auto& r) {
    std::vector<Expr> index = {i[0], i[1]};
    Expr inside = tir::bool_imm(true), share;
    for (size_t axis = 0; axis < 2; ++axis) {
      const Expr at = first[axis]({i[0], i[2], i[3]}) + r[axis], &extent = x.dim(static_cast<int64_t>(2 + axis));
      inside = tir::logical_and(inside, tir::logical_and(tir::le(Expr(0), at), tir::lt(at, extent)));
      index.push_back(zeros ? at : inside_index(call, at, extent));
      const Expr w = weight[axis]({i[0], i[2], i[3], r[axis]});
      share = axis == 0 ? w : share * w;
    }
    const Expr pixel = tir::cast(dtype, x(index));
    return share * (zeros ? tir::select(inside, pixel, tir::float_imm(dtype, 0)) : pixel);
  });
  return {cast_tensor(graph, sum, call.out().dtype)};
}

std::vector<ValueId> import_grid_sample(OnnxNode& node, Builder& builder) {
  std::string mode = node.attr("mode", node.opset() < 20 ? "bilinear" : "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  return {builder.call1(
      grid_sample, {node.in(0), node.in(1)},
      {{"mode", mode}, {"padding", node.attr("padding_mode", "zeros")}, {"align_corners", node.attr("align_corners", 0) != 0}})};
}

}  // namespace

const OpDef grid_sample{
    .name = "grid_sample",
    .doc = "x read at the points of grid: each holds its x and y, where -1 and 1 are the borders of the picture.",
    .inputs = {{"x", "[batch, channels, height, width]"}, {"grid", "[batch, height, width, 2]"}},
    .attrs = {{"mode", AttrKind::String, std::string("linear"), "nearest, linear or cubic"},
              {"padding", AttrKind::String, std::string("zeros"), "what lies outside: zeros, border or reflection"},
              {"align_corners", AttrKind::Bool, false, "whether -1 and 1 are the centres of the outer pixels, not their edges"}},
    .fusion = Fusion::Opaque,
    .dtypes = graph::kFloats,
    .dtype_note = "floats: results lie between pixels",
    .infer = infer_grid_sample,
    .compute = compute_grid_sample,
};

Family grid_sample_family() { return {{&grid_sample}, {{"GridSample", 16, import_grid_sample}}}; }

}  // namespace tenon::op
