// SPDX-License-Identifier: Apache-2.0
// Compiles expressions to lane instructions, and runs them.
#include "te/lane_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace tenon::te {

using tir::as;
using tir::Expr;
using tir::ExprKind;

void TensorTable::add(TensorMemory tensor) {
  index_[tensor.name] = static_cast<int>(tensors_.size());
  tensors_.push_back(std::move(tensor));
}

int TensorTable::index(const std::string& name) const {
  auto it = index_.find(name);
  if (it == index_.end()) fail_internal("tensor `" + name + "` is read or written before it is defined");
  return it->second;
}

int LaneCompiler::new_register(Level level) {
  levels_.push_back(level);
  return static_cast<int>(levels_.size()) - 1;
}

int LaneCompiler::variable(const std::string& name, Level level) { return variables_[name] = new_register(level); }

LaneCompiler::LaneCompiler(const TensorTable& tensors, const tir::VarMap& symbols) : tensors_(tensors) {
  for (const auto& [name, value] : symbols) bind(name, compile(value));
}

/// Gives the instruction its register, and its place at the highest level of its operands.
int LaneCompiler::emit(Instruction instruction) {
  Level level = Level::Once;
  auto raise = [&](int r) {
    if (r >= 0) level = std::max(level, levels_[static_cast<size_t>(r)]);
  };
  for (int r : instruction.args) raise(r);
  for (int r : instruction.indices) raise(r);
  raise(instruction.mask);
  if (instruction.kind == ExprKind::Load) level = std::max(level, Level::PerPoint);
  int result = instruction.dst = new_register(level);
  code_[static_cast<size_t>(level)].push_back(std::move(instruction));
  return result;
}

int LaneCompiler::compile(const Expr& e, int mask) {
  if (auto it = known_.find(e); it != known_.end()) return it->second;
  Instruction i{e->kind, e->dtype, e->dtype};
  int result = -1;
  switch (e->kind) {
    case ExprKind::IntImm: i.bits = static_cast<uint64_t>(as<tir::IntImm>(e)->value); break;
    case ExprKind::FloatImm: i.bits = std::bit_cast<uint64_t>(as<tir::FloatImm>(e)->value); break;
    case ExprKind::Var: {
      auto it = variables_.find(as<tir::Var>(e)->name);
      check(it != variables_.end(), "an expression reads declared variables only");
      return it->second;
    }
    case ExprKind::Cast:
      i.from = as<tir::Cast>(e)->value->dtype;
      i.args[0] = compile(as<tir::Cast>(e)->value, mask);
      break;
    case ExprKind::Binary: {
      const auto* n = as<tir::Binary>(e);
      i.from = n->a->dtype;
      i.binary = n->op;
      i.args = {compile(n->a, mask), compile(n->b, mask), -1};
      break;
    }
    case ExprKind::Select: result = compile_select(*as<tir::Select>(e), mask); break;
    case ExprKind::Load: {
      const auto* n = as<tir::Load>(e);
      for (const Expr& index : n->indices) i.indices.push_back(compile(index, mask));
      i.tensor = tensors_.index(n->buffer->name);
      i.mask = mask;
      break;
    }
    case ExprKind::Call: {
      const auto* n = as<tir::Call>(e);
      i.from = n->args[0]->dtype;
      i.intrinsic = n->op;
      for (size_t k = 0; k < n->args.size(); ++k) i.args[k] = compile(n->args[k], mask);
      break;
    }
  }
  if (result < 0) result = emit(std::move(i));
  known_.emplace(e, result);
  order_.push_back(e);
  return result;
}

int LaneCompiler::masked(int mask, int condition) {
  if (mask < 0) return condition;
  Instruction both{ExprKind::Binary, DType::Bool, DType::Bool};
  both.binary = tir::BinaryOp::And;
  both.args = {mask, condition, -1};
  return emit(std::move(both));
}

/// Both sides run on all lanes, but a load in a side reads only the lanes that chose it; so values computed there
/// are not shared with code outside.
int LaneCompiler::compile_select(const tir::Select& n, int mask) {
  int condition = compile(n.condition, mask);
  auto side = [&](const Expr& e, int chosen) {
    size_t before = order_.size();
    int result = compile(e, masked(mask, chosen));
    for (; order_.size() > before; order_.pop_back()) known_.erase(order_.back());
    return result;
  };
  Instruction other{ExprKind::Call, DType::Bool, DType::Bool};
  other.intrinsic = tir::Intrinsic::Not;
  other.args[0] = condition;
  Instruction i{ExprKind::Select, n.dtype, n.dtype};
  i.args[0] = condition;
  i.args[1] = side(n.a, condition);
  i.args[2] = side(n.b, emit(std::move(other)));
  return emit(std::move(i));
}

int64_t element_number(const TensorMemory& tensor, std::span<const int64_t> indices) {
  int64_t offset = 0;
  for (size_t k = 0; k < indices.size(); ++k) {
    if (indices[k] < 0 || indices[k] >= tensor.shape[k])
      throw CompileError(Diagnostic{.kind = ErrorKind::Malformed,
                                    .code = "evaluate-bounds",
                                    .message = fmt::format("`{}` is read or written outside its bounds", tensor.name),
                                    .expected = fmt::format("an index inside {}", to_string(tensor.shape)),
                                    .found = to_string(indices)});
    offset = offset * tensor.shape[k] + indices[k];
  }
  return offset;
}

namespace {

void load_lanes(const Instruction& i, LaneRegisters& registers, const TensorMemory& tensor, int count) {
  thread_local std::vector<int64_t> offsets;
  offsets.assign(static_cast<size_t>(count), 0);
  const uint64_t* mask = i.mask >= 0 ? registers[i.mask] : nullptr;
  bool inside = true;
  for (size_t k = 0; k < i.indices.size(); ++k) {
    const uint64_t* index = registers[i.indices[k]];
    auto extent = static_cast<uint64_t>(tensor.shape[k]);
    bool axis_inside = true;
    for (int lane = 0; lane < count; ++lane) {
      axis_inside &= index[lane] < extent;
      offsets[static_cast<size_t>(lane)] =
          static_cast<int64_t>(static_cast<uint64_t>(offsets[static_cast<size_t>(lane)]) * extent + index[lane]);
    }
    inside &= axis_inside;
  }
  uint64_t* dst = registers[i.dst];
  if (inside) {
    gather_lanes(tensor.dtype, tensor.data, offsets.data(), dst, count);
    return;
  }
  for (int lane = 0; lane < count; ++lane) {
    dst[lane] = 0;
    if (mask && !mask[lane]) continue;
    std::vector<int64_t> point;
    for (int index : i.indices) point.push_back(static_cast<int64_t>(registers[index][lane]));
    int64_t offset = element_number(tensor, point);
    gather_lanes(tensor.dtype, tensor.data, &offset, dst + lane, 1);
  }
}

}  // namespace

void run_lanes(const Code& code, LaneRegisters& registers, const TensorTable& tensors, int count) {
  for (const Instruction& i : code) {
    if (i.kind == ExprKind::Load) {
      load_lanes(i, registers, tensors[i.tensor], count);
      continue;
    }
    auto row = [&](int r) { return r < 0 ? nullptr : registers[r]; };
    apply_lanes(i, registers[i.dst], row(i.args[0]), row(i.args[1]), row(i.args[2]), count);
  }
}

}  // namespace tenon::te
