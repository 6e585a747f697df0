// SPDX-License-Identifier: Apache-2.0
// Evaluates tensor expressions stage by stage: the reference meaning of operators.
#include <algorithm>

#include "te/lane_program.h"
#include "te/run_extern.h"
#include "te/te.h"

namespace tenon::te {
namespace {

constexpr int64_t kMostLanes = 128;

Shape concrete_shape(const std::vector<Expr>& shape, const tir::VarMap& symbols) {
  Shape out;
  for (const Expr& extent : shape) out.push_back(tir::int_value(tir::substitute(extent, symbols)));
  return out;
}

Shape concrete_extents(const std::vector<Axis>& axes, const tir::VarMap& symbols) {
  std::vector<Expr> extents;
  for (const Axis& axis : axes) extents.push_back(axis.extent);
  return concrete_shape(extents, symbols);
}

const std::string& var_name(const Expr& v) { return tir::as<tir::Var>(v)->name; }

/// Fills one register per axis with the coordinates of `count` consecutive points of a row-major domain.
void fill_coordinates(LaneRegisters& registers, std::span<const int> axes, const Shape& extents, int64_t first, int count) {
  int64_t inner = 1;
  for (size_t k = axes.size(); k-- > 0; inner *= extents[k]) {
    uint64_t* row = registers[axes[k]];
    int64_t coordinate = first / inner % extents[k], step = first % inner;
    for (int lane = 0; lane < count; ++lane) {
      row[lane] = static_cast<uint64_t>(coordinate);
      if (++step < inner) continue;
      step = 0;
      if (++coordinate == extents[k]) coordinate = 0;
    }
  }
}

/// Advances a multi-index in row-major order; false after the last point.
bool advance(Shape& point, const Shape& extents) {
  for (size_t k = point.size(); k-- > 0;) {
    if (++point[k] < extents[k]) return true;
    point[k] = 0;
  }
  return false;
}

class Evaluator {
 public:
  Evaluator(const Graph& graph, const std::map<std::string, Array, std::less<>>& inputs) : graph_(graph), inputs_(inputs) {
    for (const Stage& stage : graph.stages())
      if (stage.kind == StageKind::Placeholder) bind_symbols(stage);
  }

  std::vector<Array> run(std::span<const Tensor> outputs) {
    std::vector<bool> wanted = graph_.reachable(outputs);
    for (size_t i = 0; i < wanted.size(); ++i)
      if (wanted[i]) evaluate(graph_.stages()[i]);
    std::vector<Array> results;
    for (const Tensor& output : outputs) results.push_back(arrays_.at(output.buffer->name));
    return results;
  }

 private:
  void bind_symbols(const Stage& stage) {
    auto it = inputs_.find(stage.name);
    if (it == inputs_.end()) return;
    const auto& shape = stage.outputs[0]->shape;
    check(it->second.shape.size() == shape.size(), "an input has the rank of its placeholder");
    for (size_t k = 0; k < shape.size(); ++k)
      if (tir::as<tir::Var>(shape[k])) symbols_.try_emplace(var_name(shape[k]), Expr(it->second.shape[k]));
  }

  void evaluate(const Stage& stage) {
    switch (stage.kind) {
      case StageKind::Placeholder: {
        auto it = inputs_.find(stage.name);
        if (it == inputs_.end()) fail_internal("no array was given for placeholder `" + stage.name + "`");
        const tir::Buffer& buffer = stage.outputs[0];
        check(it->second.dtype == buffer->dtype && it->second.shape == concrete_shape(buffer->shape, symbols_),
              "an input has the type of its placeholder");
        add(buffer->name, it->second);
        return;
      }
      case StageKind::Constant: add(stage.outputs[0]->name, stage.constant); return;
      case StageKind::Compute:
      case StageKind::Reduce: evaluate_points(stage); return;
      case StageKind::Extern: evaluate_extern(stage); return;
    }
  }

  void add(const std::string& name, Array array) {
    tensors_.add({name, array.dtype, array.shape, array.bytes.data()});
    arrays_.emplace(name, std::move(array));
  }

  std::vector<MutableArray> make_outputs(const Stage& stage) {
    std::vector<MutableArray> outputs;
    for (const tir::Buffer& buffer : stage.outputs) outputs.emplace_back(buffer->dtype, concrete_shape(buffer->shape, symbols_));
    return outputs;
  }

