// SPDX-License-Identifier: Apache-2.0
// The text of tensor expressions, for reading only:
//
//   placeholder x: f32[4,16]
//   constant two: f32[] = bytes "00000040"
//   compute y: f32[4,16]
//     y[i0, i1] = (x[i0, i1] * two[])
//   reduce s: f32[4] over r0 < 16
//     acc: f32 = 0.0:f32, then (acc + y[i0_1, r0])
//     s[i0_1] = acc
//   extern t: f32[4] {
//     …statements
//   }
#include <fmt/format.h>

#include <iterator>

#include "te/te.h"
#include "tir/text.h"

namespace tenon::te {
namespace {

std::string declaration(const tir::Buffer& buffer) {
  return fmt::format("{}: {}", buffer->name, to_string(TensorType(buffer->dtype, buffer->shape)));
}

std::string element(const Stage& stage, size_t output) {
  std::string indices;
  for (const Axis& axis : stage.axes) indices += (indices.empty() ? "" : ", ") + tir::print(axis.var);
  return fmt::format("{}[{}]", stage.outputs[output]->name, indices);
}

std::string head(const Stage& stage) {
  constexpr std::string_view kWords[] = {"placeholder", "constant", "compute", "reduce", "extern"};
  std::string out(kWords[static_cast<int>(stage.kind)]);
  for (size_t i = 0; i < stage.outputs.size(); ++i) out += (i ? ", " : " ") + declaration(stage.outputs[i]);
  for (size_t i = 0; i < stage.reduce_axes.size(); ++i)
    out += fmt::format("{}{} < {}", i ? ", " : " over ", tir::print(stage.reduce_axes[i].var),
                       tir::print(stage.reduce_axes[i].extent));
  return out;
}

void put_stage(std::string& out, const Stage& stage) {
  out += head(stage);
  if (stage.kind == StageKind::Constant) out += " = " + tir::print_constant(stage.constant, nullptr);
  if (stage.kind == StageKind::Extern) out += " {";
  out += '\n';
  auto line = std::back_inserter(out);
  for (size_t i = 0; i < stage.carried.size(); ++i)
    fmt::format_to(line, "  {}: {} = {}, then {}\n", tir::print(stage.carried[i]), name(stage.carried[i]->dtype),
                   tir::print(stage.init[i]), tir::print(stage.values[i]));
  for (size_t i = 0; i < stage.values.size(); ++i)
    fmt::format_to(line, "  {} = {}\n", element(stage, i),
                   tir::print(stage.kind == StageKind::Reduce ? stage.carried[i] : stage.values[i]));
  if (stage.kind == StageKind::Extern) out += tir::print(stage.body, 1) + "}\n";
}

}  // namespace

std::string print(const Graph& graph) {
  std::string out;
  for (const Stage& stage : graph.stages()) put_stage(out, stage);
  return out;
}

}  // namespace tenon::te
