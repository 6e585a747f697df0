// SPDX-License-Identifier: Apache-2.0
// Reading and writing parts of register rows, and the scan that finds a buffer's row width.
#include "codegen/llvm/registers.h"

#include <algorithm>
#include <numeric>

namespace tenon::codegen {

using llvm::Value;

RegisterBuffer::RegisterBuffer(llvm::Type* element, int64_t elements, int64_t width, int64_t private_lanes)
    : elements_(elements), width_(private_lanes ? 1 : width), private_lanes_(private_lanes) {
  int64_t lanes = private_lanes ? private_lanes : width == 1 ? 0 : width;
  llvm::Type* type = lanes ? llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes)) : element;
  rows_.assign(static_cast<size_t>((elements + width_ - 1) / width_), llvm::PoisonValue::get(type));
}

Value* RegisterBuffer::element(llvm::IRBuilder<>& b, int64_t index) const {
  Value* row = rows_[static_cast<size_t>(index / width_)];
  return width_ == 1 ? row : b.CreateExtractElement(row, static_cast<uint64_t>(index % width_));
}

void RegisterBuffer::set_element(llvm::IRBuilder<>& b, int64_t index, Value* value) {
  Value*& row = rows_[static_cast<size_t>(index / width_)];
  row = width_ == 1 ? value : b.CreateInsertElement(row, value, static_cast<uint64_t>(index % width_));
}

Value* RegisterBuffer::read(llvm::IRBuilder<>& b, int64_t start, int64_t count) const {
  if (count == 0 || is_private()) return element(b, start);
  int64_t first = start / width_, offset = start % width_;
  if (offset == 0 && count == width_ && width_ > 1) return rows_[static_cast<size_t>(first)];
  if (width_ > 1 && offset + count <= width_) {
    std::vector<int> mask(static_cast<size_t>(count));
    std::iota(mask.begin(), mask.end(), static_cast<int>(offset));
    return b.CreateShuffleVector(rows_[static_cast<size_t>(first)], mask);
  }
  Value* result = nullptr;
  for (int64_t lane = 0; lane < count; ++lane) {
    Value* one = element(b, start + lane);
    if (!result) result = llvm::PoisonValue::get(llvm::FixedVectorType::get(one->getType(), static_cast<unsigned>(count)));
    result = b.CreateInsertElement(result, one, static_cast<uint64_t>(lane));
  }
  return result;
}

void RegisterBuffer::write(llvm::IRBuilder<>& b, int64_t start, Value* value) {
  int64_t count = lanes_of(value);
  if (count == 0 || is_private()) return set_element(b, start, value);
  if (start % width_ == 0 && count % width_ == 0 && width_ > 1) {
    for (int64_t part = 0; part < count; part += width_) {
      std::vector<int> mask(static_cast<size_t>(width_));
      std::iota(mask.begin(), mask.end(), static_cast<int>(part));
      rows_[static_cast<size_t>((start + part) / width_)] = count == width_ ? value : b.CreateShuffleVector(value, mask);
    }
    return;
  }
  for (int64_t lane = 0; lane < count; ++lane)
    set_element(b, start + lane, b.CreateExtractElement(value, static_cast<uint64_t>(lane)));
}

namespace {

using Names = std::set<std::string, std::less<>>;

bool mentions(const tir::Expr& e, const Names& names) {
  bool found = false;
  tir::visit_exprs(e, [&](const tir::Expr& part) {
    const auto* v = tir::as<tir::Var>(part);
    found = found || (v && names.contains(v->name));
  });
  return found;
}

using Widths = std::map<std::string, int64_t, std::less<>>;

void record_width(Widths& widths, const tir::Buffer& buffer, const std::vector<tir::Expr>& indices, int64_t lanes,
                  const Names& lane_names) {
  if (buffer->scope != tir::Scope::Reg) return;
  bool dependent = std::ranges::any_of(indices, [&](const tir::Expr& index) { return mentions(index, lane_names); });
  if (!dependent) return;
  int64_t& width = widths[buffer->name];
  width = std::gcd(width, lanes);
}

}  // namespace

std::map<std::string, int64_t, std::less<>> register_widths(const tir::Stmt& body) {
  Widths stored, loaded;
  tir::visit(body, [&](const tir::Stmt& s) {
    const auto* loop = tir::as<tir::For>(s);
    if (!loop || loop->loop_kind != tir::ForKind::Vectorized) return;
    int64_t lanes = tir::int_value(loop->extent);
    Names names = names_dependent_on(*loop);
    if (lanes < 2) return;
    tir::visit(loop->body, [&](const tir::Stmt& inner) {
      if (const auto* n = tir::as<tir::Store>(inner)) record_width(stored, n->buffer, n->indices, lanes, names);
    });
    tir::visit_exprs(loop->body, [&](const tir::Expr& e) {
      if (const auto* n = tir::as<tir::Load>(e)) record_width(loaded, n->buffer, n->indices, lanes, names);
    });
  });
  stored.merge(loaded);
  return stored;
}

std::set<std::string, std::less<>> names_dependent_on(const tir::For& loop) {
  Names names = {tir::as<tir::Var>(loop.var)->name};
  tir::visit(loop.body, [&](const tir::Stmt& s) {
    if (const auto* n = tir::as<tir::Let>(s); n && mentions(n->value, names)) names.insert(tir::as<tir::Var>(n->var)->name);
    const auto* block = tir::as<tir::Block>(s);
    if (!block) return;
    for (const tir::IterVar& iter : block->iters)
      if (mentions(iter.binding, names)) names.insert(tir::as<tir::Var>(iter.var)->name);
  });
  return names;
}

std::set<std::string, std::less<>> written_registers(const tir::Stmt& body) {
  std::set<std::string, std::less<>> names;
  tir::visit(body, [&](const tir::Stmt& s) {
    const auto* n = tir::as<tir::Store>(s);
    if (n && n->buffer->scope == tir::Scope::Reg) names.insert(n->buffer->name);
  });
  return names;
}

}  // namespace tenon::codegen