  void evaluate_points(const Stage& stage) {
    LaneCompiler compile(tensors_, symbols_);
    auto declare = [&](const std::vector<Axis>& axes, Level level) {
      std::vector<int> registers;
      for (const Axis& axis : axes) registers.push_back(compile.variable(var_name(axis.var), level));
      return registers;
    };
    std::vector<int> axes = declare(stage.axes, Level::PerPoint), reduce_axes = declare(stage.reduce_axes, Level::PerReduction);
    std::vector<int> init, carried, values;
    for (const Expr& e : stage.init) init.push_back(compile.compile(e));
    for (const Expr& v : stage.carried) carried.push_back(compile.variable(var_name(v), Level::PerReduction));
    for (const Expr& e : stage.values) values.push_back(compile.compile(e));

    Code once = compile.take(Level::Once), per_point = compile.take(Level::PerPoint);
    Code per_reduction = compile.take(Level::PerReduction);
    Shape extents = concrete_extents(stage.axes, symbols_), reduce_extents = concrete_extents(stage.reduce_axes, symbols_);
    int64_t points = element_count(extents), reduce_points = element_count(reduce_extents);
    int lanes = static_cast<int>(std::clamp(points, int64_t{1}, kMostLanes));
    LaneRegisters registers(compile.register_count(), lanes);
    run_lanes(once, registers, tensors_, lanes);
    std::vector<MutableArray> outputs = make_outputs(stage);
    for (int64_t first = 0; first < points; first += lanes) {
      int count = static_cast<int>(std::min<int64_t>(lanes, points - first));
      fill_coordinates(registers, axes, extents, first, count);
      run_lanes(per_point, registers, tensors_, count);
      if (stage.kind == StageKind::Reduce) {
        copy_rows(registers, init, carried, count);
        Shape point(reduce_extents.size(), 0);
        for (int64_t r = 0; r < reduce_points; ++r, advance(point, reduce_extents)) {
          for (size_t k = 0; k < point.size(); ++k)
            std::fill_n(registers[reduce_axes[k]], count, static_cast<uint64_t>(point[k]));
          run_lanes(per_reduction, registers, tensors_, count);
          copy_rows(registers, values, carried, count);
        }
      }
      const std::vector<int>& results = stage.kind == StageKind::Reduce ? carried : values;
      for (size_t k = 0; k < outputs.size(); ++k)
        store_lanes(outputs[k].dtype, outputs[k].data(), first, registers[results[k]], count);
    }
    for (size_t k = 0; k < outputs.size(); ++k) add(stage.outputs[k]->name, std::move(outputs[k]).freeze());
  }

  /// Copies rows as if all were read before any is written.
  static void copy_rows(LaneRegisters& registers, const std::vector<int>& from, const std::vector<int>& to, int count) {
    if (from.size() == 1) {
      std::copy_n(registers[from[0]], count, registers[to[0]]);
      return;
    }
    std::vector<uint64_t> held;
    for (int r : from) held.insert(held.end(), registers[r], registers[r] + count);
    for (size_t k = 0; k < to.size(); ++k) std::copy_n(held.data() + k * static_cast<size_t>(count), count, registers[to[k]]);
  }

  void evaluate_extern(const Stage& stage) {
    std::vector<MutableArray> outputs = make_outputs(stage);
    for (size_t k = 0; k < outputs.size(); ++k) {
      MutableArray& output = outputs[k];
      tensors_.add({stage.outputs[k]->name, output.dtype, output.shape, output.data(), output.data()});
    }
    run_extern(stage.body, symbols_, tensors_);
    for (size_t k = 0; k < outputs.size(); ++k) arrays_.emplace(stage.outputs[k]->name, std::move(outputs[k]).freeze());
  }

  const Graph& graph_;
  const std::map<std::string, Array, std::less<>>& inputs_;
  tir::VarMap symbols_;
  std::map<std::string, Array, std::less<>> arrays_;
  TensorTable tensors_;
};

}  // namespace

std::vector<Array> evaluate(const Graph& graph, const std::map<std::string, Array, std::less<>>& inputs,
                            std::span<const Tensor> outputs) {
  return Evaluator(graph, inputs).run(outputs);
}

}  // namespace tenon::te
