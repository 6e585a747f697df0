// SPDX-License-Identifier: Apache-2.0
// Construction of tensor-expression graphs.
#include "te/te.h"

namespace tenon::te {

using tir::Buffer;
using tir::BufferData;

std::vector<Axis> Graph::make_axes(const std::vector<Expr>& extents, std::string_view base) {
  std::vector<Axis> axes;
  axes.reserve(extents.size());
  for (size_t i = 0; i < extents.size(); ++i)
    axes.push_back({tir::var(fresh(std::string(base) + std::to_string(i))), extents[i]});
  return axes;
}

static std::vector<Expr> vars(const std::vector<Axis>& axes) {
  std::vector<Expr> out;
  out.reserve(axes.size());
  for (const Axis& axis : axes) out.push_back(axis.var);
  return out;
}

Tensor Graph::define(Stage stage, DType dtype, std::vector<Expr> shape) {
  Buffer buffer(BufferData{stage.name, dtype, std::move(shape), {}, tir::Scope::Global});
  stage.outputs = {buffer};
  by_buffer_[buffer->name] = static_cast<int>(stages_.size());
  stages_.push_back(std::move(stage));
  return {buffer};
}

Tensor Graph::placeholder(std::string_view name, DType dtype, std::vector<Expr> shape) {
  Stage stage;
  stage.name = fresh(name);
  return define(std::move(stage), dtype, std::move(shape));
}

Tensor Graph::constant(std::string_view name, Array data) {
  Stage stage;
  stage.kind = StageKind::Constant;
  stage.name = fresh(name);
  std::vector<Expr> shape(data.shape.begin(), data.shape.end());
  DType dtype = data.dtype;
  stage.constant = std::move(data);
  return define(std::move(stage), dtype, std::move(shape));
}

Tensor Graph::compute(std::string_view name, std::vector<Expr> shape, Body body) {
  Stage stage;
  stage.kind = StageKind::Compute;
  stage.name = fresh(name);
  stage.axes = make_axes(shape, "i");
  stage.values = {body(vars(stage.axes))};
  DType dtype = stage.values[0]->dtype;
  return define(std::move(stage), dtype, std::move(shape));
}

std::vector<Tensor> Graph::reduce(std::string_view name, std::vector<Expr> shape, std::vector<Expr> reduce_extents,
                                  const Carry& carry) {
  Stage stage;
  stage.kind = StageKind::Reduce;
  stage.name = fresh(name);
  stage.axes = make_axes(shape, "i");
  stage.reduce_axes = make_axes(reduce_extents, "r");
  for (DType dtype : carry.dtypes) stage.carried.push_back(tir::var(fresh("acc"), dtype));
  std::vector<Expr> axes = vars(stage.axes);
  stage.init = carry.init(axes);
  stage.values = carry.next(axes, vars(stage.reduce_axes), stage.carried);
  check(stage.init.size() == carry.dtypes.size() && stage.values.size() == carry.dtypes.size(),
        "a reduction gives one initial and one next value per carried dtype");
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < carry.dtypes.size(); ++i) {
    check(stage.values[i]->dtype == carry.dtypes[i] && stage.init[i]->dtype == carry.dtypes[i],
          "a carried value keeps its dtype");
    Buffer buffer(BufferData{
        i == 0 ? stage.name : fresh(stage.name + "_v" + std::to_string(i)), carry.dtypes[i], shape, {}, tir::Scope::Global});
    by_buffer_[buffer->name] = static_cast<int>(stages_.size());
    stage.outputs.push_back(buffer);
    tensors.push_back({buffer});
  }
  stages_.push_back(std::move(stage));
  return tensors;
}

Tensor Graph::sum(std::string_view name, DType dtype, std::vector<Expr> shape, std::vector<Expr> reduce_extents,
                  function_ref<Expr(const std::vector<Expr>&, const std::vector<Expr>&)> body) {
  auto init = [&](const std::vector<Expr>&) { return std::vector<Expr>{tir::imm(dtype, 0)}; };
  auto next = [&](const std::vector<Expr>& axes, const std::vector<Expr>& reduce, const std::vector<Expr>& so_far) {
    return std::vector<Expr>{so_far[0] + tir::cast(dtype, body(axes, reduce))};
  };
  return reduce(name, std::move(shape), std::move(reduce_extents), {{dtype}, init, next})[0];
}

std::vector<Tensor> Graph::external(std::string_view name, std::vector<TensorType> outputs,
                                    function_ref<tir::Stmt(const std::vector<Buffer>&)> body) {
  Stage stage;
  stage.kind = StageKind::Extern;
  stage.name = fresh(name);
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < outputs.size(); ++i) {
    Buffer buffer(BufferData{i == 0 ? stage.name : fresh(stage.name + "_v" + std::to_string(i)),
                             outputs[i].dtype,
                             outputs[i].shape,
                             {},
                             tir::Scope::Global});
    by_buffer_[buffer->name] = static_cast<int>(stages_.size());
    stage.outputs.push_back(buffer);
    tensors.push_back({buffer});
  }
  stage.body = body(stage.outputs);
  stages_.push_back(std::move(stage));
  return tensors;
}

int Graph::stage_of(const Buffer& buffer) const {
  auto it = by_buffer_.find(buffer->name);
  return it == by_buffer_.end() ? -1 : it->second;
}

void Graph::place(const Tensor& tensor, std::string memory) {
  int index = stage_of(tensor.buffer);
  check(index >= 0, "a tensor that is given a place is one of its graph");
  stages_[static_cast<size_t>(index)].memory = std::move(memory);
}

std::vector<bool> Graph::reachable(std::span<const Tensor> outputs) const {
  std::vector<bool> marks(stages_.size());
  auto mark = [&](const Buffer& buffer) {
    int stage = stage_of(buffer);
    if (stage >= 0) marks[static_cast<size_t>(stage)] = true;
  };
  auto mark_loads = [&](const Expr& e) { tir::visit_loads(e, [&](const tir::Load& access) { mark(access.buffer); }); };
  for (const Tensor& output : outputs) mark(output.buffer);
  for (size_t i = marks.size(); i-- > 0;) {
    if (!marks[i]) continue;
    for (const auto* exprs : {&stages_[i].values, &stages_[i].init})
      for (const Expr& e : *exprs) mark_loads(e);
    if (stages_[i].body)
      tir::visit(stages_[i].body, [&](const tir::Stmt& s) { tir::for_each_child(s, [](const tir::Stmt&) {}, mark_loads); });
  }
  return marks;
}

}  // namespace tenon::te
